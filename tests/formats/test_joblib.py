"""joblib's files: recognised, told, scanned and read, whatever compressed them."""

import os
import pickle
import zlib

import joblib
import numpy as np
import pytest
from samples import joblibs

from vitrify.core.errors import LimitExceededError, MalformedError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.joblib import Joblib
from vitrify.formats.pickle import Pickle
from vitrify.inspection.identify import identify
from vitrify.reading.files import HeldFiles, LocalFiles
from vitrify.testing.formats import FormatConformance

FORMAT = Joblib()
X = np.random.default_rng(1).random((20, 4))


def held(content):
    return HeldFiles({"x": memoryview(content)}), {"file": "x"}


def of(path):
    return LocalFiles({path.name: path}), {"file": path.name}


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class TestConformance(FormatConformance):
    format = FORMAT
    canonical = False  # joblib's pickler memoises by identity, and what was read has other identities

    def model(self):
        return joblibs.model()

    def same(self, left, right):
        return np.array_equal(left.predict_proba(X), right.predict_proba(X))


@pytest.mark.parametrize("name", joblibs.SAMPLES)
def test_a_sample_is_of_this_format_only_and_clean(name, tmp_path):
    files, entry = of(joblibs.SAMPLES[name](tmp_path))
    assert [one.row.name for one in identify(files)] == ["joblib"]
    assert list(FORMAT.hazards(files, entry)) == []


@pytest.mark.parametrize("codec", joblibs.CODECS)
def test_a_model_reads_the_same_from_every_compressor(codec, tmp_path):
    files, entry = of(joblibs.SAMPLES[f"joblib/{codec}"](tmp_path))
    model = FORMAT.read(files, entry, Allow())
    assert np.array_equal(model.predict_proba(X), joblibs.model().predict_proba(X))
    told = FORMAT.describe(files, entry)
    assert (told["class"], told["library"]) == ("sklearn.pipeline.Pipeline", "scikit-learn")
    assert told["compression"] == {"bz2": "bzip2"}.get(codec, codec)
    assert told["arrays"] > 0


def test_arrays_of_a_plain_file_are_mapped_and_writing_to_them_changes_no_file(tmp_path):
    path = tmp_path / "arrays.joblib"
    joblib.dump({"a": np.arange(10_000.0)}, path)
    before = path.read_bytes()
    array = FORMAT.read(*of(path), Allow())["a"]
    assert not array.flags.owndata
    array[:] = 0
    assert path.read_bytes() == before
    assert FORMAT.read(*of(path), Allow())["a"][1] == 1.0


@pytest.mark.parametrize("compress", [0, *joblibs.CODECS])
def test_a_payload_behind_a_raw_array_is_found_and_does_not_run(tmp_path, compress):
    path, marker = tmp_path / "model.joblib", tmp_path / "marker"
    joblib.dump([np.arange(1000.0), Payload(marker)], path, compress=(compress, 3) if compress else 0)
    files, entry = of(path)
    assert [one.row.name for one in identify(files)] == ["joblib"]
    assert [one.subject for one in FORMAT.hazards(files, entry)] == ["posix.mkdir"]
    with pytest.raises(UntrustedCodeError):
        FORMAT.read(files, entry, Allow())
    assert not marker.exists()
    joblib.load(path)
    assert marker.exists()


def test_a_plain_pickle_is_no_joblib_file_and_a_joblib_file_no_plain_pickle():
    plain = pickle.dumps({"a": [1, 2], "text": "os.system"})
    named = b"cjoblib.numpy_pickle\nload\n(S'x'\ntR."
    for content, ours in ((plain, False), (zlib.compress(plain), True), (named, True)):
        files, _ = held(content)
        assert (FORMAT.detect(files), Pickle().detect(files)) == (ours, not ours)


def test_a_compressed_file_of_another_kind_is_not_of_this_format():
    for content in (b"plain text", b"", b"\x93NUMPY\x01\x00"):
        assert not FORMAT.detect(held(zlib.compress(content))[0])


def test_what_follows_the_stream_or_the_pickle_is_found():
    content = pickle.dumps([1, 2])
    with pytest.raises(MalformedError, match="follow"):
        list(FORMAT.hazards(*held(zlib.compress(content) + content)))
    (finding,) = FORMAT.hazards(*held(zlib.compress(content + b"\0\0")))
    assert finding.rule == "trailing-bytes"


def test_a_bomb_is_a_limit_before_it_fills_anything():
    content = zlib.compress(pickle.dumps(bytes(100 << 20)), 9)
    assert FORMAT.detect(held(content)[0])
    with pytest.raises(LimitExceededError):
        list(FORMAT.hazards(*held(content)))
    with pytest.raises(LimitExceededError):
        FORMAT.read(*held(content), Allow())


def test_without_the_package_that_expands_it_a_file_is_not_checked(tmp_path, monkeypatch):
    path = tmp_path / "model.joblib"
    joblib.dump([np.arange(3)], path, compress="lz4")
    monkeypatch.setitem(__import__("sys").modules, "lz4.frame", None)
    (finding,) = FORMAT.hazards(*of(path))
    assert (finding.verdict, finding.rule) == ("not checked", "missing-package")
    assert "pip install lz4" in finding.remedy
