"""Evaluation, TV caches and training: the same files and numbers as the command line's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import demask

DEMASK = [sys.executable, "-m", "demask"]


def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEMASK, *map(str, args)], capture_output=True, text=True, timeout=600)


def without_seconds(folder: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds", None)
    return lines


def test_the_command_is_installed_and_is_the_same_program(model: demask.Model) -> None:
    out = run("generate", "Say hello.", "-n", "8", "--json")
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout)["token_ids"] == model.generate("Say hello.", max_new_tokens=8).token_ids
    wrong = run("generate", "x", "--strategy", "entropi")
    assert wrong.returncode == 2 and "did you mean entropy" in wrong.stderr
    assert run("--version").stdout.strip() == f"demask {demask.__version__}"


def test_evaluate_writes_what_eval_writes(model: demask.Model, tmp_path: Path) -> None:
    records = demask.evaluate(model, ["entropy", "demask"], tasks=["arith", "lines"], limit=4, out=tmp_path / "py")
    cli = run("eval", "-s", "entropy", "-s", "demask", "-t", "arith,lines", "--limit", "4", "--out", tmp_path / "cli")
    assert cli.returncode == 0, cli.stderr
    assert without_seconds(tmp_path / "py") == without_seconds(tmp_path / "cli")
    assert len(records) == 16 and records.header["split"] == "test"
    # A bare name is what the model means by it, with its parameters.
    assert sorted(name.split(":")[0] for name in records.accuracy()) == ["demask", "entropy"]
    assert "demask" in records.table


def test_long_commands_tell_how_far_they_are(model: demask.Model, tmp_path: Path) -> None:
    told: list[tuple[int, int, str, str]] = []
    demask.evaluate(model, ["entropy"], tasks=["arith"], limit=6, token_budget=128, progress=lambda *p: told.append(p))
    demask.tv_cache.generate(model, "task:arith", tmp_path, limit=6, progress=lambda *p: told.append(p))
    units = {unit: (done, total) for done, total, unit, _ in told}
    assert len(units) >= 2 and all(done == total > 0 for done, total in units.values()), units


def test_an_interrupted_evaluation_continues(model: demask.Model, tmp_path: Path) -> None:
    options = {"tasks": ["arith"], "out": tmp_path, "max_new_tokens": 16}

    def interrupt() -> None:
        journal = tmp_path / "records.jsonl"
        while not journal.exists() or journal.read_text().count("\n") < 3:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        demask.evaluate(model, ["entropy"], limit=3000, token_budget=128, **options)
    thread.join()
    done = len(without_seconds(tmp_path)) - 1
    assert 2 <= done < 3000
    limit = done + 3
    again = demask.evaluate(model, ["entropy"], limit=limit, **options)
    fresh = demask.evaluate(model, ["entropy"], limit=limit, **{**options, "out": None})
    assert [record["response"] for record in again] == [record["response"] for record in fresh]


def test_a_mistake_in_a_flag_is_told_in_the_commands_words(model: demask.Model, tmp_path: Path) -> None:
    with pytest.raises(demask.UsageError, match="there is no task"):
        demask.evaluate(model, tasks=["arithmetic"], limit=1)
    with pytest.raises(demask.UsageError, match="--limitt"):
        demask.evaluate(model, tasks=["arith"], limitt=1)
    with pytest.raises(demask.UsageError, match="halving"):
        demask.sweep(model, "lab", ["arith"], limit=4, halving=True, shard="0/2")


def test_a_cache_is_made_read_and_trained_on(model: demask.Model, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    options = {"masks_per_response": 2, "responses_per_file": 4, "pad_to": [16]}
    cache = demask.tv_cache.generate(model, "task:arith", tmp_path / "py", limit=12, **options)
    assert cache is not None and len(cache.files) == 3 and len(cache) == cache.dataset().count_rows()
    cli = run(
        "tv-cache", "generate", "--data", "task:arith", "--limit", "12", "--masks-per-response", "2",
        "--responses-per-file", "4", "--pad-to", "16", "--out", tmp_path / "cli",
    )  # fmt: skip
    assert cli.returncode == 0, cli.stderr
    for file in sorted(path.name for path in (tmp_path / "cli").iterdir()):
        assert (tmp_path / "cli" / file).read_bytes() == (tmp_path / "py" / file).read_bytes(), file
    row = next(cache.rows())
    assert row["dependency"].shape == (len(row["positions"]),) * 2
    assert row["hidden_i"].shape == (len(row["positions"]), model.hidden)
    with pytest.raises(demask.Error, match="manifest"):
        demask.tv_cache.open(tmp_path)
    half = demask.tv_cache.generate(model, "task:arith", tmp_path / "half", limit=12, shard="0/2", **options)
    assert half is None
    out = tmp_path / "predictor.safetensors"
    result = demask.train_predictor(tmp_path / "py", out, epochs=1, hidden_row="i", validation=0.2)
    assert result["hidden_row"] == "i" and 0 <= result["validation_mse"] < 1
    own = demask.Model.embedded(predictor=out)
    assert own.generate("Say hello.", strategy="demask", max_new_tokens=8).forwards >= 1


def test_shares_make_the_whole(model: demask.Model, tmp_path: Path) -> None:
    for index in range(2):
        parts = {"tasks": ["arith"], "limit": 6, "shard": f"{index}/2"}
        demask.evaluate(model, ["entropy"], out=tmp_path / f"e{index}", **parts)
        demask.sub_additivity(
            model, "task:arith", tmp_path / f"v{index}", limit=6, masks_per_response=2, shard=f"{index}/2"
        )
    demask.evaluate(model, ["entropy"], tasks=["arith"], limit=6, out=tmp_path / "whole")
    merged = run("eval", "merge", tmp_path / "e0", tmp_path / "e1", "--out", tmp_path / "merged")
    assert merged.returncode == 0, merged.stderr
    assert without_seconds(tmp_path / "merged") == without_seconds(tmp_path / "whole")
    whole = demask.sub_additivity(model, "task:arith", tmp_path / "vw", limit=6, masks_per_response=2)
    run_parts = run(
        "validate", "sub-additivity", "--data", "task:arith", "--limit", "6", "--masks-per-response", "2",
        "--parts", tmp_path / "v0", "--parts", tmp_path / "v1", "--out", tmp_path / "vm",
    )  # fmt: skip
    assert run_parts.returncode == 0, run_parts.stderr
    assert (tmp_path / "vm" / "records.jsonl").read_bytes() == (tmp_path / "vw" / "records.jsonl").read_bytes()
    assert "|S|" in whole
