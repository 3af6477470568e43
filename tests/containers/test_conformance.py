"""Every built-in container passes the suite that third parties run."""

import datetime as dt
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from vitrify import containers
from vitrify.containers.mapping import MappingContainer
from vitrify.containers.numpy import NumpyContainer
from vitrify.containers.pandas import PandasContainer
from vitrify.containers.polars import PolarsContainer
from vitrify.containers.positional import PositionalContainer
from vitrify.containers.records import RecordsContainer
from vitrify.containers.torch import TorchContainer
from vitrify.core.errors import SignatureError
from vitrify.testing.containers import ContainerConformance, same_arrays

NAN = float("nan")


class TestNumpy(ContainerConformance):
    container = NumpyContainer()
    examples = (
        np.arange(6.0).reshape(3, 2),
        np.arange(3),
        np.array([[True], [False]]),
        np.array(["a", "bb"]),
        np.array([b"a", b"bb"]),
        np.array([["a", 1.5], [None, NAN]], object),
        np.array([[1, 2], [3, 2**63 - 1]], object),
        np.array([True, None], object),
        np.array([1 + 2j, 3]),
        np.array(["2020-01-01", "NaT"], "datetime64[ms]"),
        np.ma.MaskedArray([2**63 - 1, 0], mask=[False, True]),
        np.asfortranarray(np.ones((2, 3, 4), np.float16)),
    )
    empty = np.zeros((0, 2))


class TestTorch(ContainerConformance):
    container = TorchContainer()
    examples = tuple(
        torch.arange(6).reshape(3, 2).to(dtype)
        for dtype in (
            *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64),
            *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        )
    )
    empty = torch.zeros((0, 2), dtype=torch.uint8)


class TestPandas(ContainerConformance):
    container = PandasContainer()
    examples = (
        pd.DataFrame({"a": [1, 2], "b": [0.5, NAN], "c": ["x", None], "d": [True, False]}),
        pd.DataFrame({2: [1, 2], 0: [3, 4], 1.5: ["x", "y"], True: [True, False], None: [0.5, 1], ("q", 1): [1, 2]}),
        pd.DataFrame([[1, 2.5], [3, 4.5]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])),
        pd.DataFrame(
            {
                "int": pd.array([2**63 - 1, None], dtype="Int64"),
                "small": pd.array([1, None], dtype="UInt8"),
                "bool": pd.array([True, None], dtype="boolean"),
                "float": pd.array([0.5, None], dtype="Float32"),
                "text": pd.array(["a", None], dtype="string"),
            }
        ),
        pd.DataFrame(
            {
                "mixed": pd.Series(["a", 1.5, None, NAN], dtype=object),
                "text": pd.Series(["nan", "", None, NAN], dtype=object),
                "numbers": pd.Series([1, 2, 3, 2**63 - 1], dtype=object),
                "floats": pd.Series([1.5, NAN, 3.0, -0.0], dtype=object),
                "flags": pd.Series([True, False, True, True], dtype=object),
                "nothing": pd.Series([None, None, None, None], dtype=object),
                "bytes": pd.Series([b"a", b"", None, b"b"], dtype=object),
            }
        ),
        pd.DataFrame(
            {
                "text": pd.Categorical(["u", "v", None], categories=["v", "u", "w"], ordered=True),
                "objects": pd.Categorical(["u", "v", None], categories=pd.Index(["v", "u"], dtype=object)),
                "ints": pd.Categorical([3, 1, None], categories=[3, 1]),
                "small": pd.Categorical([3, 1, 3], categories=pd.Index([3, 1], dtype="int8")),
                "floats": pd.Categorical([0.5, 1.5, None]),
                "flags": pd.Categorical([True, False, None]),
                "mixed": pd.Categorical(["a", 1, "a"], categories=[1, "a"]),
                "none": pd.Categorical([None, None, None]),
            }
        ),
        pd.DataFrame(
            {
                "seconds": pd.to_datetime(["2020-01-01", None]).as_unit("s"),
                "nanos": pd.to_datetime(["2020-01-01 00:00:00.000000001", None]).as_unit("ns"),
                "zone": pd.to_datetime(["2020-03-29 01:30", None]).tz_localize("Europe/Berlin"),
                "offset": pd.to_datetime(["2020-03-29", None]).tz_localize(dt.timezone(dt.timedelta(hours=2))),
                "span": pd.to_timedelta([1, None], unit="s"),
            }
        ),
        pd.DataFrame({"z": np.array([1j, 2]), "h": np.array([1, 2], np.float16), "u": np.array([1, 2], np.uint64)}),
        pd.Series(["some text", "more"], name="text"),
        pd.Series([1.5, 2.5]),
        pd.Series([1, 2], name=7, dtype="Int64"),
        pd.Series(["a", "b", None], name="c", dtype="category"),
    )
    empty = pd.DataFrame({"a": [], "b": [], "c": [], "d": []})


class TestPolars(ContainerConformance):
    container = PolarsContainer()
    examples = (
        pl.DataFrame({"a": [1, None], "b": [0.5, NAN], "c": ["x", None], "d": [True, None]}),
        pl.DataFrame(
            {
                str(dtype): pl.Series([1, 0], dtype=pl.Int64).cast(dtype)
                for dtype in (
                    *(pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
                    *(pl.Float32, pl.Float64, pl.Boolean),
                )
            }
        ),
        pl.DataFrame(
            {
                "enum": pl.Series(["u", None], dtype=pl.Enum(["v", "u"])),
                "category": pl.Series(["u", None], dtype=pl.Categorical),
                "bytes": pl.Series([b"a", None]),
                "nothing": pl.Series([None, None]),
                "day": pl.Series([dt.date(2020, 1, 1), None]),
                "time": pl.Series([dt.datetime(2020, 1, 1), None]),  # noqa: DTZ001 (a time without a zone is the point)
                "span": pl.Series([dt.timedelta(1), None], dtype=pl.Duration("ms")),
                "zone": pl.Series(
                    [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None], dtype=pl.Datetime("ns", "Asia/Tokyo")
                ),
            }
        ),
    )
    empty = pl.DataFrame(schema={"a": pl.Int64, "b": pl.Float64, "c": pl.String, "d": pl.Boolean})


class TestMapping(ContainerConformance):
    container = MappingContainer()
    examples = (
        {"x": np.ones((2, 3)), "y": torch.ones(2, 4, dtype=torch.bfloat16), "z": [1, 2], "t": ["a", None]},
        {"ids": torch.arange(4).reshape(2, 2), "scale": 0.5, "mode": "fast", 3: np.array(["a", "b"])},
    )
    empty = {
        "x": np.ones((0, 3)),
        "y": torch.ones(0, 4, dtype=torch.bfloat16),
        "z": [],
        "t": [],
    }


class TestPositional(ContainerConformance):
    container = PositionalContainer()
    examples: ClassVar = ((np.ones((2, 3)), torch.arange(2)), (["a", "b"], [[1.5], [2.5]], 3))
    empty = (np.ones((0, 3)), torch.arange(0))


class TestRecords(ContainerConformance):
    container = RecordsContainer()
    examples: ClassVar = (
        [{"a": 1, "b": "x", "c": 0.5}, {"a": None, "b": None, "c": NAN}],
        [{"a": 1, 2: True}, {"a": 2**63 - 1}],
        [{"vector": [0.5, 1.5]}, {"vector": [2.5, 3.5]}],
        ["some text", "more"],
        [1.5, 2.5],
        [[1, 2], [3, 4]],
        [["a", 1], ["b", None]],
    )
    empty: ClassVar = []


FRAME = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})
SAME = {
    "pandas": FRAME,
    "pandas in another order": FRAME[["b", "a"]].assign(extra=["x", "y", "z"]),
    "polars": pl.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}),
    "dict of lists": {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]},
    "dict of arrays": {"b": FRAME["b"].to_numpy(), "a": torch.tensor([1, 2, 3])},
    "dict of series": {"a": FRAME["a"], "b": FRAME["b"]},
    "records": FRAME.to_dict("records"),
    "matrix": FRAME.to_numpy(),
    "tensor": torch.tensor(FRAME.to_numpy()),
    "rows": [[1, 0.5], [2, 1.5], [3, 2.5]],
    "tuple": ([1, 2, 3], [0.5, 1.5, 2.5]),
}


@pytest.mark.parametrize("data", SAME.values(), ids=SAME)
@pytest.mark.parametrize("signature_of", ["pandas", "polars", "records", "dict of lists"])
def test_a_table_takes_the_same_data_in_any_container(signature_of, data):
    signature = containers.example(SAME[signature_of]).signature
    arrays = containers.to_arrays(data, signature)
    expected = {name: FRAME[name].to_numpy() for name in [field.name for field in signature.inputs]}
    same_arrays(arrays, expected)


MATRIX = np.array([[1, 0.5], [2, 1.5]], np.float32)
MATRICES = {
    "array": MATRIX,
    "double array": MATRIX.astype(float),
    "tensor": torch.tensor(MATRIX),
    "lists": MATRIX.tolist(),
    "pandas": pd.DataFrame(MATRIX.astype(float), columns=["p", "q"]),
    "polars": pl.DataFrame({"p": [1, 2], "q": [0.5, 1.5]}),
    "records": [{"p": 1, "q": 0.5}, {"p": 2, "q": 1.5}],
    "dict": {"p": [1, 2], "q": [0.5, 1.5]},
}


@pytest.mark.parametrize("data", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("example", [MATRIX, torch.tensor(MATRIX)], ids=["numpy", "torch"])
def test_a_matrix_takes_the_same_data_in_any_container(example, data):
    signature = containers.example(example).signature
    [array] = containers.to_arrays(data, signature).values()
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, MATRIX)


@pytest.mark.parametrize(
    "bad",
    [
        [[1.0, 2.0], [3.0]],
        [{"a": 1}, 2],
        {"a": object()},
        {"a": {"b": [1]}},
        ({"a": [1]},),
        object(),
        "text",
        3.5,
        torch.ones(2).to_sparse(),
        torch.empty(2, device="meta"),
        np.zeros(2, "f8,i4"),
        np.array([{}, {}], object),
        pd.DataFrame({"a": pd.arrays.SparseArray([1, 0])}),
        pd.DataFrame({"a": pd.period_range("2020", periods=2)}),
        pd.DataFrame({"a": pd.cut([1, 2], 2)}),
        pd.DataFrame({"a": pd.Categorical(pd.to_datetime(["2020-01-01"]))}),
        pd.DataFrame({"a": pd.Categorical([float("inf"), 1.0])}),
        pd.DataFrame({"a": pd.Series([dt.date(2020, 1, 1)], dtype=object)}),
        pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]).tz_localize("dateutil/Europe/Berlin")}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=[1, True]),
        pd.DataFrame([[1]], columns=[NAN]),
        pd.DataFrame([[1]], columns=pd.to_datetime(["2020-01-01"])),
        pd.DataFrame([[1]], columns=pd.Index(["\ud800"], dtype=object)),
        pl.DataFrame({"a": [[1, 2]]}),
        pl.DataFrame({"a": [dt.time(1)]}),
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_an_example_that_no_field_can_hold_is_an_error_with_a_remedy(bad):
    with pytest.raises(SignatureError) as caught:
        containers.example(bad)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "empty",
    [
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        pd.DataFrame(),
        pd.DataFrame({"a": []}),
        pl.DataFrame(),
        [],
        {},
        (),
        [{}],
        {"a": []},
        [[]],
    ],
    ids=repr,
)
def test_an_empty_example_is_an_error_with_a_remedy(empty):
    with pytest.raises(SignatureError, match="empty") as caught:
        containers.example(empty)
    assert "row" in caught.value.remedy
