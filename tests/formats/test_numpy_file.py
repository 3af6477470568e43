"""NumPy's files: arrays are told without being read, read where they lie, and pickles in them audited."""

import io
import os
import zipfile

import numpy as np
import pytest
from samples import arrays

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.numpy_file import NumpyFile
from vitrify.inspection.identify import files_at, identify
from vitrify.reading.files import HeldFiles, LocalFiles
from vitrify.testing.directory import DirectorySink
from vitrify.testing.formats import FormatConformance

FORMAT = NumpyFile()


def held(content):
    return HeldFiles({"x": memoryview(content)}), {"file": "x"}


def of(path):
    return LocalFiles({path.name: path}), {"file": path.name}


def npz(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_npy", ".npy"), content)
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class TestConformance(FormatConformance):
    format = FORMAT

    def model(self):
        return dict(arrays.PLAIN)

    def same(self, left, right):
        return left.keys() == right.keys() and all(repr(left[name]) == repr(right[name]) for name in left)


@pytest.mark.parametrize("name", [name for name in arrays.SAMPLES if name.startswith("numpy/")])
def test_a_sample_is_of_this_format_only_and_clean(name, tmp_path):
    files, entry = of(arrays.SAMPLES[name](tmp_path))
    assert [one.row.name for one in identify(files)] == ["numpy"]
    assert list(FORMAT.hazards(files, entry)) == []


@pytest.mark.parametrize("name", ["numpy/npz", "numpy/npz-compressed"])
def test_named_arrays_are_read_as_numpy_reads_them(name, tmp_path):
    path = arrays.SAMPLES[name](tmp_path)
    found = FORMAT.read(*of(path), Allow())
    with np.load(path) as expected:
        assert found.keys() == set(expected)
        assert all(repr(found[key]) == repr(expected[key]) for key in expected)
        assert all(found[key].dtype == expected[key].dtype for key in expected)


def test_an_array_alone_is_read_where_it_lies(tmp_path):
    found = FORMAT.read(*of(arrays.npy(tmp_path)), Allow())
    assert np.array_equal(found, arrays.PLAIN["weight"])
    assert not found.flags.owndata
    assert not found.flags.writeable


def test_arrays_are_told_in_the_common_words(tmp_path):
    told = FORMAT.describe(*of(arrays.npz(tmp_path)))
    assert told["container"] == "npz"
    assert told["tensors"][0] == {"name": "weight", "type": "float32", "shape": [3, 4], "bytes": 48}
    assert told["precision"]["float32"] == 12
    assert told["pickles"] == []


def test_an_array_of_objects_is_a_pickle_and_is_audited(tmp_path):
    marker = tmp_path / "marker"
    content = npy(np.array([Payload(marker), 1], dtype=object))
    for files, entry in (held(content), held(npz(a_npy=npy(np.arange(3)), b_npy=content))):
        assert FORMAT.detect(files)
        assert FORMAT.describe(files, entry)["pickles"]
        assert [one.subject for one in FORMAT.hazards(files, entry)] == ["posix.mkdir"]
        with pytest.raises(UntrustedCodeError):
            FORMAT.read(files, entry, Allow())
    assert not marker.exists()
    np.load(io.BytesIO(content), allow_pickle=True)
    assert marker.exists()


def test_an_array_of_plain_objects_is_read(tmp_path):
    found = FORMAT.read(*of(arrays.npy_objects(tmp_path)), Allow())
    assert found.tolist() == arrays.OBJECTS.tolist()


def test_another_value_than_the_array_that_was_announced_is_refused():
    content = bytearray(npy(np.array([None], dtype=object)))
    at = content.index(b"\x80", 10)
    with pytest.raises(MalformedError, match="no array"):
        FORMAT.read(*held(bytes(content[:at]) + b"\x80\x04N."), Allow())


def test_what_follows_an_array_or_its_pickle_is_found():
    with pytest.raises(MalformedError):
        list(FORMAT.hazards(*held(npy(np.arange(3)) + b"\x80\x04N.")))
    (finding,) = FORMAT.hazards(*held(npy(np.array([None], dtype=object)) + b"\x80\x04N."))
    assert finding.rule == "trailing-bytes"


def test_a_zip_file_with_something_else_in_it_is_not_of_this_format():
    for content in (npz(a_npy=npy(np.arange(3)), readme=b"x"), npz(a_npy=b"text"), npz()):
        assert not FORMAT.detect(held(content)[0])


def test_an_archive_that_readers_would_read_in_two_ways_is_found_and_not_read():
    content = b"\x80\x04N." + npz(a_npy=npy(np.arange(3)))
    assert FORMAT.detect(held(content)[0])
    assert list(FORMAT.hazards(*held(content)))
    with pytest.raises(MalformedError):
        FORMAT.read(*held(content), Allow())


def test_a_header_larger_than_any_is_a_limit():
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }" + b" " * 1_000_000
    content = b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + bytes(8)
    with pytest.raises(LimitExceededError):
        FORMAT.describe(*held(content))


def test_everything_that_a_file_cannot_keep_is_listed_at_once(tmp_path):
    model = {
        "masked": np.ma.array([1, 2], mask=[True, False]),
        "objects": np.array([None], dtype=object),
        "list": [1, 2],
        3: np.arange(2),
        "fine": np.arange(2),
    }
    with pytest.raises(UnsupportedModelError) as caught:
        FORMAT.write(model, DirectorySink(tmp_path), None)
    assert {one.place for one in caught.value.problems} == {"masked", "objects", "list", "3"}
    for nothing in ({}, [np.arange(2)]):
        with pytest.raises(UnsupportedModelError):
            FORMAT.write(nothing, DirectorySink(tmp_path), None)


def test_a_name_that_could_leave_a_folder_is_not_written(tmp_path):
    with pytest.raises(UnsupportedModelError, match="npy"):
        FORMAT.write({"../x": np.arange(2)}, DirectorySink(tmp_path), None)


def test_names_of_arrays_are_no_paths(tmp_path):
    arrays = {"W": np.ones(2), "w": np.zeros(2), "layer:0/b": np.arange(3)}
    np.savez(tmp_path / "a.npz", **arrays)
    files = files_at(tmp_path / "a.npz")
    assert not list(NumpyFile().hazards(files, {"file": "a.npz"}))
    loaded = NumpyFile().read(files, {"file": "a.npz"}, Allow())
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())
