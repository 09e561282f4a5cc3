"""OpenAI's client against a demask server: models, chat, completion, streaming, stop, seed, n, errors."""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
PROMPT = "eva has 7 shells . eva finds 19 more . how many shells does eva have now ?"
MESSAGES = [{"role": "user", "content": PROMPT}]


def models():
    names = [model.id for model in client.models.list()]
    assert len(names) == 1, names
    assert client.models.retrieve(names[0]).id == names[0]
    return names[0]


def chat(model):
    answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=40, temperature=0)
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and isinstance(choice.message.content, str)
    assert choice.finish_reason in ("stop", "length"), choice.finish_reason
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens <= 40
    return choice.message.content


def completion(model):
    answer = client.completions.create(model=model, prompt=PROMPT, max_tokens=24, temperature=0, logprobs=1, echo=True)
    choice = answer.choices[0]
    assert choice.text.startswith(PROMPT), choice.text
    assert all(value <= 0 for value in choice.logprobs.token_logprobs)
    two = client.completions.create(model=model, prompt=[PROMPT, "eva has 7"], max_tokens=8, temperature=0)
    assert [choice.index for choice in two.choices] == [0, 1]


def streaming(model, whole):
    stream = client.chat.completions.create(
        model=model, messages=MESSAGES, max_tokens=40, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )
    text, reasons, usage = "", [], None
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
        usage = chunk.usage or usage
    assert text == whole, (text, whole)
    assert len(reasons) == 1 and usage.total_tokens > 0
    pieces = client.completions.create(model=model, prompt=PROMPT, max_tokens=16, temperature=0, stream=True)
    joined = "".join(chunk.choices[0].text for chunk in pieces)
    alone = client.completions.create(model=model, prompt=PROMPT, max_tokens=16, temperature=0)
    assert joined == alone.choices[0].text


def stop(model):
    # One sampled text long enough to be cut in its middle.
    settings = dict(model=model, prompt=PROMPT, max_tokens=40, temperature=0.8, seed=3, extra_body={"eos": "none", "min_tokens": 40})
    whole = client.completions.create(**settings).choices[0].text
    middle = whole[len(whole) // 2 : len(whole) // 2 + 3]
    cut = client.completions.create(**settings, stop=[middle, "never there"]).choices[0]
    assert cut.text == whole[: whole.index(middle)], (cut.text, whole, middle)
    assert cut.finish_reason == "stop"


def seeds(model):
    def ask(seed):
        answer = client.chat.completions.create(
            model=model, messages=MESSAGES, max_tokens=32, temperature=1.5, seed=seed, n=2,
            extra_body={"strategy": "random", "eos": "none", "min_tokens": 32},
        )
        assert [choice.index for choice in answer.choices] == [0, 1]
        return [choice.message.content for choice in answer.choices]

    first = ask(5)
    assert first == ask(5)
    assert first != ask(6)
    assert first[0] != first[1]


def ours(model):
    answer = client.completions.create(model=model, prompt=PROMPT, max_tokens=16, extra_body={"strategy": "entropy:k=4"})
    assert answer.model_extra["demask"]["strategy"] == "entropy:k=4"
    assert answer.model_extra["demask"]["steps"] <= 4


def errors(model):
    def refused(kind, param, **settings):
        try:
            client.chat.completions.create(**{"model": model, "messages": MESSAGES, "max_tokens": 4, **settings})
        except kind as error:
            assert error.param == param, (error.param, param)
            assert error.message
            return
        raise AssertionError(f"{settings} was accepted")

    refused(openai.BadRequestError, "temperature", temperature=-1)
    refused(openai.BadRequestError, "max_tokens", max_tokens=10**9)
    refused(openai.BadRequestError, "messages", messages=[])
    refused(openai.BadRequestError, "strategy", extra_body={"strategy": "entropi"})
    refused(openai.BadRequestError, "tauu", extra_body={"tauu": 1})
    refused(openai.NotFoundError, "model", model="another")
    try:
        client.embeddings.create(model=model, input="x")
    except openai.NotFoundError:
        return
    raise AssertionError("a route that is not there was found")


name = models()
streaming(name, chat(name))
for check in (completion, stop, seeds, ours, errors):
    check(name)
print(f"openai {openai.__version__}: models, chat, completion, streaming, stop, seed, n, errors pass on {name}")
