"""pandas: any frame of the supported types comes back equal, labels and types included."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify import containers
from vitrify.core.errors import SignatureError
from vitrify.core.signature import Signature

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
LABELS = st.one_of(
    TEXT,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
    st.tuples(TEXT, st.integers(0, 9)),
)
PLAIN = ["bool", "int8", "int64", "uint64", "float32", "float64", "complex128", "timedelta64[s]", "datetime64[ns]"]
NULLABLE = ["Int8", "Int64", "UInt64", "boolean"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York"]


def series(values, dtype):
    return pd.Series(pd.array(values, dtype=dtype))


def nullable(dtype, rows):
    numpy_dtype = pd.api.types.pandas_dtype(dtype).numpy_dtype
    values = hnp.arrays(numpy_dtype, rows)
    masks = hnp.arrays(bool, rows)
    array = pd.arrays.BooleanArray if dtype == "boolean" else pd.arrays.IntegerArray
    return st.builds(
        lambda data, mask: pd.Series(array(np.where(mask, numpy_dtype.type(0), data), mask)), values, masks
    )


def columns(rows):
    texts = st.lists(TEXT | st.none(), min_size=rows, max_size=rows)
    objects = st.lists(TEXT | st.sampled_from([None, float("nan")]), min_size=rows, max_size=rows)
    codes = st.lists(st.integers(-1, 2), min_size=rows, max_size=rows)
    categories = st.sampled_from([["b", "a", "c"], [3, 1, 2], [0.5, -1.0, 1e300], ["x", 1, 0.5]])
    return st.one_of(
        st.sampled_from(PLAIN).flatmap(lambda dtype: hnp.arrays(dtype, rows)).map(pd.Series),
        st.sampled_from(NULLABLE).flatmap(lambda dtype: nullable(dtype, rows)),
        texts.map(lambda values: series(values, "str")),
        texts.map(lambda values: series(values, "string")),
        objects.map(lambda values: pd.Series(values, dtype=object)),
        st.builds(
            lambda chosen, known, ordered: pd.Series(pd.Categorical.from_codes(chosen, known, ordered=ordered)),
            codes,
            categories,
            st.booleans(),
        ),
        st.builds(
            lambda seconds, zone: (
                pd.Series(pd.to_datetime(seconds, unit="s")).dt.tz_localize("UTC").dt.tz_convert(zone)
            ),
            st.lists(st.integers(0, 2**32) | st.none(), min_size=rows, max_size=rows),
            st.sampled_from(ZONES),
        ),
    )


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 4))
    labels = draw(st.lists(LABELS, min_size=1, max_size=4, unique=True))
    frame = pd.DataFrame({index: draw(columns(rows)) for index, _ in enumerate(labels)})
    mixed = len({len(label) if isinstance(label, tuple) else type(label) for label in labels}) > 1
    frame.columns = pd.Index(labels, dtype=object, tupleize_cols=False) if mixed else pd.Index(labels)
    return frame


@given(frames())
def test_any_frame_comes_back_equal(frame):
    example = containers.example(frame)
    signature = Signature.from_json(example.signature.to_json(), where="signature")
    back = containers.from_arrays(example.arrays, signature)
    pd.testing.assert_frame_equal(back, frame)
    assert [type(label).__name__ for label in back.columns] == [type(label).__name__ for label in frame.columns]
    for position in range(frame.shape[1]):
        if str(frame.dtypes.iloc[position]) == "object":
            pairs = zip(back.iloc[:, position], frame.iloc[:, position], strict=True)
            assert all(type(one) is type(other) for one, other in pairs)


@given(frames(), st.randoms(use_true_random=False))
def test_columns_in_any_order_and_with_others_beside_them_are_the_same_data(frame, random):
    example = containers.example(frame)
    order = [*range(frame.shape[1])]
    random.shuffle(order)
    shuffled = frame.iloc[:, order]
    shuffled = pd.concat([shuffled, pd.DataFrame({("extra", "column"): [object()] * len(frame)})], axis=1)
    shuffled.columns = pd.Index([*frame.columns[order], ("extra", "column")], tupleize_cols=False)
    arrays = containers.to_arrays(shuffled, example.signature)
    pd.testing.assert_frame_equal(containers.from_arrays(arrays, example.signature), frame)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("object", ["a", pd.NA]), ("object", [1, pd.NA]), ("object", [pd.NA, pd.NA])],
    ids=["text", "numbers", "nothing"],
)
def test_na_among_objects_is_a_missing_value(dtype, values):
    example = containers.example(pd.DataFrame({"a": pd.Series(values, dtype=dtype)}))
    assert example.signature.inputs[0].nullable
    assert example.arrays["a"].tolist()[1] is None
    containers.from_arrays(example.arrays, example.signature)


def test_a_column_that_nobody_needs_may_be_of_any_type():
    signature = containers.example(pd.DataFrame({"a": [1]})).signature
    odd = pd.DataFrame({"a": [1, 2], "period": pd.period_range("2020", periods=2), "cut": pd.cut([1, 2], 2)})
    assert containers.to_arrays(odd, signature)["a"].tolist() == [1, 2]


def test_every_column_that_cannot_be_kept_is_listed_at_once():
    frame = pd.DataFrame({"fine": [1, 2], "period": pd.period_range("2020", periods=2), "cut": pd.cut([1, 2], 2)})
    with pytest.raises(SignatureError) as caught:
        containers.example(frame)
    assert "'period'" in caught.value.message
    assert "cut" in caught.value.message
    assert "fine" not in caught.value.message


def test_the_index_of_the_example_is_not_part_of_its_data():
    frame = pd.DataFrame({"a": [1, 2]}, index=["x", "y"])
    example = containers.example(frame)
    pd.testing.assert_frame_equal(
        containers.from_arrays(example.arrays, example.signature), frame.reset_index(drop=True)
    )
