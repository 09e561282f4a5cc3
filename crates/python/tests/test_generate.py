"""Generating: one prompt, batches, conversations, ids, gaps, streams, passes, pictures."""

from __future__ import annotations

import copy
import html
import json
import pickle
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import demask
from conftest import QUESTION


def test_an_answer_tells_what_it_cost(model: demask.Model) -> None:
    out = model.generate(QUESTION, strategy="entropy:k=2", max_new_tokens=32)
    assert out.strategy == "entropy:k=2" and out.steps == out.forwards
    assert len(out.response_ids) == 32 and out.token_ids == out.response_ids[: len(out.token_ids)]
    assert model.decode(out.token_ids) == out.text
    assert out.trace is not None and len(out.trace) == out.steps
    assert sum(step.forwards for step in out.trace) == out.forwards
    assert (out.assistant_rows, out.inner_calls, out.besides) == (0, 0, "")
    written = {commit.position: commit.token for step in out.trace for commit in step.commits}
    start = len(model.encode(QUESTION))
    for at, token in enumerate(out.token_ids):
        assert written[start + at] == token
    assert out.seconds > 0



def test_what_a_second_model_computed_stands_beside_the_passes(model: demask.Model) -> None:
    out = model.generate(QUESTION, strategy="apd", max_new_tokens=32)
    assert out.assistant_rows > 0 and out.inner_calls == 0
    assert out.trace is not None and sum(step.assistant_rows for step in out.trace) == out.assistant_rows
    assert f"{out.forwards} forward passes + {out.assistant_rows} assistant rows" in repr(out)
    assert out.metrics["seconds"]["extra"] > 0


def test_a_batch_answers_like_its_members(model: demask.Model) -> None:
    prompts = ["Say hello.", QUESTION, "Ann has 9 coins. Ann finds 6 more. How many coins does Ann have now?"]
    together = model.generate(prompts, max_new_tokens=24)
    assert [out.token_ids for out in together] == [model.generate(p, max_new_tokens=24).token_ids for p in prompts]
    assert all(out.trace and len(out.trace) == out.steps for out in together)
    assert model.generate([]) == []


def test_each_prompt_of_a_list_can_have_a_stream_of_its_own(model: demask.Model) -> None:
    options = {"strategy": "random", "temperature": 1.0, "seed": 4, "max_new_tokens": 16}
    both = model.generate([QUESTION, QUESTION], streams=[2**64 - 1, 7], **options)
    alone = [model.generate(QUESTION, stream=stream, **options) for stream in (2**64 - 1, 7)]
    assert [out.token_ids for out in both] == [out.token_ids for out in alone]
    assert both[0].token_ids != both[1].token_ids
    for prompt in ([QUESTION], QUESTION):
        with pytest.raises(demask.UsageError, match="streams"):
            model.generate(prompt, streams=[1, 2])


def test_chat_ids_and_raw(model: demask.Model) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    as_text = model.generate(QUESTION, max_new_tokens=16).token_ids
    assert model.generate(messages, max_new_tokens=16).token_ids == as_text
    assert model.generate(model.encode(QUESTION), max_new_tokens=16).token_ids == as_text
    rendered = model.apply_chat_template(messages)
    assert QUESTION in rendered
    assert model.generate(rendered, raw=True, max_new_tokens=16).token_ids == as_text
    assert model.generate([messages, messages], max_new_tokens=16)[1].token_ids == as_text
    with pytest.raises(demask.UsageError, match="role"):
        model.generate([{"content": "x"}])


def test_gaps_are_filled_and_the_rest_stays(model: demask.Model) -> None:
    out = model.infill("Tom has 3 pens. Tom buys 2 more. 3 + 2 = [MASK]")
    assert out.text.startswith("Tom has 3 pens. Tom buys 2 more. 3 + 2 =")
    with pytest.raises(demask.UsageError, match="MASK"):
        model.infill("no gap")


def test_a_stream_gives_every_step(model: demask.Model) -> None:
    stream = model.stream(QUESTION, max_new_tokens=24)
    seen: list[int] = []
    first = next(stream)
    assert first.masked == 24 and first.budget is not None and first.budget[1] <= first.budget[0] + 1e-6
    assert first.dependency is not None and first.dependency.shape == (24, 24)
    assert first.dependency.dtype == np.float32 and (np.diag(first.dependency) == 0).all()
    seen.extend(first.positions)
    for step in stream:
        seen.extend(step.positions)
    out = stream.finish()
    assert len(seen) == len(set(seen)) and out.steps >= 1
    assert out.token_ids == model.generate(QUESTION, max_new_tokens=24).token_ids
    with pytest.raises(demask.UsageError, match="finished"):
        stream.finish()


def test_a_stream_can_be_left_in_the_middle(model: demask.Model) -> None:
    stream = model.stream(QUESTION, max_new_tokens=24)
    next(stream)
    assert model.mask_id in stream.canvas_ids and isinstance(stream.text, str)


def test_forward_and_dependency_are_arrays(model: demask.Model) -> None:
    ids = model.encode(QUESTION) + [model.mask_id] * 4
    positions = list(range(len(ids) - 4, len(ids)))
    hidden, logits = model.forward(ids)
    assert hidden.shape == (4, model.hidden) and logits.shape == (4, model.vocab)
    again, _ = model.forward(ids, positions)
    assert (again == hidden).all()
    predicted = model.dependency(ids)
    assert predicted.shape == (4, 4) and (np.diag(predicted) == 0).all() and predicted.max() > 0
    measured = model.dependency(ids, positions, source="oracle", draws=2, seed=3)
    assert measured.shape == (4, 4) and (measured >= 0).all() and (measured <= 1).all()
    assert (measured == model.dependency(ids, source="oracle", draws=2, seed=3)).all()
    # By hand: reveal the first mask's most probable token and look at the others.
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.generate("x", strategy="entropi"), "did you mean entropy"),
        (lambda m: m.generate("x", strategy="entropy:k=0"), "at least 1"),
        (lambda m: m.generate("x", eos="never"), "must be auto"),
        (lambda m: m.generate("x", cache="x"), "no cache"),
        (lambda m: m.generate("x", max_new_tokens=10**6), "context"),
        (lambda m: m.generate("x", max_new_tokens=0), "at least 1"),
        (lambda m: m.generate("x", top_k=2.5), "top_k = 2.5: must be a whole number"),
        (lambda m: m.generate("x", temperature="warm"), "must be a number"),
        (lambda m: m.generate("x", post_steps=3), "needs edit_threshold"),
        (lambda m: m.forward([1, 2, 10**6], [1]), "vocabulary"),
        (lambda m: m.forward([1, 2], [2]), "outside"),
        (lambda m: m.forward([1, 2, 3], [2, 1]), "ascending"),
        (lambda m: m.dependency([1, m.mask_id], source="guess"), "predictor or oracle"),
    ],
)
def test_mistakes_are_value_errors_with_the_librarys_sentence(model: demask.Model, call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(demask.UsageError, match=words) as caught:
        call(model)
    assert isinstance(caught.value, (demask.Error, ValueError)) and "\n" not in str(caught.value)


def test_what_cannot_be_loaded_is_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(demask.Error, match=str(tmp_path)):
        demask.Model.load(tmp_path)
    with pytest.raises(demask.UsageError, match="int8"):
        demask.Model.load(tmp_path, dtype="int7")  # type: ignore[arg-type]


def test_an_unknown_option_is_refused(model: demask.Model) -> None:
    with pytest.raises(TypeError, match="max_new_tokens"):
        model.generate("x", max_tokens=3)


def test_a_notebook_shows_the_denoising(model: demask.Model, tmp_path) -> None:  # type: ignore[no-untyped-def]
    out = model.generate(QUESTION, max_new_tokens=12, dependency=True)
    page = out.html()
    assert page.startswith("<!doctype html>") and '"steps"' in page
    shown = out._repr_html_()
    assert shown.startswith("<iframe") and html.unescape(shown.split('srcdoc="')[1].split('" style')[0]) == page
    assert model.generate("x", max_new_tokens=4, trace=False)._repr_html_().startswith("<pre>")
    out.save_trace(tmp_path / "t.jsonl")
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["demask_trace"] == 1 and len(lines) == 1 + out.steps


def test_a_model_travels_by_its_name(model: demask.Model) -> None:
    twin = pickle.loads(pickle.dumps(model))
    assert twin.generate(QUESTION, max_new_tokens=8).text == model.generate(QUESTION, max_new_tokens=8).text
    assert copy.copy(model).name == model.name


def test_other_threads_run_while_it_decodes(model: demask.Model) -> None:
    done = threading.Event()
    counted = 0

    def work() -> None:
        model.generate([QUESTION] * 8, strategy="entropy", max_new_tokens=64)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 3, "the interpreter stood still"


def test_ctrl_c_stops_a_batch(model: demask.Model) -> None:
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        # Hours of work.
        model.generate([QUESTION] * 100_000, strategy="entropy", max_new_tokens=64, trace=False)
    timer.join()
    assert model.generate("Say hello.", max_new_tokens=4).steps > 0, "it can be used again"


def test_ctrl_c_stops_a_measurement_that_tells_of_its_passes(model: demask.Model) -> None:
    told: list[tuple[int, int, str, str]] = []
    ids = [*model.encode(QUESTION), *[model.mask_id] * 8]
    model.dependency(ids, source="oracle", draws=50, progress=lambda *p: told.append(p))
    assert told[-1] == (401, 401, "passes", "")
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        # Days of work.
        model.dependency(ids, source="oracle", draws=100_000_000)
    timer.join()


def test_ctrl_c_stops_a_step(model: demask.Model) -> None:
    class Asleep(demask.Strategy):
        def select(self, step):  # type: ignore[no-untyped-def]
            time.sleep(0.05)
            return [0]

    stream = model.stream(QUESTION, strategy=Asleep(), max_new_tokens=200, eos="none")
    next(stream)
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        stream.finish()  # Ten seconds of sleep.
    timer.join()


def test_a_bar_is_drawn_and_removed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from demask import progress

    bar = progress.Bar(quiet_seconds=0)
    bar(3, 4, "prompts", "")
    drawn = capsys.readouterr().err
    assert drawn.startswith("\r" + "█" * 18 + "░" * 6 + " 3/4 prompts, 0:00:00 left")
    bar.close()
    assert capsys.readouterr().err == "\r" + " " * (len(drawn) - 1) + "\r"
    progress.Bar()(3, 4, "prompts", "")
    assert capsys.readouterr().err == "", "short calls are silent"
    monkeypatch.setattr(progress, "somebody_sees", lambda: True)
    assert progress.Shown(None).bar and not progress.Shown(False).bar and progress.Shown(True).bar
    monkeypatch.setattr(progress, "somebody_sees", lambda: False)
    assert progress.Shown(None).callback is None, "nobody looks at a log"


def test_progress_is_told(model: demask.Model) -> None:
    told: list[tuple[int, int, str, str]] = []
    model.generate([QUESTION] * 20, max_new_tokens=32, progress=lambda *p: told.append(p))
    assert told[-1][:3] == (20, 20, "prompts")
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)


def test_an_exception_in_a_progress_callback_stops_the_call(model: demask.Model) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        model.generate(
            [QUESTION] * 100_000, strategy="entropy", max_new_tokens=16, progress=refuse, trace=False, token_budget=128
        )


def test_strategies_are_listed() -> None:
    known = {strategy.name: strategy for strategy in demask.strategies()}
    assert "tau" in {parameter.key for parameter in known["demask"].parameters}


TOY = Path(__file__).parents[3] / "tests" / "fixtures" / "dream-toy"


@pytest.fixture()
def templated(tmp_path: Path) -> Path:
    """The toy checkpoint with a chat template of its own."""
    folder = tmp_path / "toy"
    shutil.copytree(TOY, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}")
    return folder


def test_a_checkpoint_is_loaded_and_its_template_rendered_elsewhere(templated: Path) -> None:
    toy = demask.Model.load(templated)
    assert toy.apply_chat_template([{"role": "user", "content": "eva has 3 shells"}]) == "user eva has 3 shells "
    assert toy.generate("eva has 3 shells", max_new_tokens=4, strategy="entropy").steps > 0
    # A template that asks for all memory there is costs its worker, not this process.
    (templated / "chat_template.jinja").write_text("{{ 'x' * 8000000000 }}")
    with pytest.raises(demask.Error, match="memory|too"):
        demask.Model.load(templated).apply_chat_template([{"role": "user", "content": "x"}])
