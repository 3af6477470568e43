"""HDF5 files of which nothing more is known: what is in them, and what leads out of them."""

from __future__ import annotations

import io

import h5py
import numpy as np
import pytest
from measured import assert_linear
from samples import keras_files

from vitrify.core.catalog import catalog
from vitrify.core.errors import MalformedError
from vitrify.formats.hdf5 import Hdf5
from vitrify.inspection.identify import files_at, identify
from vitrify.reading.files import HeldFiles


def written(fill, **options):
    stream = io.BytesIO()
    with h5py.File(stream, "w", **options) as file:
        fill(file)
    return stream.getvalue()


def found(data):
    return list(Hdf5().hazards(held(data), {}))


def held(data):
    return HeldFiles({"data.h5": memoryview(data)})


def rules(data):
    return [(one.rule, one.subject, one.verdict) for one in found(data)]


@pytest.mark.parametrize("options", [{}, {"libver": "latest"}])
def test_an_honest_file_is_known_described_and_clean(tmp_path, options):
    (one,) = identify(files_at(keras_files.plain(tmp_path, **options)))
    assert (one.row.name, one.row.generic) == ("hdf5", True)
    said = one.format.describe(one.files, one.entry)
    assert {entry["name"]: (entry["type"], entry["shape"]) for entry in said["tensors"]} == {
        "a/weights": ("float32", [3, 4]),
        "a/half": ("float16", [3]),
        "packed": ("int64", [999]),
        "words": ("string", [2]),
    }
    assert said["metadata"] == {"title": "things", "sizes": [0, 1, 2]}
    assert said["links"] == [{"name": "/soft", "to": "/a/weights"}]
    assert list(one.format.hazards(one.files, one.entry)) == []
    assert list(one.format.parts(one.files, one.entry)) == []


def test_links_that_lead_out_of_the_file_are_found():
    def fill(file):
        file["there"] = h5py.ExternalLink("/etc/passwd", "/x")
        file["nowhere"] = h5py.SoftLink("/nothing/here")
        file["a/near"] = h5py.SoftLink("here")
        file["a/here"] = [1]
        file["by"] = h5py.SoftLink("there")

    assert rules(written(fill)) == [
        ("soft-link", "there", "found"),
        ("soft-link", "/nothing/here", "found"),
        ("external-link", "/etc/passwd", "found"),
    ]


def test_data_in_other_files_is_found():
    def fill(file):
        file.create_dataset("raw", (4,), "i4", external=[("../raw.bin", 0, 16)])
        layout = h5py.VirtualLayout((4,), "i4")
        layout[:] = h5py.VirtualSource("source.h5", "data", (4,))
        file.create_virtual_dataset("virtual", layout)

    data = written(fill, libver="latest")
    assert rules(data) == [("external-data", "../raw.bin", "found"), ("virtual-dataset", "source.h5", "found")]


def test_a_filter_that_has_to_be_searched_for_is_found():
    data = written(lambda file: file.create_dataset("x", data=np.arange(99), chunks=(9,), compression="gzip"))
    at = data.index(b"deflate") - 8
    assert rules(data[:at] + (32015).to_bytes(2, "little") + data[at + 2 :]) == [("native-filter", "32015", "found")]
    assert not rules(written(lambda file: file.create_dataset("x", data=np.arange(99), compression="lzf")))


def test_bytes_around_the_file_proper_are_found_and_handed_on():
    data = bytearray(written(lambda file: file.create_group("a"), userblock_size=512))
    assert not rules(bytes(data))
    data[:4] = b"\x80\x04N."
    assert rules(bytes(data) + b"PK") == [("hidden-bytes", "", "found")] * 2
    assert [(place, files.names()) for place, files in Hdf5().parts(held(bytes(data) + b"PK"), {})] == [
        ("data.h5: before", ("before",)),
        ("data.h5: after", ("after",)),
    ]


def test_a_dataset_of_more_than_the_file_can_hold_is_not_checked():
    data = written(lambda file: file.create_dataset("x", (2**30,), "f4", chunks=(2**10,)))
    assert rules(data) == [("shape-bomb", "", "not checked")]
    many = written(lambda file: [file.create_dataset(f"x{n}", (2**22,), "f4", chunks=(9,)) for n in range(9)])
    assert rules(many) == [("shape-bomb", "", "not checked")]


def test_data_beyond_the_end_and_a_shape_larger_than_its_data_are_refused():
    data = written(lambda file: file.create_dataset("x", data=np.full(40, 7, np.int64)))
    start = data.index((7).to_bytes(8, "little") * 40)
    own = start.to_bytes(8, "little") + (320).to_bytes(8, "little")
    assert own in data
    for forged in ((1 << 40).to_bytes(8, "little") + own[8:], own[:8] + (80).to_bytes(8, "little")):
        with pytest.raises(MalformedError):
            found(data.replace(own, forged))


def test_what_is_reached_in_many_ways_is_looked_at_once():
    def filled(count):
        def fill(file):
            group = file.create_group("g")
            for number in range(count):
                group.create_group(f"{number}")
            for number in range(count):
                file[f"again{number}"] = group

        return written(fill)

    files = {count: filled(count) for count in (250, 500)}
    assert_linear(lambda count: rules(files[count]), 250)
    assert not rules(files[500])


def test_the_row_is_asked_after_all_that_know_more():
    assert catalog().row("format", "hdf5").generic
