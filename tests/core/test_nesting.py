"""Nesting is counted before a parser sees it, however much recursion a library has allowed."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.nesting import LIMIT, shallow

VALUES = st.recursive(
    st.none() | st.text('[]{}"\\a', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\a', max_size=3), inner, max_size=3),
)


def depth(value):
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


@given(VALUES)
def test_brackets_in_text_do_not_count(value):
    text = json.dumps(value).encode()
    assert shallow(text, depth(value)) is text
    if depth(value):
        with pytest.raises(RecursionError, match="nested more than"):
            shallow(text, depth(value) - 1)


@pytest.mark.parametrize("text", [b'"[[[', b'"\\', b"]]]", b'"a" [', b"\xff[", b'{"a": "' + b"[" * 10])
def test_what_is_no_json_is_left_to_the_parser(text):
    assert shallow(text, 1) is text


READERS = """
import sys
from contextlib import suppress
from vitrify.core.errors import VitrifyError
from vitrify.core.report import Report
from vitrify.reading import json
from vitrify.stores._graph import references
from vitrify.formats._safetensors import header
from vitrify.formats._torch import audit
sys.setrecursionlimit(10_000_000)
deep = b'{"a":' * 500_000 + b"1" + b"}" * 500_000
for read in (
    lambda: Report.from_json(deep, where="x"),
    lambda: json.parse(deep, where="x"),
    lambda: json.peek(memoryview(deep), "a"),
    lambda: references(deep, where="x"),
    lambda: header.parse(memoryview(len(deep).to_bytes(8, "little") + deep), where="x"),
    lambda: audit.audit(deep, where="x"),
):
    with suppress(VitrifyError):
        read()
    print("alive")
"""


def test_no_reader_uses_up_the_stack_where_a_library_has_raised_the_limit():
    done = subprocess.run([sys.executable, "-c", READERS], check=False, capture_output=True, text=True)
    assert done.stdout.split() == ["alive"] * 6, done.stderr[-500:]


def test_every_parser_takes_the_limit():
    text = b"[" * LIMIT + b"]" * LIMIT
    assert json.loads(shallow(text)) == json.loads(text)
