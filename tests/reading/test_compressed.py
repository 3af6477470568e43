"""Compressed streams: whole, within bounds, and nothing after them."""

import bz2
import gzip
import lzma
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError, MissingDependencyError, VitrifyError
from vitrify.reading import compressed


def zfile(data):
    return b"ZF" + hex(len(data)).ljust(19).encode() + zlib.compress(data)


WRITERS = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "lz4": lz4.frame.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "zfile": zfile,
}
CHAINED = ("gzip", "bzip2", "xz", "lz4", "zstd")

every_codec = pytest.mark.parametrize("name", WRITERS)


@every_codec
@given(data=st.binary(max_size=3000), times=st.sampled_from([1, 100]))
def test_what_was_packed_comes_out_and_its_start_can_be_had_alone(name, data, times):
    packed = memoryview(WRITERS[name](data * times))
    assert compressed.codec(packed) == name
    assert compressed.expand(packed, where="x") == data * times
    assert compressed.begin(packed, 10) == (data * times)[:10]


@every_codec
def test_more_than_one_chunk_comes_out_whole(name):
    data = bytes(range(256)) * 20_000
    assert compressed.expand(memoryview(WRITERS[name](data)), where="x") == data


@every_codec
@given(end=st.floats(0, 1, exclude_max=True))
def test_a_stream_that_is_cut_off_is_refused(name, end):
    packed = WRITERS[name](b"some text that is long enough to be cut" * 3)
    with pytest.raises(MalformedError):
        compressed.expand(memoryview(packed[: int(end * len(packed))]), where="x")


@every_codec
def test_what_follows_a_stream_is_refused(name):
    packed = WRITERS[name](b"content")
    for rest in (b"x", b"\x80\x04.", b"\x1f\x8b"):
        with pytest.raises(MalformedError, match=r"follow|after it"):
            compressed.expand(memoryview(packed + rest), where="x")


@pytest.mark.parametrize("name", CHAINED)
def test_streams_one_after_the_other_are_one_content(name):
    packed = WRITERS[name](b"one ") + WRITERS[name](b"two")
    assert compressed.expand(memoryview(packed), where="x") == b"one two"


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in CHAINED])
def test_formats_that_have_one_stream_have_one(name):
    with pytest.raises(MalformedError):
        compressed.expand(memoryview(WRITERS[name](b"one ") * 2), where="x")


@pytest.mark.parametrize("name", ["gzip", "xz"])
def test_zeros_may_pad_what_tapes_and_blocks_pad(name):
    assert compressed.expand(memoryview(WRITERS[name](b"one") + bytes(512)), where="x") == b"one"


def test_more_streams_than_anyone_writes_are_a_limit(monkeypatch):
    monkeypatch.setattr(compressed, "MAX_STREAMS", 10)
    with pytest.raises(LimitExceededError):
        compressed.expand(memoryview(gzip.compress(b"") * 11), where="x")


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz", "lzma", "zstd"])
def test_a_bomb_is_stopped_while_it_expands_and_takes_little_memory(name):
    packed = memoryview(WRITERS[name](bytes(80 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceededError, match="expands to more"):
            compressed.expand(packed, where="x")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["xz", "lzma"])
def test_a_dictionary_that_no_preset_asks_for_is_a_limit(name):
    kind = lzma.FORMAT_XZ if name == "xz" else lzma.FORMAT_ALONE
    filters = [{"id": lzma.FILTER_LZMA2 if name == "xz" else lzma.FILTER_LZMA1, "dict_size": 1 << 28}]
    packer = lzma.LZMACompressor(format=kind, filters=filters)
    with pytest.raises(LimitExceededError, match="memory"):
        compressed.expand(memoryview(packer.compress(b"x" * 100) + packer.flush()), where="x")


@every_codec
@given(data=st.data())
def test_a_flipped_bit_gives_the_content_or_an_error_of_ours(name, data):
    packed = bytearray(WRITERS[name](b"a content with a checksum behind it, mostly " * 4))
    bit = data.draw(st.integers(0, 8 * len(packed) - 1))
    packed[bit // 8] ^= 1 << bit % 8
    try:
        compressed.expand(memoryview(packed), where="x")
    except VitrifyError:
        compressed.begin(memoryview(packed), 10)


def test_an_old_file_that_lies_about_its_size_is_refused():
    packed = zfile(b"content").replace(b"0x7 ", b"0x8 ")
    with pytest.raises(MalformedError, match="says 8"):
        compressed.expand(memoryview(packed), where="x")


def test_what_python_2_put_before_the_stream_is_passed_over():
    packed = b"ZF" + hex(7).ljust(20).encode() + zlib.compress(b"content")
    assert compressed.expand(memoryview(packed), where="x") == b"content"


@pytest.mark.parametrize("content", [b"", b"x", b"plain text", b"\x80\x04.", b"PK\x03\x04", b"x\x9d", b"]\x00\x00\x00"])
def test_other_content_is_of_no_codec(content):
    assert compressed.codec(memoryview(content)) is None
    with pytest.raises(MalformedError, match="no compressed stream"):
        compressed.expand(memoryview(content), where="x")


@pytest.mark.parametrize(("name", "module"), [("lz4", "lz4.frame"), ("zstd", "zstandard")])
def test_a_missing_package_is_named(name, module, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        compressed.expand(memoryview(WRITERS[name](b"x")), where="x")
