"""Bounded JSON: values as they are, every key once, no depth that a reader could not follow."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.reading.json import MAX_DEPTH, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_python_writes_comes_back(value):
    assert parse(json.dumps(value).encode(), where="x") == value


@given(st.binary())
def test_any_bytes_give_a_value_or_a_typed_error(data):
    with contextlib.suppress(MalformedError):
        parse(data, where="x")


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 2}', b'[{"b": {"c": 1, "c": 1}}]'])
def test_a_key_that_stands_twice_is_refused(text):
    with pytest.raises(MalformedError, match="stands twice"):
        parse(text, where="x")


def test_a_hundred_thousand_keys_are_read_and_one_of_them_twice_is_found():
    many = {f"k{index}": index for index in range(100_000)}
    text = json.dumps(many)
    assert parse(text.encode(), where="x") == many
    with pytest.raises(MalformedError, match="'k99999' stands twice"):
        parse((text[:-1] + ', "k99999": 1}').encode(), where="x")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 1_000_000])
def test_too_deep_and_too_long_are_limits(depth):
    with pytest.raises(LimitExceededError, match="deep"):
        parse(b"[" * depth + b"]" * depth, where="x")
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, where="x")[0]
    with pytest.raises(LimitExceededError, match="more than 3"):
        parse(b"12345", where="x", most=3)


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_is_a_character():
    assert parse(b'["\\ud83d\\ude00"]', where="x") == ["\U0001f600"]
    with pytest.raises(MalformedError, match="surrogates not allowed"):
        parse(b'{"a": ["\\uD83D"]}', where="x")
