"""Recipes of strangers: payloads in archives, behind other files, under other names; bombs. None of them runs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save
from samples import plain

from vitrify.inspection.scan import scan, scan_files
from vitrify.reading.files import HeldFiles

pytestmark = pytest.mark.timeout(120)
"""Against what never ends; how long it takes is for the benchmarks."""


class Payload:
    def __reduce__(self):
        return (os.system, ("touch marker",))


PAYLOADS = [pickle.dumps(Payload(), protocol) for protocol in range(6)]


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path, monkeypatch):
    """Every payload would leave a marker here."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "marker").exists()


def look(data, name="file"):
    return scan_files(HeldFiles({name: memoryview(data)}))


def rules(report):
    return {finding.rule for finding in report.findings}


def zipped(method=zipfile.ZIP_STORED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return stream.getvalue()


def tarred(data, name="data.pkl"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


WRAPPERS = {
    "zip": lambda data: zipped(inner__txt=data),
    "deflated zip": lambda data: zipped(zipfile.ZIP_DEFLATED, inner__txt=data),
    "zip in zip": lambda data: zipped(inner__zip=zipped(a__bin=data)),
    "tar": tarred,
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "tar.gz": lambda data: gzip.compress(tarred(data)),
    "zip in tar.gz": lambda data: gzip.compress(tarred(zipped(a=data))),
}


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_payload_in_an_archive_is_found(wrap, protocol):
    report = look(WRAPPERS[wrap](PAYLOADS[protocol]), "model.pt")
    assert report.verdict == "found"
    assert "untrusted-global" in rules(report)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_the_harmless_twin_is_clean(wrap):
    data = pickle.dumps({"note": "os.system('x')", "eval": [1, 2.5, None]})
    report = look(WRAPPERS[wrap](data), "model.pt")
    assert report.verdict == "clean", str(report)


@pytest.mark.parametrize("name", ["m.safetensors", "m.onnx", "m.h5", "m.gguf", "README.md", "m"])
@pytest.mark.parametrize("protocol", range(6))
def test_a_payload_under_another_name_is_found(name, protocol):
    assert look(PAYLOADS[protocol], name).verdict == "found"


WEIGHTS = save({"w": np.zeros(4, np.float32)})
FRONTS = {
    "pickle": pickle.dumps([1, 2, 3]),
    "weights": WEIGHTS,
    "picture": plain.png(),
    "text": b"some words\n",
    "script": b"#!/bin/sh\nexit\n",
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("tail", ["", "\n", "more"])
def test_a_zip_file_behind_something_else_is_never_clean(front, tail):
    report = look(FRONTS[front] + zipped(data__pkl=PAYLOADS[2]) + tail.encode())
    assert report.verdict != "clean"


@pytest.mark.parametrize("front", ["pickle", "weights", "picture"])
def test_a_pickle_behind_something_else_is_never_clean(front):
    assert look(FRONTS[front] + PAYLOADS[4]).verdict == "found"


def test_a_pickle_that_is_a_zip_file_too_is_found_as_both():
    report = look(pickle.dumps([1]) + zipped(a=b"text"))
    assert "two-formats" in rules(report)


def test_a_tar_file_whose_last_member_is_a_zip_file_is_one_thing():
    report = look(tarred(zipped(a=b"text"), "inner.zip"))
    assert report.verdict == "clean", str(report)


def test_two_ends_of_a_zip_file_are_found():
    first, second = zipped(a=b"text"), zipped(a=PAYLOADS[2])
    assert look(first + second).verdict == "found"


@pytest.mark.parametrize("levels", [2, 12])
def test_a_bomb_ends_at_a_limit(levels):
    data = bytes(32 * 2**20)
    for _ in range(levels):
        data = gzip.compress(data, 1) if len(data) < 2**20 else gzip.compress(data)
    report = look(data)
    assert report.verdict == "not checked"


def test_a_bomb_of_many_members_ends_at_a_limit():
    packed = zlib.compress(bytes(40 * 2**20))
    assert len(packed) < 50_000
    inner = zipped(zipfile.ZIP_DEFLATED, a=bytes(40 * 2**20))
    bomb = zipped(**{f"m{number}": inner for number in range(20)})
    assert look(bomb).verdict == "not checked"


def test_many_names_are_no_reason_to_wait():
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    count = 20_000
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(entry) * count, 0, 0)
    assert look(entry * count + end).verdict != "clean"


SEEDS = [*PAYLOADS, WEIGHTS, plain.png(), zipped(a=PAYLOADS[2]), tarred(PAYLOADS[0]), gzip.compress(PAYLOADS[3])]


@given(st.sampled_from(SEEDS), st.data())
def test_a_damaged_file_gives_a_report(data, draw):
    broken = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(broken) - 1))
        broken[at] = draw.draw(st.integers(0, 255))
    end = draw.draw(st.integers(0, len(broken)))
    report = look(bytes(broken[:end]))
    assert "failed" not in rules(report), str(report)


def test_a_scan_of_a_folder_of_all_of_them_finds_each(tmp_path):
    for name, wrap in WRAPPERS.items():
        (tmp_path / name).write_bytes(wrap(PAYLOADS[2]))
    places = {finding.place.partition("!")[0].partition(":")[0] for finding in scan(tmp_path).findings}
    assert places >= set(WRAPPERS)
