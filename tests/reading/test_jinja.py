from __future__ import annotations

import pytest

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.reading.jinja import MAX_TEXT, parse


def test_statements_come_flat_with_their_lines_targets_and_values():
    found = parse("a {% for x, y in z if x %}\n{{ x.b['c'](1, k=2) | d }}{% endfor %}", where="test")
    assert [(one.tag, one.line) for one in found] == [("for", 1), ("output", 2), ("endfor", 2)]
    assert [one.value for one in found[0].targets] == ["x", "y"]
    kinds = [part.kind for part in found[1].expressions[0].walk()]
    assert kinds == ["filter", "call", "keyword", "constant", "constant", "item", "constant", "attribute", "name"]


def test_a_closing_mark_in_text_or_brackets_does_not_close():
    (output,) = parse("{{ {'a': '}}'}['a'] }}", where="test")
    assert output.expressions[0].kind == "item"


def test_comments_and_raw_text_are_no_statements():
    assert not parse("{# {{ a }} #}{%- raw -%}{{ a }}{%- endraw -%} b }}", where="test")


def test_a_long_chain_is_one_node():
    (output,) = parse("{{ " + "a ~ " * 1000 + "a }}", where="test")
    assert len(output.expressions[0].parts) == 1001


@pytest.mark.parametrize("text", ["{{ a", "{{ ) }}", "{% set = 1 %}", "{{ a b }}", "{{ a[ }}", "{% for a of b %}"])
def test_what_is_no_template_is_refused_with_its_line(text):
    with pytest.raises(MalformedError, match="line 2"):
        parse("\n" + text, where="test")


@pytest.mark.parametrize(
    "text", [" " * (MAX_TEXT + 1), "{{ " + "[" * 99 + "]" * 99 + " }}", "{{ a" + "|b" * 300 + " }}"]
)
def test_length_and_depth_are_bounded(text):
    with pytest.raises(LimitExceededError):
        parse(text, where="test")
