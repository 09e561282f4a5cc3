"""Strategies written in Python."""

from __future__ import annotations

import numpy as np
import pytest

import demask
from conftest import QUESTION


class MostCertain(demask.Strategy):
    """The package's own top1, written in Python: ties go to the lowest position."""

    def __init__(self, k: int = 1) -> None:
        self.k = k

    def select(self, step):  # type: ignore[no-untyped-def]
        return np.argsort(-step.top1, kind="stable")[: self.k]


class Counting(demask.Strategy):
    """Remembers what it saw; a canvas sees only its own past."""

    dependency = True

    def __init__(self) -> None:
        self.calls = 0

    def select(self, step):  # type: ignore[no-untyped-def]
        assert step.index == self.calls, "another canvas's memory"
        self.calls += 1
        assert step.dependency.shape == (len(step.masked),) * 2
        return [0]


@pytest.mark.parametrize("k", [1, 3])
def test_top1_in_python_is_top1(model: demask.Model, k: int) -> None:
    own = model.generate(QUESTION, strategy=MostCertain(k), max_new_tokens=24)
    built_in = model.generate(QUESTION, strategy=f"top1:k={k}", max_new_tokens=24)
    assert own.token_ids == built_in.token_ids and own.steps == built_in.steps
    assert own.strategy == "most-certain"


def test_each_canvas_has_its_own_memory(model: demask.Model) -> None:
    strategy = Counting()
    outs = model.generate([QUESTION, "Say hello.", QUESTION], strategy=strategy, max_new_tokens=12)
    assert len(outs) == 3 and strategy.calls == 0
    assert model.generate(QUESTION, strategy=strategy, max_new_tokens=12).token_ids == outs[0].token_ids


def test_what_it_asks_for_is_what_the_model_says(model: demask.Model) -> None:
    seen: list[demask.StrategyStep] = []

    class Looking(demask.Strategy):
        logits = True

        def __deepcopy__(self, memo):  # type: ignore[no-untyped-def]
            return self

        def select(self, step):  # type: ignore[no-untyped-def]
            seen.append(step)
            return [0]

    model.generate(QUESTION, strategy=Looking(), max_new_tokens=6, eos="none")
    first = seen[0]
    hidden, logits = model.forward(first.tokens, first.masked)
    allowed = np.isfinite(first.logits)
    assert first.logits is not None and (first.logits[allowed] == logits[allowed]).all()
    assert not np.isfinite(first.logits[:, model.mask_id]).any(), "the mask is never written"
    assert (first.argmax == np.where(allowed, logits, -np.inf).argmax(axis=1)).all()
    assert (first.candidate == first.argmax).all(), "temperature 0"
    assert len(seen) == 6


def test_hidden_rows_and_dependency_belong_together(model: demask.Model) -> None:
    found: list[np.ndarray] = []

    class Hidden(demask.Strategy):
        dependency = True

        def __deepcopy__(self, memo):  # type: ignore[no-untyped-def]
            return self

        def select(self, step):  # type: ignore[no-untyped-def]
            found.append(step.dependency)
            return [0]

    model.generate(QUESTION, strategy=Hidden(), max_new_tokens=6)
    ids = model.encode(QUESTION) + [model.mask_id] * 6
    assert np.allclose(found[0], model.dependency(ids), atol=1e-6)


class Refusing(demask.Strategy):
    def select(self, step):  # type: ignore[no-untyped-def]
        raise LookupError("no idea")


def test_an_exception_reaches_the_caller_as_it_was_raised(model: demask.Model) -> None:
    with pytest.raises(LookupError, match="no idea") as caught:
        model.generate(QUESTION, strategy=Refusing(), max_new_tokens=8)
    assert any("test_strategy" in str(entry.path) for entry in caught.traceback)
    with pytest.raises(LookupError):
        model.generate([QUESTION] * 5, strategy=Refusing(), max_new_tokens=8)
    with pytest.raises(LookupError):
        next(model.stream(QUESTION, strategy=Refusing(), max_new_tokens=8))
    with pytest.raises(LookupError):
        demask.evaluate(model, [Refusing()], tasks=["arith"], limit=2)


@pytest.mark.parametrize(
    ("answer", "words"),
    [([99], "99"), ([-1], "-1"), ([0, 0], "twice"), ([0.5], "whole numbers"), ([], "without progress")],
)
def test_bad_choices_are_refused(model: demask.Model, answer: list[float], words: str) -> None:
    class Bad(demask.Strategy):
        def select(self, step):  # type: ignore[no-untyped-def]
            return answer

    with pytest.raises(Exception, match=words):
        model.generate(QUESTION, strategy=Bad(), max_new_tokens=8)


def test_tokens_can_be_masked_again(model: demask.Model) -> None:
    class Doubting(demask.Strategy):
        revises = True

        def __init__(self) -> None:
            self.doubted = False

        def select(self, step):  # type: ignore[no-untyped-def]
            if not self.doubted and step.index == 2:
                self.doubted = True
                first = int(step.masked[0])
                return demask.Selection([0, 1], remask=[first], tokens="argmax", budget=(1.0, 0.5))
            return [0]

    out = model.generate(QUESTION, strategy=Doubting(), max_new_tokens=8, eos="none")
    assert out.trace is not None
    doubtful = out.trace[2]
    assert doubtful.remasked == [doubtful.positions[0]] and doubtful.budget == (1.0, 0.5)
    assert model.mask_id not in out.response_ids


def test_the_name_is_spelled_like_the_others(model: demask.Model) -> None:
    assert MostCertain().spelling() == "most-certain"
    class Named(MostCertain):
        name = "entropy"
    with pytest.raises(demask.UsageError, match="already a strategy"):
        model.generate(QUESTION, strategy=Named())
    with pytest.raises(demask.UsageError, match="no strategy"):
        demask.evaluate(model, [3], tasks=["arith"])  # type: ignore[list-item]


def test_the_readmes_ten_lines(model: demask.Model) -> None:
    class Mine(demask.Strategy):
        def select(self, step):  # type: ignore[no-untyped-def]
            return step.top1.argsort()[::-1][:2]

    records = demask.evaluate(model, [Mine(), "entropy"], tasks=["arith"], limit=4)
    assert {record["strategy"] for record in records} == {"mine", "entropy"} and len(records) == 8
