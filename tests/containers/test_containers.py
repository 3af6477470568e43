"""The room's verbs: examples, matching from any container, calling the model, outputs, rows."""

from collections import UserDict

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from vitrify import containers
from vitrify.core.catalog import Catalog
from vitrify.core.errors import SignatureError
from vitrify.core.row import Row
from vitrify.core.rows import BUILTIN
from vitrify.core.signature import Field, Signature

NAN = float("nan")


def names(example):
    return [field.name for field in example.signature.inputs]


def shapes(example):
    return [field.shape for field in example.signature.inputs]


def call(native, data):
    """Return what a model saved with one example is called with when it predicts from other data."""
    signature = containers.example(native).signature
    return containers.from_arrays(containers.to_arrays(data, signature), signature)


@pytest.mark.parametrize(
    ("native", "container", "expected"),
    [
        (np.ones((2, 3)), "numpy", {"X": ("batch", 3)}),
        (np.float64(3), "numpy", {"X": ()}),
        (torch.ones(2, 3), "torch", {"x": ("batch", 3)}),
        (pd.DataFrame({"a": [1], "b": ["x"]}), "pandas", {"a": ("batch",), "b": ("batch",)}),
        (pd.Series(["x"]), "pandas", {"X": ("batch",)}),
        (pl.DataFrame({"a": [1]}), "polars", {"a": ("batch",)}),
        ({"x": torch.ones(2, 3), "n": 3}, "dict", {"x": ("batch", 3), "n": ()}),
        ((np.ones(2), [[1], [2]]), "tuple", {"input_0": ("batch",), "input_1": ("batch", 1)}),
        ([{"a": 1}], "records", {"a": ("batch",)}),
        (["text"], "records", {"X": ("batch",)}),
    ],
)
def test_an_example_names_its_inputs_and_its_batch(native, container, expected):
    example = containers.example(native)
    assert example.native is native
    assert example.signature.container == container
    assert dict(zip(names(example), shapes(example), strict=True)) == expected
    assert list(example.arrays) == list(expected)


def test_more_axes_can_change_and_the_first_can_be_named_or_fixed():
    native = {"a": np.ones((2, 5)), "b": np.ones((2, 5)), "table": np.ones((7, 3)), "fixed": np.ones(4)}
    dynamic = {"a": {1: "length"}, "b": {1: "length"}, "table": {0: "size"}, "fixed": {0: 4}}
    example = containers.example(native, dynamic=dynamic)
    assert shapes(example) == [("batch", "length"), ("batch", "length"), ("size", 3), (4,)]
    longer = {"a": np.ones((1, 9)), "b": np.ones((1, 9)), "table": np.ones((8, 3)), "fixed": np.ones(4)}
    assert containers.to_arrays(longer, example.signature)["a"].shape == (1, 9)


@pytest.mark.parametrize(
    ("dynamic", "said"),
    [
        ({"c": {0: "n"}}, r"\['c'\], but the inputs are \['a', 'b'\]"),
        ({"a": {2: "n"}}, "axes 0 to 1"),
        ({"a": {-1: "n"}}, "axes 0 to 1"),
        ({"a": {1: 4}}, "axis 1 must be 4, not 3"),
        ({"a": {1: "n"}, "b": {0: "n"}}, r"axis 0 \(n\) is 2 here and 3 in 'a'"),
    ],
)
def test_dynamic_axes_that_are_not_there_are_an_error(dynamic, said):
    with pytest.raises(SignatureError, match=said):
        containers.example({"a": np.ones((2, 3)), "b": np.ones(2)}, dynamic=dynamic)


def test_inputs_without_a_common_batch_are_an_error_that_says_how_to_name_the_axis():
    with pytest.raises(SignatureError, match="differ in their first axis") as caught:
        containers.example({"a": np.ones(2), "weights": np.ones(7)})
    assert "dynamic={'weights': {0: 7}}" in caught.value.remedy


# --- field case F20: missing values where the example had none, and labels that are no text


FRAME = pd.DataFrame({"n": [1, 2, 2**62 + 1], "flag": [True, False, True]})
EXACT = 2**62 + 1
MISSING = {
    "Int64 with NA": pd.DataFrame(
        {"n": pd.array([EXACT, None], dtype="Int64"), "flag": pd.array([None, True], dtype="boolean")}
    ),
    "records with None": [{"n": EXACT, "flag": None}, {"n": None, "flag": True}],
    "records with NaN": [{"n": EXACT, "flag": NAN}, {"n": NAN, "flag": True}],
    "records with absent keys": [{"n": EXACT}, {"flag": True}],
    "polars with null": pl.DataFrame({"n": [EXACT, None], "flag": [None, True]}),
    "objects": pd.DataFrame({"n": [EXACT, None], "flag": [NAN, True]}, dtype=object),
    "dict of lists": {"n": [EXACT, None], "flag": [None, True]},
    "masked arrays": {
        "n": np.ma.MaskedArray([EXACT, 7], mask=[False, True]),
        "flag": np.ma.MaskedArray([True, True], mask=[True, False]),
    },
    "matrix of objects": np.array([[EXACT, None], [None, True]], object),
}


@pytest.mark.parametrize("data", MISSING.values(), ids=MISSING)
def test_a_column_of_integers_later_has_missing_values_and_stays_exact(data):
    arrays = containers.to_arrays(data, containers.example(FRAME).signature)
    assert arrays["n"].tolist() == [EXACT, None]
    assert arrays["n"].dtype == np.int64
    assert arrays["flag"].tolist() == [None, True]
    assert arrays["flag"].dtype == np.bool_


def test_nan_among_whole_floats_is_a_missing_integer_and_among_others_an_error():
    signature = containers.example(FRAME).signature
    arrays = containers.to_arrays({"n": np.array([1.0, NAN]), "flag": [True, None]}, signature)
    assert arrays["n"].tolist() == [1, None]
    with pytest.raises(SignatureError, match=r"n .*float64, 1 of 2 values not exact in int64 \(1\.5 in row 0\)"):
        containers.to_arrays({"n": np.array([1.5, NAN]), "flag": [True, None]}, signature)


def test_the_model_gets_what_pandas_makes_of_missing_values():
    given = {"n": [3, None], "flag": [None, True]}
    plain = call(FRAME, given)
    assert plain.dtypes.map(str).tolist() == ["float64", "object"]
    assert plain.isna().to_numpy().tolist() == [[False, True], [True, False]]
    nullable = call(FRAME.astype({"n": "Int64", "flag": "boolean"}), {"n": [EXACT, None], "flag": [None, True]})
    assert nullable.dtypes.map(str).tolist() == ["Int64", "boolean"]
    assert nullable["n"].tolist() == [EXACT, pd.NA]


def test_columns_called_by_numbers_are_not_lost_and_are_reordered():
    frame = pd.DataFrame([[20, 0.5, "x"]], columns=[2, 0, 1])
    example = containers.example(frame)
    assert names(example) == ["2", "0", "1"]
    assert [field.key for field in example.signature.inputs] == [2, 0, 1]
    back = call(frame, frame[[0, 1, 2]])
    pd.testing.assert_frame_equal(back, frame, check_column_type=False)
    assert back.columns.tolist() == [2, 0, 1]


def test_a_label_becomes_a_unique_name_and_comes_back():
    labels = ["2", 2, "2_1", True, None, "", 1.5, ("a", 1), "a_1"]
    frame = pd.DataFrame([range(len(labels))], columns=pd.Index(labels, dtype=object, tupleize_cols=False))
    example = containers.example(frame)
    assert names(example) == ["2", "2_2", "2_1", "True", "None", "column_5", "1.5", "a_1_1", "a_1"]
    read = Signature.from_json(example.signature.to_json(), where="signature")
    back = containers.from_arrays(example.arrays, read).columns
    assert [(type(one), one) for one in back] == [(type(one), one) for one in labels]


def test_a_file_without_types_may_name_a_numbered_column_by_its_text():
    frame = pd.DataFrame([[1, 2.5]], columns=[0, 1])
    assert call(frame, {"1": [7.5], "0": [3]}).to_numpy().tolist() == [[3.0, 7.5]]
    assert call(frame, [{0: 3, "1": 7.5}]).to_numpy().tolist() == [[3.0, 7.5]]


# --- field case F16: NaN, None, "nan" and "" in text


def test_missing_text_of_every_kind_stays_what_it_is():
    column = pd.Series(["a", NAN, None, "nan", ""], dtype=object)
    frame = pd.DataFrame({"t": column})
    back = call(frame, frame)["t"]
    assert back.dtype == object
    assert back[0] == "a"
    assert isinstance(back[1], float)
    assert back[2] is None
    assert back[3:].tolist() == ["nan", ""]


@pytest.mark.parametrize("dtype", ["str", "string"])
def test_text_columns_keep_their_type_and_their_own_missing_value(dtype):
    frame = pd.DataFrame({"t": pd.Series(["a", None], dtype=dtype)})
    for data in (frame, {"t": ["a", None]}, {"t": np.array(["a", NAN], object)}):
        pd.testing.assert_frame_equal(call(frame, data), frame)


def test_a_column_of_text_that_is_all_missing_reads_as_floats_and_is_taken():
    frame = pd.DataFrame({"t": ["a", "b"], "when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    back = call(frame, pd.DataFrame({"t": [NAN], "when": [NAN]}))
    assert back.dtypes.tolist() == frame.dtypes.tolist()
    assert back.isna().to_numpy().all()


# --- categories


CATEGORIES = pd.DataFrame({"c": pd.Categorical(["u", "v"], categories=["v", "u", "w"], ordered=True)})


@pytest.mark.parametrize(
    "values", [["w", "v"], pd.Categorical(["w", "v"]), np.array(["w", "v"])], ids=["list", "other", "array"]
)
def test_categories_are_those_of_the_example_whatever_the_data_declares(values):
    back = call(CATEGORIES, {"c": values} if isinstance(values, list) else pd.DataFrame({"c": values}))["c"]
    assert back.dtype == CATEGORIES["c"].dtype
    assert back.cat.codes.tolist() == [2, 0]


def test_a_value_outside_the_categories_is_passed_on_behind_them():
    back = call(CATEGORIES, {"c": ["zzz", None, "u"]})["c"]
    assert back.cat.categories.tolist() == ["v", "u", "w", "zzz"]
    assert back.cat.codes.tolist() == [3, -1, 1]
    enum = pl.DataFrame({"c": pl.Series(["u"], dtype=pl.Enum(["v", "u"]))})
    assert call(enum, {"c": ["zzz", None, "u"]})["c"].to_physical().to_list() == [2, None, 1]


# --- what the model is called with


def test_a_series_and_a_list_come_back_as_they_were():
    pd.testing.assert_series_equal(call(pd.Series(["a"], name=3), ["b", "c"]), pd.Series(["b", "c"], name=3))
    pd.testing.assert_series_equal(call(pd.Series(["a"]), pd.Series(["b"], name="other")), pd.Series(["b"]))
    assert call(["a"], pd.Series(["b", None], dtype=object)) == ["b", None]
    assert call([[1.5, 2.5]], np.array([[3.5, 4.5]])) == [[3.5, 4.5]]


def test_records_leave_out_what_was_left_out():
    assert call([{"a": 1}, {"b": "x"}], [{"a": 5, "b": "y"}, {"b": "z"}]) == [{"a": 5, "b": "y"}, {"b": "z"}]
    assert call([{"a": 1}, {"a": None}], [{"a": 5}, {}]) == [{"a": 5}, {"a": None}]


def test_parts_of_a_dict_and_a_tuple_come_back_each_in_its_own_kind():
    native = {"t": torch.ones(2, dtype=torch.bfloat16), "n": np.ones(2, np.float16), "l": [1, 2], "s": "fast", "i": 3}
    back = call(native, {"t": [0.5], "n": np.array([2.0]), "l": np.array([5]), "s": "slow", "i": 4})
    assert torch.equal(back["t"], torch.tensor([0.5], dtype=torch.bfloat16))
    assert back["n"].dtype == np.float16
    assert (back["l"], back["s"], back["i"]) == ([5], "slow", 4)
    first, second = call((torch.ones(1), np.ones(1)), (torch.zeros(3), [1, 2, 3]))
    assert (type(first), first.dtype, type(second)) == (torch.Tensor, torch.float32, np.ndarray)


def test_bfloat16_is_exact_and_nothing_else_fits_it():
    native = torch.tensor([1.0, 3.0e38], dtype=torch.bfloat16)
    example = containers.example(native)
    assert example.signature.inputs[0].dtype == "bfloat16"
    assert example.arrays["x"].dtype == np.float32
    assert torch.equal(containers.from_arrays(example.arrays, example.signature), native)
    with pytest.raises(SignatureError, match=r"not exact in bfloat16 \(0\.1"):
        containers.to_arrays(torch.tensor([1.0, 0.1]), example.signature)


def test_python_numbers_take_the_precision_of_the_field():
    example = containers.example(torch.ones(1, 2))
    [array] = containers.to_arrays([[0.1, 0.2]], example.signature).values()
    assert array.tolist() == np.array([[0.1, 0.2]], np.float32).tolist()
    with pytest.raises(SignatureError, match="2 of 2 values not exact in float32"):
        containers.to_arrays(np.array([[0.1, 0.2]]), example.signature)
    half = containers.example(torch.ones(3, dtype=torch.bfloat16)).signature
    values = [0.1, -1.003, NAN]
    [rounded] = containers.to_arrays(values, half).values()
    np.testing.assert_array_equal(rounded, torch.tensor(values).to(torch.bfloat16).float().numpy())


@pytest.mark.parametrize(
    "native", [torch.ones(2, requires_grad=True), torch.ones(2, 2).T, torch.ones(2).conj(), torch.ones(4)[::2]]
)
def test_a_tensor_of_any_layout_is_an_input(native):
    example = containers.example(native)
    assert torch.equal(containers.from_arrays(example.arrays, example.signature), native.detach())


def test_missing_values_and_text_cannot_be_a_tensor():
    signature = containers.example(torch.tensor([1, 2])).signature
    with pytest.raises(SignatureError, match="missing values cannot be a tensor"):
        containers.from_arrays(containers.to_arrays([1, None], signature), signature)


def test_a_time_with_a_zone_is_the_same_moment_whatever_zone_it_is_given_in():
    frame = pd.DataFrame({"t": pd.to_datetime(["2020-03-29 12:00"]).tz_localize("Europe/Berlin")})
    elsewhere = pd.DataFrame({"t": pd.to_datetime(["2020-03-29 19:00"]).tz_localize("Asia/Tokyo")})
    pd.testing.assert_frame_equal(call(frame, elsewhere), frame)
    pd.testing.assert_frame_equal(call(frame, pl.DataFrame({"t": frame["t"].tolist()})), frame)


# --- matching


def test_extra_columns_are_dropped_and_the_order_is_the_signatures():
    arrays = containers.to_arrays(
        FRAME.assign(target=1, odd=[object()] * 3)[["odd", "target", "flag", "n"]], containers.example(FRAME).signature
    )
    assert list(arrays) == ["n", "flag"]


def test_a_matrix_of_another_width_and_one_array_for_many_inputs_are_errors():
    with pytest.raises(SignatureError, match=r"an array \[1, 3\] where a table of 2 columns is expected"):
        containers.to_arrays(np.ones((1, 3)), containers.example(FRAME).signature)
    two = containers.example({"a": np.ones((1, 2)), "b": np.ones(1)}).signature
    with pytest.raises(SignatureError, match=r"one array .* where 2 inputs are expected"):
        containers.to_arrays(np.ones((1, 2)), two)


def test_one_column_is_a_table_of_one_column():
    signature = containers.example(pd.DataFrame({"a": [1.5]})).signature
    for data in (np.array([[2.5]]), np.array([2.5]), [2.5], [[2.5]], pd.Series([2.5])):
        assert containers.to_arrays(data, signature)["a"].tolist() == [2.5]


def test_data_of_no_known_container_lists_those_there_are():
    with pytest.raises(SignatureError, match=r"builtins\.int; expected one of the containers dict, numpy, pandas"):
        containers.to_arrays(3, Signature(inputs=(Field(name="a", dtype="int8"),)))


def test_anything_that_numpy_can_read_is_an_array():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return np.array([[1.5, 2.5]])

    assert containers.example(Foreign()).arrays["X"].tolist() == [[1.5, 2.5]]


# --- outputs and rows


def test_outputs_are_described_by_what_they_hold():
    outputs = {
        "label": np.array(["a", "b"]),
        "objects": np.array(["a", None], object),
        "proba": np.ones((2, 3), np.float32),
        "centre": np.ones((3, 2)),
        "scalar": np.array(0.5),
    }
    found = {field.name: (field.dtype, field.shape) for field in containers.output_fields(outputs, 2)}
    assert found == {
        "label": ("string", ("batch",)),
        "objects": ("string", ("batch",)),
        "proba": ("float32", ("batch", 3)),
        "centre": ("float64", (3, 2)),
        "scalar": ("float64", ()),
    }
    assert [field.shape for field in containers.output_fields(outputs, None)][:2] == [(2,), (2,)]
    with pytest.raises(SignatureError, match="odd"):
        containers.output_fields({"odd": np.array([{}], object)}, 1)


def test_rows_are_counted_and_taken_where_there_is_a_batch():
    fields = (Field(name="fixed", dtype="int64", shape=(3,)), Field(name="x", dtype="int64"))
    arrays = {"fixed": np.arange(3), "x": np.arange(5)}
    assert containers.rows(arrays, fields) == 5
    assert containers.rows(arrays, fields[:1]) is None
    for rows, expected in (([4, 0], [4, 0]), (slice(2), [0, 1]), (np.arange(5) > 3, [4])):
        taken = containers.take(arrays, fields, rows)
        assert (taken["x"].tolist(), taken["fixed"].tolist()) == (expected, [0, 1, 2])


# --- what is almost a container that we know


class Rows:
    """A third party's data: rows of two numbers."""

    def __init__(self, rows):
        self.rows = rows


class RowsContainer:
    """The third party's container."""

    def fields(self, example):
        return (Field(name="low", dtype="float64"), Field(name="high", dtype="float64"))

    def to_arrays(self, data, fields):
        return {"low": np.array([row[0] for row in data.rows]), "high": np.array([row[1] for row in data.rows])}

    def from_arrays(self, arrays, fields):
        return Rows(list(zip(arrays["low"].tolist(), arrays["high"].tolist(), strict=True)))


def test_a_third_partys_container_is_as_good_as_ours(monkeypatch):
    row = Row(kind="container", name="rows", target=f"{__name__}:RowsContainer", types=(f"{__name__}.Rows",))
    rows = Catalog([*BUILTIN, row])
    monkeypatch.setattr(containers, "catalog", lambda: rows)
    example = containers.example(Rows([(1.5, 2.5)]))
    signature = Signature.from_json(example.signature.to_json(), where="signature")
    assert signature.container == "rows"
    back = containers.from_arrays(containers.to_arrays({"high": [4.5], "low": [3.5]}, signature), signature)
    assert back.rows == [(3.5, 4.5)]


def test_any_mapping_is_a_dict():
    assert containers.example(UserDict(a=np.ones(2), b=[1, 2])).signature.container == "dict"


def test_a_numpy_matrix_is_an_array():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.5], [2.5]])
    signature = containers.example(pd.DataFrame({"a": [1.5]})).signature
    assert containers.to_arrays(matrix, signature)["a"].tolist() == [1.5, 2.5]


def test_a_tensor_is_made_from_arrays_of_any_layout():
    signature = containers.example(torch.ones(1, 2)).signature
    array = np.arange(6, dtype=np.float32).reshape(3, 2)[::-1]
    array.flags.writeable = False
    tensor = containers.from_arrays({"x": array}, signature)
    assert tensor.tolist() == [[4, 5], [2, 3], [0, 1]]
    assert containers.from_arrays({"x": np.float32(3)}, signature).shape == ()
