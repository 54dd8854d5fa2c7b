"""Writes tests/data/chat_templates/: what Jinja renders, so that model/chat_template is held to it.

    python3 tests/oracle/make_chat_templates.py        # needs python3-jinja2 (3.1.2 of Debian 12) only

The environment is the one that transformers makes for chat templates.
"""

import json
import pathlib
import random

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

import chat_template_constructs

HERE = pathlib.Path(__file__).parent
OUT = HERE.parent / "data" / "chat_templates"
CASES = 50


class Generation(Extension):
    """{% generation %}: writes what is inside it, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


TEXTS = [
    "What is the capital of France?", "Grüße aus Köln, straße 5", "日本語で答えてください。", "", " ",
    "  padded  \n", "line one\nline two\n\nline four", "emoji 👩‍🚀 and flags 🇫🇷", "quote \" and ' and \\ here",
    "<b>html & entities</b>", "{{ not a template }} {% nor this %}", "tab\tand\r\nreturn", "a" * 70,
    "1 + 1 = ?", "Привет, как дела?", "مرحبا", "x\u00a0y\u2028z", "/nothink", "say it /nothink",
    "<tool_response>ok</tool_response>", "null", "Zero\u200bwidth",
]
THOUGHTS = ["Let me think.", "\n1. first\n2. second\n", "思考中…", "", "a </b> tag"]
TOOLS = [
    {"type": "function", "function": {
        "name": "weather", "description": "The weather <now> in a city & around",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Name, e.g. \"Zürich\""},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "days": {"type": "integer", "default": 3, "maximum": 1e2, "minimum": -1}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "search", "description": "  搜索  ", "strict": True, "return": {"type": "string"},
        "parameters": {"type": "object", "properties": {
            "query": {"type": "string"}, "Limit": {"type": ["integer", "null"]},
            "filter": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "number"}}]}},
            "required": ["query", "Limit"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}},
]
ARGUMENTS = [
    {"city": "Zürich", "unit": "c"}, {}, {"query": "a \"b\" <c>", "Limit": 5, "filter": [0.5, 1e-7, 3]},
    {"deep": {"list": [1, [2, {"x": None}]], "yes": True, "no": False}, "big": 1234567890123},
    {"text": "line\nbreak\u0001", "real": 2.0, "large": 1e22}, "{\"city\": \"Oslo\"}",
]
OUTPUTS = ["{\"temp\": 21.5}", "nothing found", "", "结果: 1\n2"]


def content(rng, parts_allowed=True):
    text = rng.choice(TEXTS)
    if parts_allowed and rng.random() < 0.2:
        parts = [{"type": "text", "text": text}]
        if rng.random() < 0.5:
            parts.append({"type": "text", "text": rng.choice(TEXTS)})
        if rng.random() < 0.3:
            parts.insert(0, {"type": "image"})
        return parts
    return text


def calls(rng):
    made = []
    for i in range(rng.choice([1, 1, 2, 3])):
        call = {"type": "function", "function": {"name": rng.choice(["weather", "search", "now"]),
                                                 "arguments": rng.choice(ARGUMENTS)}}
        if rng.random() < 0.7:
            call["id"] = f"call_{rng.randrange(10**rng.choice([2, 9]))}"
        made.append(call)
    return made


def conversation(rng):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(TEXTS)})
    turns = rng.randrange(1, 4)
    for turn in range(turns):
        messages.append({"role": "user", "content": content(rng)})
        if turn == turns - 1 and rng.random() < 0.5:
            break
        if rng.random() < 0.4:
            made = calls(rng)
            message = {"role": "assistant", "content": rng.choice(["", None, "I will look."]),
                       "tool_calls": made}
            if rng.random() < 0.5:
                message["reasoning_content"] = rng.choice(THOUGHTS)
            messages.append(message)
            for call in made:
                result = {"role": "tool", "content": rng.choice(OUTPUTS)}
                if "id" in call:
                    result["tool_call_id"] = call["id"]
                messages.append(result)
            if turn == turns - 1 and rng.random() < 0.4:
                break
        answer = {"role": "assistant", "content": content(rng)}
        if rng.random() < 0.3:
            answer["reasoning_content"] = rng.choice(THOUGHTS)
        elif isinstance(answer["content"], str) and rng.random() < 0.4:
            answer["content"] = f"<think>\n{rng.choice(THOUGHTS)}\n</think>\n\n{answer['content']}"
        if rng.random() < 0.2:
            answer["tool_calls"] = None
        messages.append(answer)
    return messages


def case(rng):
    made = {"messages": conversation(rng)}
    if rng.random() < 0.4:
        made["tools"] = rng.sample(TOOLS, rng.randrange(1, 4))
    made["add_generation_prompt"] = rng.random() < 0.7
    kwargs = rng.choice([{}, {}, {"enable_thinking": False}, {"enable_thinking": True}, {"thinking": False}])
    if kwargs:
        made["kwargs"] = kwargs
    return made


def rendered(template, made, special_tokens):
    """What the case expects: the text, or that it is refused."""
    try:
        text = template.render(messages=made["messages"], tools=made.get("tools"), documents=None,
                               add_generation_prompt=made["add_generation_prompt"],
                               **special_tokens, **made.get("kwargs", {}))
        return {"expected": text}
    except Exception as error:  # Python's own too
        return {"error": str(error)}


def write(name, data):
    path = OUT / f"{name}.json"
    lines = [json.dumps(one, ensure_ascii=False) for one in data.pop("cases")]
    head = json.dumps(data, ensure_ascii=False)[1:-1]
    comma = ", " if head else ""
    path.write_text("{" + head + comma + '"cases": [\n' + ",\n".join(lines) + "\n]}\n")
    return path.stat().st_size


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    env = environment()
    special_tokens = {"bos_token": "<|bos|>", "eos_token": "<|eos|>"}
    total = 0
    for seed, path in enumerate(sorted((HERE / "chat_templates").glob("*.jinja"))):
        source = path.read_text()
        template = env.from_string(source)
        rng = random.Random(seed)
        cases = []
        while len(cases) < CASES:
            made = case(rng)
            made.update(rendered(template, made, special_tokens))
            # What Python refuses for its types says little; what the template refuses is kept.
            if "error" in made and "after the system" not in made["error"]:
                continue
            cases.append(made)
        refused = sum("error" in one for one in cases)
        total += write(path.stem, {"template": source, "special_tokens": special_tokens, "cases": cases})
        print(f"{path.stem}: {len(cases)} conversations, {refused} refused")
    total += write("constructs", {"cases": chat_template_constructs.cases(env)})
    print(f"jinja2 {jinja2.__version__}: {total} bytes")


if __name__ == "__main__":
    main()
