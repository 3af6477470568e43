"""The reader of MLIR bytecode, against the modules that MLIR itself wrote as text and as bytecode."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import graph_files

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.reading import mlir


def number(value):
    """Return a number as bytecode has it, in the fewest bytes."""
    for size in range(1, 9):
        if value < 1 << 7 * size:
            return (((value << 1) | 1) << (size - 1)).to_bytes(size, "little")
    return b"\0" + value.to_bytes(8, "little")


def section(kind, content):
    return bytes([kind]) + number(len(content)) + content


def file(operations, *, names=("builtin", "op"), properties=None, version=6, types=1):
    """Return bytecode of one dialect, one name of an operation, one attribute and some types."""
    texts = [name.encode() + b"\0" for name in names]
    strings = number(len(texts)) + b"".join(number(len(text)) for text in reversed(texts)) + b"".join(texts)
    dialects = number(1) + number(0) + number(1) + number(0) + number(1) + number(1 << 1)
    sizes = number(1) + number(types) + number(0) + number(1) + number(1 << 1 | 1)
    sizes += number(0) + number(types) + (number(1 << 1 | 1)) * types
    whole = b"ML\xefR" + number(version) + b"test\0"
    whole += section(1, dialects) + section(3, sizes) + section(2, b"\x1f" * (1 + types))
    whole += section(4, operations) + section(0, strings)
    return whole + (section(8, properties) if properties is not None else b"")


def parse(content):
    return mlir.parse(memoryview(content), where="test")


def plain(count=0, mask=0):
    """Return the header of a block of operations without anything, then so many of them."""
    return number(count << 1) + (number(0) + bytes([mask]) + number(0)) * count


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_numbers_of_every_length_are_read(value, rest):
    cursor = mlir.Cursor(memoryview(number(value) + rest), "test")
    assert cursor.number() == value
    assert len(cursor.view) - cursor.at == len(rest)
    signed = mlir.Cursor(memoryview(number(value)), "test").signed()
    assert ((signed << 1) ^ (signed >> 63)) & (2**64 - 1) == value


def test_a_file_of_our_own_is_read_as_it_was_meant():
    found = parse(file(plain(3)))
    assert (found.version, found.producer, found.dialects) == (6, "test", ["builtin"])
    assert [one.name for one in found.top.operations] == ["builtin.op"] * 3
    assert [(one.dialect, bytes(one.data), one.encoded) for one in found.types] == [("builtin", b"\x1f", True)]


def depth(region):
    return 1 + max((depth(inner) for one in region.operations for inner in one.regions), default=0)


def test_what_mlir_writes_is_read_with_its_regions_and_values():
    for name in ("bytecode", "old", "plain"):
        found = parse(graph_files.written(graph_files.JAX)[name])
        (module,) = found.top.operations
        (body,) = module.regions
        assert [len(one.regions[0].arguments) for one in body.operations] == [2, 3, 4]
        assert depth(found.top) == 4
    assert found.producer.startswith("MLIR")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no MLIR bytecode"),
        (b"ML\xefR" + number(7) + b"x\0", "version 7"),
        (b"ML\xefR" + number(6) + b"x\0", "no section 0"),
        (b"ML\xefR" + number(6) + b"xxxx", "cut off"),
        (file(number(1 << 1) + number(1)), "operation name 1, of 1"),
        (file(number(1 << 1) + number(0) + b"\0" + number(1)), "attribute 1, of 1"),
        (file(number(1 << 1) + number(0) + b"\2" + number(0) + number(1) + number(1)), "type 1, of 1"),
        (file(number(1 << 1) + number(0) + b"\2" + number(0) + number(1) + number(0)), "more values than the 0"),
        (file(number(1 << 1) + number(0) + b"\4" + number(0) + number(1) + number(0)), "value 0, of 0"),
        (file(number(1 << 1) + number(0) + b"\x40" + number(0) + number(0)), "properties 0, of 0"),
        (file(plain(1)) + section(4, b"\1"), "section 4 twice"),
        (file(number(2**40 << 1)), "more operations"),
        (file(b"\0" + b"\xff" * 8), "cut off"),
    ],
)
def test_what_leads_nowhere_is_refused(content, message):
    with pytest.raises(MalformedError, match=f"test: .*{message}"):
        parse(content)


@pytest.mark.parametrize("isolated", [False, True])
def test_regions_nest_only_so_deep(isolated):
    block = plain()
    for _ in range(mlir.DEEPEST + 10):
        region = number(1) + number(0) + block
        inside = number(1 << 1 | isolated) + (section(4, region) if isolated else region)
        block = number(1 << 1) + number(0) + b"\x10" + number(0) + inside
    with pytest.raises(LimitExceededError, match="deeper"):
        parse(file(block))


@given(st.data())
def test_no_change_of_bytes_raises_anything_else(data):
    content = bytearray(graph_files.written(graph_files.JAX)["bytecode"])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedError):
        parse(bytes(content[: data.draw(st.integers(0, len(content)))]))


@given(st.binary(max_size=80))
def test_no_operations_raise_anything_else(content):
    with suppress(MalformedError):
        parse(file(content))
