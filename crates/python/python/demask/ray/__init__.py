"""Many machines: pieces of TV caches, evaluations, sweeps and validations on a Ray cluster.

::

    python -m demask.ray tv-cache --address auto --out s3://bucket/cache --model DIR --data tulu.parquet

The results are the files that one process writes, byte for byte (seconds aside), and either can continue the other's.
Training of the predictor on several devices is out of scope: a cache is made by many, a predictor by one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .driver import Driver, Limits, Log, say
from .storage import Storage
from .work import COMMANDS, Job, Worker, done_pieces


def run(job: Job, *, pieces: int | None = None, limits: Limits | None = None, log: Log = say) -> dict[str, Any]:
    """Does a job on the cluster that ``ray.init`` connected to; continues what is there.

    ``pieces`` is how many parts an evaluation is cut into (a TV cache's pieces are its files); it must stay the same when a
    run continues.
    """
    limits = limits or Limits()
    storage = Storage.at(job.out)
    driver = Driver(Worker, (job,), limits, log)
    if job.makes_files and "manifest.json" in storage.names():
        log(f"{job.out} is finished")
        return {}
    count = int(driver.one("plan")) if job.makes_files else (pieces or default_pieces(storage))
    done = done_pieces(job, storage, count)
    if done:
        log(f"{len(done)} of {count} pieces are there")
    driver.run([piece for piece in range(count) if piece not in done], count)
    result: dict[str, Any] = driver.one("finish", count)
    log(f"{job.out} is finished")
    return result


def default_pieces(storage: Storage) -> int:
    """As many as an unfinished run was cut into, else 64."""
    for name in storage.names("parts"):
        return int(name.removesuffix(".jsonl").rsplit("-", 1)[-1])
    return 64


def _job(command: str, out: str | os.PathLike[str], model: str | dict[str, Any] | None, options: dict[str, Any]) -> Job:
    from ..commands import flags

    loaded = {"name": model} if isinstance(model, str) else dict(model or {})
    return Job(command, tuple(flags(options)), os.fspath(out), loaded)


def tv_cache(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    model: str | dict[str, Any] | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Makes a TV cache; ``options`` are the flags of ``demask tv-cache generate``. ``model`` is a name, or what ``Model.load``
    takes (``{"name": …, "dtype": "int8"}``)."""
    return run(_job("tv-cache", out, model, {"data": data, **options}), limits=limits)


def evaluate(
    strategies: Sequence[str],
    tasks: Sequence[str],
    out: str | os.PathLike[str],
    *,
    model: str | dict[str, Any] | None = None,
    pieces: int | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Evaluates strategies on tasks; ``options`` are the flags of ``demask eval``."""
    job = _job("eval", out, model, {"tasks": list(tasks), **options})
    named = tuple(word for strategy in strategies for word in ("--strategy", strategy))
    return run(Job(job.command, (*job.flags, *named), job.out, job.model), pieces=pieces, limits=limits)


__all__ = ["COMMANDS", "Driver", "Job", "Limits", "Storage", "Worker", "evaluate", "run", "tv_cache"]
