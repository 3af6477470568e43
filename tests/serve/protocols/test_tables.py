"""Tables by name: labels that are no text, what is missing, blocks of rows, and bytes."""

from __future__ import annotations

import base64
import csv
import io
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_serving import served_by

from vitrify.core.errors import LimitExceededError, MalformedError, NotOfferedError, SignatureError
from vitrify.core.signature import Field
from vitrify.serve.protocols import tables

TABLE = served_by(
    Field(name="n", dtype="int64", nullable=True),
    Field(name="x", dtype="float32"),
    Field(name="flag", dtype="bool"),
    Field(name="text", dtype="string", nullable=True),
    container="pandas",
)
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(width=32, allow_nan=False),
        st.booleans(),
        st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    ),
    min_size=1,
    max_size=5,
)


def written(rows):
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["n", "x", "flag", "text"])
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return stream.getvalue().encode()


def check(found, rows):
    numbers, floats, flags, texts = zip(*rows, strict=True)
    assert found["n"].tolist() == list(numbers)
    assert found["x"].dtype == np.float32
    assert np.array_equal(found["x"], np.array(floats, np.float32), equal_nan=True)
    assert found["flag"].tolist() == list(flags)
    assert found["text"].tolist() == list(texts)


@given(ROWS)
def test_csv_records_and_split_hold_the_same(rows):
    check(tables.from_csv(written(rows), TABLE), rows)
    names = ["n", "x", "flag", "text"]
    check(tables.from_records([dict(zip(names, row, strict=True)) for row in rows], TABLE), rows)
    check(tables.from_split({"columns": names, "data": [list(row) for row in rows]}, TABLE), rows)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_blocks_of_rows_are_joined(extra):
    count = tables.BLOCK + extra
    rows = [(None if index == 5 else index, 0.5, True, "a") for index in range(count)]
    check(tables.from_csv(written(rows), TABLE), rows)


@pytest.mark.parametrize("key", [2, 2.5, ("a", 1)])
def test_a_label_that_is_no_text_finds_its_field(key):
    table = served_by(Field(name="c", dtype="int64", key=key), container="pandas")
    label = list(key) if isinstance(key, tuple) else key
    assert tables.from_split({"columns": [label], "data": [[7]]}, table)["c"].tolist() == [7]


@pytest.mark.parametrize("cell", ["", "NaN", "NA", "null", "None", " "])
def test_what_is_missing_in_csv_is_missing(cell):
    found = tables.from_csv(f"n,x\n{cell},{cell}\n".encode(), TABLE)
    assert np.ma.getmaskarray(found["n"]).tolist() == [True]
    assert np.isnan(found["x"]).tolist() == [True]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("+5", 5),
        ("007", 7),
        ("5.0", 5),
        ("1e3", 1000),
        ("9223372036854775807", 2**63 - 1),
        ("9007199254740993.0", 2**53 + 1),
    ],
)
def test_a_number_may_be_written_in_any_way(cell, expected):
    assert tables.from_csv(f"n\n{cell}\n".encode(), TABLE)["n"].tolist() == [expected]


def test_a_column_alone_may_have_empty_lines():
    assert tables.from_csv(b"text\na\n\nb\n", TABLE)["text"].tolist() == ["a", None, "b"]


def test_text_in_a_column_of_bytes_is_base64():
    table = served_by(Field(name="b", dtype="bytes"), container="pandas")
    records = [{"b": base64.b64encode(b"\xff\0").decode()}]
    assert tables.from_records(records, table)["b"].tolist() == [b"\xff\0"]
    with pytest.raises(MalformedError, match="base64"):
        tables.from_records([{"b": "*"}], table)


def test_times_are_text():
    table = served_by(Field(name="t", dtype="datetime64[s]"), container="pandas")
    found = tables.from_records([{"t": "2020-01-02T03:04:05"}], table)["t"]
    assert found.tolist() == np.array(["2020-01-02T03:04:05"], "datetime64[s]").tolist()
    with pytest.raises(SignatureError, match="'t'"):
        tables.from_records([{"t": "yesterday"}], table)


def test_no_records_are_no_rows():
    assert {name: array.shape for name, array in tables.from_records([], TABLE).items()} == dict.fromkeys(
        ["n", "x", "flag", "text"], (0,)
    )


def parquet_of(columns):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream)
    return stream.getvalue()


def test_parquet_holds_the_same():
    body = parquet_of({"text": ["a", "a", None], "n": [None, 2**63 - 1, 2], "x": [0.5, None, 1], "flag": [True] * 3})
    rows = [(None, 0.5, True, "a"), (2**63 - 1, None, True, "a"), (2, 1.0, True, None)]
    check(tables.from_parquet(body, TABLE), rows)


def test_a_long_text_in_every_row_of_parquet_is_measured_before_it_is_copied(monkeypatch):
    monkeypatch.setattr(tables, "MOST_BYTES", 100_000)
    body = parquet_of({"text": ["long" * 250] * 1000})
    assert len(body) < 100_000
    with pytest.raises(LimitExceededError, match="texts of a column"):
        tables.from_parquet(body, TABLE)


def test_other_columns_of_parquet_are_read_or_named():
    pa = pytest.importorskip("pyarrow")
    numbers = pa.array([7, None, 7]).dictionary_encode()
    assert tables.from_parquet(parquet_of({"n": numbers}), TABLE)["n"].tolist() == [7, None, 7]
    assert tables.from_parquet(parquet_of({"text": pa.array([b"a", None])}), TABLE)["text"].tolist() == ["a", None]
    with pytest.raises(SignatureError, match="text"):
        tables.from_parquet(parquet_of({"text": pa.array([b"\xff"])}), TABLE)
    for column in (pa.array([1.5]), pa.array(["x"]), pa.array([b"x"]), pa.array([True])):
        with pytest.raises(SignatureError, match=r"n\[0\]"):
            tables.from_parquet(parquet_of({"n": column}), TABLE)


def test_names_that_nobody_knows_take_no_memory():
    records = [{f"c{index}": 1, "n": index} for index in range(2000)]
    assert tables.from_records(records, TABLE)["n"].tolist() == list(range(2000))
    matrix = served_by(Field(name="x", dtype="float32", shape=("batch", 3)))
    with pytest.raises(LimitExceededError, match="4000 rows of 4000 columns"):
        tables.from_records([{f"c{index}": 1} for index in range(4000)], matrix)


def test_a_column_called_none_is_not_every_column():
    assert "n" not in tables.from_records([{"None": 1, "x": 2}], TABLE)


def test_nested_columns_of_parquet_are_refused():
    with pytest.raises(MalformedError, match="column 'n' is nested"):
        tables.from_parquet(parquet_of({"n": [[1, 2]]}), TABLE)


def test_without_its_library_parquet_is_not_offered(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NotOfferedError, match="does not read Parquet"):
        tables.from_parquet(b"PAR1", TABLE)


@given(st.binary(max_size=60) | st.text(alphabet='n,x"\n\r 15.e-').map(str.encode))
def test_any_bytes_are_a_table_or_an_error(body):
    for reader in (tables.from_csv, tables.from_parquet):
        try:
            reader(body, TABLE)
        except (SignatureError, MalformedError, NotOfferedError):
            continue
