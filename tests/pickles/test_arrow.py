"""Columns of pandas that Arrow keeps: clean and equal when honest, refused before anything follows them when not."""

from __future__ import annotations

import datetime as dt
import io
import pickle
import random
import re
import struct
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from crafted import Crafted, Object

from vitrify.core.errors import MalformedError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.joblib import Joblib
from vitrify.formats.numpy_file import NumpyFile
from vitrify.pickles.machine import audit, load
from vitrify.pickles.older import Older
from vitrify.reading.files import HeldFiles

TEXT = pd.DataFrame({"é": ["x", None, "ü" * 5000, ""], "n": [1, 2, 3, 4]})
MOMENT = pd.Timestamp("2020-01-02 03:04")
VALUES = {
    ("int8", "uint64", "halffloat", "float", "double", "bool"): [1, None, 0],
    ("string", "large_string"): ["a", None, "é"],
    ("binary", "large_binary"): [b"\xff", None, b""],
    ("date32[day]", "date64[ms]"): [dt.date(2020, 1, 2), None],
    ("time32[s]", "time64[ns]"): [dt.time(1, 2), None],
    ("duration[s]", "duration[ns]"): [dt.timedelta(1), None],
    ("timestamp[s]", "timestamp[ns]"): [MOMENT, None],
}
TYPES = {name: pd.ArrowDtype(pa.type_for_alias(name)) for names in VALUES for name in names}
FRAMES = {
    "text": TEXT,
    "text with pandas.NA": TEXT.astype({"é": "string[pyarrow]"}),
    "text of the library's own": TEXT.astype({"é": pd.StringDtype("python", na_value=np.nan)}),
    "no rows": TEXT[:0],
    "no columns": TEXT[[]],
    "nothing": pd.DataFrame(),
    "only missing": pd.DataFrame({"a": pd.Series([None, None], dtype="str")}),
    "a slice": TEXT[1:3],
    "every other row": TEXT[::2],
    "a text index": TEXT.fillna("no").set_index("é"),
    "levels of text": TEXT.fillna("no").set_index(["é", "n"]),
    "categories of text": TEXT.astype({"é": "category"}),
    "columns with a name": TEXT.rename_axis(columns="which"),
    "parts put together": pd.concat([TEXT, TEXT[:2]], ignore_index=True),
    "zones": pd.DataFrame({"t": pd.array([MOMENT, None], pd.ArrowDtype(pa.timestamp("us", "Asia/Tokyo")))}),
    "an offset for a zone": pd.DataFrame({"t": pd.array([None], pd.ArrowDtype(pa.timestamp("ms", "+05:30")))}),
    **{name: pd.DataFrame({"a": pd.array(values, TYPES[name])}) for names, values in VALUES.items() for name in names},
    "bits from the third on": pd.DataFrame({"a": pd.array([True, None] * 9, "bool[pyarrow]")[3:]}),
}


def again(content):
    content = memoryview(content)
    assert audit(content, where="x").findings == ()
    return load(content, where="x", allow=Allow())


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_comes_back_equal(frame, protocol):
    pd.testing.assert_frame_equal(again(pickle.dumps(frame, protocol)), frame)


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_comes_back_equal_from_joblib(frame, protocol):
    stream = io.BytesIO()
    joblib.dump([frame, np.arange(5)], stream, protocol=protocol)
    files = HeldFiles({"x.joblib": memoryview(stream.getvalue())})
    assert list(Joblib().hazards(files, {"file": "x.joblib"})) == []
    pd.testing.assert_frame_equal(Joblib().read(files, {"file": "x.joblib"}, Allow())[0], frame)


def test_what_came_back_works_as_the_original_and_can_be_kept_again():
    made = again(pickle.dumps(TEXT[1:]))
    pd.testing.assert_frame_equal(again(pickle.dumps(made)), TEXT[1:])
    assert made["é"].str.upper().tolist()[1:] == ["Ü" * 5000, ""]
    made.loc[2, "é"] = "other"
    assert made["é"].tolist()[1] == "other"
    assert made.sort_values("é")["n"].tolist() == [4, 3, 2]


def test_types_by_themselves_come_back():
    types = [*TEXT.dtypes, pd.ArrowDtype(pa.int8()), pd.ArrowDtype(pa.timestamp("ns"))]
    assert again(pickle.dumps(types)) == types


OLDER = {
    b"pandas.arrays\nArrowStringArray\n": (
        b"pandas.core.arrays.string_arrow\nArrowStringArray\n",
        b"pandas.core.arrays.string_arrow\nArrowStringArrayNumpySemantics\n",
    ),
    b"pandas.arrays\nArrowExtensionArray\n": (b"pandas.core.arrays.arrow.array\nArrowExtensionArray\n",),
    b"pandas\nArrowDtype\n": (b"pandas.core.dtypes.dtypes\nArrowDtype\n",),
    b"X\x09\0\0\0_pa_array": (b"X\x05\0\0\0_data",),
}


@pytest.mark.parametrize(("today", "before"), [(today, one) for today, names in OLDER.items() for one in names])
def test_names_and_parts_of_older_releases_are_read(today, before):
    frame = TEXT[:2].assign(a=pd.array([1, None], "int64[pyarrow]"))
    content = pickle.dumps(frame, 2)
    assert today in content
    content = memoryview(content.replace(today, before))
    assert audit(content, where="x", dialect=Older()).findings == ()
    pd.testing.assert_frame_equal(load(content, where="x", allow=Allow(), dialect=Older()), frame)


def test_text_with_short_offsets_is_what_pandas_2_0_kept():
    content = pickle.dumps(column(pa.array(["a", None, "é"], pa.string())), 4)
    made = again(content)
    assert made._pa_array.type == pa.large_string()
    assert pd.Series(made).tolist()[::2] == ["a", "é"]


def test_a_frame_comes_back_equal_from_an_array_of_objects(tmp_path):
    held = np.empty(1, object)
    held[0] = TEXT
    np.save(tmp_path / "x.npy", held)
    files = HeldFiles({"x.npy": memoryview((tmp_path / "x.npy").read_bytes())})
    assert list(NumpyFile().hazards(files, {"file": "x.npy"})) == []
    pd.testing.assert_frame_equal(NumpyFile().read(files, {"file": "x.npy"}, Allow())[0], TEXT)


def test_columns_that_share_their_values_take_them_once_each():
    """The limit on copies is for those that take the same bytes again and again."""
    series = pd.Series(["text" * 50_000] * 2)
    assert len(again(pickle.dumps([series[:1], series[1:]]))) == 2


# Hostile


def offsets(*numbers, letter="q"):
    return pa.py_buffer(struct.pack(f"<{len(numbers)}{letter}", *numbers))


AB, BYTES = offsets(0, 1, 2), pa.py_buffer(b"ab")
FAR = 2**62


class Zoned:
    """Pickled as ``pyarrow.lib.timestamp(unit, zone)``."""

    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return pa.lib.timestamp, self.args


def array(kind="large_string", buffers=(None, AB, BYTES), *, length=2, missing=0, offset=0, children=(), labels=None):
    if type(kind) is str:
        kind = pa.type_for_alias(kind)
    return Crafted(pa.lib._restore_array, ((kind, length, missing, offset, list(buffers), list(children), labels),))


def column(array, dtype=TEXT.dtypes.iloc[0], cls=pd.arrays.ArrowStringArray, **more):
    return Object(cls, {"_pa_array": array, "_dtype": dtype, "_cache": {}, **more})


INT64 = pd.ArrowDtype(pa.int64())
INNER = (pa.int8(), 1, 0, 0, [None, pa.py_buffer(b"a")], [], None)
WORD = pa.py_buffer(bytes(8))
ARRAYS = {
    "an end outside of the text": array(buffers=(None, offsets(0, 1, 3), BYTES)),
    "an end far outside": array(buffers=(None, offsets(0, 1, FAR), BYTES)),
    "a start before the text": array(buffers=(None, offsets(-1, 1, 2), BYTES)),
    "a start far before": array(buffers=(None, offsets(-FAR, 1, 2), BYTES)),
    "elements that overlap": array(buffers=(None, offsets(0, 2, 1), BYTES)),
    "an end that wraps": array(buffers=(None, offsets(0, -1, 2), BYTES)),
    "too few offsets": array(buffers=(None, offsets(0, 1), BYTES)),
    "half an offset": array(buffers=(None, pa.py_buffer(bytes(20)), BYTES)),
    "offsets of the other width": array("string", buffers=(None, AB, BYTES), length=6),
    "short offsets outside": array("string", buffers=(None, offsets(0, 1, 3, letter="i"), BYTES)),
    "short offsets that overlap": array("string", buffers=(None, offsets(0, 2, 1, letter="i"), BYTES)),
    "bytes outside": array("large_binary", buffers=(None, offsets(0, 1, 9), BYTES)),
    "no offsets": array(buffers=(None, None, BYTES)),
    "no text": array(buffers=(None, AB, None)),
    "no buffers": array(buffers=()),
    "one buffer": array(buffers=(None,)),
    "two buffers": array(buffers=(None, AB)),
    "four buffers": array(buffers=(None, AB, BYTES, BYTES)),
    "three buffers for numbers": array("int64", buffers=(None, AB, BYTES)),
    "a length of 2**62": array(length=FAR),
    "a length whose bytes wrap": array("int64", length=2**61, buffers=(None, WORD)),
    "a length that no register holds": array(length=2**70),
    "a negative length": array(length=-1),
    "a negative offset": array(offset=-1),
    "an offset behind": array(offset=1),
    "an offset that wraps with the length": array(offset=2**63 - 1, length=1),
    "an offset that no register holds": array(offset=2**70),
    "a length that is a truth": array(length=True),
    "a length that is text": array(length="2"),
    "more missing than there are": array(missing=3, buffers=(pa.py_buffer(b"\0"), AB, BYTES)),
    "fewer missing than there are": array(missing=0, buffers=(pa.py_buffer(b"\1"), AB, BYTES)),
    "missing without a bitmap": array(missing=1),
    "a negative number of missing": array(missing=-2),
    "a bitmap that is too short": array(
        "int8", length=9, buffers=(pa.py_buffer(b"\1"), pa.py_buffer(bytes(9))), missing=-1
    ),
    "an empty bitmap": array(buffers=(pa.py_buffer(b""), AB, BYTES)),
    "no UTF-8": array(buffers=(None, AB, pa.py_buffer(b"\xff\xfe"))),
    "half a character each": array(buffers=(None, AB, pa.py_buffer("é".encode()))),
    "too few numbers": array("int64", length=2, buffers=(None, WORD)),
    "too few truths": array("bool", length=65, buffers=(None, WORD)),
    "no numbers": array("int64", length=1, buffers=(None, None)),
    "a time after midnight": array("time64[ns]", length=1, buffers=(None, offsets(2**60))),
    "an array inside": array(children=[INNER]),
    "a dictionary": array("int8", length=1, buffers=(None, pa.py_buffer(b"a")), labels=INNER),
    "a buffer that is bytes": array(buffers=(None, AB, b"ab")),
    "buffers that are a tuple": Crafted(pa.lib._restore_array, ((pa.int8(), 1, 0, 0, (None, BYTES), [], None),)),
    "a type that is text": Crafted(pa.lib._restore_array, (("int8", 1, 0, 0, [None, BYTES], [], None),)),
    "a type that is an array": Crafted(pa.lib._restore_array, ((pa.array([1]), 1, 0, 0, [None, BYTES], [], None),)),
    "a tuple that is too short": Crafted(pa.lib._restore_array, ((pa.int8(), 1, 0, 0, [None, BYTES]),)),
    "nothing at all": Crafted(pa.lib._restore_array, ((),)),
    "a type that has no bytes": array("null", length=FAR, buffers=(None,)),
    "views of text": array("string_view", length=1, buffers=(None, pa.py_buffer(bytes([20, 0, 0, 0, *([255] * 12)])))),
    "a calendar's steps": array("month_day_nano_interval", length=1, buffers=(None, pa.py_buffer(bytes(16)))),
    "an unknown type": Crafted(pa.lib.type_for_alias, ("list<int8>",)),
    "another name of a type": Crafted(pa.lib.type_for_alias, ("LARGE_STR",)),
    "a type that is a number": Crafted(pa.lib.type_for_alias, (1,)),
    "a buffer of an array": Crafted(pa.lib.py_buffer, (np.arange(3),)),
    "a buffer of a buffer": Crafted(pa.lib.py_buffer, (BYTES,)),
    "a buffer of a size": Crafted(pa.lib.py_buffer, (10**12,)),
    "a zone that is a file": Zoned("ns", "dateutil//etc/passwd"),
    "a zone that climbs": Zoned("ns", "../../etc/passwd"),
    "a zone that is a path": Zoned("ns", "/etc/localtime"),
    "a unit that is none": Zoned("D", None),
}
GOOD = array()
COLUMNS = {
    "text of bytes": column(array("large_binary")),
    "text of numbers": column(array("int64", length=1, buffers=(None, WORD))),
    "a list": column(["a", "b"]),
    "an array of NumPy": column(np.array(["a"])),
    "a frame": column(pd.DataFrame({"a": [1]})),
    "two arrays": column(GOOD, _data=GOOD),
    "something else": column(GOOD, shape=(10,)),
    "a cache": Object(
        pd.arrays.ArrowStringArray, {"_pa_array": GOOD, "_dtype": TEXT.dtypes.iloc[0], "_cache": {"a": 1}}
    ),
    "no type": Object(pd.arrays.ArrowStringArray, {"_pa_array": GOOD}),
    "the library's own text": column(GOOD, pd.StringDtype("python")),
    "text that says it is numbers": column(GOOD, INT64, pd.arrays.ArrowExtensionArray),
    "numbers that say they are text": column(array("int64", length=1, buffers=(None, WORD)), TEXT.dtypes.iloc[0]),
    "no state": Object(pd.arrays.ArrowStringArray),
    "a type of nothing": Object(pd.ArrowDtype, {"pyarrow_dtype": None}),
    "a type of NumPy": Object(pd.ArrowDtype, {"pyarrow_dtype": np.dtype("i8")}),
}
LOADS = """
import pathlib, sys
from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import load
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        value = load(memoryview(path.read_bytes()), where=path.name, allow=Allow())
    except MalformedError as error:
        print(path.name, "refused", error.message.replace(chr(10), " "))
    else:
        value.to_pylist() if hasattr(value, "to_pylist") else value
        print(path.name, "loaded")
"""


def in_a_process_of_its_own(folder):
    """Load every file of a folder: what crashes would take the tests with it."""
    run = [sys.executable, "-c", LOADS, str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_whatever_points_outside_is_refused_and_nothing_crashes(tmp_path):
    hostile = {**ARRAYS, **COLUMNS}
    for place, value in enumerate(hostile.values()):
        (tmp_path / f"{place:03}").write_bytes(pickle.dumps(value, 2 + place % 4))
    found = in_a_process_of_its_own(tmp_path)
    answers = {name: found[f"{place:03}"] for place, name in enumerate(hostile)}
    assert {name: answer for name, answer in answers.items() if not answer.startswith("refused")} == {}
    assert {name: answer for name, answer in answers.items() if "the pickle failed" in answer} == {}


def mutated(chance):
    """An honest array, some of whose numbers and buffers are others."""
    values = ["a", None, "", "longer", "é"][: chance.randint(0, 5)]
    honest = pa.array(values, chance.choice([pa.string(), pa.large_string()]))[chance.randint(0, 2) :]
    kind, *numbers, buffers, children, labels = honest.__reduce__()[1][0]
    for _ in range(chance.randint(0, 2)):
        numbers[chance.randrange(3)] = chance.choice([-1, 0, 1, 2, 7, 8, 63, 2**31, 2**60, 2**63 - 1])
    held = [None if buffer is None else bytearray(buffer.to_pybytes()) for buffer in buffers]
    for buffer in held:
        if buffer and chance.random() < 0.5:
            buffer[chance.randrange(len(buffer))] = chance.randrange(256)
        if buffer and chance.random() < 0.2:
            del buffer[chance.randrange(len(buffer)) :]
    made = [None if buffer is None else pa.py_buffer(bytes(buffer)) for buffer in held]
    return Crafted(pa.lib._restore_array, ((kind, *numbers, made, children, labels),))


def test_what_is_let_through_can_be_read_to_its_end(tmp_path):
    chance = random.Random(7)
    for place in range(1500):
        (tmp_path / f"{place:04}").write_bytes(pickle.dumps(mutated(chance), 4))
    answers = {answer.partition(" ")[0] for answer in in_a_process_of_its_own(tmp_path).values()}
    assert answers == {"refused", "loaded"}


def test_what_was_checked_cannot_be_written_to_afterwards():
    text = bytearray(b"ab")
    made, kept = again(pickle.dumps([array(buffers=(None, AB, pa.py_buffer(text))), text], 5))
    kept[:] = b"\xff\xff"
    assert made.to_pylist() == ["a", "b"]
    assert not any(buffer.is_mutable for buffer in made.buffers() if buffer is not None)


NESTED = {
    "dictionary": pa.array(["a"]).dictionary_encode(),
    "list_": pa.array([[1]]),
    "struct": pa.array([{"a": 1}]),
    "run_end_encoded": pa.compute.run_end_encode(pa.array([1, 1])),
    "decimal128": pa.array([1]).cast(pa.decimal128(20)),
    "uuid": pa.array([bytes(16)], pa.binary(16)).cast(pa.uuid()),
}


@pytest.mark.parametrize("name", NESTED)
def test_other_types_need_a_permission_and_are_refused_even_then(name):
    content = memoryview(pickle.dumps(NESTED[name], 4))
    with pytest.raises(UntrustedCodeError, match=re.escape(f"pyarrow.lib.{name}")):
        load(content, where="x", allow=Allow())
    allowed = Allow.of(audit(content, where="x").untrusted)
    with pytest.raises(MalformedError, match=r"x: a column of the type .*not read from pickles") as caught:
        load(content, where="x", allow=allowed)
    assert "convert the column" in caught.value.remedy


MADE = {
    "by an opcode": b"\x80\x02cpyarrow.lib\nLargeStringArray\n)\x81.",
    "by a function": b"ccopy_reg\n_reconstructor\n(cpyarrow.lib\nLargeStringArray\nc__builtin__\nobject\nNtR.",
    "without arguments": b"(ipyarrow.lib\nLargeStringArray\n.",
}


@pytest.mark.parametrize("content", MADE.values(), ids=MADE)
def test_a_class_of_pyarrow_is_not_made_without_its_content_even_where_it_is_allowed(content):
    content = memoryview(content)
    with pytest.raises(MalformedError, match=r"a pyarrow\.lib\.LargeStringArray without its content"):
        load(content, where="x", allow=Allow.of(["pyarrow.lib.LargeStringArray"]))


def test_taking_the_same_bytes_again_and_again_is_bounded():
    shared = [None, offsets(0, 100_000), pa.py_buffer(b"a" * 100_000)]
    array, kind = pa.lib._restore_array, pa.large_string()
    content = pickle.dumps([Crafted(array, ((kind, 1, 0, 0, shared, [], None),)) for _ in range(100)], 4)
    found = audit(memoryview(content), where="x").findings
    assert [one.rule for one in found] == ["limit"]


WITHOUT = """
import sys
sys.modules["pyarrow"] = None
from vitrify.core.errors import MissingDependencyError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import audit, load
content = memoryview(sys.stdin.buffer.read())
assert audit(content, where="x").findings == ()
assert not {"numpy", "pandas"} & set(sys.modules)
try:
    load(content, where="x", allow=Allow())
except MissingDependencyError as error:
    print(error.remedy)
"""


@pytest.mark.parametrize("value", [TEXT, TEXT.dtypes.iloc[0], INT64], ids=["a frame", "text", "numbers"])
def test_without_pyarrow_it_is_scanned_and_the_extra_is_named(value):
    run = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(run, input=pickle.dumps(value), capture_output=True, timeout=240, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, b"pip install 'vitrify[parquet]'"), done.stderr[-2000:]


def test_auditing_needs_no_pyarrow_and_loading_other_things_does_not_import_it():
    code = (
        "import sys, pickle; from vitrify.pickles.machine import load; from vitrify.core.protocols import Allow; "
        "load(memoryview(pickle.dumps([1])), where='x', allow=Allow()); assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
