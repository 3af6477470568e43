from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify import containers
from vitrify.core.errors import MalformedError
from vitrify.core.signature import Field, Signature
from vitrify.package import _mlflow_types as types
from vitrify.package._mlflow_example import made_up

NAMES = st.text(min_size=1, max_size=8)
COLUMNS = st.lists(
    st.tuples(NAMES, st.sampled_from(sorted(types.COLUMNS))), min_size=1, max_size=5, unique_by=lambda one: one[0]
)
SIZES = st.lists(st.integers(0, 9) | st.sampled_from(["n", "m"]), max_size=3)


@given(COLUMNS)
def test_columns_that_are_written_are_read_again(columns):
    fields = tuple(Field(name=name, dtype=dtype, container_dtype="object") for name, dtype in columns)
    said = types.written(Signature(inputs=fields, container="pandas"))
    ports = types.read({"signature": said}, "inputs")
    assert [(port.name, port.dtype, port.shape, port.required) for port in ports] == [
        (name, dtype, None, True) for name, dtype in columns
    ]


@given(
    st.dictionaries(
        NAMES, st.tuples(st.sampled_from(["float32", "int8", "bool", "uint64"]), SIZES), min_size=1, max_size=4
    )
)
def test_tensors_that_are_written_are_read_again(tensors):
    fields = tuple(Field(name=name, dtype=dtype, shape=("batch", *sizes)) for name, (dtype, sizes) in tensors.items())
    said = types.written(Signature(inputs=fields, container="dict"))
    ports = types.read({"signature": said}, "inputs")
    assert {port.name: (port.dtype, port.shape) for port in ports} == {
        name: (dtype, (-1, *(size if isinstance(size, int) else -1 for size in sizes)))
        for name, (dtype, sizes) in tensors.items()
    }


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["x", "y"], dtype="category"),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, 2], dtype="int8"),
        pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02"]).tz_localize("UTC")),
    ],
)
def test_a_column_that_mlflow_would_convert_leaves_the_signature_out(column):
    assert types.written(containers.example(pd.DataFrame({"a": column})).signature) is None


def test_a_column_whose_name_is_no_text_leaves_the_signature_out():
    assert types.written(containers.example(pd.DataFrame({0: [1.0]})).signature) is None


def test_times_and_text_are_said():
    frame = pd.DataFrame({"when": pd.to_datetime(["2026-01-01"]), "who": ["x"]})
    said = json.loads(types.written(containers.example(frame).signature)["inputs"])
    assert [one["type"] for one in said] == ["datetime", "string"]


@pytest.mark.parametrize("kind", ["array", "object", "map", "any", "sparse"])
def test_types_that_no_column_of_ours_has_leave_the_signature_unread(kind):
    listed = [{"type": "double", "name": "a"}, {"type": kind, "name": "b"}]
    assert types.read({"signature": {"inputs": json.dumps(listed)}}, "inputs") is None


@pytest.mark.parametrize("signature", [None, 3, {}, {"inputs": None}, {"inputs": "[]"}])
def test_no_signature_is_none(signature):
    assert types.read({"signature": signature}, "inputs") is None


def test_a_column_may_be_left_out_where_it_is_not_required():
    (port,) = types.read({"signature": {"inputs": '[{"type": "float", "name": "a", "required": false}]'}}, "inputs")
    assert not port.required


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda one: (
            st.lists(one)
            | st.dictionaries(st.sampled_from(["type", "name", "required", "tensor-spec", "shape", "dtype"]), one)
        ),
    )
)
def test_any_json_is_a_signature_or_malformed(value):
    try:
        types.read({"signature": {"inputs": json.dumps(value)}}, "inputs")
    except MalformedError:
        return


def test_rows_are_made_up_of_numbers_only():
    ports = types.read(
        {"signature": {"inputs": '[{"type": "long", "name": "a"}, {"type": "boolean", "name": "b"}]'}}, "inputs"
    )
    frame = made_up(ports)
    assert frame["a"].dtype == np.int64
    assert frame["b"].tolist() == [False, True, True]
    text = types.read({"signature": {"inputs": '[{"type": "string", "name": "a"}]'}}, "inputs")
    assert made_up(text) is None
    assert made_up(None) is None


@pytest.mark.parametrize("shape", [[3], [-1, -1], [-1, 0], []])
def test_a_tensor_without_a_batch_or_with_unknown_sizes_is_not_made_up(shape):
    listed = [{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": shape}}]
    assert made_up(types.read({"signature": {"inputs": json.dumps(listed)}}, "inputs")) is None
