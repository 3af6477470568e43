"""The prediction log: what was asked and answered is in the files, whole, in its own types, and within bounds."""

import math
import os
import signal
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from seen_serving import until

from vitrify.checks.record_files import read_records
from vitrify.checks.records import _arrays
from vitrify.core.digest import Digest
from vitrify.core.errors import UsageError
from vitrify.core.signature import Field
from vitrify.serve.observe import _prediction_files, predictions
from vitrify.serve.observe._kept import Kept
from vitrify.serve.observe._prediction_files import remove_partial, write_file
from vitrify.serve.observe.predictions import PredictionLog
from vitrify.serve.values import Done, Part

DIGEST = str(Digest.of(b"a model"))


def done(inputs, outputs, rows=(), ids=None, **named):
    rows = rows or [len(next(iter(inputs.values())))]
    ids = ids or [f"r{at}" for at in range(len(rows))]
    parts = tuple(Part(id_, "shop", one, 0.0) for id_, one in zip(ids, rows, strict=True))
    who = {"model": "m", "version": "1", "digest": DIGEST, **named}
    return Done(**who, inputs=inputs, outputs=outputs, told=lambda: parts, seconds=0.0)


def logged(folder, *batches, **settings):
    log = PredictionLog(folder, **settings)
    for batch in batches:
        log.watch(batch)
    log.close(60)
    return log


def records(folder):
    return [record for _, record in read_records(folder)]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def same(array, back):
    plain, found = (np.ma.getdata(one).ravel().tolist() for one in (array, back))
    mask = np.ma.getmaskarray(array)
    assert np.array_equal(mask, np.ma.getmaskarray(back)) or array.dtype.kind not in "iub"
    for one, other, hidden in zip(plain, found, mask.ravel().tolist(), strict=True):
        assert hidden or one == other or (is_nan(one) and is_nan(other))


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


KINDS = [
    *("bool", "int8", "uint64", "int64", "float16", "float32", "float64"),
    *("datetime64[ns]", "datetime64[D]", "timedelta64[us]"),
]
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
ARRAYS = st.one_of(
    hnp.arrays(st.sampled_from(KINDS).map(np.dtype), st.just((3,)) | st.just((3, 2)) | st.just((3, 1, 2))),
    hnp.arrays(object, st.just((3,)) | st.just((3, 2)), elements=TEXT),
    hnp.arrays(object, (3,), elements=st.none() | st.binary()),
    st.builds(np.ma.MaskedArray, hnp.arrays(np.int64, (3, 2)), mask=hnp.arrays(bool, (3, 2))),
)


@given(ARRAYS, ARRAYS, st.booleans())
def test_everything_comes_back_as_it_was(tmp_path_factory, one, other, whole):
    folder = tmp_path_factory.mktemp("log")
    kept = Kept(1.0, "m", "1", DIGEST, (Part("a", "c", 3, 0.0),), whole, {"x": one}, {"y": other}, 0)
    write_file(folder, [kept])
    (record,) = records(folder)
    for array, column in ((one, record.inputs["x"]), (other, record.outputs["y"])):
        dtype = "string" if array.dtype == object else str(array.dtype)
        if any(isinstance(value, bytes) for value in array.ravel().tolist()):
            dtype = "bytes"
        same(array, _arrays({"z": column}, (Field(name="z", dtype=dtype, shape=("batch",), nullable=True),))["z"])


def test_bf16_is_kept_as_float(tmp_path):
    array = np.array([1.5, -2.0, np.inf], ml_dtypes.bfloat16)
    logged(tmp_path, done({"x": array}, {"y": array}))
    assert records(tmp_path)[0].inputs["x"] == [1.5, -2.0, np.inf]


def test_an_object_that_is_neither_text_nor_bytes_is_kept_as_it_prints(tmp_path):
    array = np.array([1.5, "a", None], object)
    logged(tmp_path, done({"x": array}, {"y": array}))
    assert records(tmp_path)[0].inputs["x"] == ["1.5", "a", None]


def test_a_table_has_its_columns_and_says_its_schema(tmp_path):
    batch = done({"x": np.arange(6, dtype=np.float32).reshape(3, 2)}, {"y": np.array([1, 2, 3])}, [1, 2])
    log = logged(tmp_path, batch)
    (path,) = files(tmp_path)
    assert path.parent == tmp_path / "m" / "1"
    table = pq.read_table(path)
    names = ["time", "model", "version", "digest", "request_id", "client", "request", "input.x", "output.y"]
    assert table.schema.names == names
    assert [str(table.schema.field(name).type) for name in ("time", "input.x", "output.y")] == [
        *("timestamp[us, tz=UTC]", "list<element: float>", "int64")
    ]
    assert table.schema.metadata[b"vitrify.predictions"] == b"1"
    assert table["request_id"].to_pylist() == ["r0", "r1", "r1"]
    assert table["request"].to_pylist() == [0, 1, 1]
    assert abs(table["time"][0].as_py().timestamp() - time.time()) < 600
    assert (log.rows, log.files, log.dropped) == (3, 1, 0)
    assert path.stat().st_mode & 0o007 == 0


def test_rows_are_copied_before_the_lane_takes_them_back(tmp_path):
    array = np.zeros((2, 2))
    log = PredictionLog(tmp_path)
    log.watch(done({"x": array}, {"y": array}))
    array[:] = 7
    log.close(60)
    assert records(tmp_path)[0].inputs["x"] == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("sample", [0.0, 0.3, 1.0])
def test_a_request_is_in_the_sample_by_its_id_alone(tmp_path, sample):
    ids = [f"request-{number}" for number in range(2000)]
    one, other = PredictionLog(tmp_path, sample), PredictionLog(tmp_path, sample)
    wanted = [one.wanted(id_) for id_ in ids]
    assert wanted == [other.wanted(id_) for id_ in ids]
    assert abs(sum(wanted) / len(ids) - sample) < 0.05
    assert any(one.wanted("") for _ in range(1000)) == (sample > 0)
    one.close()
    other.close()


def test_of_a_batch_only_the_rows_in_the_sample_are_kept(tmp_path):
    ids = [f"request-{number}" for number in range(50)]
    rows = [1 + number % 3 for number in range(50)]
    array = np.repeat(np.arange(50), rows)
    log = logged(tmp_path, done({"x": array}, {"y": array}, rows, ids), sample=0.5)
    found = {record.id: record.inputs["x"] for record in records(tmp_path)}
    assert found == {id_: [at] * rows[at] for at, id_ in enumerate(ids) if log.wanted(id_)}
    assert 0 < len(found) < 50


def test_what_knows_no_rows_is_kept_whole(tmp_path):
    batch = done({"x": np.float32([1, 2, 3])}, {"y": np.array(6.0)}, [1])
    logged(tmp_path, batch)
    (record,) = records(tmp_path)
    assert (record.inputs, record.outputs) == ({"x": [1.0, 2.0, 3.0]}, {"y": 6.0})


def test_other_types_or_models_are_other_files(tmp_path):
    ints, floats = np.array([1, 2]), np.array([1.0, 2.0])
    logged(
        tmp_path,
        done({"x": ints}, {"y": ints}),
        done({"x": floats}, {"y": ints}),
        done({"x": ints}, {"y": ints}, model="n"),
    )
    assert len(files(tmp_path)) == 3
    assert len(records(tmp_path)) == 3


def test_rows_with_and_without_missing_values_are_in_one_file(tmp_path):
    plain = np.array([1, 2])
    logged(
        tmp_path, done({"x": plain}, {"y": plain}), done({"x": np.ma.MaskedArray(plain, [True, False])}, {"y": plain})
    )
    assert len(files(tmp_path)) == 1
    assert [record.inputs["x"] for record in records(tmp_path)] == [[1, 2], [None, 2]]


def test_nobody_makes_files_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "_MOST_FILES", 3)
    log = logged(tmp_path, *(done({f"x{number}": np.ones(2)}, {"y": np.ones(2)}) for number in range(5)))
    assert (log.files, log.rows, log.dropped) == (3, 6, 4)


def test_tensors_of_other_lengths_are_in_one_file(tmp_path):
    batches = [done({"x": np.ones((2, length))}, {"y": np.ones(2)}) for length in (1, 3, 0)]
    logged(tmp_path, *batches)
    assert len(files(tmp_path)) == 1
    assert [[len(row) for row in record.inputs["x"]] for record in records(tmp_path)] == [[1, 1], [3, 3], [0, 0]]


@pytest.mark.parametrize("how", [{"file_bytes": 1}, {"seconds": 0.0}])
def test_a_file_is_written_when_it_is_large_or_old_enough(tmp_path, how):
    log = PredictionLog(tmp_path, **{"seconds": 3600.0, "file_bytes": 2**40, **how})
    for number in (1, 2):
        log.watch(done({"x": np.ones(2)}, {"y": np.ones(2)}))
        until(lambda number=number: log.files == number)
    assert len(records(tmp_path)) == 2
    log.close()


def test_what_does_not_fit_is_dropped_and_counted_and_room_comes_back(tmp_path, monkeypatch):
    go_on, entered = threading.Event(), threading.Event()

    def slow(folder, kept):
        entered.set()
        assert go_on.wait(60)
        return write_file(folder, kept)

    monkeypatch.setattr(predictions, "write_file", slow)
    batch = done({"x": np.ones(1000)}, {"y": np.ones(1000)})
    log = PredictionLog(tmp_path, file_bytes=1, buffer_bytes=40_000)
    log.watch(batch)
    assert entered.wait(60)
    log.watch(batch)
    log.watch(batch)
    assert log.dropped == 1000
    go_on.set()
    until(lambda: log.rows == 2000)
    log.watch(batch)
    log.close(60)
    assert (log.rows, log.dropped) == (3000, 1000)


def test_a_file_that_cannot_be_written_costs_its_rows_and_nothing_else(tmp_path, monkeypatch):
    said = []
    real = _prediction_files._sync

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_prediction_files, "_sync", full)
    log = PredictionLog(tmp_path, seconds=0.0, say=lambda event, **facts: said.append(facts))
    log.watch(done({"x": np.ones(2)}, {"y": np.ones(2)}))
    until(lambda: log.dropped == 2)
    assert files(tmp_path) == []
    assert "No space left" in said[0]["error"]
    monkeypatch.setattr(_prediction_files, "_sync", real)
    log.watch(done({"x": np.ones(3)}, {"y": np.ones(3)}))
    log.close(60)
    assert (log.rows, log.dropped) == (3, 2)


def test_rows_that_cannot_be_written_harm_no_others(tmp_path):
    array = np.ones(2)
    odd = np.array(["\ud800", "b"], object)  # no UTF-8 has it
    texts = [np.array(["a", "b"], object)] * 5
    batches = [done({"x": one}, {"y": array}) for one in (*texts, odd, *texts)]
    log = logged(tmp_path, *batches)
    assert (log.rows, log.dropped) == (20, 2)
    assert len(records(tmp_path)) == 10


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../../x", "ä" * 300, "a b", "%", ""])
def test_no_name_leaves_the_folder(tmp_path, name):
    folder = tmp_path / "log"
    logged(folder, done({"x": np.ones(1)}, {"y": np.ones(1)}, model=name, version=name))
    (path,) = files(folder)
    assert path.parent.parent.parent == folder
    assert len(records(folder)) == 1
    assert list(tmp_path.iterdir()) == [folder]


def test_without_pyarrow_lines_of_json_are_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    text = np.array(["a", None, "ö"], object)
    data = np.array([b"\x00", b"", b"\xff"], object)
    times = np.array(["2026-01-01", "NaT", "2026-01-02"], "datetime64[ns]")
    logged(tmp_path, done({"x": text, "t": times}, {"y": np.array([1.0, np.nan, np.inf]), "b": data}, [1, 2]))
    (path,) = files(tmp_path)
    assert path.suffix == ".jsonl"
    found = records(tmp_path)
    assert [one.id for one in found] == ["r0", "r1"]
    assert {(one.model, one.version, one.client) for one in found} == {("m", "1", "shop")}
    fields = [Field(name="y", dtype="float64"), Field(name="b", dtype="bytes")]
    back = _arrays(found[1].outputs, tuple(fields))
    np.testing.assert_array_equal(back["y"], [np.nan, np.inf])
    assert back["b"].tolist() == [b"", b"\xff"]
    back = _arrays(found[1].inputs, (Field(name="x", dtype="string"), Field(name="t", dtype="datetime64[ns]")))
    assert np.isnat(back["t"][0])
    assert back["t"][1] == times[2]


@pytest.mark.parametrize("sample", [-0.1, 1.1, float("nan")])
def test_a_sample_that_is_no_fraction_is_refused(tmp_path, sample):
    with pytest.raises(UsageError, match="fraction"):
        PredictionLog(tmp_path, sample)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        PredictionLog(tmp_path / "file" / "log")


def test_old_halves_are_removed_and_young_ones_left(tmp_path):
    place = tmp_path / "m" / "1"
    place.mkdir(parents=True)
    old, young = place / ".old.parquet.partial", place / ".young.parquet.partial"
    for path in (old, young):
        path.write_bytes(b"PAR1")
    os.utime(old, (0, 0))
    assert remove_partial(tmp_path) == 1
    assert [path.name for path in files(tmp_path)] == [young.name]


KILLED = """
import sys, numpy as np
from vitrify.serve.observe.predictions import PredictionLog
from vitrify.serve.values import Done, Part
log = PredictionLog(sys.argv[1], seconds=0.0)
number = 0
while True:
    x = np.full((50, 100), number)
    log.watch(Done("m", "1", sys.argv[2], {"x": x}, {"y": x}, lambda: (Part(str(number), "", 50, 0.0),), 0.0))
    number += 1
    if log.files == 3:
        print("written", flush=True)
"""


def test_a_process_that_is_killed_leaves_whole_files_only(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), DIGEST], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    found = records(tmp_path)
    assert len(found) >= 3
    assert all(record.inputs["x"] == [[int(record.id)] * 100] * 50 for record in found[:20])
