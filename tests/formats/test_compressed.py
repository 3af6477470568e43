"""A compressed file is looked at as what is in it."""

import gzip
import zlib

import numpy as np
import pytest
import zstandard
from samples import arrays

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats.compressed import Compressed
from vitrify.inspection.identify import identify
from vitrify.reading.files import HeldFiles, LocalFiles

FORMAT = Compressed()
ENTRY = {"file": "x"}


def held(content):
    return HeldFiles({"x": memoryview(content)})


@pytest.mark.parametrize("name", [name for name in arrays.SAMPLES if name.startswith("compressed/")])
def test_its_content_is_handed_on(name, tmp_path):
    path = arrays.SAMPLES[name](tmp_path)
    files = LocalFiles({"x": path})
    assert [one.row.name for one in identify(files)] == ["compressed"]
    assert list(FORMAT.hazards(files, ENTRY)) == []
    ((place, inner),) = FORMAT.parts(files, ENTRY)
    assert place == "x: content"
    assert [one.row.name for one in identify(inner)] == ["numpy"]
    assert FORMAT.describe(files, ENTRY)["bytes"] == 128 + arrays.PLAIN["weight"].nbytes


def test_text_that_begins_like_a_stream_is_none():
    for content in (b"x^2 + y^2 = 1, as everybody knows", b"BZh is how bzip2 files begin", b"]\x00 and so on", b""):
        assert not FORMAT.detect(held(content))


def test_what_is_broken_or_follows_is_refused():
    packed = gzip.compress(np.arange(1000).tobytes())
    for content in (packed[:-1], packed + b"more"):
        assert FORMAT.detect(held(content))
        with pytest.raises(MalformedError):
            list(FORMAT.hazards(held(content), ENTRY))


def test_a_bomb_is_a_limit():
    packed = zlib.compress(bytes(100 << 20), 9)
    with pytest.raises(LimitExceededError):
        list(FORMAT.parts(held(packed), ENTRY))


def test_without_the_package_that_expands_it_a_file_is_not_checked(monkeypatch):
    packed = zstandard.ZstdCompressor().compress(b"text")
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    assert FORMAT.detect(held(packed))
    (finding,) = FORMAT.hazards(held(packed), ENTRY)
    assert finding.verdict == "not checked"
    assert list(FORMAT.parts(held(packed), ENTRY)) == []
