"""The long commands of the command line on a loaded model: the same flags, the same files, the same numbers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _native
from .model import Model
from .progress import Progress, Shown
from .strategy import Strategy


def flags(options: dict[str, Any]) -> list[str]:
    """Keyword arguments as flags: ``max_new_tokens=64`` is ``--max-new-tokens 64``, ``True`` is the flag alone, lists are
    joined by commas where the flag takes several."""
    args: list[str] = []
    for key, value in options.items():
        flag = f"--{key.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            args.append(flag)
        elif isinstance(value, (list, tuple)):
            args.append(f"{flag}={','.join(str(item) for item in value)}")
        else:
            args.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return args


def call(
    command: Sequence[str],
    options: dict[str, Any],
    *,
    model: Model | None,
    strategies: Sequence[str | Strategy] | None = None,
    progress: Progress = None,
) -> tuple[dict[str, Any], str]:
    """Runs a command; its result and what it said."""
    native: _native.Model | None = None if model is None else model._native
    spellings: list[str] | None = None
    if model is not None and strategies:
        native, spellings = model._with_all(strategies)
    with Shown(progress) as shown:
        result, told = _native.call([*command, *flags(options)], native, spellings, shown)
    parsed = json.loads(result)
    return (parsed if isinstance(parsed, dict) else {}), told


class Records(list[dict[str, Any]]):
    """One dictionary per problem and strategy, as ``records.jsonl`` has them: ``pandas.DataFrame(records)`` works."""

    header: dict[str, Any]
    """What all records have in common."""
    table: str
    """The table that the command line prints."""

    @classmethod
    def read(cls, folder: str | os.PathLike[str], table: str = "") -> Records:
        """The records of a folder that ``demask eval``, ``lab`` or ``sweep`` wrote."""
        lines = (Path(folder) / "records.jsonl").read_text(encoding="utf-8").splitlines()
        records = cls(json.loads(line) for line in lines[1:])
        records.header, records.table = json.loads(lines[0]), table
        return records

    def accuracy(self) -> dict[str, float]:
        """Share of right answers by strategy."""
        of: dict[str, list[bool]] = {}
        for record in self:
            of.setdefault(record["strategy"], []).append(record["correct"])
        return {strategy: sum(right) / len(right) for strategy, right in of.items()}

    def __repr__(self) -> str:
        return self.table or f"Records({len(self)})"


def evaluate(
    model: Model,
    strategies: Sequence[str | Strategy] | str | Strategy | None = None,
    tasks: Sequence[str] | str = "all",
    *,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **options: Any,
) -> Records:
    """Runs strategies on tasks, as ``demask eval`` does, and returns one record per problem.

    Records and tables go to ``out``, where an interrupted run continues; without it to a folder that is removed. ``options``
    are the flags of ``demask eval`` (``max_new_tokens=64``, ``split="validation"``, ``data="gsm8k=FILE"``, …). Strategies may
    be objects of your own classes.
    """
    return _run(["eval"], model, strategies, tasks, limit, out, progress, options)


def sweep(
    model: Model,
    grid: str | os.PathLike[str] = "paper",
    tasks: Sequence[str] | str = "all",
    *,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **options: Any,
) -> Records:
    """Tries a grid of configurations, as ``demask sweep`` does; ``out`` then holds figure1.svg and the chosen ones."""
    return _run(["sweep"], model, None, tasks, limit, out, progress, {"grid": grid, **options})


def _run(
    command: list[str],
    model: Model,
    strategies: Sequence[str | Strategy] | str | Strategy | None,
    tasks: Sequence[str] | str,
    limit: int | None,
    out: str | os.PathLike[str] | None,
    progress: Progress,
    options: dict[str, Any],
) -> Records:
    listed = [strategies] if isinstance(strategies, (str, Strategy)) else list(strategies or [])
    with tempfile.TemporaryDirectory(prefix="demask-") as scratch:
        folder = scratch if out is None else os.fspath(out)
        named = {"tasks": tasks if isinstance(tasks, str) else list(tasks), "limit": limit, "out": folder}
        # A scratch folder is no place to send anybody to.
        _, told = call(command, {**named, **options}, model=model, strategies=listed, progress=progress)
        lines = [line for line in told.splitlines() if scratch not in line]
        return Records.read(folder, "\n".join(lines))


def train_predictor(
    cache: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    model: Model | None = None,
    progress: Progress = None,
    **options: Any,
) -> dict[str, Any]:
    """Fits a dependency predictor to a TV cache, as ``demask train predictor`` does, and writes it to ``out``.

    ``model`` is needed for caches without hidden rows. ``options`` are the command's flags (``epochs``, ``batch``, ``rate``,
    ``hidden_row``, …). Returns the hidden row that was kept and its validation error.
    """
    named = {"cache": cache, "out": out}
    return call(["train", "predictor"], {**named, **options}, model=model, progress=progress)[0]


def sub_additivity(
    model: Model,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    progress: Progress = None,
    **options: Any,
) -> str:
    """Tests the theory's assumption (section 5.4), as ``demask validate sub-additivity`` does; returns its table."""
    named = {"data": data, "out": out}
    return call(["validate", "sub-additivity"], {**named, **options}, model=model, progress=progress)[1]


__all__ = ["Records", "evaluate", "sub_additivity", "sweep", "train_predictor"]
