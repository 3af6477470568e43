from __future__ import annotations

import contextlib
import math
import operator
import struct
from collections import OrderedDict, defaultdict

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify.core.errors import MalformedError
from vitrify.formats import _plain_json

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec="utf-8")), st.binary(max_size=9)
)
DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.unicode_string_dtypes(min_len=1, max_len=4),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
KEYS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=3), st.integers(), st.booleans(), st.none(), st.just("$")
)
VALUES = st.recursive(
    st.one_of(SCALARS, ARRAYS, ARRAYS.map(lambda array: array.reshape(-1)[0] if array.size else array)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        st.dictionaries(KEYS, inner, max_size=3).map(lambda items: defaultdict(OrderedDict, items)),
        st.frozensets(st.one_of(st.integers(), st.text("abc")), max_size=3),
        st.frozensets(st.integers(), max_size=3).map(set),
    ),
    max_leaves=8,
)


def through_json(value):
    problems = []
    form = _plain_json.encode(value, "value", problems)
    assert problems == []
    return _plain_json.decode(msgspec.json.decode(msgspec.json.encode(form, order="sorted")), where="test")


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray | np.generic):
        equal = left.dtype == right.dtype and left.shape == right.shape
        return equal and (
            left.tolist() == right.tolist() if left.dtype == object else left.tobytes() == right.tobytes()
        )
    if isinstance(left, dict):
        keys = list(map(same, left, right))
        return len(left) == len(right) and all(keys) and all(map(same, left.values(), right.values()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    return left == right


@given(VALUES)
def test_every_plain_value_survives_with_types_order_and_bits(value):
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f":
        value = np.nan_to_num(value)  # JSON's NaN has no payload
    assert same(value, through_json(value)) or "nan" in repr(value)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        2**200,
        np.float32(0.1),
        np.int64(3),
        np.bool_(False),
        np.str_("é"),
        {"$": 1},
        {"b": 1, "a": 2},
        {1: "x", "1": "y"},
        (1, [2, (3,)]),
        np.array(["a", None, 3.5], object),
        np.array([], "<f4"),
        np.datetime64("2024-02-29"),
        np.array([[1, 2], [3, 4]], ">i2"),
        np.dtype("int16"),
        defaultdict(OrderedDict, {"v": OrderedDict(z=1.5, a=2)}),
    ],
)
def test_the_odd_ones_survive(value):
    assert same(value, through_json(value))


def test_random_states_go_on_where_they_were():
    state = np.random.RandomState(3)
    state.normal(size=5)
    generator = np.random.default_rng(4)
    generator.random(3)
    for mine, theirs in ((state, through_json(state)), (generator, through_json(generator))):
        np.testing.assert_array_equal(mine.normal(size=9), theirs.normal(size=9))


class Sub(dict):
    pass


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (len, "value"),
        (lambda: 0, "value"),
        ({"a": [1, operator.add]}, "value['a'][1]"),
        (Sub(), "value"),
        ({3: {4: object()}}, "value[3][4]"),
        ("\ud800", "value"),
        (np.array([print], object), "value[2][0]"),
        (np.longdouble(1), "value"),
        (1j, "value"),
        (defaultdict(lambda: 0), "value"),
        (np.ma.masked_array([1], [True]), "value"),
        (int, "value"),
    ],
)
def test_what_is_no_plain_data_is_a_finding_that_says_where(value, place):
    problems = []
    _plain_json.encode(value, "value", problems)
    assert [problem.place for problem in problems] == [place]


def test_all_problems_are_found_at_once():
    problems = []
    _plain_json.encode({"a": len, "b": [object(), 1, int]}, "parameters", problems)
    assert [problem.place for problem in problems] == ["parameters['a']", "parameters['b'][0]", "parameters['b'][2]"]


def test_a_value_inside_itself_is_a_finding():
    value = []
    value.append(value)
    problems = []
    _plain_json.encode(value, "value", problems)
    assert "in itself" in problems[0].message


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["$", "v", "a"]), inner, max_size=3),
        st.fixed_dictionaries({"$": st.sampled_from(sorted(_plain_json._RESTORE)), "v": inner}),
        st.tuples(st.sampled_from(["<i4", "|O", "<U9", "<M8[ns]"]), st.lists(st.integers(), max_size=2), inner).map(
            lambda content: {"$": "array", "v": list(content)}
        ),
    ),
)


@given(JSON)
def test_any_other_json_is_refused_as_malformed_or_is_plain_data(form):
    with contextlib.suppress(MalformedError):
        _plain_json.decode(form, where="test")


@pytest.mark.parametrize(
    "form",
    [
        {"$": "code", "v": 1},
        {"$": "array", "v": ["<U999999999", [1], ["a"]]},
        {"$": "array", "v": ["<i4", [-1], [1]]},
        {"$": "generator", "v": {"bit_generator": "__class__"}},
        {"$": "int", "v": "9" * 10_000},
        {"$": ["a"], "v": 0},
        {"$": "dict", "v": [[[], 1]]},
        {"$": "bytes", "v": "é"},
    ],
)
def test_forms_that_no_vitrify_writes_are_refused(form):
    with pytest.raises(MalformedError, match="test"):
        _plain_json.decode(form, where="test")
