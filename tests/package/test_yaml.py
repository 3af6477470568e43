from __future__ import annotations

import math

import pytest
import yaml as theirs
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import UsageError
from vitrify.package._yaml import dump
from vitrify.reading import yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.dictionaries(TEXT, inner, max_size=4) | st.lists(SCALARS | st.dictionaries(TEXT, inner), max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=5))
def test_another_yaml_reader_reads_what_was_written(value):
    assert theirs.safe_load(dump(value)) == value


@given(st.dictionaries(TEXT.filter(lambda key: key != "<<"), VALUES, min_size=1, max_size=5))
def test_our_own_reader_reads_what_was_written(value):
    assert yaml.parse(dump(value), where="x") == value


@pytest.mark.parametrize(
    "text", ["no", "true", "1.10", "~", "", "- a", "a: b", "#", "&x", "*x", "!!python/name:os.system", "2026-12-01"]
)
def test_text_stays_text_whatever_it_looks_like(text):
    assert theirs.safe_load(dump({text: [text]})) == {text: [text]}


def test_keys_keep_their_order():
    assert list(theirs.safe_load(dump({"b": 1, "a": 2}))) == ["b", "a"]


def test_numbers_that_are_none_are_written_as_yaml_has_them():
    found = theirs.safe_load(dump({"a": math.inf, "b": -math.inf, "c": math.nan}))
    assert found["a"] == math.inf
    assert found["b"] == -math.inf
    assert math.isnan(found["c"])


@pytest.mark.parametrize("value", [object(), [[1]], b"bytes", {1, 2}])
def test_what_yaml_would_need_more_for_is_refused(value):
    with pytest.raises(UsageError):
        dump({"a": value})
