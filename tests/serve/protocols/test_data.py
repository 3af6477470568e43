"""What comes out as JSON: shortest numbers, and what is no number in each protocol's words."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify.core.errors import SignatureError
from vitrify.serve.protocols import _data


def flat(array, constants=_data.STRINGS):
    return b"[" + _data.flat(array, constants, _data.as_text) + b"]"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(data=st.data())
def test_a_float_is_the_shortest_text_of_its_own_type(dtype, data):
    array = data.draw(hnp.arrays(dtype, 3, elements={"allow_nan": False, "allow_infinity": False}))
    text = flat(array)
    assert np.array_equal(np.array(json.loads(text), dtype), array)
    for number, value in zip(text[1:-1].split(b","), array, strict=True):
        digits = number.lstrip(b"-").partition(b"e")[0].replace(b".", b"").strip(b"0")
        shortest = np.format_float_scientific(value, trim="-").lstrip("-").partition("e")[0].replace(".", "").strip("0")
        assert len(digits) == len(shortest)


@pytest.mark.parametrize(
    ("constants", "text"),
    [
        (_data.STRINGS, b'[0.1,"NaN","Infinity","-Infinity"]'),
        (_data.TOKENS, b"[0.1,NaN,Infinity,-Infinity]"),
        (_data.NUMBERS, b"[0.1,null,1e999,-1e999]"),
    ],
)
def test_what_is_no_number_has_the_protocols_words(constants, text):
    assert flat(np.float32([0.1, math.nan, math.inf, -math.inf]), constants) == text


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([2**64 - 1], np.uint64), [2**64 - 1]),
        (np.array([-(2**63)]), [-(2**63)]),
        (np.array([True, False]), [True, False]),
        (np.ma.MaskedArray([1, 2], mask=[False, True]), [1, None]),
        (np.ma.MaskedArray([True, True], mask=[True, False]), [None, True]),
        (np.array(["a", b"b", None, math.nan, '\x00"\\'], object), ["a", "b", None, None, '\x00"\\']),
        (np.array(["2020-01-02", "NaT"], "datetime64[D]"), ["2020-01-02", None]),
        (np.array([]), []),
    ],
)
def test_every_value_is_itself_and_what_is_missing_is_null(array, expected):
    assert json.loads(flat(array)) == expected


def test_bytes_that_are_no_text_cannot_be_json():
    with pytest.raises(SignatureError, match="no UTF-8") as caught:
        flat(np.array([b"\xff"], object))
    assert "binary_data" in caught.value.remedy


@given(hnp.arrays(np.int8, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)))
def test_nested_data_have_the_shape(array):
    assert json.loads(_data.nested(array, _data.STRINGS, _data.as_text)) == array.tolist()


@pytest.mark.parametrize("count", [_data.PIECE - 1, _data.PIECE, _data.PIECE + 1])
def test_pieces_are_joined(count):
    array = np.arange(count) / 8
    assert json.loads(flat(array)) == array.tolist()
