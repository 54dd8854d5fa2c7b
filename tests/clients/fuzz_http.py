#!/usr/bin/env python3
"""Requests drawn from a description of the server's routes, most of them wrong in some place, against `colibri serve`.

    python tests/clients/fuzz_http.py --url http://127.0.0.1:8000 [--api-key KEY] [--examples 2000] [--seed 0]
                                      [--ranks-may-die]

Wants `hypothesis` from PyPI. Every answer must be 2xx in the form of its route, or 4xx with a well-formed error body; a
stream must be events of JSON up to [DONE]; at the end the server must be there and answer as at the start. With
--ranks-may-die an answer may be 503 too, and a placement may be refused for a rank that is lost. Hypothesis shrinks
what breaks this.
"""

import argparse
import http.client
import json
import math
import re
import socket
import sys
import time
import urllib.parse

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

# ---- What the routes take: field -> strategy of values that are right --------------------------------------------

TEXT = st.one_of(st.text(max_size=60), st.sampled_from(["ROMEO:", "\u0000", "\U0001f600" * 20, "<|im_end|>", "a" * 3000]))
IDS = st.lists(st.integers(0, 1500), min_size=1, max_size=40)
SAMPLING = {
    "max_tokens": st.integers(1, 12),
    "n": st.integers(1, 4),
    "stop": st.one_of(TEXT, st.lists(TEXT, max_size=4)),
    "stop_token_ids": st.lists(st.integers(0, 1535), max_size=4),
    "ignore_eos": st.booleans(),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0.01, 1),
    "top_k": st.integers(-1, 50),
    "min_p": st.floats(0, 0.9),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.01, 2),
    "logit_bias": st.dictionaries(st.integers(0, 1535).map(str), st.floats(-100, 100), max_size=5),
    "min_tokens": st.integers(0, 4),
    "stream": st.booleans(),
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": st.booleans()}),
    "user": TEXT,
    "metadata": st.dictionaries(TEXT, TEXT, max_size=2),
    "store": st.booleans(),
}
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "nurse"]),
     "content": st.one_of(TEXT, st.none(), st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=3))},
    optional={"name": TEXT, "tool_calls": st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2)})
COMPLETION = {"prompt": st.one_of(TEXT, IDS, st.lists(TEXT, max_size=4), st.lists(IDS, max_size=3)),
              "echo": st.booleans(), "logprobs": st.integers(0, 5), "best_of": st.integers(1, 2), "suffix": TEXT, **SAMPLING}
CONVERSATION = {"add_generation_prompt": st.booleans(), "continue_final_message": st.booleans(),
                "chat_template_kwargs": st.dictionaries(TEXT, TEXT, max_size=3),
                "tools": st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2)}
CHAT = {"messages": st.lists(MESSAGE, min_size=1, max_size=4), "max_completion_tokens": st.integers(1, 12),
        "logprobs": st.booleans(), "top_logprobs": st.integers(0, 20), "parallel_tool_calls": st.booleans(),
        "tool_choice": st.sampled_from(["none", "auto"]),
        "response_format": st.fixed_dictionaries({"type": st.sampled_from(["text", "json_object"])}), **CONVERSATION, **SAMPLING}
SCORE = {"document": st.one_of(TEXT, IDS), "messages": CHAT["messages"], "model": TEXT, "user": TEXT, "store": st.booleans(),
         "candidates": st.lists(st.one_of(TEXT, IDS), min_size=1, max_size=5), **CONVERSATION}
PROFILE = {"output_dir": st.sampled_from(["a", "a/b", "c.d/e_f-g", "a/trace.rank0.json"]), "num_steps": st.integers(1, 50)}
POSTS = {
    "/v1/completions": (COMPLETION, ["prompt"]),
    "/v1/chat/completions": (CHAT, ["messages"]),
    "/v1/score": (SCORE, ["document", "candidates"]),
    "/tokenize": ({"prompt": TEXT, "add_special_tokens": st.booleans(), "model": TEXT}, ["prompt"]),
    "/detokenize": ({"tokens": st.lists(st.integers(0, 1535), max_size=40), "model": TEXT}, ["tokens"]),
    "/start_profile": (PROFILE, []),
    "/stop_profile": ({}, []),
    "/rebalance": ({}, []),  # fields_of_placement() has its own
}
GETS = ["/health", "/version", "/v1/models", "/metrics", "/state", "/state?experts=1", "/placement", "/"]


def fields_of_placement(placement):
    """Of a server whose placement is `placement`: the same with the experts of each layer given to other ranks."""
    def turned(shifts):
        layers = []
        for layer, shift in zip(placement["layers"], shifts, strict=True):
            at = shift % len(layer["experts"])
            layers.append({**layer, "experts": layer["experts"][at:] + layer["experts"][:at]})
        return layers

    shifts = st.lists(st.integers(0, placement["num_ranks"]), min_size=len(placement["layers"]), max_size=len(placement["layers"]))
    fields = {key: st.just(value) for key, value in placement.items()}
    return {**fields, "layers": shifts.map(turned)}, list(placement)

# ---- How they go wrong ---------------------------------------------------------------------------------------------

MANY_KEYS = json.dumps({f"k{i}": 0 for i in range(200_000)}).encode()
WRONG = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(2**70), st.floats(allow_nan=False, allow_infinity=False), st.just(1e300), TEXT,
    st.recursive(st.one_of(st.none(), st.integers(-3, 3), TEXT),
                 lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)), max_leaves=12))


@st.composite
def bodies(draw, fields, needed):
    names = draw(st.lists(st.sampled_from(sorted(fields)), max_size=5, unique=True)) if fields else []
    body = {name: draw(fields[name]) for name in dict.fromkeys(needed + names)}
    if "max_tokens" in fields and not body.get("max_tokens") and not body.get("max_completion_tokens"):
        body["max_tokens"] = draw(fields["max_tokens"])
    fault = draw(st.integers(0, 5))
    if fault == 1 and fields:
        body[draw(st.sampled_from(sorted(fields)))] = draw(WRONG)
    elif fault == 2:
        body[draw(TEXT)] = draw(WRONG)
    elif fault == 3 and body:
        body.pop(draw(st.sampled_from(sorted(body))))
    elif fault == 4:
        return draw(WRONG)
    return body


@st.composite
def requests(draw):
    path = draw(st.sampled_from([*POSTS, "/v1/completions", "/v1/chat/completions", "/v1/score", *GETS]))
    method = "POST" if path in POSTS else "GET"
    headers = {"Content-Type": "application/json"}
    raw = b""
    if path in POSTS:
        raw = json.dumps(draw(bodies(*POSTS[path]))).encode("utf-8", "surrogatepass")
        fault = draw(st.integers(0, 11))
        if fault == 1 and raw:
            raw = raw[: draw(st.integers(0, len(raw) - 1))]
        elif fault == 2:
            at = draw(st.integers(0, len(raw)))
            raw = raw[:at] + draw(st.binary(max_size=6)) + raw[at:]
        elif fault == 3:
            raw = draw(st.sampled_from([b"[" * 100_000, b'{"a":' * 50_000, b'"' * 999, b"\xff\xfe", b"", b"nul", b"{}", MANY_KEYS,
                                        b'{"prompt":"\\ud800","tokens":[1e999]}', b'{"prompt":"a","prompt":"b","max_tokens":1}']))
        elif fault == 4:
            method = draw(st.sampled_from(["GET", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"]))
        elif fault == 5:
            headers["Content-Type"] = draw(st.sampled_from(["text/plain", "", "multipart/form-data; boundary=x"]))
    elif draw(st.integers(0, 3)) == 0:
        path += draw(st.sampled_from(["?a=b", "?experts=1&experts=0", "//", "/..", "%00", "?" + "q" * 9000, "/" + "x" * 300]))
    return method, path, headers, raw


# ---- What must hold --------------------------------------------------------------------------------------------------


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(part)[:300] for part in what))


def check_completion(asked, got):
    expect([choice["index"] for choice in got["choices"]] == list(range(len(got["choices"]))), got)
    expect(len(got["choices"]) % (asked.get("n") or 1) == 0, asked.get("n"), got)
    expect(all(choice["finish_reason"] in ("stop", "length") for choice in got["choices"]), got)
    usage = got["usage"]
    expect(usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], usage)
    for choice in got["choices"]:
        wants = asked.get("logprobs") is not None and asked["logprobs"] is not False
        expect((choice["logprobs"] is not None) == wants, asked.get("logprobs"), choice)
        if wants and "text" in choice:
            check_logprobs(choice)


def check_logprobs(choice):
    lists = choice["logprobs"]
    expect(len({len(one) for one in lists.values()}) == 1, choice)
    expect(lists["text_offset"] == sorted(lists["text_offset"]), choice)
    expect(all(value is None or value <= 0 for value in lists["token_logprobs"]), choice)


def check_score(asked, got):
    expect(len(got["candidates"]) == len(asked["candidates"]), got)
    expect(math.isclose(sum(one["probability"] for one in got["candidates"]), 1, rel_tol=1e-9), got)
    expect(all(one["logprob"] <= 0 for one in got["candidates"]), got)
    best = max(one["logprob"] for one in got["candidates"])
    expect(got["candidates"][got["best"]]["logprob"] == best, got)


SERIES = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-z_]+="([^"\\\n]|\\.)*"(,[a-z_]+="([^"\\\n]|\\.)*")*\})? (-?[0-9.e+-]+|\+Inf|NaN)')


def check_metrics(text):
    for line in text.splitlines():
        expect(line.startswith(("# HELP ", "# TYPE ")) or SERIES.fullmatch(line), line)
    expect("\ncolibri:worker_losses_total{" in text and "\ncolibri:num_requests_running{" in text, text)


def check_state(_, got):
    expect([rank["rank"] for rank in got["ranks"]] == list(range(len(got["ranks"]))), got["ranks"])
    expect(all(rank["state"] in ("alive", "lost") for rank in got["ranks"]), got["ranks"])
    expect(got["running"] >= 0 and got["waiting"] >= 0 and 0 <= got["kv_cache"]["usage"] <= 1, got)


# Of a 200 with a body of JSON: asked and got.
FORMS = {"/v1/completions": check_completion, "/v1/chat/completions": check_completion, "/v1/score": check_score, "/state": check_state,
         "/tokenize": lambda _, got: expect(got["count"] == len(got["tokens"]), got),
         "/detokenize": lambda _, got: expect(isinstance(got["prompt"], str), got),
         "/rebalance": lambda _, got: expect(got["moved_experts"] >= 0 and got["read_bytes"] >= 0, got),
         "/health": lambda _, got: expect(got["status"] == "ok" and isinstance(got["degraded"], bool), got),
         "/placement": lambda _, got: expect(got["num_ranks"] == len(got["layers"][0]["experts"]), got)}


class Server:
    def __init__(self, url, key, may_lose):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port or 80)
        self.key = key
        self.may_lose = may_lose
        self.counts = {}

    def ask(self, method, path, headers, raw):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            if self.key:
                headers = {"Authorization": f"Bearer {self.key}", **headers}
            connection.request(method, path, body=raw, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type") or "", answer.read()
        finally:
            connection.close()

    def check(self, method, path, headers, raw):
        status, kind, body = self.ask(method, path, headers, raw)
        self.counts[status] = self.counts.get(status, 0) + 1
        expect(200 <= status < 300 or 400 <= status < 500 or (status == 503 and self.may_lose), status, body)
        if method == "HEAD":
            return
        if status >= 400:
            error = json.loads(body)["error"]
            expect(isinstance(error["message"], str) and error["message"] and isinstance(error["type"], str), error)
            expect(set(error) >= {"message", "type", "param", "code"}, error)
        elif kind.startswith("text/event-stream"):
            self.check_stream(body)
        elif kind.startswith("application/json"):
            route = path.partition("?")[0]
            FORMS.get(route, lambda *_: None)(json.loads(raw) if method == "POST" and raw else {}, json.loads(body))
        elif path.startswith("/metrics"):
            check_metrics(body.decode())

    def check_stream(self, body):
        events = body.decode().split("\n\n")
        expect(events[-1] == "" and events[-2] == "data: [DONE]", events[-2:])
        for event in events[:-2]:
            expect(event.startswith("data: "), event)
            error = json.loads(event[6:]).get("error")
            expect(error is None or (error["code"] == 503 and self.may_lose), event)


RAW = [
    b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000, b"\x00" * 500, b"\x16\x03\x01\x02\x00",
]


def check_raw(server):
    """What is no HTTP ends with a 4xx or a closed connection, at the latest when the client closes its side."""
    for bytes_ in RAW:
        with socket.create_connection(server.address, timeout=60) as connection:
            try:
                connection.sendall(bytes_)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
            except OSError:  # it closed while we sent
                continue
            expect(answer == b"" or answer.startswith(b"HTTP/1.1 4"), bytes_[:60], answer[:200])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks-may-die", action="store_true")
    arguments = parser.parse_args()
    server = Server(arguments.url, arguments.api_key, arguments.ranks_may_die)
    POSTS["/rebalance"] = fields_of_placement(json.loads(server.ask("GET", "/placement", {}, b"")[2]))
    known = ("POST", "/v1/completions", {}, b'{"prompt": "ROMEO:", "max_tokens": 8, "temperature": 0}')
    before = json.loads(server.ask(*known)[2])["choices"]

    @seed(arguments.seed)
    @settings(max_examples=arguments.examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(requests())
    def every_answer_is_in_order(request):
        server.check(*request)

    start = time.monotonic()
    every_answer_is_in_order()
    check_raw(server)
    expect(server.ask("GET", "/health", {}, b"")[0] == 200, "the server is not healthy at the end")
    after = json.loads(server.ask(*known)[2])["choices"]
    expect(after == before, "the same request is answered differently at the end:", before, after)
    print(f"{sum(server.counts.values())} requests in {time.monotonic() - start:.0f} s, answers by status: {dict(sorted(server.counts.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
