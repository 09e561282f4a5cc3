"""Between the native half and strategies written in Python."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .strategy import Selection, Strategy, StrategyStep


def fresh(strategy: Strategy) -> tuple[Strategy, dict[str, Any]]:
    """A copy for one canvas, and what it wants to see."""
    own = copy.deepcopy(strategy)
    wishes = {
        "hidden": own.hidden,
        "attention_layers": int(own.attention_layers),
        "logits": bool(own.logits),
        "dependency": bool(own.dependency),
        "revises": bool(own.revises),
    }
    return own, wishes


def select(strategy: Strategy, raw: dict[str, Any]) -> tuple[list[int], list[int], bool, tuple[float, float] | None]:
    """Asks a strategy."""
    masked = np.array(raw["masked"], dtype=np.int64)
    size = len(masked)

    def numbers(key: str) -> Any:
        return np.frombuffer(raw[key], dtype=np.float32)

    def matrix(key: str) -> Any:
        if key not in raw:
            return None
        width, data = raw[key]
        return np.frombuffer(data, dtype=np.float32).reshape(-1, width)

    step = StrategyStep(
        index=raw["index"],
        block=raw["block"],
        tokens=np.array(raw["tokens"], dtype=np.int64),
        masked=masked,
        top1=numbers("top1"),
        top2=numbers("top2"),
        entropy=numbers("entropy"),
        argmax=np.array(raw["argmax"], dtype=np.int64),
        candidate=np.array(raw["candidate"], dtype=np.int64),
        candidate_probability=numbers("candidate_probability"),
        hidden=matrix("hidden"),
        dependency=numbers("dependency").reshape(size, size) if "dependency" in raw else None,
        attention=matrix("attention"),
        logits=numbers("logits").reshape(size, -1) if "logits" in raw else None,
    )
    answer = strategy.select(step)
    selection = answer if isinstance(answer, Selection) else Selection(answer)
    if selection.tokens not in ("sampled", "argmax"):
        raise ValueError(f'tokens is {selection.tokens!r}, must be "sampled" or "argmax"')
    chosen = integers(selection.chosen, "select")
    if chosen and not 0 <= min(chosen) <= max(chosen) < size:
        raise IndexError(f"select chose index {max(chosen) if max(chosen) >= size else min(chosen)} of {size} masks")
    return chosen, integers(selection.remask, "remask"), selection.tokens == "argmax", selection.budget


def integers(values: Any, what: str) -> list[int]:
    """A flat list of whole numbers."""
    array = np.asarray(values)
    if array.size == 0:
        return []
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{what} must give whole numbers in one row, not an array of {array.dtype} {array.shape}")
    return [int(value) for value in array]
