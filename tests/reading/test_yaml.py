from __future__ import annotations

import re

import pytest
import yaml as reference
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.reading.yaml import parse

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff\x85\xa0"), max_size=30
)
TEXT = (WORDS | st.text("ab :#'\"-[]{}\n,\\ ", max_size=200)).filter(lambda text: not NUMBER.fullmatch(text))
LEAF = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | TEXT
VALUE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT.filter(lambda key: "\n" not in key), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(VALUE, st.sampled_from([None, False, True]), st.sampled_from([None, '"', "'"]))
def test_what_the_reference_writes_is_read_equal(value, flow, style):
    written = reference.safe_dump(value, default_flow_style=flow, allow_unicode=True, default_style=style)
    if "!!" not in written and "? " not in written:  # tags and long keys are outside the subset
        assert parse(written.encode(), where="test") == value


@pytest.mark.parametrize(
    "text",
    [
        "a: |\n  one\n    two\n\n  three\nb: >-\n  four\n  five\n",
        "a:\n- 1\n- b: 2\n  c: [x, 'y z', {d: 1.5}]\n-\n  - 3\n",
        "--- # comment\na: 'it''s'  # more\nb: \"tab\\t \\x41 \\u00e9\"\n...\n",
        "plain text\n  over lines\n",
        "plain text\n\n  over lines\n\n\n  with empty ones\n\n",
        "a: [\n  1,\n  2\n]\n",
        'a: {"x": [true, null]}\n',
        "url: http://example.org/a#b\n",
        "",
    ],
)  # fmt: skip
def test_what_people_write_is_read_as_the_reference_does(text):
    assert parse(text.encode(), where="test") == reference.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: !!python/object/apply:os.system [x]\n",
        "!t a: 1\n",
        "<<: {a: 1}\n",
        "a: 1\na: 2\n",
        "{a: 1, a: 2}\n",
        "a: 1\n---\nb: 2\n",
        "%YAML 1.1\n---\na: 1\n",
        "? a\n: b\n",
        "a:\n\t- b\n",
        "a: 'never ends\n",
        "a: [1, 2\n",
        "a: 1\n  b: 2\n",
        'a: "\\q"\n',
        "\xff",
    ],
)
def test_what_is_outside_the_subset_is_refused(text):
    with pytest.raises(MalformedError, match="test"):
        parse(text.encode("latin-1"), where="test")


@pytest.mark.parametrize("data", [b"- " * 5000 + b"a", b"a: " + b"[" * 5000 + b"]" * 5000, b" " * (5 << 20)])
def test_size_and_depth_are_bounded(data):
    with pytest.raises(LimitExceededError):
        parse(data, where="test")


@given(st.text("a:- \n'\"[]{}|>#&\\,", max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        parse(text.encode(), where="test")
    except VitrifyError:
        return


@given(st.lists(st.sampled_from(["", "a", "bb c", "  x", "   y z"]), max_size=7), st.sampled_from(["", "-", "+"]))
def test_a_folded_block_keeps_the_breaks_around_lines_that_are_indented_more(lines, hint):
    text = f"k: >{hint}\n  a\n" + "".join(f"  {line}\n" if line else "\n" for line in lines) + "z: 1\n"
    assert parse(memoryview(text.encode()), where="x") == reference.safe_load(text)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_ends_with_any_of_the_three_breaks_also_inside_a_text(end):
    text = end.join(["a: 'one", "  two'", 'b: "x', '  y"', "c: |", "  u", "  v", ""])
    assert parse(memoryview(text.encode()), where="x") == reference.safe_load(text)
    assert reference.safe_load(text) == {"a": "one two", "b": "x y", "c": "u\nv\n"}
