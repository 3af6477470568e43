"""Polars: any frame of the supported types comes back equal; in floats null becomes NaN."""

import datetime as dt

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from vitrify import containers
from vitrify.core.errors import SignatureError
from vitrify.core.signature import Signature

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
TIMES = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1))  # noqa: DTZ001 (Hypothesis wants them without)
VALUES = {
    pl.Boolean(): st.booleans(),
    pl.Int8(): st.integers(-(2**7), 2**7 - 1),
    pl.Int64(): st.integers(-(2**63), 2**63 - 1),
    pl.UInt64(): st.integers(0, 2**64 - 1),
    pl.Float32(): st.floats(width=32),
    pl.Float64(): st.floats(),
    pl.String(): TEXT,
    pl.Binary(): st.binary(max_size=3),
    pl.Enum(["b", "a"]): st.sampled_from("ab"),
    pl.Categorical(): st.sampled_from("abc"),
    pl.Date(): st.dates(dt.date(1, 1, 1)),
    pl.Datetime("us"): TIMES,
    pl.Datetime("ns"): TIMES,
    pl.Duration("ms"): st.timedeltas(dt.timedelta(0), dt.timedelta(days=900)).map(
        lambda span: dt.timedelta(seconds=int(span.total_seconds()))
    ),
    pl.Datetime("ms", "Europe/Berlin"): TIMES.map(lambda time: time.replace(microsecond=0, tzinfo=dt.UTC)),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 4))
    names = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    columns = []
    for name in names:
        dtype = draw(st.sampled_from(list(VALUES)))
        values = VALUES[dtype] if dtype.is_float() else VALUES[dtype] | st.none()
        columns.append(pl.Series(name, draw(st.lists(values, min_size=rows, max_size=rows)), dtype))
    return pl.DataFrame(columns)


@given(frames())
def test_any_frame_comes_back_equal(frame):
    example = containers.example(frame)
    signature = Signature.from_json(example.signature.to_json(), where="signature")
    back = containers.from_arrays(example.arrays, signature)
    assert back.schema == frame.schema
    assert_frame_equal(back, frame, check_exact=True)


def test_null_in_floats_becomes_nan():
    example = containers.example(pl.DataFrame({"a": [0.5, None]}))
    assert str(containers.from_arrays(example.arrays, example.signature)["a"].to_list()) == "[0.5, nan]"


def test_a_column_that_nobody_needs_may_be_of_any_type():
    signature = containers.example(pl.DataFrame({"a": [1]})).signature
    assert containers.to_arrays(pl.DataFrame({"a": [1], "list": [[1, 2]]}), signature)["a"].tolist() == [1]


def test_every_column_that_cannot_be_kept_is_listed_at_once():
    with pytest.raises(SignatureError) as caught:
        containers.example(pl.DataFrame({"fine": [1], "list": [[1]], "time": [dt.time(1)]}))
    assert "'list'" in caught.value.message
    assert "'time'" in caught.value.message
    assert "fine" not in caught.value.message
