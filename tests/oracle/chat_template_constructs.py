"""Small templates, one construct each, for make_chat_templates.py."""

import copy
import pathlib

VARIABLES = {
    "n": 3, "zero": 0, "neg": -7, "real": 2.5, "yes": True, "no": False, "nothing": None,
    "s": "Hello, Wörld", "empty": "", "pad": "  a b\t\n", "lines": "one\n\ntwo\r\nthree\n",
    "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4]]], "none_list": [],
    "map": {"b": 1, "A": 2, "c": None}, "items_key": {"items": 1, "keys": 2, "get": 3, "other": 4},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25},
               {"name": "Cy", "age": 30, "tags": []}],
    "tricky": "a'b\"c\\d\ne\u0001é\u200b😀", "markup": "<a href='x'>&</a>",
}

EXPRESSIONS = (pathlib.Path(__file__).parent / "chat_templates/expressions.txt").read_text().splitlines()

TEMPLATES = [
    "{% if n > 5 %}a{% elif n == 3 %}b{% else %}c{% endif %}",
    "{% for x in list %}{{ x }},{% endfor %}",
    "{% for x in none_list %}{{ x }}{% else %}nothing{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}",
    "{% for x in list if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }} {% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {% endfor %}",
    "{% for x in list %}{{ loop.previtem is defined }}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, (a, b) in [(1, (2, 3))] %}{{ k }}{{ a }}{{ b }}{% endfor %}",
    "{% for k in map %}{{ k }}{% endfor %}",
    "{% for c in 'häé' %}[{{ c }}]{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}empty{% endfor %}",
    "{% for x in list %}{% for y in words %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% continue %}{% else %}every turn was cut{% endfor %}",
    "{% for x in list %}{% break %}{% else %}not empty{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in list %}{% if loop.first %}{% set y = i %}{% endif %}[{{ y }}]{% endfor %}",
    "{% for i in list %}{% set n = n + i %}{{ n }},{% endfor %}{{ n }}",
    "{% set ns = namespace(total=0, seen=[]) %}{% for i in list %}{% set ns.total = ns.total + i %}{% set ns.seen = ns.seen + [i] %}{% endfor %}{{ ns.total }}{{ ns.seen }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set (a, b) = list[:2] %}{{ a }}{{ b }}",
    "{% set block %}  in {{ n }} block\n{% endset %}[{{ block }}]{{ block | length }}",
    "{% set x = 1 %}{% set b %}{% set x = 2 %}{{ x }}{% endset %}{{ b }}{{ x }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(c=5, a=4) }} {{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}",
    "{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(4) }}",
    "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{{ m() }}{{ x is defined }}",
    "{% macro m(list) %}{% for x in list %}{{ x }}{% endfor %}{% endmacro %}{{ m('ab') ~ m([1]) | upper }}",
    "{% for i in list %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m() %} x {% endmacro %}[{{ m() | trim }}]{{ m() is string }}{{ m is callable }}",
    "{% generation %}a{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}",
    "{% for m in people %}{%- generation %} {{ m.name }} {% endgeneration -%}{% endfor %}",
    "{# comment #}a{#- c -#} b {#+ d +#}\nc",
    "{# a\n   comment #}\nx\n{# y #}  \nz",
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%+ if yes %}\n  b\n  {% endif +%}\nc\n",
    "a \n {%- if yes -%} \n b \n {%- endif -%} \n c",
    "  {% if yes %}x{% endif %}  {% if yes %} y{% endif %}\n",
    "x  {% if yes %}x{% endif %}\n  y",
    "  {{ n }}  \n  {{- n -}}  \n  {{ n }}\n",
    "{{ n }}\n\n{{ n }}\n\n",
    "line\r\nline\rline\r\n",
    "{{ 'a\r\nb' }}",
    "\t{% set x = 1 %}\t\n\t{{ x }}",
    "{% if yes %}\n\n  two\n{% endif %}\n\n",
    "{% raw %}{{ no }} {% no %}{# no #}{% endraw %}x",
    "  {% raw %}\n a \n  {% endraw %}\nb",
    "a {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {}} }}",
    "{%- set x = {'a': 1} -%}{{ x.a }}",
    "{%if yes%}a{%endif%}",
    "{{-1}}{{ -1 }}",
    "{% set x %}{% for i in list %}{{ i }}{% endfor %}{% endset %}{{ x | reverse }}",
    "{% for i in list | sort %}{{ i }}{% endfor %}{% for g in list | map('string') %}{{ g * 2 }}{% endfor %}",
    "{% set g = list | map('string') %}{{ g | join }}|{{ g | join }}|{{ g | list }}",
    "{% for p in people recursive %}{{ p.name }}{% endfor %}",
    "{% set loop_messages = people[1:] %}{% for m in loop_messages %}{{ m.name }}{{ loop.index0 % 2 == 0 }}{% endfor %}",
    "{% if missing %}a{% else %}b{% endif %}{% if not missing %}c{% endif %}",
    "{% if map.b and not map.c %}x{% endif %}",
    "{% set map = {'z': 1} %}{{ map }}",
    "{% set n = none %}{{ n is none }}",
    "{% for x in n %}{% endfor %}",
    "{% for x in none %}{% endfor %}",
    "{% for a, b in list %}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% set n.x = 1 %}",
    "{% set missing.x = 1 %}",
    "{% set a, b = 1, 2, 3 %}",
    "{% for x in list %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{%- for p in people -%}\n  {{- p.name }}:{{ p.tags | default('?') }}\n{% endfor %}",
    "{% for x in list %}{% set ns = namespace(v=x) %}{% for y in list %}{% set ns.v = ns.v * y %}{% endfor %}{{ ns.v }} {% endfor %}",
    "\u00a0{% if yes %}a{% endif %}\u00a0\n\u2003{%- if yes %}b{% endif %}",
    "{{ '<' ~ markup ~ '>' }}{{ markup + '<' }}",
    "{% for key in map %}{% if key == 'A' %}{% continue %}{% endif %}{{ key }}{{ loop.index }}{% endfor %}",
    "{% for row in nested %}{% for x in row if x is number %}{{ x }}{% endfor %};{% endfor %}",
    "{{ messages is defined }}{{ tools is none }}{{ documents is none }}{{ tools is defined }}",
]

# Rendered by Jinja and refused here, each a named limit of docs/chat-templates.md.
NARROWER = {"10 ** 2", "n ** 2", "'%s' % n", "list | sum",
            "{% for p in people recursive %}{{ p.name }}{% endfor %}"}


def cases(env):
    made = [{"variables": VARIABLES}]
    for source in [f"{{{{ {one} }}}}" for one in EXPRESSIONS] + TEMPLATES:
        case = {"template": source}
        inner = source[3:-3]
        try:
            text = env.from_string(source).render(messages=[], tools=None, documents=None,
                                                  add_generation_prompt=True,
                                                  **copy.deepcopy(VARIABLES))  # indent changes a list
            if inner in NARROWER or source in NARROWER:
                case["refused"] = True
            else:
                case["expected"] = text
        except Exception as error:
            case["error"] = str(error)[:80]
        made.append(case)
    return made
