"""The reader of FlatBuffers, against what the builder of their own library writes."""

import struct
from contextlib import suppress

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.reading import flatbuffer

SCALARS = {
    "<b": (flatbuffers.number_types.Int8Flags, st.integers(-(2**7), 2**7 - 1)),
    "<B": (flatbuffers.number_types.Uint8Flags, st.integers(0, 2**8 - 1)),
    "<h": (flatbuffers.number_types.Int16Flags, st.integers(-(2**15), 2**15 - 1)),
    "<H": (flatbuffers.number_types.Uint16Flags, st.integers(0, 2**16 - 1)),
    "<i": (flatbuffers.number_types.Int32Flags, st.integers(-(2**31), 2**31 - 1)),
    "<I": (flatbuffers.number_types.Uint32Flags, st.integers(0, 2**32 - 1)),
    "<q": (flatbuffers.number_types.Int64Flags, st.integers(-(2**63), 2**63 - 1)),
    "<Q": (flatbuffers.number_types.Uint64Flags, st.integers(0, 2**64 - 1)),
    "<f": (flatbuffers.number_types.Float32Flags, st.floats(width=32, allow_nan=False)),
    "<d": (flatbuffers.number_types.Float64Flags, st.floats(allow_nan=False)),
    "<?": (flatbuffers.number_types.BoolFlags, st.booleans()),
}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def root(data):
    return flatbuffer.root(memoryview(bytes(data)), where="test")


def vector(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for one in reversed(offsets):
        builder.PrependUOffsetTRelative(one)
    return builder.EndVector()


def table(builder, offsets):
    """Return a table of fields that lead elsewhere; None leaves one out."""
    builder.StartObject(len(offsets))
    for field, offset in enumerate(offsets):
        if offset is not None:
            builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    return builder.EndObject()


def finish(builder, offset, identifier=b"TEST"):
    builder.Finish(offset, file_identifier=identifier)
    return bytes(builder.Output())


@given(st.data())
def test_scalars_of_every_width_are_what_was_written_and_absent_ones_their_default(data):
    kinds = data.draw(st.lists(st.sampled_from(sorted(SCALARS)), min_size=1, max_size=12))
    values = [data.draw(SCALARS[kind][1]) for kind in kinds]
    left_out = data.draw(st.sets(st.integers(0, len(kinds) - 1)))
    builder = flatbuffers.Builder(0)
    builder.StartObject(len(kinds))
    for field, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if field not in left_out:
            builder.Prepend(SCALARS[kind][0], value)
            builder.Slot(field)
    found = root(finish(builder, builder.EndObject()))
    for field, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        assert found.number(field, kind, "absent") == ("absent" if field in left_out else value)
        assert found.has(field) == (field not in left_out)
    assert found.number(len(kinds), "<i", 7) == 7


@given(
    st.lists(TEXTS, max_size=6), TEXTS, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9), st.binary(max_size=9)
)
def test_text_vectors_and_nested_tables_are_what_was_written(texts, name, numbers, raw):
    builder = flatbuffers.Builder(0)
    listed = vector(builder, [builder.CreateString(one) for one in texts])
    many = builder.CreateNumpyVector(np.array(numbers, "<i8")) if numbers else None
    inner = [table(builder, [builder.CreateString(one)]) for one in texts]
    fields = [listed, builder.CreateString(name), many, builder.CreateByteVector(raw), vector(builder, inner)]
    content = finish(builder, table(builder, [*fields, inner[0] if inner else None]))
    found = root(content)
    assert flatbuffer.identifier(content) == b"TEST"
    assert found.texts(0) == texts
    assert found.text(1) == name
    assert found.numbers(2, "q") == numbers
    assert found.array(2, "<i8").tolist() == numbers
    assert found.count(2) == len(numbers)
    assert bytes(found.bytes(3)) == raw
    assert [one.text(0) for one in found.tables(4)] == texts
    assert (found.maybe(5) is None) == (not texts)
    for absent in (6, 100):
        assert (found.texts(absent), found.text(absent), found.numbers(absent), found.tables(absent)) == (
            [],
            "",
            [],
            [],
        )
        assert found.maybe(absent) is None
        with pytest.raises(MalformedError, match=f"no field {absent}"):
            found.table(absent)


@pytest.mark.parametrize("kind", [0, 3])
def test_a_union_is_its_kind_and_its_table(kind):
    builder = flatbuffers.Builder(0)
    inner = table(builder, [builder.CreateString("inside")])
    builder.StartObject(2)
    builder.PrependUint8Slot(0, kind, 0)
    builder.PrependUOffsetTRelativeSlot(1, inner, 0)
    which, found = root(finish(builder, builder.EndObject())).union(0, 1)
    assert which == kind
    assert (found.text(0) if found else None) == ("inside" if kind else None)


def sample():
    builder = flatbuffers.Builder(0)
    listed = vector(builder, [builder.CreateString(one) for one in ("a", "bc")])
    inner = vector(builder, [table(builder, [builder.CreateString("deep")])])
    numbers = builder.CreateNumpyVector(np.arange(5, dtype="<i4"))
    return finish(builder, table(builder, [listed, inner, numbers]))


def walk(found):
    found.texts(0)
    found.numbers(2)
    found.array(2, "<i4")
    found.bytes(2)
    found.inline()
    for one in found.tables(1):
        one.text(0)
        one.inline()


@given(st.data())
def test_no_change_of_bytes_leads_out_of_the_buffer(data):
    content = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    with suppress(MalformedError):
        walk(root(content[: data.draw(st.integers(0, len(content)))]))


def test_every_truncation_is_refused():
    content = sample()
    for size in range(len(content) - 3):
        with pytest.raises(MalformedError):
            walk(root(content[:size]))


@pytest.mark.parametrize("offset", [0, 2**31, 2**32 - 1, 2**32 - 4])
def test_a_root_outside_is_refused(offset):
    with pytest.raises(MalformedError, match="test: "):
        root(struct.pack("<I", offset) + bytes(60))


def test_negative_offsets_to_the_list_of_fields_are_refused():
    with pytest.raises(MalformedError, match="points to"):
        root(struct.pack("<Ii", 4, 2**31 - 1) + bytes(60))
    with pytest.raises(MalformedError, match="points to"):
        root(struct.pack("<Ii", 4, -(2**31)) + bytes(60))


def doubling():
    """Return tables that each lead twice to the next one: two to the power of forty ways."""
    builder = flatbuffers.Builder(0)
    inner = table(builder, [])
    for _ in range(40):
        inner = table(builder, [vector(builder, [inner, inner])])
    return finish(builder, inner)


def test_tables_that_are_shared_are_not_walked_without_end():
    def walk_all(found):
        for one in found.tables(0):
            walk_all(one)

    with pytest.raises(LimitExceededError, match="tables"):
        walk_all(root(doubling()))


def test_text_that_is_shared_is_not_copied_without_end():
    builder = flatbuffers.Builder(0)
    long = builder.CreateString("x" * 1_000_000)
    found = root(finish(builder, table(builder, [vector(builder, [long] * 1000)])))
    with pytest.raises(LimitExceededError, match="larger than it is"):
        found.texts(0)


def test_the_end_is_the_last_byte_that_was_looked_at():
    content = sample()
    found = root(content + bytes(100))
    walk(found)
    assert len(content) - 4 <= found.buffer.end <= len(content)


@given(st.binary(max_size=120))
def test_no_bytes_make_it_raise_anything_else(content):
    with suppress(MalformedError):
        walk(root(content))
