"""Lists: records, values, matrices; and how Python's values find their type."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify import containers
from vitrify.core.errors import SignatureError

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "dtype", "nullable"),
    [
        ([1, 2], "int64", False),
        ([1, None], "int64", True),
        ([1, NAN], "int64", True),
        ([2**64 - 1, 0], "uint64", False),
        ([2**64, 0], "object", False),
        ([-1, 2**63], "object", False),
        ([1, 2.5], "float64", False),
        ([2**53 + 1, 2.5], "object", False),
        ([10**400, 2.5], "object", False),
        ([None, 2.5], "float64", True),
        ([True, False], "bool", False),
        ([True, None], "bool", True),
        ([True, 1], "object", False),
        ([True, 1.5], "object", False),
        (["a", None], "string", True),
        (["a", NAN], "string", True),
        (["a", 1], "object", False),
        ([b"a", None], "bytes", True),
        ([None, None], "object", True),
        ([np.float32(0.5), np.int8(1)], "float64", False),
    ],
)
def test_values_find_the_narrowest_type_that_keeps_them(values, dtype, nullable):
    for native in (values, [{"a": value} for value in values], {"a": values}, np.array(values, object)):
        [field] = containers.example(native).signature.inputs
        assert (field.dtype, field.nullable) == (dtype, nullable)


RECORDS = st.lists(
    st.fixed_dictionaries(
        {"i": st.integers(-(2**63), 2**63 - 1), "f": st.floats(), "b": st.booleans(), "t": st.text(max_size=3)},
        optional={"o": st.integers(0, 9), 3: st.text(max_size=3)},
    ),
    min_size=1,
    max_size=4,
)


@given(RECORDS)
def test_records_come_back_equal_and_absent_keys_stay_absent(records):
    example = containers.example(records)
    back = containers.from_arrays(example.arrays, example.signature)
    assert len(back) == len(records)
    for one, other in zip(back, records, strict=True):
        assert one.keys() == other.keys()
        for key, value in other.items():
            assert type(one[key]) is type(value)
            assert one[key] == value or (math.isnan(one[key]) and math.isnan(value))


def test_a_list_of_arrays_could_mean_two_things_and_is_refused():
    with pytest.raises(SignatureError, match="list of arrays") as caught:
        containers.example([np.ones(2), np.ones(2)])
    assert "tuple" in caught.value.remedy


def test_a_list_of_arrays_is_taken_where_the_signature_says_what_it_means():
    two = containers.example((np.ones((1, 2)), np.ones((1, 3)))).signature
    assert containers.to_arrays([np.zeros((4, 2)), np.zeros((4, 3))], two)["input_1"].shape == (4, 3)
    one = containers.example(np.ones((1, 2))).signature
    assert containers.to_arrays([np.zeros(2), np.zeros(2)], one)["X"].shape == (2, 2)


def test_no_records_are_no_rows():
    signature = containers.example([{"a": 1, "v": [1.5, 2.5]}]).signature
    arrays = containers.to_arrays([], signature)
    assert {name: array.shape for name, array in arrays.items()} == {"a": (0,), "v": (0, 2)}


def test_a_vector_in_a_record_is_one_field():
    example = containers.example([{"v": [1.5, 2.5]}, {"v": [3.5, 4.5]}])
    assert example.signature.inputs[0].shape == ("batch", 2)
    assert containers.from_arrays(example.arrays, example.signature) == example.native


def test_records_of_different_shape_name_the_key():
    with pytest.raises(SignatureError, match=r"^v: nested lists of different lengths"):
        containers.example([{"v": [1.5, 2.5]}, {"v": [3.5]}])
