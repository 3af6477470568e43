"""Text of protocol buffers: what Google's own parser reads in it is what was written."""

from __future__ import annotations

import pytest
from google.protobuf import struct_pb2, text_format
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import UsageError
from vitrify.package._text_proto import Word, dump, map_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(TEXT, st.booleans())
def test_text_and_booleans_come_back(text, flag):
    message = struct_pb2.ListValue()
    text_format.Parse(dump({"values": [{"string_value": text}, {"bool_value": flag}]}).decode(), message)
    assert (message.values[0].string_value, message.values[1].bool_value) == (text, flag)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_a_map_comes_back(pairs):
    message = struct_pb2.Struct()
    fields = map_of({key: {"string_value": value} for key, value in pairs.items()})
    text_format.Parse(dump({"fields": fields}).decode(), message)
    assert {key: value.string_value for key, value in message.fields.items()} == pairs


def test_words_numbers_lists_and_empty_messages():
    said = dump({"kind": Word("KIND_CPU"), "dims": [1, -1], "all": {}})
    assert said == b"kind: KIND_CPU\ndims: 1\ndims: -1\nall {\n}\n"


@pytest.mark.parametrize("value", [None, 1.5, b"x", Word("a b"), Word('"')])
def test_what_has_no_text_is_refused(value):
    with pytest.raises(UsageError, match="cannot be written"):
        dump({"x": value})
