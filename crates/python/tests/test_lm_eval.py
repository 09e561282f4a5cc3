"""lm_eval's command line with a model of the package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import demask

pytest.importorskip("lm_eval")

PROBLEMS = 20
TASKS = Path(__file__).parents[3] / "scripts" / "serve" / "lm_eval"


def lm_eval(folder: Path, *args: str) -> dict[str, object]:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "datasets")}
    call = [sys.executable, "-m", "demask.lm_eval", "run", "--model", "demask", "--include_path", str(folder)]
    done = subprocess.run(
        [*call, "--output_path", str(folder / "out"), "--log_samples", "--seed", "0", *args],
        capture_output=True, text=True, env=env, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    newest = max((folder / "out").rglob("results_*.json"), key=lambda path: path.stat().st_mtime)
    results: dict[str, object] = json.loads(newest.read_text())
    return results


@pytest.fixture()
def tasks(tmp_path: Path) -> Path:
    listed = [sys.executable, "-m", "demask", "problems", "arith", "--limit", str(PROBLEMS), "--format", "gsm8k"]
    (tmp_path / "arith.jsonl").write_text(subprocess.run(listed, capture_output=True, text=True, check=True).stdout)
    for yaml in TASKS.glob("*.yaml"):
        (tmp_path / yaml.name).write_text(yaml.read_text().replace("arith.jsonl", str(tmp_path / "arith.jsonl")))
    return tmp_path


def samples(folder: Path, task: str) -> list[str]:
    file = max((folder / "out").rglob(f"samples_{task}_*.jsonl"), key=lambda path: path.stat().st_mtime)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    first = {row["doc_id"]: row["resps"][0][0] for row in rows}
    return [first[number] for number in sorted(first)]


def test_the_same_answers_as_our_runner(tasks: Path, model: demask.Model) -> None:
    strategy = "demask:tau=0.04;gamma=0.9"
    args = ["--model_args", f"pretrained=embedded,strategy={strategy},max_gen_toks=96"]
    results = lm_eval(tasks, *args, "--tasks", "demask_arith_chat", "--apply_chat_template")
    ours = demask.evaluate(
        model, strategy.replace(";", ","), ["arith"], limit=PROBLEMS, max_new_tokens=96, temperature=0
    )
    assert samples(tasks, "demask_arith_chat") == [record["response"] for record in ours]
    found = results["results"]["demask_arith_chat"]["exact_match,flexible-extract"]  # type: ignore[index]
    assert found == sum(ours.accuracy().values())
    # The prompt written out, without lm_eval's template, is the same prompt.
    lm_eval(tasks, *args, "--tasks", "demask_arith_raw")
    assert samples(tasks, "demask_arith_raw") == samples(tasks, "demask_arith_chat")


def test_the_same_draws_on_all_tasks_with_the_same_seed(tmp_path: Path, model: demask.Model) -> None:
    """Positions and tokens at random, tasks and lengths mixed in one run: every response is the one that our runner scores."""
    names = ["arith", "choice", "program", "lines", "grid", "open"]
    for name in names:
        listed = [sys.executable, "-m", "demask", "problems", name, "--limit", "3"]
        (tmp_path / f"{name}.jsonl").write_text(subprocess.run(listed, capture_output=True, text=True, check=True).stdout)
        (tmp_path / f"{name}.yaml").write_text(
            f"""task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {tmp_path / f"{name}.jsonl"}
test_split: test
output_type: generate_until
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{response}}}}"
generation_kwargs:
  until: []
  do_sample: true
  temperature: 0.8
metric_list:
  - metric: exact_match
"""
        )
    args = ["--model_args", "pretrained=embedded,strategy=random,seed=3,max_gen_toks=48", "--tasks", ",".join(names)]
    lm_eval(tmp_path, *args, "--apply_chat_template")
    ours = demask.evaluate(model, "random", names, limit=3, max_new_tokens=48, temperature=0.8, seed=3)
    for name in names:
        assert samples(tmp_path, name) == [record["response"] for record in ours if record["task"] == name], name


def test_a_document_that_is_asked_for_again_is_drawn_anew() -> None:
    from lm_eval.api.instance import Instance

    from demask.lm_eval import Harness

    sampled = {"until": [], "do_sample": True, "temperature": 1.0, "max_gen_toks": 16}
    one, two = (Instance("generate_until", {}, ("Tom has", sampled), 0, ("x", number, 3)) for number in (0, 1))
    harness = Harness(strategy="random", seed=3)
    first = harness.generate_until([one, one, one, two], disable_tqdm=True)
    assert len(set(first[:3])) > 1
    # Of what stands around it, a draw does not depend.
    assert harness.generate_until([two, one], disable_tqdm=True) == [first[3], first[0]]


@pytest.mark.parametrize("strategy", ["entropy:k=2", "random"])
def test_the_same_accuracy_on_gsm8k(tasks: Path, model: demask.Model, strategy: str) -> None:
    """lm_eval's own definition of gsm8k_cot, its worked examples left out (they fill a small model's context), on a file."""
    definition = Path(str(pytest.importorskip("lm_eval").__file__)).parent / "tasks" / "gsm8k" / "gsm8k-cot.yaml"
    text = re.sub(r"(?m)^(dataset_path|dataset_name|task|test_split|num_fewshot):.*\n", "", definition.read_text())
    (tasks / "gsm8k.yaml").write_text(
        f"""{text}
task: demask_gsm8k
dataset_path: json
dataset_kwargs:
  data_files:
    test: {tasks / "arith.jsonl"}
test_split: test
num_fewshot: 0
"""
    )
    chosen = f"pretrained=embedded,strategy={strategy},seed=3,suite=gsm8k_cot,max_gen_toks=64"
    results = lm_eval(tasks, "--model_args", chosen, "--tasks", "demask_gsm8k")["results"]["demask_gsm8k"]  # type: ignore[index]
    ours = demask.evaluate(
        model, strategy, ["gsm8k_cot"],
        limit=PROBLEMS, data=f"gsm8k_cot={tasks / 'arith.jsonl'}", protocol="lm-eval", shots=0, max_new_tokens=64,
        temperature=0, seed=3,
    )  # fmt: skip
    assert samples(tasks, "demask_gsm8k") == [record["response"] for record in ours]
    assert results["exact_match,flexible-extract"] == sum(record["correct"] for record in ours) / PROBLEMS
    assert results["exact_match,strict-match"] == sum(record["strict"] for record in ours) / PROBLEMS


def test_likelihoods_choose(tasks: Path, model: demask.Model) -> None:
    (tasks / "choice.jsonl").write_text(
        "".join(
            json.dumps({"question": f"{a} + {b} =", "choices": [f"{a + b}", "blue"], "gold": 0}) + "\n"
            for a, b in [(2, 3), (4, 5), (1, 6), (7, 8)]
        )
    )
    (tasks / "choice.yaml").write_text(
        f"""task: demask_choice
dataset_path: json
dataset_kwargs:
  data_files:
    test: {tasks / "choice.jsonl"}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{gold}}}}"
metric_list:
  - metric: acc
"""
    )
    results = lm_eval(tasks, "--model_args", "pretrained=embedded,mc_num=16", "--tasks", "demask_choice")
    file = max((tasks / "out").rglob("samples_demask_choice_*.jsonl"))
    row = json.loads(file.read_text().splitlines()[0])
    prompt, answer = model.encode("2 + 3 =", raw=True), model.encode("2 + 3 = 5", raw=True)
    exact = model.log_likelihood([(prompt, answer[len(prompt) :])], samples=16)[0]
    assert abs(float(row["resps"][0][0][0]) - exact) < 1e-4
    assert 0 <= results["results"]["demask_choice"]["acc,none"] <= 1  # type: ignore[index]


def test_the_bound_of_one_token_is_its_probability(model: demask.Model) -> None:
    ids = model.encode("Tom has 3 pens. Tom buys", raw=True)
    _, logits = model.forward([*ids[:-1], model.mask_id], [len(ids) - 1])
    row = logits[0].astype(np.float64)
    exact = row[ids[-1]] - row.max() - np.log(np.exp(row - row.max()).sum())
    assert abs(model.log_likelihood([(ids[:-1], ids[-1:])], samples=9)[0] - exact) < 1e-4


def test_mistakes_in_model_arguments_are_told(tasks: Path) -> None:
    with pytest.raises(AssertionError, match="no model argument"):
        lm_eval(tasks, "--model_args", "pretrained=embedded,lenght=3", "--tasks", "demask_arith_raw")
