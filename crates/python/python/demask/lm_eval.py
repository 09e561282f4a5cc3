"""lm-evaluation-harness with a model of this package.

::

    python -m demask.lm_eval run --model demask --model_args pretrained=DIR,strategy=entropy --tasks gsm8k --limit 20

takes lm_eval's own flags. ``pretrained`` is a folder, a ``.gguf`` file, a Hub name, or ``embedded``; ``strategy`` is spelled as
everywhere, with ``;`` between its parameters (``strategy=demask:tau=0.04;gamma=0.9``) because lm_eval splits at commas. Other
model arguments: ``dtype``, ``predictor``, ``compute_device`` (what ``Model.load`` calls ``device``; lm_eval's own ``--device`` is
``cuda:0`` unless chosen, so it says nothing), ``max_gen_toks``, ``mc_num`` (samples of the likelihood bound),
``check_greedy``, ``token_budget``, ``suite`` (what ``demask eval`` calls the task, if that is not lm_eval's name: the same seed then
draws the same tokens), and the options of ``Model.generate``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from . import _native
from .model import Model
from .model import options as known_options


@register_model("demask")
class Harness(LM):  # type: ignore[misc]
    """A masked-diffusion model as lm_eval sees one."""

    def __init__(
        self,
        pretrained: str = "embedded",
        strategy: str | None = None,
        dtype: str | None = None,
        predictor: str | None = None,
        compute_device: str | None = None,
        max_gen_toks: int = 256,
        mc_num: int = 128,
        check_greedy: bool = False,
        token_budget: int = 4096,
        suite: str | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        # The batch is bounded by tokens, not by prompts; and lm_eval says cuda:0 where nobody chose a device.
        del batch_size, max_batch_size, device
        for key in options:
            if key not in known_options():
                raise TypeError(f"there is no model argument {key!r}; generate takes {', '.join(known_options())}")
        place: dict[str, Any] = {"device": compute_device, "predictor": predictor}
        if pretrained == "embedded":
            self.model = Model.embedded(**place)
        else:
            self.model = Model.load(pretrained, dtype=dtype, **place)  # type: ignore[arg-type]
        self.strategy = strategy.replace(";", ",") if strategy else None
        self.max_gen_toks, self.mc_num = int(max_gen_toks), int(mc_num)
        self.check_greedy, self.token_budget, self.options = bool(check_greedy), int(token_budget), options
        self.suite = suite

    @property
    def tokenizer_name(self) -> str:
        """Names the template in lm_eval's cache of requests."""
        return self.model.name

    def chat_template(self, chat_template: bool | str = False) -> str:
        """lm_eval records which template was used; this package takes the checkpoint's own."""
        return f"{self.model.name}'s own" if chat_template else ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The checkpoint's template."""
        text = self.model.apply_chat_template(chat_history)
        if add_generation_prompt:
            return text
        # The last turn is to be continued: the text up to its end.
        last = chat_history[-1]["content"]
        return text[: text.rindex(last) + len(last)]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Responses, cut at the first of each ``until``; prompts with equal settings are decoded together."""
        groups: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(repr(sorted(request.args[1].items(), key=str)), []).append(number)
        answers, streams = [""] * len(requests), self._streams(requests)
        for numbers in groups.values():
            given = dict(requests[numbers[0]].args[1])
            until = given.get("until") or []
            length = int(given.get("max_gen_toks") or given.get("max_new_tokens") or self.max_gen_toks)
            options = {**self.options, "max_new_tokens": length, **sampling(given)}
            prompts = [self._fit(self.model.encode(requests[n].args[0], raw=True), length) for n in numbers]
            outs = self.model.generate(
                prompts,
                strategy=self.strategy,
                trace=False,
                token_budget=self.token_budget,
                streams=[streams[number] for number in numbers],
                progress=None if not disable_tqdm else False,
                **options,
            )
            stops = [until] if isinstance(until, str) else list(until)
            for number, out in zip(numbers, outs):
                answers[number] = self.model._native.response(out.token_ids, stops)
                self.cache_hook.add_partial("generate_until", requests[number].args, answers[number])
        return answers

    def _streams(self, requests: list[Any]) -> list[int]:
        """Where each request's random numbers come from: the same place as in our own runner, whatever else is asked for. A document
        that lm_eval asks for several times is drawn anew each time."""
        seen: dict[tuple[str, int], int] = {}
        streams = []
        for position, request in enumerate(requests):
            task, number = getattr(request, "task_name", None) or "", getattr(request, "doc_id", None)
            key = (task, position if number is None else int(number))
            suite = self.suite or task
            # Tasks of a group have names of their own in it: mmlu_pro_law of mmlu_pro.
            name = task if task.startswith(suite) else suite
            streams.append(_native.item_stream(suite, name, key[1], seen.get(key, 0)))
            seen[key] = seen.get(key, 0) + 1
        return streams

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """The Monte-Carlo bound of each continuation behind its context."""
        pairs = [self._pair(*request.args) for request in requests]
        bounds = self._score(pairs, disable_tqdm)
        greedy = [self._is_greedy(*pair) if self.check_greedy else False for pair in pairs]
        for request, bound, same in zip(requests, bounds, greedy):
            self.cache_hook.add_partial("loglikelihood", request.args, (bound, same))
        return list(zip(bounds, greedy))

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """The bound of whole texts, in pieces of half a context with the half before them as context."""
        scores = []
        for request in requests:
            ids = self._start() + self.model.encode(request.args[0], raw=True)
            piece = max(1, self.model.context // 2)
            parts = [
                (ids[max(0, at - (self.model.context - piece)) : at], ids[at : at + piece])
                for at in range(1, len(ids), piece)
            ]
            scores.append(sum(self._score(parts, disable_tqdm)))
        return scores

    def _start(self) -> list[int]:
        return self.model.eos_ids[:1]

    def _fit(self, ids: list[int], length: int) -> list[int]:
        """A prompt that leaves room for the response: its end counts."""
        room = max(1, self.model.context - length)
        return ids[-room:] or self._start()

    def _pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        # Spaces between the two belong to the continuation.
        trailing = len(context) - len(context.rstrip())
        if trailing:
            context, continuation = context[:-trailing], context[-trailing:] + continuation
        before = self.model.encode(context, raw=True) if context else []
        whole = self.model.encode(context + continuation, raw=True)
        after = whole[len(before) :] if whole[: len(before)] == before else self.model.encode(continuation, raw=True)
        return self._fit(before, len(after)) if before else self._start(), after

    def _score(self, pairs: Sequence[tuple[list[int], list[int]]], quiet: bool) -> list[float]:
        seed = int(self.options.get("seed", 0))
        return self.model.log_likelihood(pairs, samples=self.mc_num, seed=seed, progress=False if quiet else None)

    def _is_greedy(self, prompt: list[int], response: list[int]) -> bool:
        out = self.model.generate(prompt, strategy="top1", max_new_tokens=len(response), eos="none", temperature=0.0)
        return out.response_ids[: len(response)] == response


def sampling(given: dict[str, Any]) -> dict[str, Any]:
    """lm_eval's words for drawing tokens in this package's."""
    if given.get("do_sample") is False or not given.get("temperature"):
        return {"temperature": 0.0}
    chosen = {key: given[key] for key in ("temperature", "top_p", "top_k") if given.get(key) is not None}
    return chosen


def main() -> None:
    """lm_eval's command line, with the model ``demask`` known to it."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
