from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import varint

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.reading import sstable
from vitrify.reading.sstable import MAGIC, entries, is_table


def block(pairs):
    """Return a block as LevelDB writes it, keys sharing what they have in common with the one before."""
    body, last = b"", b""
    for key, value in pairs:
        shared = next((i for i, (a, b) in enumerate(zip(last, key, strict=False)) if a != b), min(len(last), len(key)))
        body += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return body + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def table(blocks, *, kind=0):
    """Return a table of blocks."""
    data, index = b"", []
    for pairs in blocks:
        body = block(pairs)
        index.append((pairs[-1][0] if pairs else b"", varint(len(data)) + varint(len(body))))
        data += body + bytes([kind]) + bytes(4)
    meta = varint(len(data)) + varint(8)
    data += block([]) + bytes(5)
    body = block(index)
    footer = (meta + varint(len(data)) + varint(len(body))).ljust(40, b"\0")
    return data + body + bytes(5) + footer + MAGIC


def read(data):
    return [(key, bytes(value)) for key, value in entries(memoryview(data), where="file")]


@given(st.dictionaries(st.binary(max_size=6), st.binary(max_size=20), min_size=1, max_size=30), st.integers(1, 10))
def test_entries_come_back(held, size):
    pairs = sorted(held.items())
    data = table([pairs[at : at + size] for at in range(0, len(pairs), size)])
    assert is_table(memoryview(data))
    assert read(data) == pairs


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_read_or_malformed(at, value):
    data = bytearray(table([[(b"a", b"1"), (b"ab", b"2")], [(b"b", b"3" * 50)]]))
    data[at % len(data)] = value
    try:
        read(data)
    except MalformedError:
        return


@pytest.mark.parametrize("cut", [1, 8, 48, 60])
def test_a_table_that_is_cut_off_is_malformed(cut):
    data = table([[(b"a", b"1")]])
    with pytest.raises(MalformedError):
        read(data[:-cut])


def test_keys_out_of_order_are_malformed():
    with pytest.raises(MalformedError, match="after"):
        read(table([[(b"b", b"1"), (b"a", b"2")]]))
    with pytest.raises(MalformedError, match="after"):
        read(table([[(b"a", b"1")], [(b"a", b"2")]]))


def test_a_block_that_leaves_the_file_is_malformed():
    data = bytearray(table([[(b"a", b"1")]]))
    footer = (varint(0) + varint(8) + varint(2**40) + varint(100)).ljust(40, b"\0")
    data[-48:-8] = footer
    with pytest.raises(MalformedError, match="block"):
        read(data)


def test_a_compressed_block_is_a_limit():
    with pytest.raises(LimitExceededError, match="compressed"):
        read(table([[(b"a", b"1")]], kind=1))


def test_keys_that_grow_out_of_each_other_are_a_limit(monkeypatch):
    monkeypatch.setattr(sstable, "MAX_KEYS", 1000)
    pairs = [(b"x" * 100 + bytes([i]), b"") for i in range(20)]
    with pytest.raises(LimitExceededError, match="keys"):
        read(table([pairs]))
