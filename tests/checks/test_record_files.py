"""Records come out of Parquet as they went in, and what is no file of records is refused with its place."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vitrify.checks.record_files import read_records
from vitrify.checks.records import Record
from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, UsageError

DIGEST = str(Digest.of(b"a model"))
TOLD = {"vitrify.predictions": "1"}


def write(path, columns=None, told=TOLD, **more):
    columns = {"digest": [DIGEST] * 3, "request": [0, 0, 1], "input.x": [1, 2, 3]} if columns is None else columns
    pq.write_table(pa.table(columns).replace_schema_metadata(told), path, **more)
    return path


def test_rows_of_one_request_are_one_record(tmp_path):
    found = list(read_records(write(tmp_path / "a.parquet")))
    assert [place for place, _ in found] == ["row 1", "row 3"]
    assert [record.inputs for _, record in found] == [{"x": [1, 2]}, {"x": [3]}]


def test_without_request_numbers_each_row_is_one(tmp_path):
    columns = {"digest": [DIGEST] * 2, "input.x": [1, 2], "request_id": ["a", None]}
    places = [place for place, _ in read_records(write(tmp_path / "a.parquet", columns))]
    assert places == ["row 1 (a)", "row 2"]


def test_a_request_goes_on_over_batches_and_row_groups(tmp_path):
    count = 5000
    columns = {"digest": [DIGEST] * count, "request": [0] * 3000 + [1] * 2000, "output.y": list(range(count))}
    path = write(tmp_path / "a.parquet", columns, row_group_size=700)
    assert [len(record.outputs["y"]) for _, record in read_records(path)] == [3000, 2000]


def test_a_folder_is_read_by_name_without_what_is_being_written(tmp_path):
    inner = tmp_path / "m" / "1"
    inner.mkdir(parents=True)
    write(inner / "b.parquet")
    (inner / "a.jsonl").write_bytes(Record(digest=DIGEST, inputs={}, outputs={}, id="7").to_json() + b"\n")
    (inner / ".c.parquet.partial").write_bytes(b"PAR1")
    (inner / ".d.parquet").write_bytes(b"PAR1")
    (inner / "notes.txt").write_text("nothing")
    places = [place for place, _ in read_records(tmp_path)]
    assert places == ["m/1/a.jsonl, line 1 (7)", "m/1/b.parquet, row 1", "m/1/b.parquet, row 3"]


def test_a_folder_without_records_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no file of records"):
        list(read_records(tmp_path))


@pytest.mark.parametrize(
    ("column", "stored", "dtype", "expected"),
    [
        ("datetime64[ns]", pa.timestamp("ns"), "datetime64[ns]", 1_000_000_001),
        ("datetime64[D]", pa.timestamp("s"), "datetime64[D]", np.datetime64(86400, "s").astype("M8[D]").tolist()),
        ("timedelta64[ms]", pa.duration("ms"), "timedelta64[ms]", np.timedelta64(86400, "ms").tolist()),
    ],
)
def test_times_come_back_in_their_own_unit(tmp_path, column, stored, dtype, expected):
    value = 1_000_000_001 if column.endswith("[ns]") else 86400
    values = pa.array([[value, None]], pa.list_(pa.int64())).cast(pa.list_(stored))
    told = {**TOLD, "vitrify.dtypes": f'{{"input.t": "{dtype}"}}'}
    path = write(tmp_path / "a.parquet", {"digest": [DIGEST], "input.t": values}, told)
    ((_, record),) = read_records(path)
    back = np.array(record.inputs["t"][0], object).astype(dtype)
    assert back[0] == np.array(expected, object).astype(dtype)
    assert np.isnat(back[1])


def deep(levels):
    value, kind = 1, pa.int64()
    for _ in range(levels):
        value, kind = [value], pa.list_(kind)
    return pa.array([value], kind)


@pytest.mark.parametrize(
    ("columns", "told", "message"),
    [
        ({"digest": [DIGEST]}, {}, "schema None"),
        ({"digest": [DIGEST]}, {"vitrify.predictions": "2"}, "schema '2'"),
        ({"input.x": [1]}, TOLD, "no column"),
        ({"digest": [DIGEST], "input.x": deep(33)}, TOLD, "lists more than 32 deep"),
        ({"digest": ["sha256:0"], "input.x": [1]}, TOLD, "row 1"),
        ({"digest": [None], "input.x": [1]}, TOLD, "row 1"),
        *(
            (
                {"digest": [DIGEST], "input.x": pa.array([1], pa.timestamp("ms"))},
                {**TOLD, "vitrify.dtypes": dtypes},
                "Parquet",
            )
            for dtypes in ("{", "[]", '{"input.x": 1}', '{"input.x": "datetime64[zz]"}', b"\xff")
        ),
    ],
)
def test_a_table_that_is_none_of_records_is_refused(tmp_path, columns, told, message):
    with pytest.raises(MalformedError, match=message):
        list(read_records(write(tmp_path / "a.parquet", columns, told)))


@pytest.mark.parametrize("cut", [4, 100, -1])
def test_a_file_that_is_cut_is_refused(tmp_path, cut):
    path = write(tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(MalformedError, match="not a Parquet file"):
        list(read_records(path))
