"""Real clusters of two nodes on loopback: a node is killed in the middle, then the driver; the files are those of one process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import demask

pytest.importorskip("ray")

RAY = str(Path(sys.executable).with_name("ray"))
SECOND = "127.0.0.2"
# Clusters of these tests ask for no token: of one that lies in the home folder, heads and other nodes think differently.
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
# Workers are as urgent as everything else: on a busy machine their usual niceness makes minutes of seconds.
QUIET = {**os.environ, "RAY_worker_niceness": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "RAYON_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, condition: Callable[[], bool], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.05)


class Cluster:
    """A head and a second node, processes of this test."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_port(), folder

    def start(self) -> None:
        head = ["--head", f"--port={self.port}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
        self._start(*head, f"--temp-dir={self.folder}")
        self._start(f"--address=127.0.0.1:{self.port}", f"--node-ip-address={SECOND}")

    def _start(self, *args: str) -> None:
        # Workers of a node find a port range of their own.
        call = [RAY, "start", "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", *args]
        done = subprocess.run(call, capture_output=True, text=True, env=QUIET, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    def processes(self) -> dict[int, str]:
        """Processes of this cluster, by what they were called with."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                if str(self.folder) in words or f":{self.port} " in f"{words} ":
                    found[int(entry.name)] = words
        return found

    def kill_second(self) -> None:
        raylets = [
            number
            for number, words in self.processes().items()
            if words.split(" ")[0].endswith("raylet") and f"--node_ip_address={SECOND}" in words
        ]
        assert len(raylets) == 1, raylets
        os.kill(raylets[0], signal.SIGKILL)

    def stop(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for number in self.processes():
                if number != os.getpid():
                    try:
                        os.kill(number, sign)
                    except ProcessLookupError:
                        pass
            time.sleep(1)


@pytest.fixture()
def cluster() -> Iterator[Cluster]:
    # Names of sockets have to be short.
    folder = Path(subprocess.run(["mktemp", "-d", "/tmp/rXXXXXX"], capture_output=True, text=True).stdout.strip())
    started = Cluster(folder)
    try:
        started.start()
        yield started
    finally:
        started.stop()
        subprocess.run(["rm", "-rf", str(folder)], check=False)


class Driver:
    """``python -m demask.ray``, with its log in a file."""

    def __init__(self, cluster: Cluster, log: Path, *args: str) -> None:
        self.log = log
        address = f"--address=127.0.0.1:{cluster.port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "demask.ray", args[0], address, "--cpus-per-actor=1", "--say-every=2", *args[1:]],
            stdout=log.open("w"),
            stderr=subprocess.STDOUT,
            env=QUIET,
        )

    def said(self, words: str) -> bool:
        assert self.process.poll() in (None, 0), self.log.read_text()
        return words in self.log.read_text()

    def end(self) -> str:
        assert self.process.wait(timeout=900) == 0, self.log.read_text()
        return self.log.read_text()


def killed_twice(cluster: Cluster, tmp_path: Path, pieces: Callable[[], int], *args: str) -> str:
    """Runs a job; kills the second node once pieces come, and the driver once it has noticed; then goes on."""
    first = Driver(cluster, tmp_path / "first.log", *args)
    wait_for("work on both nodes", lambda: pieces() >= 2 or first.said("is finished"))
    assert pieces() < 6, "too fast to be interrupted"
    cluster.kill_second()
    wait_for("the loss of a node", lambda: first.said("lost with") or first.said("is finished"))
    log = first.log.read_text()
    first.process.kill()
    first.process.wait()
    assert "runs again elsewhere" in log, log
    second = Driver(cluster, tmp_path / "second.log", *args)
    return log + second.end()


def test_a_cache_survives_its_nodes_and_its_driver(cluster: Cluster, model: demask.Model, tmp_path: Path) -> None:
    options = {"masks_per_response": 3, "responses_per_file": 8, "pad_to": [32], "seed": 3}
    demask.tv_cache.generate(model, "task:arith", tmp_path / "one", limit=64, **options)
    shared = tmp_path / "shared"
    flags = ["--masks-per-response=3", "--responses-per-file=8", "--pad-to=32", "--seed=3", "--limit=64"]
    log = killed_twice(
        cluster,
        tmp_path,
        lambda: len(list(shared.glob("tv-*.parquet"))),
        "tv-cache", f"--out={shared}", "--data=task:arith", *flags,
    )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in shared.iterdir()) and len(names) == 10
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (shared / name).read_bytes(), name
    assert "pieces are there" in log


def records(folder: Path) -> list[str]:
    """The lines of the records, byte for byte but the seconds."""
    text = (folder / "records.jsonl").read_text()
    return re.sub(r'"seconds":\{[^}]*\}', "", text).splitlines()


def test_an_evaluation_survives_its_nodes_and_its_driver(cluster: Cluster, model: demask.Model, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    demask.evaluate(model, ["entropy", "demask"], tasks=["arith", "lines"], limit=32, out=tmp_path / "one")
    log = killed_twice(
        cluster,
        tmp_path,
        lambda: len(list((shared / "parts").glob("*.jsonl"))) if (shared / "parts").exists() else 0,
        "eval", f"--out={shared}", "--pieces=8", "-s", "entropy", "-s", "demask", "--tasks=arith,lines", "--limit=32",
    )  # fmt: skip
    assert records(shared) == records(tmp_path / "one")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in shared.iterdir())
    assert "of 8 pieces are there" in log


def test_what_one_process_began_is_continued(model: demask.Model, tmp_path: Path) -> None:
    """An evaluation's and a cache's beginnings on the command line, their ends by Ray on this machine."""
    shared, cache = tmp_path / "shared", tmp_path / "cache"
    demask.evaluate(model, ["entropy"], tasks=["arith"], limit=5, out=shared)
    old = (shared / "records.jsonl").read_text().splitlines()
    demask.tv_cache.generate(model, "task:arith", cache, limit=8, responses_per_file=2, shard="1/4")
    demask.tv_cache.generate(model, "task:arith", tmp_path / "whole", limit=8, responses_per_file=2)
    for args in (
        ["eval", f"--out={shared}", "--pieces=3", "-s", "entropy", "--tasks=arith", "--limit=9"],
        ["tv-cache", f"--out={cache}", "--data=task:arith", "--limit=8", "--responses-per-file=2"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "demask.ray", *args], capture_output=True, text=True, env=QUIET, timeout=600
        )
        assert done.returncode == 0, done.stderr
    now = (shared / "records.jsonl").read_text().splitlines()
    assert now[: len(old)] == old, "seconds too: nothing was decoded again"
    assert len(now) == 10
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (cache / path.name).read_bytes()
    wrong = subprocess.run(
        [sys.executable, "-m", "demask.ray", "eval", f"--out={tmp_path / 'x'}", "--tasks=nothing"],
        capture_output=True, text=True, env=QUIET, timeout=600,
    )  # fmt: skip
    assert wrong.returncode != 0 and "there is no task" in wrong.stderr


def test_what_ray_began_is_continued_by_one_process(model: demask.Model, tmp_path: Path) -> None:
    """Half of a cache's files and two thirds of an evaluation's parts are there when the cluster goes away."""
    import ray
    from demask.ray import Driver as Hands
    from demask.ray import Job, Limits, Worker

    cache, parts = tmp_path / "cache", tmp_path / "eval"
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        files = Job("tv-cache", ("--data=task:arith", "--limit=8", "--responses-per-file=2"), str(cache))
        assert Hands(Worker, (files,), Limits(), lambda line: None).run([0, 2], 4).done == {0, 2}
        problems = Job("eval", ("-s", "entropy", "--tasks=arith", "--limit=9"), str(parts))
        assert Hands(Worker, (problems,), Limits(), lambda line: None).run([0, 1], 3).done == {0, 1}
    finally:
        ray.shutdown()
    before = {path.name: path.stat().st_mtime_ns for path in cache.glob("tv-*.parquet")}
    assert sorted(before) == ["tv-00000.parquet", "tv-00002.parquet"]
    options = {"limit": 8, "responses_per_file": 2}
    assert demask.tv_cache.generate(model, "task:arith", cache, **options) is not None
    demask.tv_cache.generate(model, "task:arith", tmp_path / "whole", **options)
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (cache / path.name).read_bytes(), path.name
    assert all((cache / name).stat().st_mtime_ns == time_ for name, time_ in before.items()), "nothing was made again"

    merged = tmp_path / "merged"
    call = [sys.executable, "-m", "demask", "eval", "merge", *map(str, sorted((parts / "parts").iterdir()))]
    done = subprocess.run([*call, "--out", str(merged)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    old = records(merged)
    demask.evaluate(model, ["entropy"], tasks=["arith"], limit=9, out=merged)
    demask.evaluate(model, ["entropy"], tasks=["arith"], limit=9, out=tmp_path / "one")
    assert len(old) == 1 + 6 and records(merged)[: len(old)] == old
    assert sorted(records(merged)) == sorted(records(tmp_path / "one"))


def test_a_model_that_no_actor_can_load_ends_the_run_with_its_sentence(tmp_path: Path) -> None:
    """A wrong name; and a GPU (that Ray only believes in) is never replaced by the processor in silence."""
    import ray
    from demask.ray import Driver as Hands
    from demask.ray import Job, Limits, Worker

    missing = subprocess.run(
        [sys.executable, "-m", "demask.ray", "eval", "--tasks=arith", f"--out={tmp_path}", f"--model={tmp_path / 'no'}"],
        capture_output=True, text=True, env=QUIET, timeout=600,
    )  # fmt: skip
    assert missing.returncode != 0 and "error: " in missing.stderr and "Traceback" not in missing.stderr, missing.stderr
    ray.init(num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        job = Job("eval", ("-s", "entropy", "--tasks=arith", "--limit=2"), str(tmp_path / "out"))
        with pytest.raises(demask.Error, match="CUDA"):
            Hands(Worker, (job,), Limits(gpus=1), lambda line: None).run([0], 1)
        chosen = Job(job.command, job.flags, job.out, {"device": "candle"})
        assert Hands(Worker, (chosen,), Limits(gpus=1), lambda line: None).run([0], 1).done == {0}
    finally:
        ray.shutdown()


def test_a_sweep_and_a_validation_in_pieces(model: demask.Model, tmp_path: Path) -> None:
    """Their pieces are merged into the records and reports that one process writes."""
    grid = tmp_path / "grid.toml"
    grid.write_text('[[grid]]\nstrategy = "demask"\ntau = [0.02, 0.2]\n')
    demask.sweep(model, grid, ["arith"], limit=4, out=tmp_path / "sweep", max_new_tokens=24)
    demask.sub_additivity(model, "task:arith", tmp_path / "validate", limit=6, masks_per_response=2)
    for args in (
        ["sweep", "--pieces=2", f"--grid={grid}", "--tasks=arith", "--limit=4", "--max-new-tokens=24"],
        ["validate", "sub-additivity", "--pieces=3", "--data=task:arith", "--limit=6", "--masks-per-response=2"],
    ):
        out = tmp_path / f"ray-{args[0]}"
        done = subprocess.run(
            [sys.executable, "-m", "demask.ray", *args, f"--out={out}"],
            capture_output=True, text=True, env=QUIET, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in (tmp_path / args[0]).iterdir())
        assert records(out) == records(tmp_path / args[0]) and len(records(out)) > 3


class Slow:
    """Whoever is the first to get piece 3 does not come back with it in time."""

    def __init__(self, folder: str) -> None:
        self.mark = Path(folder) / "mark"

    def node(self) -> str:
        return f"here:{os.getpid()}"

    def piece(self, index: int, count: int) -> dict[str, object]:
        if index == 3 and not self.mark.exists():
            self.mark.touch()
            time.sleep(600)
        time.sleep(0.1)
        return {"first": True}


def test_a_straggler_is_given_to_another(tmp_path: Path) -> None:
    import ray
    from demask.ray import Driver as Hands
    from demask.ray import Limits

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    lines: list[str] = []
    try:
        began = time.monotonic()
        state = Hands(Slow, (str(tmp_path),), Limits(cpus=1), lines.append).run(list(range(8)), 8)
        assert state.done == set(range(8)) and time.monotonic() - began < 300
    finally:
        ray.shutdown()
    assert any("piece 3 takes long" in line for line in lines), lines
    assert "8/8 pieces" in lines[-1] and "a minute" in lines[-1] and "here" in lines[-1]
