"""What is distributed: a command of the command line, cut into pieces that do not know of each other.

A piece is ``--shard i/n`` of the command, done in a folder of its own on the node; what it makes is committed to the
storage. The last piece, ``finish``, puts parts together with the command's own means. So the files are those of one process.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import _native
from .._errors import UsageError
from ..model import Model
from .storage import Storage

PARTS = "parts"
COMMANDS = ("tv-cache", "eval", "sweep", "lab", "validate")


@dataclass(frozen=True)
class Job:
    """A command with its flags, and where its results go."""

    command: str
    """One of ``tv-cache``, ``eval``, ``sweep``, ``lab``, ``validate`` (of sub-additivity)."""
    flags: tuple[str, ...]
    """The command's flags, without ``--model`` and its relatives, ``--out`` and ``--shard``."""
    out: str
    """A path or a URL."""
    model: dict[str, Any] = field(default_factory=dict)
    """What ``Model.load`` is given; empty is the embedded model."""

    def words(self) -> list[str]:
        """The command as the command line takes it."""
        more = {"tv-cache": ["generate"], "validate": ["sub-additivity"]}.get(self.command, [])
        return [self.command, *more, *self.flags]

    @property
    def makes_files(self) -> bool:
        """Whether a piece is a file of the result, and not a part to be merged."""
        return self.command == "tv-cache"


def piece_name(job: Job, index: int, count: int) -> str:
    """The file that tells that a piece is done."""
    return f"tv-{index:05}.parquet" if job.makes_files else f"{PARTS}/{index:05}-of-{count:05}.jsonl"


def done_pieces(job: Job, storage: Storage, count: int) -> set[int]:
    """Pieces whose files are there."""
    there = storage.names() if job.makes_files else {f"{PARTS}/{name}" for name in storage.names(PARTS)}
    return {index for index in range(count) if piece_name(job, index, count) in there}


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of this node that goes away."""
    with tempfile.TemporaryDirectory(prefix="demask-piece-") as folder:
        yield Path(folder)


def use_own_cores() -> None:
    """As many threads as the actor was given cores."""
    import ray

    try:
        cores = ray.get_runtime_context().get_assigned_resources().get("CPU")
    except RuntimeError:
        cores = None
    if cores:
        try:
            _native.set_threads(max(1, int(cores)))
        except UsageError:
            pass  # This process has computed before; its threads are there.


def own_device() -> str | None:
    """The GPUs that Ray gave this actor (it sees no others), or the processor."""
    import ray

    return "cuda:all" if ray.get_gpu_ids() else None


class Worker:
    """What one actor does: loads the model once, then makes pieces."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.storage = Storage.at(job.out)

    @cached_property
    def model(self) -> Model:
        """The job's model. It is not loaded when the actor is made: Ray takes an exception there for a lost actor."""
        use_own_cores()
        given = {"device": own_device(), **self.job.model}
        name = given.pop("name", None)
        return Model.load(name, progress=False, **given) if name else Model.embedded(**given)

    def node(self) -> str:
        """Loads the model and tells which node this is, and which process. A machine may have several nodes: their addresses
        differ."""
        import ray

        _ = self.model
        return f"{socket.gethostname()} {ray.util.get_node_ip_address()}:{os.getpid()}"

    def _call(self, flags: Sequence[str]) -> dict[str, Any]:
        import json

        result, _ = _native.call([*self.job.words(), *flags], self.model._native, None, None)
        parsed = json.loads(result)
        return parsed if isinstance(parsed, dict) else {}

    def plan(self) -> int:
        """How many pieces the command has by itself; 0 where that is the caller's choice. Refuses a folder of another run."""
        if not self.job.makes_files:
            return 0
        with scratch() as folder:
            count = int(self._call(["--plan", f"--out={folder}"])["all_files"])
            there = sorted(done_pieces(self.job, self.storage, count))
            if there:
                name = piece_name(self.job, there[0], count)
                self.storage.fetch_end(name, folder / name)
                self._call([f"--shard={there[0]}/{count}", f"--out={folder}"])
        return count

    def piece(self, index: int, count: int) -> dict[str, Any]:
        """Makes a piece; tells how long it took and whether another was first."""
        started = time.monotonic()
        name = piece_name(self.job, index, count)
        with scratch() as folder:
            if self.job.command in ("eval", "sweep", "lab") and "records.jsonl" in self.storage.names():
                # What an earlier run of one process has decoded is not decoded again.
                self.storage.fetch("records.jsonl", folder / "records.jsonl")
            self._call([f"--shard={index}/{count}", f"--out={folder}"])
            made = folder / (name if self.job.makes_files else "records.jsonl")
            first = self.storage.commit(made, name)
        return {"seconds": time.monotonic() - started, "first": first, "node": self.node()}

    def finish(self, count: int) -> dict[str, Any]:
        """Puts the pieces together; every file that one process would have written is there afterwards."""
        missing = sorted(set(range(count)) - done_pieces(self.job, self.storage, count))
        if missing:
            raise UsageError(f"pieces {missing} of {count} are missing")
        with scratch() as folder:
            result = self._files(folder, count) if self.job.makes_files else self._parts(folder, count)
        return result

    def _files(self, folder: Path, count: int) -> dict[str, Any]:
        made = folder / "cache"
        made.mkdir()
        for index in range(count):
            name = piece_name(self.job, index, count)
            self.storage.fetch_end(name, made / name)
        result = self._call([f"--out={made}"])
        for name in ("refused.jsonl", "manifest.json"):
            self.storage.replace(made / name, name)
        return result

    def _parts(self, folder: Path, count: int) -> dict[str, Any]:
        parts = []
        for index in range(count):
            part = folder / f"part-{index:05}"
            part.mkdir()
            self.storage.fetch(piece_name(self.job, index, count), part / "records.jsonl")
            parts.append(str(part))
        made = folder / "merged"
        if self.job.command == "validate":
            result = self._call([*(f"--parts={part}" for part in parts), f"--out={made}"])
        else:
            _native.call(["eval", "merge", *parts, f"--out={made}"], None, None, None)
            # Everything has a record: only the tables and pictures are left.
            result = self._call([f"--out={made}"])
        for path in sorted(made.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                self.storage.replace(path, path.relative_to(made).as_posix())
        self.storage.remove(PARTS)
        shutil.rmtree(made)
        return result
