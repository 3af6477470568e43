from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.weights import CHATML

from vitrify.formats._templates import findings

HONEST = {
    "chatml": CHATML,
    "keys and methods": "{{ (messages[0]['content'] or '').strip().split('\n')[-1].lstrip() | trim | tojson }}",
    "loop index": "{% for m in messages %}{{ messages[loop.index0 - 1].role }}{% break %}{% endfor %}",
    "namespace": "{% set ns = namespace(i=0) %}{% set ns.i = ns.i + 1 %}{{ messages[ns.i].content }}",
    "keys of arguments": "{% for k, v in tool.a.items() %}{{ k }}={{ tool.a[k] | tojson(indent=2) }}{% endfor %}",
    "errors and dates": "{% if not a is defined %}{{ raise_exception('no') }}{% endif %}{{ strftime_now('%d') }}",
    "a macro": "{% macro type_of(p, s) %}{{ {'a': 'b'}[s.type] }}{% endmacro %}{{ type_of(name ~ '_x', tool) }}",
    "macros in a list": "{% macro a() %}x{% endmacro %}{% set todo = [] %}{% set todo = todo + [a] %}{{ todo[0]() }}",
    "a text that says it": "Never __class__ or self. {# {{ x.__class__ }} #}{% raw %}{{ x.__class__ }}{% endraw %}",
    "a constant that says it": "{{ 'a __init__ method' }}",
    "filters": "{{ messages | selectattr('role', 'equalto', 'a') | map(attribute='content') | list | length }}",
    "slices": "{% set rest = messages[1:] %}{% for m in rest %}{{ m['role'] }}{% endfor %}{{ rest[::-1][0] }}",
    "training marks": "{% generation %}{{ m.content }}{% endgeneration %}",
}
HOSTILE = {
    "an attribute": "{{ ''.__class__ }}",
    "a key": "{{ ''['__class__'] }}",
    "an escape": r"{{ ''['\x5f\x5fclass\x5f\x5f'] }}",
    "a named escape": r"{{ ''['\N{LOW LINE}_class__'] }}",
    "two constants": "{{ ''['__cl' 'ass__'] }}",
    "joined pieces": "{{ ''['__cl' ~ 'ass__'] }}",
    "added pieces": "{% set u = '_' %}{{ ''[u + u + 'class' + u + u] }}",
    "multiplied": "{% set u = '_' * 2 %}{{ ''[u ~ 'class' ~ u] }}",
    "a list joined": "{{ ''[['_', '_class_', '_'] | join] }}",
    "formatted": "{{ ''['%s%s' | format('_', '_class__')] }}",
    "by percent": "{{ ''['%c%cclass' % (95, 95)] }}",
    "by format": "{{ '{0.__class__}'.format(x) }}",
    "by a built format": "{{ ('{0.' ~ y ~ '}').format(x) }}",
    "replaced": "{{ ''['xxclassxx'.replace('x', '_')] }}",
    "reversed": "{{ ''['__ssalc__'[::-1]] }}",
    "lower case": "{{ ''['__CLASS__' | lower] }}",
    "attr": "{{ '' | attr('a') }}",
    "map attr": "{{ [''] | map('attr', 'a') }}",
    "map attribute": "{{ [''] | map(attribute='__class__') | list }}",
    "selectattr": "{{ [''] | selectattr('a.__class__') }}",
    "through a macro's text": "{% macro m() %}__class__{% endmacro %}{{ ''[m()] }}",
    "through a block": "{% set k %}__class__{% endset %}{{ ''[k] }}",
    "through a macro's argument": "{% macro m(k) %}{{ ''[k] }}{% endmacro %}{{ m('_' ~ '_class__') }}",
    "through a list": "{% set l = [] %}{% set _ = l.append('_' + '_class__') %}{{ ''[l[0]] }}",
    "through a loop": "{% for c in ['_' ~ '_class__'] %}{{ ''[c] }}{% endfor %}",
    "through a namespace": "{% set n = namespace(k='_') %}{% set n.k = n.k + '_class__' %}{{ ''[n.k] }}",
    "through names of arguments": "{{ ''[dict(__class__=1) | list | first] }}",
    "doors": "{{ cycler.x }}{{ joiner }}{{ lipsum }}{{ self }}{{ config }}{{ request }}",
    "a function": "{{ system('x') }}",
    "a method": "{{ x.popen('x') }}",
    "a call of a key": "{{ x['popen']('x') }}",
    "a frame": "{{ x.gi_frame }}",
    "import": "{% import 'os' as os %}",
    "include": "{% include '/etc/passwd' %}",
    "extends": "{% extends x %}",
    "debug": "{% debug %}",
    "a filter block": "{% filter attr('x') %}{% endfilter %}",
}


@pytest.mark.parametrize("name", HONEST)
def test_what_honest_templates_do_is_not_found(name):
    assert not list(findings(HONEST[name], place="template"))


@pytest.mark.parametrize("name", HOSTILE)
def test_what_leads_out_of_the_data_is_found(name):
    found = list(findings(HOSTILE[name], place="template"))
    assert found
    assert all((one.rule, one.verdict) == ("template", "found") for one in found)


def test_the_line_is_told():
    (found,) = findings("{{ a }}\n\n{{ b.__class__ }}", place="chat_template")
    assert found.place == "chat_template, line 3"
    assert found.subject == "__class__"


@pytest.mark.parametrize(
    "text", ["{{ a", "{% if %}", "{{ a ! b }}", "{% raw %}", "{# a", "{{ (a }}", "{{ '\\N{no}' }}"]
)
def test_what_cannot_be_parsed_is_not_checked(text):
    (found,) = findings(text, place="template")
    assert (found.rule, found.verdict) == ("template", "not checked")


@pytest.mark.parametrize("text", ["{{ " + "(" * 5000, "{{ " + "a." * 5000 + "b }}", "{{ " + "not " * 5000 + "a }}"])
def test_depth_is_bounded(text):
    (found,) = findings(text + ")" * 5000 + " }}", place="template")
    assert found.verdict == "not checked"


PIECES = ["{{ ", " }}", "{% ", " %}", "set ", "for ", "if ", "x", " in ", "'a'", "['_' ~ 'b']", "|attr", ".a", "(", ")"]
PIECES += ["[", "]", "~", "is ", "not ", "else ", "macro ", "call", "1", ":", ",", "=", "{", "}", "-%}", "namespace"]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_text_is_judged(text):
    assert isinstance(list(findings(text, place="template")), list)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_what_jinja_parses_is_parsed(text):
    jinja2 = pytest.importorskip("jinja2")
    try:
        jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(text)
    except jinja2.TemplateSyntaxError:
        return
    assert all(one.verdict == "found" for one in findings(text, place="template"))
