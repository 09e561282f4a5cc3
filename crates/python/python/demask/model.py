"""A loaded model."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, overload

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import UsageError
from .output import Output, Stream
from .progress import Progress, Shown
from .strategy import Strategy

Message = Mapping[str, Any]
"""A turn of a conversation: at least ``role`` and ``content``."""
Prompt = Union[str, Sequence[Message], Sequence[int], NDArray[np.integer]]
"""A user's message, a conversation, or token ids as they are."""
AnyStrategy = Union[str, Strategy, None]
"""``NAME[:key=value,…]``, an object of a class of yours, or the model's own."""


class Model:
    """A checkpoint ready to use. ``Model.load`` and ``Model.embedded`` make one."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self._source: dict[str, Any] | None = None
        self._own: dict[str, tuple[Strategy, _native.Model]] = {}
        self._told = False

    @classmethod
    def load(
        cls,
        name: str | os.PathLike[str],
        *,
        dtype: Literal["f32", "bf16", "f16", "int8", "q4"] | None = None,
        device: str | None = None,
        predictor: str | os.PathLike[str] | None = None,
        mmap: bool = True,
        by_ids: bool = False,
        progress: Progress = None,
    ) -> Model:
        """Loads a checkpoint folder, a ``.gguf`` file or a Hub name (``org/name``, ``org/name@revision``).

        ``dtype`` is the precision of the weights (as stored if ``None``), ``device`` where it computes (``cpu``, ``candle``, and
        in builds with these features ``cuda:0``, ``cuda:all``, ``metal``; several, separated by commas, share the work),
        ``predictor`` another dependency predictor than the checkpoint's own; with ``by_ids`` a checkpoint without a
        tokenizer will do.
        """
        source = {"name": os.fspath(name), "dtype": dtype, "device": device, "predictor": predictor, "mmap": mmap}
        return cls._load({**source, "by_ids": by_ids}, progress)

    @classmethod
    def embedded(cls, *, device: str | None = None, predictor: str | os.PathLike[str] | None = None) -> Model:
        """The small model inside the package."""
        return cls._load({"device": device, "predictor": predictor}, False)

    @classmethod
    def _load(cls, source: Mapping[str, Any], progress: Progress) -> Model:
        file = source.get("predictor")
        with Shown(progress) as shown:
            native = _native.Model.load(
                source.get("name"),
                source.get("dtype"),
                source.get("device"),
                None if file is None else os.fspath(file),
                source.get("mmap", True),
                source.get("by_ids", False),
                shown,
            )
        model = cls(native)
        model._source = dict(source)
        return model

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process loads the same checkpoint there.
        if self._source is None:
            raise TypeError("this model cannot be copied to another process")
        return _reload, (self._source,)

    @property
    def name(self) -> str:
        """A short name without a path."""
        return self._native.name

    @property
    def architecture(self) -> str:
        """The family."""
        return self._native.architecture

    @property
    def vocab(self) -> int:
        """Size of the vocabulary."""
        return self._native.vocab

    @property
    def hidden(self) -> int:
        """Width of the hidden rows."""
        return self._native.hidden

    @property
    def context(self) -> int:
        """Most tokens of prompt and response together."""
        return self._native.context

    @property
    def mask_id(self) -> int:
        """The mask token."""
        return self._native.mask_id

    @property
    def eos_ids(self) -> list[int]:
        """Tokens that end a response."""
        return self._native.eos_ids

    @property
    def has_predictor(self) -> bool:
        """Whether it has a dependency predictor."""
        return self._native.has_predictor

    @property
    def predictor(self) -> str | None:
        """What was made of its dependency predictor's file: where it is, its layout, the hidden row it reads, what was assumed."""
        return self._native.predictor

    @property
    def strategy(self) -> str:
        """The strategy that is taken where none is named."""
        return self._native.strategy

    def encode(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """Ids of a prompt, through the chat template unless ``raw``."""
        return self._native.encode(_given(prompt, raw))

    def decode(self, ids: Sequence[int] | NDArray[np.integer], *, verbatim: bool = False) -> str:
        """The text of ids; with ``verbatim``, special tokens are written out."""
        return self._native.decode([int(i) for i in ids], verbatim)

    def apply_chat_template(self, messages: Sequence[Message]) -> str:
        """A conversation as the model sees it."""
        return self._native.chat_text(json.dumps(list(messages)))

    @overload
    def generate(self, prompt: str, strategy: AnyStrategy = ..., **options: Any) -> Output: ...
    @overload
    def generate(self, prompt: Sequence[Message], strategy: AnyStrategy = ..., **options: Any) -> Output: ...
    @overload
    def generate(self, prompt: Sequence[int], strategy: AnyStrategy = ..., **options: Any) -> Output: ...
    @overload
    def generate(self, prompt: NDArray[np.integer], strategy: AnyStrategy = ..., **options: Any) -> Output: ...
    @overload
    def generate(self, prompt: Sequence[str], strategy: AnyStrategy = ..., **options: Any) -> list[Output]: ...
    @overload
    def generate(
        self, prompt: Sequence[Sequence[int]], strategy: AnyStrategy = ..., **options: Any
    ) -> list[Output]: ...
    @overload
    def generate(
        self, prompt: Sequence[Sequence[Message]], strategy: AnyStrategy = ..., **options: Any
    ) -> list[Output]: ...

    def generate(
        self,
        prompt: Any,
        strategy: AnyStrategy = None,
        *,
        raw: bool = False,
        trace: bool = True,
        dependency: bool = False,
        token_budget: int = 4096,
        streams: Sequence[int] | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Any:
        """Decodes a prompt, a conversation, token ids, or a list of any of these (then a list comes back).

        ``options`` are those of the command line, ``max_new_tokens``, ``temperature``, ``cache`` and so on; ``demask.options()``
        lists them. One that is ``None`` is as if it were not given. ``raw`` takes a text as it is, without the chat template. ``trace`` keeps the steps,
        with ``dependency`` also their matrices. Of a list, up to ``token_budget`` tokens are decoded together; the answer to
        the first is what it would be alone, and at temperature 0 that of every one is. Random numbers of its prompts come from
        ``stream``, ``stream + 1`` and so on, or from ``streams``, one for each.
        """
        native, spelling = self._with(strategy)
        choices = _choices(spelling, options)
        recorded = dependency if trace else None
        if _is_batch(prompt):
            many = [_given(one, raw) for one in prompt]
            own = [] if streams is None else list(streams)
            if streams is not None and len(own) != len(many):
                raise UsageError(f"there are {len(own)} streams for {len(many)} prompts; give one for each")
            if not many:
                return []
            with Shown(progress) as shown:
                answers = native.generate_all(many, choices, recorded, token_budget, own, shown)
            return [Output(answer) for answer in answers]
        if streams is not None:
            raise UsageError("streams are for a list of prompts; one prompt has the option stream")
        with Shown(progress) as shown:
            return Output(native.generate(_given(prompt, raw), choices, recorded, shown))

    def infill(
        self,
        text: str,
        strategy: AnyStrategy = None,
        *,
        prompt: Prompt | None = None,
        trace: bool = True,
        dependency: bool = False,
        **options: Any,
    ) -> Output:
        """Fills the gaps of a text (``[MASK]`` is one token, ``[MASK:5]`` five) and keeps the rest; ``prompt`` stands in front."""
        native, spelling = self._with(strategy)
        before = None if prompt is None else _given(prompt, False)
        recorded = dependency if trace else None
        return Output(native.generate(("infill", text, before), _choices(spelling, options), recorded, None))

    def stream(
        self,
        prompt: Prompt,
        strategy: AnyStrategy = None,
        *,
        raw: bool = False,
        dependency: bool = True,
        **options: Any,
    ) -> Stream:
        """The decoding step by step; options as for ``generate``."""
        native, spelling = self._with(strategy)
        return Stream(native.stream(_given(prompt, raw), _choices(spelling, options), dependency))

    def forward(
        self, ids: Sequence[int] | NDArray[np.integer], positions: Sequence[int] | NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """One forward pass: hidden rows ``[n, d]`` and logits ``[n, V]`` that predict ``positions`` (ascending; all masks if
        ``None``)."""
        tokens, places = self._places(ids, positions)
        hidden, logits = self._native.forward(tokens, places)
        shaped = np.frombuffer(hidden, dtype=np.float32).reshape(len(places), -1)
        return shaped, np.frombuffer(logits, dtype=np.float32).reshape(len(places), self.vocab)

    def log_likelihood(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        samples: int = 128,
        seed: int = 0,
        progress: Progress = None,
    ) -> list[float]:
        """A lower bound on ``ln p(response | prompt)`` of every (prompt ids, response ids), by ``samples`` random maskings each,
        as the evaluations of LLaDA and Dream estimate it."""
        listed = [([int(i) for i in prompt], [int(i) for i in response]) for prompt, response in pairs]
        with Shown(progress) as shown:
            return self._native.log_likelihood(listed, samples, seed, shown)

    def dependency(
        self,
        ids: Sequence[int] | NDArray[np.integer],
        positions: Sequence[int] | NDArray[np.integer] | None = None,
        *,
        source: Literal["predictor", "oracle"] = "predictor",
        draws: int = 1,
        seed: int = 0,
        progress: Progress = None,
    ) -> NDArray[np.float32]:
        """``D`` over masked positions: row = affected, column = revealed.

        The predictor's estimate, or as the oracle measures it: every position revealed alone with ``draws`` draws of tokens,
        which costs ``1 + draws·|M|`` forward passes.
        """
        if source not in ("predictor", "oracle"):
            raise UsageError(f"source is {source!r}, must be predictor or oracle")
        if draws < 1:
            raise UsageError(f"draws is {draws}, must be at least 1")
        tokens, places = self._places(ids, positions)
        with Shown(progress) as shown:
            data = self._native.dependency(tokens, places, draws if source == "oracle" else None, seed, shown)
        return np.frombuffer(data, dtype=np.float32).reshape(len(places), len(places))

    def _places(self, ids: Any, positions: Any) -> tuple[list[int], list[int]]:
        tokens = [int(i) for i in ids]
        if positions is None:
            return tokens, [at for at, token in enumerate(tokens) if token == self.mask_id]
        return tokens, [int(p) for p in positions]

    def _with(self, strategy: AnyStrategy) -> tuple[_native.Model, str | None]:
        """The native model that knows the strategy, and its spelling."""
        instead = self._native.without_predictor if strategy is None and not self._told else None
        if instead is not None:
            self._told = True
            ways = "load it with predictor=FILE, DIR or 'org/name', put its file into the checkpoint's folder, or train one"
            warnings.warn(f"{instead}; for DEMASK, {ways} with demask predictor train", stacklevel=3)
        if strategy is None or isinstance(strategy, str):
            return self._native, strategy
        native, spellings = self._with_all([strategy])
        return native, spellings[0]

    def _with_all(self, strategies: Sequence[str | Strategy]) -> tuple[_native.Model, list[str]]:
        spellings: list[str] = []
        own: list[tuple[str, Strategy]] = []
        for strategy in strategies:
            if isinstance(strategy, str):
                spellings.append(strategy)
            elif isinstance(strategy, Strategy):
                own.append((strategy.spelling(), strategy))
                spellings.append(own[-1][0])
            else:
                raise UsageError(f"{strategy!r} is no strategy; give a spelling or an object of a class of demask.Strategy")
        if len(own) == 1:
            known = self._own.get(own[0][0])
            if known is None or known[0] is not own[0][1]:
                known = (own[0][1], self._native.with_strategies(own))
                self._own[own[0][0]] = known
            return known[1], spellings
        return (self._native.with_strategies(own) if own else self._native), spellings

    def __repr__(self) -> str:
        return f"Model({self.name}, {self.architecture})"


def _reload(source: dict[str, Any]) -> Model:
    return Model._load(source, False)


def _is_batch(prompt: Any) -> bool:
    if isinstance(prompt, str):
        return False
    first = next(iter(prompt), None)
    if isinstance(first, (str, np.ndarray)) or first is None:
        return True
    return not isinstance(first, (Mapping, int, np.integer))


def _given(prompt: Any, raw: bool) -> Any:
    if isinstance(prompt, str):
        return ("raw" if raw else "user", prompt, None)
    items = list(prompt)
    if all(isinstance(item, (int, np.integer)) for item in items):
        return [int(item) for item in items]
    if all(isinstance(item, Mapping) for item in items):
        return ("chat", json.dumps([dict(item) for item in items]), None)
    raise UsageError("a prompt is a text, a list of messages with role and content, or a list of token ids")


def options() -> list[str]:
    """The options of ``generate``, ``stream`` and ``infill``: those of the command line, by their names there."""
    return _native.options()


def _choices(strategy: str | None, given: Mapping[str, Any]) -> tuple[str | None, list[tuple[str, str]]]:
    known = options()
    for key in given:
        if key not in known:
            raise TypeError(f"there is no option {key!r}; the options are {', '.join(known)}")
    return strategy, [(key, str(value)) for key, value in given.items() if value is not None]


__all__ = ["Message", "Model", "Prompt", "options"]
