"""What a decoding gives: its steps, and the finished answer."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import UsageError


@dataclass(frozen=True)
class Commit:
    """A token that a step wrote."""

    position: int
    token: int
    confidence: float
    """The model's largest probability there at that moment."""
    probability: float
    """The probability of the token itself."""


class Step:
    """What one step of a decoding did."""

    def __init__(self, raw: tuple[str, tuple[list[int], bytes] | None]) -> None:
        record, matrix = raw
        self.record: dict[str, Any] = json.loads(record)
        """Everything that a trace file says of the step, but the dependency matrix."""
        self.commits = [Commit(**commit) for commit in self.record["commits"]]
        """Tokens written, in the order of choice."""
        self.step: int = self.record["step"]
        """Number of the step, from 0."""
        self.block: int = self.record["block"]
        """Number of the block."""
        self.masked: int = self.record["masked"]
        """Masks of the block before the step."""
        self.filled: list[int] = self.record.get("filled", [])
        """Positions that became the end of sequence because one stands before them."""
        self.remasked: list[int] = self.record.get("remasked", [])
        """Positions masked again."""
        budget = self.record.get("budget")
        self.budget: tuple[float, float] | None = (budget["limit"], budget["used"]) if budget else None
        """The bound on dependency and how much of it was used, where the strategy has one."""
        self.forwards: int = self.record["forwards"]
        """Forward passes spent."""
        self.assistant_rows: int = self.record.get("assistant_rows", 0)
        """Rows that a second model computed (apd, copula)."""
        self.inner_calls: int = self.record.get("inner_calls", 0)
        """Calls of a small trained part (adjust, policy, codd), besides whole passes."""
        self.dependency: NDArray[np.float32] | None = None
        """``D`` over ``dependency_positions``: row = affected, column = revealed; where the strategy has one."""
        self.dependency_positions: NDArray[np.int64] | None = None
        """The masked positions that ``dependency`` is of."""
        if matrix is not None:
            positions, data = matrix
            self.dependency_positions = np.array(positions, dtype=np.int64)
            self.dependency = np.frombuffer(data, dtype=np.float32).reshape(len(positions), -1)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Where tokens were written, in the order of choice."""
        return np.array([commit.position for commit in self.commits], dtype=np.int64)

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens written, in the order of choice."""
        return np.array([commit.token for commit in self.commits], dtype=np.int64)

    def __repr__(self) -> str:
        return f"Step({self.step}: {len(self.commits)} of {self.masked} masks)"


class Output:
    """A finished decoding."""

    def __init__(self, answer: _native.Answer) -> None:
        self._answer = answer

    @property
    def text(self) -> str:
        """The response up to its end, or the whole text of an infilling."""
        return self._answer.text

    @property
    def token_ids(self) -> list[int]:
        """The ids of the text."""
        return self._answer.token_ids

    @property
    def response_ids(self) -> list[int]:
        """The ids of the response canvas, whatever stands behind its end."""
        return self._answer.response_ids

    @property
    def strategy(self) -> str:
        """The strategy's spelling."""
        return self._answer.strategy

    @property
    def seconds(self) -> float:
        """Wall-clock seconds; in a batch, the share of this answer."""
        return self._answer.seconds

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Everything that was counted: steps, forward passes, tokens, seconds by phase."""
        counted: dict[str, Any] = json.loads(self._answer.metrics())
        return counted

    @property
    def steps(self) -> int:
        """Steps of Algorithm 1."""
        return int(self.metrics["steps"])

    @property
    def forwards(self) -> int:
        """Forward passes, extra ones included."""
        return int(self.metrics["forwards"])

    @property
    def assistant_rows(self) -> int:
        """Rows that a second model computed (apd, copula); their seconds are in ``metrics["seconds"]["extra"]``."""
        return int(self.metrics["assistant_rows"])

    @property
    def inner_calls(self) -> int:
        """Calls of a small trained part (adjust, policy, codd), besides whole passes."""
        return int(self.metrics["inner_calls"])

    @property
    def besides(self) -> str:
        """What was computed besides forward passes, in words; empty where it is nothing."""
        counts = ((self.assistant_rows, "assistant rows"), (self.inner_calls, "inner calls"))
        return "".join(f" + {count} {what}" for count, what in counts if count)

    @cached_property
    def trace(self) -> list[Step] | None:
        """Every step; ``None`` where ``trace=False`` was asked for."""
        steps = self._answer.steps()
        return None if steps is None else [Step(raw) for raw in steps]

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace as the command line does; ``demask trace view`` shows it."""
        lines = self._answer.trace_lines()
        if lines is None:
            raise UsageError("nothing was recorded; decode with trace=True")
        Path(path).write_text(lines, encoding="utf-8")

    def html(self) -> str:
        """The denoising as one HTML page that needs nothing else."""
        page = self._answer.page()
        if page is None:
            raise UsageError("nothing was recorded; decode with trace=True")
        return page

    def _repr_html_(self) -> str:
        page = self._answer.page()
        if page is None:
            return f"<pre>{html.escape(self.text)}</pre>"
        style = "width:100%;height:560px;border:1px solid #ddd"
        return f'<iframe srcdoc="{html.escape(page, quote=True)}" style="{style}" title="denoising"></iframe>'

    def __repr__(self) -> str:
        return f"Output({self.text!r}, {self.forwards} forward passes{self.besides}, {self.strategy})"


class Stream(Iterator[Step]):
    """A decoding on its way: an iterator of steps."""

    def __init__(self, stream: _native.Stream) -> None:
        self._stream = stream

    def __next__(self) -> Step:
        return Step(next(self._stream))

    @property
    def text(self) -> str:
        """The text as it stands, masks left out."""
        return self._stream.text()

    @property
    def canvas_ids(self) -> list[int]:
        """The whole canvas as it stands."""
        return self._stream.canvas_ids()

    def finish(self) -> Output:
        """Decodes what is left."""
        return Output(self._stream.finish())


__all__ = ["Commit", "Output", "Step", "Stream"]
