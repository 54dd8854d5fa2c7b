#!/usr/bin/env python3
"""The `openai` package from PyPI against a running `colibri serve`: what its users rely on.

    python tests/clients/openai_client.py --url http://127.0.0.1:8000 [--api-key KEY]

Each check prints one line; the exit code is 1 when one failed. Features that the server refuses by name as not
built yet are skipped and said so.
"""

import argparse
import sys
import threading
import time

import openai

CHECKS = []


class Skip(Exception):
    pass


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(part) for part in what))


def raised(kind, call):
    """The error of exactly this kind that `call` raises."""
    try:
        result = call()
    except openai.OpenAIError as error:
        expect(type(error) is kind, "came", type(error).__name__, error, "want", kind.__name__)
        return error
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def unless_refused(call, field):
    """What `call` gives; skips when the server says that `field` is not built or supported."""
    try:
        return call()
    except openai.BadRequestError as error:
        if error.param == field and ("not built" in error.message or "not supported" in error.message):
            raise Skip(f"'{field}' is refused by name") from error
        raise


MESSAGES = [{"role": "user", "content": "Who is there?"}]


@check
def models_are_listed(client, model):
    models = client.models.list()
    expect([one.id for one in models] == [model], models)
    expect(models.data[0].object == "model" and models.data[0].created > 0, models)


@check
def completion_is_whole(client, model):
    got = client.completions.create(model=model, prompt="ROMEO:", max_tokens=8, temperature=0, extra_body={"ignore_eos": True})
    expect(got.object == "text_completion" and got.id.startswith("cmpl-"), got)
    expect(got.choices[0].finish_reason == "length" and got.choices[0].text, got)
    expect(got.usage.completion_tokens == 8, got.usage)
    expect(got.usage.total_tokens == got.usage.prompt_tokens + 8, got.usage)


@check
def completion_stream_has_the_same_text(client, model):
    ask = dict(model=model, prompt="ROMEO:", max_tokens=24, temperature=0)
    whole = client.completions.create(**ask)
    text, reasons = "", []
    for event in client.completions.create(stream=True, **ask):
        expect(event.usage is None, "usage was not asked for")
        text += event.choices[0].text
        reasons.append(event.choices[0].finish_reason)
    expect(text == whole.choices[0].text, repr(text), repr(whole.choices[0].text))
    expect(reasons[-1] == whole.choices[0].finish_reason and not any(reasons[:-1]), reasons)


@check
def chat_is_whole(client, model):
    got = client.chat.completions.create(model=model, messages=MESSAGES, max_completion_tokens=8, temperature=0)
    expect(got.object == "chat.completion" and got.id.startswith("chatcmpl-"), got)
    expect(got.choices[0].message.role == "assistant", got)
    expect(got.choices[0].finish_reason in ("stop", "length"), got)
    expect(got.choices[0].message.tool_calls is None, got)


@check
def chat_stream_has_role_text_reason_usage(client, model):
    ask = dict(model=model, messages=MESSAGES, max_completion_tokens=12, temperature=0)
    whole = client.chat.completions.create(**ask)
    events = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ask))
    expect(events[0].choices[0].delta.role == "assistant", events[0])
    expect(all(event.choices[0].finish_reason is None for event in events[:-2]), "a reason too early")
    text = "".join(event.choices[0].delta.content or "" for event in events[:-1])
    expect(text == whole.choices[0].message.content, repr(text))
    expect(events[-2].choices[0].finish_reason == whole.choices[0].finish_reason, events[-2])
    expect(events[-1].choices == [] and events[-1].usage == whole.usage, events[-1], whole.usage)


@check
def chat_content_may_be_parts(client, model):
    parts = [{"role": "user", "content": [{"type": "text", "text": "Who is there?"}]}]
    ask = dict(model=model, max_completion_tokens=6, temperature=0)
    as_parts = client.chat.completions.create(messages=parts, **ask)
    as_text = client.chat.completions.create(messages=MESSAGES, **ask)
    expect(as_parts.choices[0].message.content == as_text.choices[0].message.content, as_parts)


@check
def several_choices_differ_and_repeat_by_seed(client, model):
    def ask():
        got = client.chat.completions.create(model=model, messages=MESSAGES, n=3, seed=7, temperature=1.5, max_completion_tokens=12)
        expect([choice.index for choice in got.choices] == [0, 1, 2], got)
        return [choice.message.content for choice in got.choices]

    first = ask()
    expect(len(set(first)) > 1, first)
    expect(ask() == first, "the same seed gives other choices")


@check
def stop_ends_before_the_word(client, model):
    ask = dict(model=model, prompt="ROMEO:", max_tokens=24, temperature=0)
    whole = client.completions.create(**ask).choices[0].text
    word = whole.split()[2]
    got = client.completions.create(stop=[word], **ask).choices[0]
    expect(got.text == whole[: whole.index(word)] and got.finish_reason == "stop", got)


@check
def several_prompts_and_token_ids(client, model):
    ids = client.post("/../tokenize", cast_to=object, body={"prompt": "ROMEO:"})["tokens"]
    ask = dict(model=model, max_tokens=6, temperature=0)
    text = client.completions.create(prompt="ROMEO:", **ask).choices[0].text
    got = client.completions.create(prompt=[ids, ids], **ask)
    expect([choice.text for choice in got.choices] == [text, text], got)


@check
def chat_logprobs(client, model):
    got = unless_refused(
        lambda: client.chat.completions.create(
            model=model, messages=MESSAGES, logprobs=True, top_logprobs=3, max_completion_tokens=4, temperature=0),
        "logprobs")
    tokens = got.choices[0].logprobs.content
    expect(len(tokens) == got.usage.completion_tokens or len(tokens) == got.usage.completion_tokens - 1, tokens)
    expect(all(token.logprob <= 0 and len(token.top_logprobs) == 3 for token in tokens), tokens)
    expect(bytes(b for token in tokens for b in token.bytes).decode() == got.choices[0].message.content, tokens)


@check
def completion_logprobs(client, model):
    got = unless_refused(
        lambda: client.completions.create(model=model, prompt="ROMEO:", logprobs=2, max_tokens=4, temperature=0), "logprobs")
    logprobs = got.choices[0].logprobs
    expect(len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 4, logprobs)
    expect(all(value <= 0 for value in logprobs.token_logprobs), logprobs)


@check
def penalties_and_bias(client, model):
    ask = dict(model=model, prompt="ROMEO:", max_tokens=4, temperature=0)
    unless_refused(lambda: client.completions.create(presence_penalty=1, **ask), "presence_penalty")
    got = unless_refused(lambda: client.completions.create(logit_bias={"100": 100}, **ask), "logit_bias")
    expect(got.usage.completion_tokens == 4, got)


@check
def ignored_fields_are_ignored(client, model):
    client.chat.completions.create(
        model=model, messages=MESSAGES, max_completion_tokens=2, user="u", metadata={"a": "b"}, store=False)


@check
def other_fields_are_400_and_named(client, model):
    error = raised(openai.BadRequestError, lambda: client.chat.completions.create(
        model=model, messages=MESSAGES, extra_body={"tempreature": 1}))
    expect(error.param == "tempreature" and error.status_code == 400, error.param)
    error = raised(openai.BadRequestError, lambda: client.completions.create(model=model, prompt="x", temperature=9))
    expect(error.param == "temperature", error.param)


@check
def other_models_are_404(client, model):
    error = raised(openai.NotFoundError, lambda: client.completions.create(model="no such", prompt="x"))
    expect(error.param == "model", error.param)


@check
def too_long_prompts_are_400(client, model):
    raised(openai.BadRequestError, lambda: client.completions.create(model=model, prompt=[1] * 20_000))


@check
def wrong_keys_are_401(client, model):
    if client.api_key == "none":
        raise Skip("the server asks for no key (give --api-key)")
    other = client.with_options(api_key="wrong", max_retries=0)
    raised(openai.AuthenticationError, lambda: other.models.list())


@check
def large_bodies_are_413(client, model):
    error = raised(openai.APIStatusError, lambda: client.completions.create(model=model, prompt="x" * (20 << 20)))
    expect(error.status_code == 413, error.status_code)


@check
def a_stream_may_be_left(client, model):
    stream = client.completions.create(
        model=model, prompt="ROMEO:", max_tokens=400, stream=True, extra_body={"ignore_eos": True})
    for number, _ in enumerate(stream):
        if number == 3:
            break
    stream.close()
    expect(client.completions.create(model=model, prompt="x", max_tokens=2).choices, "no answer after it")


@check
def many_threads_share_one_client(client, model):
    ask = dict(model=model, prompt="ROMEO:", max_tokens=16, temperature=0)
    want = client.completions.create(**ask).choices[0].text
    got = []
    threads = [threading.Thread(target=lambda: got.append(client.completions.create(**ask).choices[0].text)) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(got == [want] * 24, set(got))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--api-key", default="none")
    arguments = parser.parse_args()
    client = openai.OpenAI(base_url=arguments.url + "/v1", api_key=arguments.api_key, max_retries=0, timeout=60)
    model = client.models.list().data[0].id
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        start = time.monotonic()
        try:
            function(client, model)
            print(f"ok    {name} ({time.monotonic() - start:.2f} s)")
        except Skip as reason:
            print(f"skip  {name}: {reason}")
        except Exception as error:  # whatever it is, the others run
            failed += 1
            print(f"FAIL  {name}: {type(error).__name__}: {error}")
    print(f"{len(CHECKS)} checks with openai {openai.__version__}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
