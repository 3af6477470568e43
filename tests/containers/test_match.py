"""Conform: every mismatch in one table, and no value ever changes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify.containers import conform
from vitrify.core.errors import SignatureError
from vitrify.core.signature import DTYPES, Field

NUMBERS = sorted(
    name
    for name in DTYPES
    if np.dtype("f4" if name == "bfloat16" else name.replace("bytes", "S").replace("string", "U")).kind in "biufc"
)
SOURCES = ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"]
TARGETS = [name for name in NUMBERS if name not in {"bfloat16", "complex64", "complex128"}]
NAN = float("nan")


def one(array, dtype, **options):
    return conform({"x": array}, (Field(name="x", dtype=dtype, **options),))["x"]


def fits(array, dtype, **options):
    try:
        return one(array, dtype, **options)
    except SignatureError:
        return None


def exactly(value):
    """Return a number as Python's exact one; NaN as text, which equals itself."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, complex):
        return (exactly(value.real), exactly(value.imag))
    return "nan" if math.isnan(value) else value


def representable(value, dtype):
    """Say by exact arithmetic whether a type holds a number."""
    target = np.dtype("float32" if dtype == "bfloat16" else dtype)
    if target.kind == "b":
        return value in (0, 1)
    if target.kind in "iu":
        limits = np.iinfo(target)
        return math.isfinite(value) and int(value) == value and limits.min <= value <= limits.max
    if not math.isfinite(value):
        return True
    with np.errstate(over="ignore"):
        try:
            cast = target.type(value)
        except OverflowError:
            return False
    return np.isfinite(cast) and exactly(cast.real) == value


@settings(max_examples=600)
@given(source=st.sampled_from(SOURCES), target=st.sampled_from(TARGETS), data=st.data())
def test_a_cast_keeps_every_value_or_is_refused(source, target, data):
    edges = st.sampled_from(
        [0, 1, -1, 2**24 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, 1e300, -0.0, 127, 128, 65504]
    )
    array = data.draw(hnp.arrays(source, st.integers(1, 4)))
    edge = data.draw(edges)
    if representable(edge, source):
        array[0] = edge
    values = [exactly(value) for value in array]
    result = fits(array, target)
    expected = all(value == "nan" or representable(value, target) for value in values)
    assert (result is not None) == expected
    if result is not None:
        assert result.dtype == target
        mask = np.ma.getmaskarray(result)
        assert mask.tolist() == [value == "nan" and np.dtype(target).kind in "biu" for value in values]
        assert all(
            gap or exactly(new) == old for new, old, gap in zip(np.ma.getdata(result), values, mask, strict=True)
        )


@given(hnp.arrays("float32", st.integers(1, 5)))
def test_bfloat16_takes_what_it_holds_and_only_that(array):
    kept = (array.view(np.uint32) & 0xFFFF == 0) | np.isnan(array)
    result = fits(array, "bfloat16")
    assert (result is not None) == bool(kept.all())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_real_numbers_fit_complex_ones_but_never_the_other_way(dtype):
    assert one(np.array([1, 2]), dtype).tolist() == [1, 2]
    assert fits(np.array([2**53 + 1]), dtype) is None
    assert fits(np.array([1 + 0j]), "float64") is None
    assert one(np.array([0.5 + 1j]), "complex64").dtype == np.complex64
    assert fits(np.array([0.1 + 1j]), "complex64") is None


@pytest.mark.parametrize(
    "array", [np.array(["1", "2"]), np.array(["1", "2"], object), np.array([b"1"]), np.array(["2020-01-01"], object)]
)
@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "datetime64[ns]", "complex64"])
def test_text_is_never_read_as_anything_else(array, dtype):
    assert fits(array, dtype) is None


@pytest.mark.parametrize(
    "array",
    [
        np.array([1]),
        np.array([0.5]),
        np.array([True]),
        np.array(["2020"], "M8[D]"),
        np.array([b"a"]),
        np.array(["a", 1.5], object),
    ],
)
def test_nothing_is_turned_into_text(array):
    assert fits(array, "string") is None


def test_times_change_their_unit_where_that_is_exact():
    day, late = np.array(["2020-01-01", "NaT"], "M8[D]"), np.array(["2020-01-01T12:00", "NaT"], "M8[s]")
    assert one(day, "datetime64[ns]").tolist()[1] is None
    assert one(late, "datetime64[us]")[0] == np.datetime64("2020-01-01T12:00")
    assert fits(late, "datetime64[D]") is None
    assert fits(np.array(["9999-01-01"], "M8[D]"), "datetime64[ns]") is None
    assert fits(day, "timedelta64[ns]") is None
    assert fits(np.array([1]), "datetime64[ns]") is None
    assert one(np.array([90], "m8[s]"), "timedelta64[ms]")[0] == np.timedelta64(90, "s")


def test_missing_values_take_the_form_of_the_type():
    gaps = np.ma.MaskedArray([7, 8], mask=[False, True])
    assert one(gaps, "int8").tolist() == [7, None]
    assert str(one(gaps, "float32").tolist()) == "[7.0, nan]"
    assert one(np.array([None, None], object), "int64").mask.all()
    assert np.isnat(one(np.array([NAN, NAN]), "datetime64[ns]")).all()
    assert np.isnan(one(np.array([None, 1.5], object), "float64")).tolist() == [True, False]
    assert one(np.ma.MaskedArray(["a", "b"], mask=[False, True]), "string").tolist() == ["a", None]


def test_a_nullable_field_is_always_masked_and_a_matrix_never_is_by_surprise():
    assert one(np.array([1, 2]), "int64", nullable=True).mask.tolist() == [False, False]
    assert fits(np.array([[1.0, NAN]]), "int64", shape=("batch", 2)) is None
    assert one(np.array([[1.0, NAN]]), "int64", shape=("batch", 2), nullable=True).tolist() == [[1, None]]


@pytest.mark.parametrize("dtype", [name for name in sorted(DTYPES) if name != "bfloat16"])
def test_no_rows_fit_every_type(dtype):
    for empty in (np.array([]), np.array([], object), np.array([], "U1"), np.array([], np.int64)):
        result = one(empty, dtype)
        assert result.shape == (0,)
        assert result.dtype == (object if dtype in {"string", "bytes", "object"} else dtype)


def test_what_already_fits_is_handed_on_without_a_copy():
    for array in (np.ones(3), np.arange(3), np.array([True]), np.array(["a", None], object), np.array([0], "M8[s]")):
        dtype = "string" if array.dtype == object else str(array.dtype)
        assert one(array, dtype) is array


def test_another_byte_order_is_the_same_type():
    assert one(np.array([1, 2], ">i4"), "int32").tolist() == [1, 2]
    assert one(np.array([0.1], ">f8"), "float64").dtype.isnative


def test_every_mismatch_stands_in_one_table():
    fields = (
        Field(name="age", dtype="int64"),
        Field(name="name", dtype="string"),
        Field(name="income", dtype="float32"),
        Field(name="image", dtype="float32", shape=("batch", 3, "width")),
        Field(name="mask", dtype="bool", shape=("batch", "width")),
        Field(name="fine", dtype="int8"),
    )
    arrays = {
        "age": np.array(["12", "13"], object),
        "nmae": np.array(["a", "b"], object),
        "income": np.array([0.1, 0.2]),
        "image": np.ones((2, 4, 8), np.float32),
        "mask": np.ones((3, 9), bool),
        "fine": np.array([1, 2]),
    }
    with pytest.raises(SignatureError) as caught:
        conform(arrays, fields)
    first, header, *lines = caught.value.message.splitlines()
    assert first == "the data does not fit the signature (5 of 6 inputs; given besides: 'nmae')"
    table = {line.split("|")[0].strip(): [cell.strip() for cell in line.split("|")[1:]] for line in [header, *lines]}
    assert table == {
        "name": ["string[batch]", "nothing", "add it, or rename 'nmae'"],
        "age": ["int64[batch]", "string [2]", "convert it yourself; nothing is guessed from text"],
        "income": [
            "float32[batch]",
            "float64, 2 of 2 values not exact in float32 (0.1 in row 0) [2]",
            "round or convert it to float32 yourself",
        ],
        "image": ["float32[batch, 3, width]", "float32[2, 4, 8]", "axis 1 must be 3, not 4"],
        "mask": [
            "bool[batch, width]",
            "bool[3, 9]",
            (
                "axis 0 (batch) is 3 here and 2 in 'age': make them equal; "
                "axis 1 (width) is 9 here and 8 in 'image': make them equal"
            ),
        ],
    }
    assert len(lines) == 5
    assert len({line.index("|") for line in [header, *lines]}) == 1


def test_a_wrong_number_of_dimensions_is_said():
    with pytest.raises(SignatureError, match="give 1 dimensions, not 2"):
        one(np.ones((2, 2)), "float64")
