"""Strategies written in Python: which masked positions a step unmasks.

A decoder in a few lines::

    class Two(demask.Strategy):
        def select(self, step):
            return step.top1.argsort()[::-1][:2]

    model.generate("Say hello.", strategy=Two())

Every decoding works with a deep copy of the object, so attributes may remember what happened in earlier steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class StrategyStep:
    """What a strategy sees of a step. Arrays have one entry per masked position, in the order of ``masked``."""

    index: int
    """Number of the forward pass, from 0."""
    block: tuple[int, int, int, int]
    """The block being decoded: its number, how many there are, the step within it, and its masks when it was entered."""
    tokens: NDArray[np.int64]
    """The whole canvas, masks included."""
    masked: NDArray[np.int64]
    """The paper's M: masked positions of the block, ascending."""
    top1: NDArray[np.float32]
    """Largest probability of the model's own distribution."""
    top2: NDArray[np.float32]
    """Second largest probability."""
    entropy: NDArray[np.float32]
    """Entropy in nats."""
    argmax: NDArray[np.int64]
    """The most probable token."""
    candidate: NDArray[np.int64]
    """The token that the sampler proposes: the argmax at temperature 0."""
    candidate_probability: NDArray[np.float32]
    """Its probability after temperature and filters."""
    hidden: NDArray[np.float32] | None = None
    """Hidden rows ``[|M|, d]``, for a strategy with ``hidden = "i"`` or ``"i-1"``."""
    dependency: NDArray[np.float32] | None = None
    """The predicted D, row = affected, column = revealed, for a strategy with ``dependency = True``."""
    attention: NDArray[np.float32] | None = None
    """Mean attention ``[length, length]`` of the last layers, for a strategy with ``attention_layers > 0``."""
    logits: NDArray[np.float32] | None = None
    """Logits ``[|M|, V]``, for a strategy with ``logits = True``."""


@dataclass(frozen=True)
class Selection:
    """A strategy's decision, where the indices alone do not say enough."""

    chosen: Sequence[int] | NDArray[np.integer]
    """Indices into ``step.masked``, in the order of choice."""
    remask: Sequence[int] | NDArray[np.integer] = field(default_factory=tuple)
    """Positions of the canvas that are masked again; the strategy must say ``revises = True``."""
    tokens: Literal["sampled", "argmax"] = "sampled"
    """Which token goes to a chosen position: the sampler's, or the most probable one."""
    budget: tuple[float, float] | None = None
    """A bound and how much of it was used, for traces."""


class Strategy:
    """A rule that chooses positions. Attributes say what it wants to see besides the marginals."""

    name: str = ""
    """How it is called in records and traces; the name of the class if empty."""
    hidden: Literal["i", "i-1"] | None = None
    """Which hidden rows it wants: of the masked token itself, or of the one before."""
    dependency: bool = False
    """Whether it wants the predicted dependency matrix."""
    attention_layers: int = 0
    """Of how many last layers it wants the mean attention."""
    logits: bool = False
    """Whether it wants the logits."""
    revises: bool = False
    """Whether it masks committed tokens again."""

    def select(self, step: StrategyStep) -> Sequence[int] | NDArray[np.integer] | Selection:
        """Chooses what is unmasked now: indices into ``step.masked``; at least one."""
        raise NotImplementedError(f"{type(self).__name__} has no select")

    def spelling(self) -> str:
        """Its name as strategies are spelled: lower case, words joined by hyphens."""
        plain = self.name or type(self).__name__
        words = "".join(c if c.isalnum() else "-" for c in plain)
        spaced = "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(words))
        return "-".join(part for part in spaced.split("-") if part)


__all__ = ["Selection", "Strategy", "StrategyStep"]
