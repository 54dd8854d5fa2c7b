#!/usr/bin/env python3
"""The `openai` package from PyPI against a running `colibri serve`: what its users rely on.

    python tests/clients/openai_client.py --url http://127.0.0.1:8000 [--api-key KEY]

Each check prints one line; the exit code is 1 when one failed. What cannot be checked on this server is skipped and
said so.
"""

import argparse
import math
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
    ask = dict(model=model, messages=MESSAGES, logprobs=True, top_logprobs=3, max_completion_tokens=4, temperature=0)
    got = client.chat.completions.create(**ask)
    tokens = got.choices[0].logprobs.content
    expect(len(tokens) == got.usage.completion_tokens or len(tokens) == got.usage.completion_tokens - 1, tokens)
    expect(all(token.logprob <= 0 and len(token.top_logprobs) == 3 for token in tokens), tokens)
    expect(all(token.logprob == token.top_logprobs[0].logprob for token in tokens), "greedy picks the likeliest", tokens)
    expect(bytes(b for token in tokens for b in token.bytes).decode() == got.choices[0].message.content, tokens)
    streamed = [token for event in client.chat.completions.create(stream=True, **ask) for choice in event.choices
                for token in (choice.logprobs.content if choice.logprobs else [])]
    expect(streamed == tokens, streamed, tokens)


@check
def completion_logprobs(client, model):
    got = client.completions.create(model=model, prompt="ROMEO:", logprobs=2, max_tokens=4, temperature=0)
    logprobs = got.choices[0].logprobs
    expect(len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 4, logprobs)
    expect(all(value <= 0 for value in logprobs.token_logprobs), logprobs)
    expect("".join(logprobs.tokens) == got.choices[0].text, logprobs)


@check
def echo_scores_the_prompt(client, model):
    ask = dict(model=model, temperature=0, logprobs=0, extra_body={"ignore_eos": True})
    made = client.completions.create(prompt="ROMEO:", max_tokens=8, **ask).choices[0]
    got = client.completions.create(prompt="ROMEO:" + made.text, max_tokens=0, echo=True, **ask)
    choice = got.choices[0]
    expect(choice.text == "ROMEO:" + made.text and got.usage.completion_tokens == 0, got)
    expect(choice.logprobs.token_logprobs[0] is None and choice.logprobs.text_offset[0] == 0, choice.logprobs)
    if choice.logprobs.tokens[-8:] == made.logprobs.tokens:  # encoded as it was written
        expect(choice.logprobs.token_logprobs[-8:] == made.logprobs.token_logprobs, choice.logprobs, made.logprobs)


@check
def several_completions_of_several_prompts(client, model):
    ask = dict(model=model, prompt=["ROMEO:", "JULIET:"], n=3, max_tokens=8, temperature=1.2, seed=3)
    got = client.completions.create(**ask)
    expect([choice.index for choice in got.choices] == [0, 1, 2, 3, 4, 5], got)
    texts = {}
    for event in client.completions.create(stream=True, **ask):
        for choice in event.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    expect([texts[choice.index] for choice in got.choices] == [choice.text for choice in got.choices], texts)


@check
def penalties_and_bias(client, model):
    ask = dict(model=model, prompt="ROMEO:", max_tokens=40, temperature=0)
    plain = client.completions.create(**ask).choices[0].text
    apart = client.completions.create(presence_penalty=2, frequency_penalty=2, **ask).choices[0].text
    expect(apart != plain, apart)
    ids = client.post("/../tokenize", cast_to=object, body={"prompt": "x", "add_special_tokens": False})["tokens"]
    got = client.completions.create(logit_bias={str(ids[0]): 100}, **{**ask, "max_tokens": 4})
    expect(got.choices[0].text == "xxxx", got)
    error = raised(openai.BadRequestError, lambda: client.completions.create(logit_bias={"x": 1}, **ask))
    expect(error.param == "logit_bias", error.param)


@check
def scores_are_probabilities_of_a_closed_set(client, model):
    got = client.post("/score", cast_to=object, body={"model": model, "document": "ROMEO:", "candidates": [" O", " No", [0]]})
    expect(got["object"] == "score" and [one["index"] for one in got["candidates"]] == [0, 1, 2], got)
    expect(math.isclose(sum(one["probability"] for one in got["candidates"]), 1), got)
    expect(got["best"] == 0 and got["usage"]["completion_tokens"] == 0, got)
    completion = client.completions.create(model=model, prompt="ROMEO: O", max_tokens=0, echo=True, logprobs=0)
    expect(got["candidates"][0]["logprob"] == completion.choices[0].logprobs.token_logprobs[-1], got, completion)


@check
def metrics_count_what_is_asked(client, model):
    def served():
        text = client.get("/../metrics", cast_to=str)
        line = next(line for line in text.splitlines() if line.startswith("colibri:generation_tokens_total{"))
        return float(line.split()[-1])

    before = served()
    client.completions.create(model=model, prompt="ROMEO:", max_tokens=8, extra_body={"ignore_eos": True})
    expect(served() >= before + 8, before, served())


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
def tools_are_refused_where_calls_would_be_read(client, model):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    error = raised(openai.BadRequestError, lambda: client.chat.completions.create(
        model=model, messages=MESSAGES, tools=[tool], tool_choice="required"))
    expect(error.param == "tool_choice", error.param)
    error = raised(openai.BadRequestError, lambda: client.chat.completions.create(
        model=model, messages=MESSAGES, response_format={"type": "json_object"}))
    expect(error.param == "response_format", error.param)


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
