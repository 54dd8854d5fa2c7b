"""Small templates, one construct each, for make_chat_templates.py."""

import copy

VARIABLES = {
    "n": 3, "zero": 0, "neg": -7, "real": 2.5, "yes": True, "no": False, "nothing": None,
    "s": "Hello, Wörld", "empty": "", "pad": "  a b\t\n", "lines": "one\n\ntwo\r\nthree\n",
    "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4]]], "none_list": [],
    "map": {"b": 1, "A": 2, "c": None}, "items_key": {"items": 1, "keys": 2, "get": 3, "other": 4},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25},
               {"name": "Cy", "age": 30, "tags": []}],
    "tricky": "a'b\"c\\d\ne\u0001é\u200b😀", "markup": "<a href='x'>&</a>",
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 % 2
7 / 2
8 / 2
-7 // 2
-7 % 3
7 % -3
7.5 // -2
-7.5 % 2
0.1 + 0.2
1e16
1e15
123456789012345680.0
1.5e-5
0.0001
-0.0
1e300 * 1e10
2 * 3.0
1_000
n - -n
-n|abs
+real
'ab' * 3
3 * 'ab'
[1] * 2 + [2]
(1, 2) + (3,)
()
(1,)
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x']
'a' 'b'
"\n\t\\\"\x41\u00e9\U0001F600\101\q"
s
none
true and 0
0 or 'x'
not n
not not n
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
'a' < 'b'
[1, 2] < [1, 3]
(1, 2) == [1, 2]
1 == '1'
none == none
missing == missing2
1 in list
4 not in list
'ell' in s
'x' in missing
'b' in map
not 1 in list
'a' if yes else 'b'
'a' if no
('a' if no) is defined
1 if no else 2 if no else 3
missing
missing is defined
missing is undefined
missing | default('d')
empty | default('d')
empty | default('d', true)
nothing | default('d')
nothing | d('d', boolean=true)
map.missing | default('d')
map['b']
map.b
map.c
map.missing
map['missing'] is defined
items_key.items is defined
items_key['items']
items_key.other
items_key.get('other')
items_key.get('absent')
items_key.get('absent', 5)
items_key['values'] is defined
nothing.foo
n.foo
list[0]
list[-1]
list[9]
list['x']
list.0
nested.1.0
nested[1][1][0]
s[0]
s[8]
s[-1]
s[99]
s[1:4]
s[::-1]
s[-5:]
s[:-5]
s[::2]
s[10:2:-3]
list[::-1]
list[1:]
list[:-1]
list[5:]
list[-100:100]
list[1:2:none]
(1, 2, 3)[1:]
map[1:]
'0123456789'[-3:-1]
loop is defined
[1, 'a', none, true, 1.5, [2], {'k': 'v'}]
{'a': 1, 'b': [1], 1: 2, 'a': 3}
{}
tricky
[tricky]
["it's"]
['"']
["both ' and \""]
map
map | string
people | length
s | length
map | length
missing | length
lines | length
list | first
list | last
none_list | first
none_list | last
s | first
s | last
map | first
list | sort
list | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
people | sort(attribute='age') | map(attribute='name') | join(',')
people | sort(attribute='name') | map(attribute='name') | join(',')
people | sort(true, attribute='age') | map(attribute='name') | list
words | unique | list
words | unique(case_sensitive=true) | list
people | unique(attribute='age') | map(attribute='name') | list
list | reverse | list
s | reverse
map | dictsort
map | dictsort(reverse=true)
map | dictsort(true)
{'x': 2, 'y': 1} | dictsort(by='value')
map | items | list
map.items() | list
map.items()
map.keys()
map.values() | list
map.keys() | list | sort
map.items() | length
map | list
s | list
missing | list
missing | items | list
list | join
list | join(', ')
list | join('-') | length
people | join(', ', attribute='name')
s | join('.')
missing | join
words | map('upper') | list
words | map('replace', 'a', 'z') | join
people | map(attribute='name') | list
people | map(attribute='tags.0', default='none') | list
people | map(attribute='missing') | list
words | select('equalto', 'a') | list
[0, 1, '', 'x', none] | select | list
[0, 1, '', 'x', none] | reject | list
list | select('odd') | list
list | reject('gt', 1) | list
list | select('in', [1, 2]) | list
[1, 'a', none] | select('string') | list
people | selectattr('age', 'equalto', 30) | map(attribute='name') | list
people | selectattr('tags') | list | length
people | selectattr('tags', 'defined') | list | length
people | rejectattr('tags', 'defined') | map(attribute='name') | first
people | rejectattr('age', '==', 30) | list
s | upper
s | lower
'hello wORLD-foo (bar) x_y' | title
'hELLO wORLD' | capitalize
'ß ŉ ﬁ ς ΑΣ' | upper
'ÀÉ ΑΣ ΑΣΑ İ' | lower
"they're bill's" | title
"they're bill's x1y".title()
'hELLO'.capitalize()
s.upper() ~ s.lower()
pad | trim
'xxaxx' | trim('x')
'[' ~ pad.strip() ~ '][' ~ pad.lstrip() ~ '][' ~ pad.rstrip() ~ ']'
'xyxaxy'.strip('xy')
'\u00a0\u2003a\u001c'.strip()
'äöaöä'.strip('öä')
'abc'.lstrip('a').rstrip('c')
' a  b c '.split()
' a  b c '.split(none, 1)
'a,b,,c'.split(',')
'a,b,,c'.split(',', 2)
'a,b,,c'.split(',', maxsplit=1)
'a,b,,c'.rsplit(',', 1)
''.split(',')
''.split()
'a</think>b</think>c'.split('</think>')[-1]
lines.splitlines()
'abcabc'.replace('b', 'x')
'abcabc'.replace('b', 'x', 1)
'äb'.replace('', '-')
'aaa' | replace('a', 'b', 2)
'a' | replace('', '-')
5 | replace(5, 6)
'Hello'.startswith('He')
'Hello'.startswith(('x', 'H'))
'Hello'.endswith('lo')
'Hello'.endswith('')
'wörld'.find('l')
'wörld'.find('z')
'lala'.rfind('l')
'lalala'.count('la')
', '.join(words)
'12' | int
'12.7' | int
' -12 ' | int
'x' | int
'x' | int(7)
12.9 | int
-12.9 | int
true | int
nothing | int
'1.50' | float
'x' | float
3 | float
-3 | abs
real | string
n | string ~ '!'
missing | string
markup | safe
markup
lines | indent
lines | indent(2, true)
lines | indent(2, first=false, blank=true)
'a\nb' | indent('> ')
map | tojson
people | tojson
people | tojson(indent=2)
people | tojson(indent=0)
{} | tojson(indent=2)
{'a': [], 'b': {}} | tojson(indent=4)
tricky | tojson
tricky | tojson(ensure_ascii=true)
'\u007f\u0080' | tojson(ensure_ascii=true)
markup | tojson
map | tojson(sort_keys=true)
map | tojson(separators=(',', ':'))
{'a': 1, 'b': [1, 2]} | tojson(indent=1, separators=(',', '='))
{1: 2, true: 3, none: 4, 1.5: 5} | tojson
[1.0, 1e22, 0.1, 1e-7, -0.0, 1e400, none, (1, 2)] | tojson
n is number
yes is number
s is number
s is string
map is mapping
list is mapping
list is iterable
s is iterable
n is iterable
nothing is iterable
missing is iterable
list is sequence
s is sequence
map is sequence
map.items() is sequence
n is sequence
missing is sequence
(list | map('string')) is iterable
(list | map('string')) is sequence
nothing is none
n is not none
yes is true
1 is true
no is false
0 is false
yes is boolean
n is integer
yes is integer
real is float
3 is odd
4 is even
9 is divisibleby 3
9 is divisibleby(2)
1 is in list
'x' is in 'xyz'
1 is eq 1
1 is ne(2)
2 is gt 1
1 is le 0
none is sameas none
'ABC' is upper
'abc1' is lower
'1' is lower
not n is none
n is defined and s is string
range(5) | list
range(1, 10, 3) | list
range(5, 0, -2) | list
range(3)
range(0, 9, 2)
range(0) | list
range(3) | length
range(9)[2]
range(3) == range(3)
dict(a=1, b='x')
dict(a=1).a
namespace(a=1).a
namespace(a=1).b is defined
[missing]
[1, 2, 3] | map('string') | join('+')
((1))
[1, 2,]
{'a': 1,}
1, 2
'%' ~ '%%'
{'a': {'b': 'c'}}.a.b
(s ~ '!') | upper | lower | length
-1 | string
- 1 + 2
2 - 1 - 1
'a' in ['a'] and 'b' not in ['a']
1 if s is string else 2
[1, 2, 3][-1:]
s.split(', ')[1][::-1]
'{{ x }}'
"%}"
yes is true and no is false
true == True and none == None
list is iterable and list is not string and list is not mapping
[[1, 2], [3]] | map('join', '-') | list
[{'x': [{'y': 1}]}] | map(attribute='x.0.y') | list
'a' < 'B'
[3, 1.5, true] | sort
[(2, 'a'), (1, 'b')] | sort
'Straße' | length
'e\u0301' | length
[none, 1] | select('none') | list
'a\u2028b\u0085c'.splitlines()
'x' * 0
'x' * -1
list | count
5 // 0.3
1 - 0.9
100 * 1.1
1/3
2/3*3
10 ** 2
n ** 2
'%s' % n
list | sum
list.append(4)
map.update({'a': 1})
missing.foo
missing()
missing + 1
missing < 1
missing | int
missing | tojson
n()
nothing + 'x'
'a' + 1
1 + 'a'
list + 'a'
1 in 2
1 in 'abc'
none < 1
[1, 'a'] | sort
none | length
5 | length
5 | list
none | join
1 / 0
1 // 0
1 % 0
(list | map('string')) | length
(list | map('string')) | last
raise_exception('stop here')
list | map('nothing') | list
namespace() | tojson
range(200000) | list
[] | first + 1
s[::0]
''.split('')
list | sort(attribute='x')
'a' if list | select('string') | reverse else 'b'
range(4)[1:3] | list
[none, none] | sort
missing | last
list.count(1)
[1, 'a'] is lower
list | indent
nothing[1:]
people | map(attribute='tags.0', default='') | list
s.foo()
map.b()
''.join([1])
{[]: 1}
[] in map
-s
""".strip().split("\n")

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
