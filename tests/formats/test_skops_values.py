"""Values of every kind inside a model come back equal, of the same type, whatever they are nested in."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import re

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import FunctionTransformer

from vitrify.core.protocols import Allow
from vitrify.formats.skops import Skops

TEXT = st.text(st.characters(codec=None), max_size=8)  # half surrogate pairs as well
NUMBERS = st.one_of(st.integers(), st.floats(), st.complex_numbers())
SCALARS = hnp.from_dtype(np.dtype("f4")) | hnp.from_dtype(np.dtype("i8")) | hnp.from_dtype(np.dtype("M8[ns]"))
ATOMS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT, st.binary(max_size=8), SCALARS)
KEYS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT, st.tuples(st.integers(), TEXT)
)
ARRAYS = hnp.arrays(
    hnp.scalar_dtypes() | hnp.unicode_string_dtypes(max_len=4) | hnp.byte_string_dtypes(max_len=4),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
OTHERS = st.one_of(
    st.dates(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.builds(range, st.integers(0, 5), st.integers(5, 9)),
    st.builds(slice, st.none() | st.integers(), st.none() | TEXT),
    st.just(re.compile("a+", re.IGNORECASE)),
    st.sampled_from([int, np.float32, np.dtype("<M8[s]"), np.log1p, len, ...]),
)


def nested(children):
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(KEYS, children, max_size=3),
        st.dictionaries(KEYS, children, max_size=3).map(collections.OrderedDict),
        st.sets(st.integers() | TEXT, max_size=3),
        st.frozensets(st.integers() | st.tuples(TEXT, st.none()), max_size=3),
    )


VALUES = st.recursive(ATOMS | ARRAYS | OTHERS, nested, max_leaves=8)


def copied(files_and_sink, value):
    place = files_and_sink()
    written = Skops().write(FunctionTransformer(kw_args={"value": value}), place.sink, None)
    assert written.names == ()
    return Skops().read(place.files(), written.entry, Allow()).kw_args["value"]


def assert_same(left, right):
    assert type(left) is type(right)
    if isinstance(left, np.ndarray | np.generic):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        if left.dtype.kind == "O":
            for one, other in zip(left.flat, right.flat, strict=True):
                assert_same(one, other)
        else:
            assert np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes()
    elif isinstance(left, dict):
        assert_same(list(left), list(right))
        assert_same(list(left.values()), list(right.values()))
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert left == right or repr(left) == repr(right)


@given(value=VALUES)
def test_a_value_comes_back_equal_and_of_the_same_type(files_and_sink, value):
    assert_same(copied(files_and_sink, value), value)


@given(
    items=st.lists(VALUES, min_size=6, max_size=6),
    shape=st.sampled_from([(6,), (2, 3), (3, 1, 2)]),
)
def test_an_array_of_any_objects_comes_back_in_its_shape(files_and_sink, items, shape):
    array = np.empty(6, object)
    for index, item in enumerate(items):
        array[index] = item
    assert_same(copied(files_and_sink, array.reshape(shape)), array.reshape(shape))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0)])
def test_an_array_of_objects_without_elements_or_dimensions_keeps_its_shape(files_and_sink, shape):
    array = np.full(shape, None, object)
    assert_same(copied(files_and_sink, array), array)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "coo", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_a_sparse_matrix_keeps_its_class_layout_and_values(files_and_sink, layout, kind):
    dense = np.array([[0.0, 1.5, 0.0], [2.5, 0.0, np.inf]])
    matrix = getattr(scipy.sparse, f"{layout}_{kind}")(dense)
    copy = copied(files_and_sink, matrix)
    assert type(copy) is type(matrix)
    np.testing.assert_array_equal(copy.toarray(), dense)


def test_a_masked_array_keeps_its_mask_and_its_fill_value(files_and_sink):
    plain = np.ma.MaskedArray([1.0, 2.0], [True, False])
    filled = np.ma.MaskedArray(np.array(["a", None], object), [False, True], fill_value="?")
    copy, other = copied(files_and_sink, [plain, filled])
    assert (copy.data.tolist(), copy.mask.tolist(), copy.fill_value) == ([1.0, 2.0], [True, False], plain.fill_value)
    assert (other.tolist(), other.fill_value) == (["a", None], "?")
    assert copied(files_and_sink, np.ma.masked) is np.ma.masked


def test_named_tuples_counters_and_defaults_come_back(files_and_sink):
    value = [
        collections.Counter("aab"),
        collections.Counter([(1, 2), None]),
        collections.OrderedDict({(1, 2): 3}),
        collections.defaultdict(list, {1: [2]}),
        decimal.Decimal("1.10"),
    ]
    copy = copied(files_and_sink, value)
    assert_same(copy, value)
    assert copy[3]["new"] == []
