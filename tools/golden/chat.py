#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/chat: templates, what they are given, and what jinja2 makes of them as
transformers sets it up. With --qwen DIR also the chat template of the tokenizer_config.json there
(Qwen3's, Apache-2.0)."""
import argparse
import copy
import json
import pathlib

from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = pathlib.Path(__file__).resolve().parent
SYSTEM = {"role": "system", "content": " You are brief. "}
USER = {"role": "user", "content": "Hello  there\n"}
ASSISTANT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHi! \u00e9 \u5b57 \U0001f600"}
IMAGES = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "left, "},
                                      {"type": "image", "image": "b.png"}, {"type": "text", "text": "right?"}]}
TOOLS = [{"type": "function", "function": {
    "name": "look", "description": "Look at a \"place\"", "parameters": {"type": "object", "required": ["x"], "properties": {
        "x": {"type": "number", "description": "across\nthe picture"}, "Name": {"type": ["string", "null"]},
        "how": {"type": "string", "enum": ["near", "far"]}, "deep": {"type": "array", "items": {
            "type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}}}}}}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "look", "arguments": {"x": 1.5, "how": "near", "deep": [{"b": None}]}}},
    {"type": "function", "function": {"name": "look", "arguments": {"x": -2}}}, {"type": "other"}]}
CALLED = {**CALL, "tool_calls": CALL["tool_calls"][:2]}
RESULT = {"role": "tool", "content": "{\"seen\": true}"}
# As a client of OpenAI's API has them: arguments are a text, and there is text beside the call.
TOLD = {"role": "assistant", "content": "I look. <|im_end|>", "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"x\":1.0,\"how\":\"f\u00e4r\"}"}}]}
SEEN = {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "there: "}, {"type": "image"}]}
ODD_TOOLS = [{"type": "function", "function": {"name": "z", "description": "\u5b57 <b> & 'it' \\ <|im_end|>\t", "strict": True, "parameters": {
    "z": [], "a": {}, "B": [0, -1, 1.0, 2.5, 1e20, 1e-7, None, False, "", {"y": {"x": [[1]]}}]}}}, {"name": "bare"}, {}]
CHATS = [
    {"messages": [USER]}, {"messages": [SYSTEM, USER]}, {"messages": [SYSTEM, USER, ASSISTANT, USER]},
    {"messages": [USER, ASSISTANT], "add_generation_prompt": False}, {"messages": [IMAGES]},
    {"messages": [SYSTEM, IMAGES, ASSISTANT, USER], "add_vision_id": True}, {"messages": [USER, USER]},
    {"messages": [SYSTEM, USER], "tools": TOOLS}, {"messages": [USER, CALL, RESULT, RESULT, ASSISTANT], "tools": TOOLS},
    {"messages": [USER], "enable_thinking": False}, {"messages": [], "date_string": "1 May"},
    {"messages": [SYSTEM, IMAGES, TOLD, SEEN], "tools": TOOLS + ODD_TOOLS}, {"messages": [USER, CALLED, RESULT, RESULT, ASSISTANT, USER, TOLD, RESULT, USER], "tools": TOOLS},
    {"messages": [USER, CALLED, RESULT, RESULT]},
    {"messages": [USER], "tools": []},
]
DATA = {"a": [3, 1, 2], "s": "It's a \"Text\"\n", "d": {"b": 1, "A": 2, "c": None}, "n": None, "t": True, "f": False, "i": 7,
        "x": 2.5, "e": [], "u": "\u00e9\u5b57\U0001f600z", "rows": [{"k": "a", "v": 1}, {"k": "B", "v": 2}, {"k": "a"}]}
# One line a feature; the data above is there under its names.
FEATURES = r"""
{{ s }}|{{ n }}|{{ t }}|{{ f }}|{{ i }}|{{ x }}|{{ a }}|{{ d }}|{{ u }}|{{ missing }}|{{ e }}
{{ (1,) }}{{ (1, 2) }}{{ () }}{{ [1, 'a', "it's", '"', none, true, 1.0, missing] }}{{ {'k': [1, {'l': ()}]} }}
{{ 1e20 }} {{ 1e16 }} {{ 123456789.125 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1e-7 }} {{ 3.0 }} {{ 1_000 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 % 2 }} {{ 2 * 3 + 4 ** 2 - 1 }} {{ -x }} {{ +i }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 'a' ~ 1 ~ none ~ 2.0 ~ [1] }} {{ [1] + [2] }} {{ true + 1 }} {{ (1 + 2) ~ 3 }} {{ 'x' 'y' }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 3 > 2 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }}
{{ 1 in a }} {{ 9 not in a }} {{ 'x' in 'text' }} {{ 'b' in d }} {{ 'z' not in d }} {{ 1 in missing }} {{ missing == missing }}
{{ 1 and 0 }} {{ 0 or 'x' }} {{ not 0 }} {{ not a is defined }} {{ n or missing or 'last' }} {{ '' and 1 }} {{ not not t }}
{{ 'yes' if t else 'no' }} {{ 'yes' if f }} {{ 1 if f else 2 if f else 3 }} {{ (1 if t) + 1 }}
{{ a[0] }}{{ a[-1] }}{{ a[9] }}{{ a[1:] }}{{ a[::-1] }}{{ a[:-1] }}{{ a[0:3:2] }}{{ a[-2:] }}{{ a[5:] }}{{ a[2:0:-1] }}{{ e[0] is defined }}
{{ u[0] }}{{ u[-2] }}{{ u[::-1] }}{{ u[1:3] }}{{ u|length }}{{ u[7] is defined }}{{ 'abc'[1] }}{{ 'abc'[True] }}{{ a[none:2] }}
{{ d.b }}{{ d['b'] }}{{ d.missing }}{{ d['missing'] is defined }}{{ d.items()|list }}{{ d.keys()|list }}{{ d.get('b') }}{{ d.get('z', 5) }}{{ d.get('z') }}
{{ n.foo is defined }}{{ s.foo is defined }}{{ i.foo is defined }}{{ a.foo is defined }}{{ {'items': 1}['items'] }}{{ {1: 'one', 2: 'two'}[2] }}
{{ {'a': 1, 'a': 2, 'b': 3} }}{{ {'a': 1} == {'a': 1.0} }}{{ [1, [2]] == [1, [2]] }}{{ (1,) == [1] }}{{ {1: 2} }}{{ dict(a=1, b='c') }}
{% if i > 5 %}big{% elif i > 3 %}middle{% else %}small{% endif %}{% if n %}no{% endif %}{% if e %}no{% else %}else{% endif %}
{% for q in a %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for q in a %}{{ loop.previtem }}<{{ q }}>{{ loop.nextitem }};{% endfor %}{% for q in a %}{{ loop.cycle('x', 'y') }}{% endfor %}
{% for q in a if q > 1 %}{{ loop.index }}:{{ q }};{% else %}none{% endfor %}{% for q in e %}x{% else %}empty{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in u %}{{ c }},{% endfor %}{% for q in missing %}x{% endfor %}
{% for q in a %}{% if q == 1 %}{% continue %}{% endif %}{{ q }}{% endfor %}{% for q in range(9) %}{% if q > 3 %}{% break %}{% endif %}{{ q }}{% endfor %}
{% for q in a %}{% for r in a %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}{% for p, q in [(1, 2), [3, 4]] %}{{ p + q }}{% endfor %}
{% set v = 1 %}{% for q in a %}{{ v }}{% set v = q %}{{ v }}{% endfor %}{{ v }}{% if true %}{% set v = 9 %}{% endif %}{{ v }}
{% set ns = namespace(c=0, l=[]) %}{% for q in a %}{% set ns.c = ns.c + q %}{% set ns.l = ns.l + [q] %}{% endfor %}{{ ns.c }}{{ ns.l }}{{ ns.z is defined }}
{% set p, q = 1, 2 %}{{ p }}{{ q }}{% set b %}in {{ p }}{% endset %}{{ b }}{% set b | upper %}loud{% endset %}{{ b }}{% filter upper | trim %} x {% endfilter %}
{% macro m(p, q=2, r=none) %}[{{ p }}{{ q }}{{ r }}]{% endmacro %}{{ m(1) }}{{ m(1, r=3) }}{{ m() }}{{ m(q=5, p=4) }}{{ m is defined }}{{ m(m(1)) }}
{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k * fact(k - 1) | int }}{% endif %}{% endmacro %}{{ fact(5) }}
{% set g = 1 %}{% macro seen() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ seen() }}
{% generation %}{% set inner = 1 %}kept{% endgeneration %}{{ inner is defined }}{% raw %}{{ raw }} {% if %}{% endraw %}
{{ missing is defined }}{{ missing is undefined }}{{ n is none }}{{ s is string }}{{ a is string }}{{ d is mapping }}{{ a is iterable }}{{ s is iterable }}{{ i is iterable }}
{{ a is sequence }}{{ d is sequence }}{{ s is sequence }}{{ missing is sequence }}{{ i is number }}{{ t is number }}{{ t is boolean }}{{ t is true }}{{ 1 is true }}{{ f is false }}
{{ i is integer }}{{ t is integer }}{{ x is float }}{{ i is odd }}{{ i is even }}{{ i is divisibleby 7 }}{{ i is divisibleby(2) }}{{ 1 is in [1] }}{{ 'a' is in 'b' }}{{ s is not none }}
{{ i is eq 7 }}{{ i is ne 7 }}{{ i is gt 3 }}{{ i is lt(3) }}{{ i is ge 7 }}{{ i is le 6 }}{{ i is sameas 7 }}{{ none is sameas none }}{{ 'AB' is upper }}{{ 'aB' is lower }}{{ range is callable }}
{{ missing | default('x') }}{{ n | default('x') }}{{ n | default('x', true) }}{{ '' | default('y', boolean=true) }}{{ missing | d }}{{ missing | default }}
{{ '  a b ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ ' a '.strip() }}|{{ '..a.'.lstrip('.') }}|{{ 'a\n\n'.rstrip('\n') }}|{{ '\u00a0a\u2003'.strip() }}|{{ 'abcba'.strip('ab') }}
{{ 'a,b,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a  b '.split() }}{{ 'a  b'.split(' ') }}{{ 'abc'.split('x') }}{{ 'a b c'.split(maxsplit=1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a\nb\r\nc'.splitlines() }}
{{ 'abc'.startswith('a') }}{{ 'abc'.endswith('bc') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.find('c') }}{{ 'abc'.find('z') }}{{ 'banana'.count('an') }}{{ '12'.isdigit() }}{{ u.find('z') }}
{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'.replace('X', '-', 1) }}{{ 'ab'.replace('', '.') }}{{ 'aXbX' | replace('X', '') }}{{ 'abc' | replace('b', 5) }}{{ 'ab'.replace('', '.', 2) }}
{{ 'MiXed \u00c9' | lower }}{{ 'MiXed \u00e9' | upper }}{{ 'hello wORLD' | capitalize }}{{ 'hello wORLD' | title }}{{ 'abc'.upper() }}{{ 'ABC'.lower() }}{{ 'a b'.title() }}{{ 'aB'.capitalize() }}
{{ a | length }}{{ d | count }}{{ s | length }}{{ missing | length }}{{ a | first }}{{ a | last }}{{ e | first is defined }}{{ 'abc' | first }}{{ 'abc' | last }}{{ a | reverse | list }}{{ 'abc' | reverse }}
{{ a | sort }}{{ a | sort(reverse=true) }}{{ ['b', 'A', 'c'] | sort }}{{ ['b', 'A'] | sort(case_sensitive=true) }}{{ rows[:2] | sort(attribute='v', reverse=true) | map(attribute='k') | list }}{{ d | dictsort }}
{{ a | join }}{{ a | join(', ') }}{{ rows | join('-', attribute='k') }}{{ missing | join('x') }}{{ 'abc' | join('.') }}{{ '-'.join(['a', 'b']) }}{{ [1, none, 'x'] | join('/') }}
{{ a | max }}{{ a | min }}{{ a | sum }}{{ rows[:2] | sum(attribute='v') }}{{ [1, 1, 'a', 'A'] | unique | list }}{{ 'abc' | list }}{{ -3 | abs }}{{ (-3) | abs }}{{ d | list }}{{ d | items | list }}
{{ rows | map(attribute='k') | list }}{{ rows | map(attribute='v', default=0) | list }}{{ ['a', 'b'] | map('upper') | join }}{{ n | map('upper') | list }}{{ [' a '] | map('trim') | list }}{{ [[1, 2]] | map('join', '+') | list }}
{{ rows | selectattr('v', 'defined') | list | length }}{{ rows | selectattr('k', 'equalto', 'a') | list }}{{ rows | rejectattr('v') | list }}{{ rows[:2] | selectattr('v', '>', 1) | list }}{{ rows | selectattr('k', 'in', ['B']) | list }}
{{ a | select('odd') | list }}{{ a | reject('odd') | list }}{{ [0, 1, ''] | select | list }}{{ a | select('>', 1) | list }}{{ n | selectattr('x') | list }}
{{ d | tojson }}{{ s | tojson }}{{ u | tojson }}{{ u | tojson(ensure_ascii=true) }}{{ a | tojson(indent=2) }}{{ d | tojson(indent=1, sort_keys=true) }}{{ d | tojson(separators=(',', ':')) }}{{ '<&>' | tojson }}{{ [1.0, none, true, '\t\x01/'] | tojson }}{{ {} | tojson(indent=2) }}{{ {1: [], 'b': {}} | tojson(indent=2) }}
{{ 'a\nb\n\nc' | indent }}{{ 'a\nb' | indent(2) }}{{ 'a\nb' | indent(2, true) }}{{ 'a\n\nb' | indent(1, blank=true) }}{{ 'a\nb' | indent('> ') }}{{ '' | indent(first=true) }}
{{ '12' | int }}{{ '1.9' | int }}{{ 'x' | int }}{{ 'x' | int(5) }}{{ 2.9 | int }}{{ '1.5' | float }}{{ 'x' | float }}{{ 3 | float }}{{ n | int }}{{ true | int }}{{ 5 | string + 'a' }}{{ none | string }}{{ [1] | string }}{{ 'a' | safe }}
{{ '%s is %d%%' | format('x', 5) }}{{ '{} {}'.format(1, 'a') }}{{ '{1}{0}'.format(1, 2) }}{{ '{k}'.format(k=3) }}{{ '{{}}'.format() }}{{ '{i:d}'.format(i=4) }}
{{ range(3) | list }}{{ range(1, 4) | list }}{{ range(5, 0, -2) | list }}{{ range(0) | list }}{{ '\x41\u00e9\U0001F600\101\'\"\\\q\t|' }}
{{ [1, 2][0] }}{{ {'a': {'b': [1, {'c': 'deep'}]}}.a.b[1].c }}{{ 'abc'.upper().lower()[0:2] }}{{ (a | sort)[0] }}{{ a.0 }}{{ a | first | string | length }}{{ -a[0] }}{{ not t and f }}{{ 'a' 'b' | upper }}
  {% if t %}  a  {% endif %}  b
{%- if t -%}   c   {%- endif -%}   d {{- ' e ' -}} f {#- gone -#} g {# gone #} h {%+ if t %} i {% endif +%} j
{{ strftime_now is defined }}{{ raise_exception is defined }}{{ loop is defined }}{{ self_is_not is defined }}{{ true }}{{ True }}{{ None }}{{ false is false }}
"""
LAYOUTS = ["a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "{% for q in [1, 2] %}\n  {{ q }}\n{% endfor %}\nend\n\n", "  {# note #}\n  x\n",
           "a {#- b -#} c\n\n  {%- set z = 1 %}\n{{ z }}\r\nd\re\n", "x{% raw %}\n {{ y }} \n{% endraw %}\nz", "  {%+ if true %}\n a{%- endif %} \n\n",
           "{{ 1 }}\n{{ 2 -}}\n  {{ 3 }}\n", "\t{% if true %}\t\n\tq\n\t{% endif %}x", "{% set a %}\n in\n{% endset %}\n[{{ a }}]", "", "\n", "{", "{ {", "a{b}c{ {x} }",
           "{{ '}}' }}{{ {'a': {'b': 1}} }}{{ \"%}\" }}", "{#-#}x{# {{ y }} #}z", "  {%- raw -%}  {{ x }}  {%- endraw -%}  y", "{% if true -%} \n a \n {%- else -%} b {%- endif %}\nc"]
ERRORS = ["{{ missing.x }}", "{{ missing() }}", "{{ 1 + 'a' }}", "{{ missing + 1 }}", "{{ a.append(1) }}", "{{ d.update({}) }}", "{{ i() }}", "{% for q in i %}{% endfor %}",
          "{{ 1 / 0 }}", "{{ 'a' < 1 }}", "{{ missing | tojson }}", "{{ a | nofilter }}", "{{ a is notest }}", "{{ raise_exception('stop') }}", "{% if %}{% endif %}", "{% for q in a %}", "{{ }}",
          "{{ a", "{% nosuch %}", "{{ 'a }}", "{{ (1 }}", "{% endif %}", "{% set %}", "{# x", "{% raw %}x", "{{ 1 in 5 }}", "{% set ns = 1 %}{% set ns.a = 2 %}", "{{ range(1000000) | length }}",
          "{% for p, q in [(1, 2, 3)] %}{% endfor %}", "{{ 1 1 }}", "{{ a[ }}", "{{ | }}", "{{ 5 in 'a5' }}", "{% macro m(p) %}{% endmacro %}{{ m(1, 2) }}", "{{ d | items | first | nosuch }}"]


def rendered(template, variables):
    """The text, or None where jinja2 refuses."""
    try:
        return _compile_jinja_template(template).render(**copy.deepcopy(variables))
    except Exception:  # noqa: BLE001: any failure is one, of whatever kind
        return None


def features():
    lines = FEATURES.strip("\n").split("\n") + LAYOUTS
    texts = {template: rendered(template, DATA) for template in lines}
    for template in [t for t in texts if texts[t] is None] + [t for t in ERRORS if rendered(t, DATA) is not None]:
        raise SystemExit(f"jinja2 does otherwise: {template}")
    return {"data": DATA, "texts": texts, "errors": ERRORS}


def models(templates):
    base = {"tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    given = [{**base, **chat} for chat in CHATS]
    return {"chats": given, "models": [{"name": name, "template": template, "texts": [rendered(template, one) for one in given]}
                                       for name, template in templates.items()]}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    root = HERE.parent.parent / "tests/fixtures/chat"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qwen", type=pathlib.Path, help="folder of Qwen3's tokenizer_config.json")
    args = parser.parse_args()
    root.mkdir(parents=True, exist_ok=True)
    write(root / "features.json", features())
    write(root / "models.json", models({file.stem: file.read_text() for file in sorted((HERE / "templates").glob("*.jinja"))}))
    if args.qwen:
        config = json.loads((args.qwen / "tokenizer_config.json").read_text())
        write(root / "qwen3.json", models({"qwen3": config["chat_template"]}))


if __name__ == "__main__":
    main()
