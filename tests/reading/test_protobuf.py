from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import PEAK, assert_linear
from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from wire import message, varint

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.formats._protos.onnx import SCHEMA
from vitrify.formats.onnx import Onnx
from vitrify.reading import _protobuf_wire, protobuf
from vitrify.reading.files import HeldFiles
from vitrify.reading.protobuf import Schema, peek

DEMO = Schema(
    "demo",
    {
        "Tree": {
            "name": "1 string",
            "number": "2 ?int64",
            "data": "3 blob",
            "left": "4 Tree",
            "many": "5 *Tree",
            "numbers": "6 *int64",
        }
    },
)


def parsed(data, name="Tree", schema=DEMO):
    return schema.parse(memoryview(data), name, where="file")


@given(
    sizes=st.lists(st.sampled_from([0, 1, 31, 32, 33, 4095, 4096, 4097, 100_000]), max_size=8),
    names=st.lists(st.text(max_size=5), min_size=8, max_size=8),
)
def test_a_skeleton_says_the_same_as_the_message(sizes, names):
    tensors = [
        TensorProto(name=name, raw_data=b"x" * size, dims=[size]) for size, name in zip(sizes, names, strict=False)
    ]
    node = NodeProto(op_type="Constant", output=["c"])
    node.attribute.add(name="value").t.CopyFrom(TensorProto(raw_data=b"y" * 10_000))
    model = ModelProto(ir_version=8, graph=GraphProto(initializer=tensors, node=[node], name="g"))
    document = parsed(model.SerializeToString(), "Model", SCHEMA)
    found = list(document.each(document.root.graph, "initializer"))
    assert [(one.name, list(one.dims)) for one in found] == [(one.name, list(one.dims)) for one in tensors]
    assert [document.size(one.raw_data) for one in found] == sizes
    assert [bytes(document.whole(one.raw_data)) for one in found] == [one.raw_data for one in tensors]
    (kept,) = document.each(document.root.graph, "node")
    (attribute,) = document.each(kept, "attribute")
    assert bytes(document.whole(attribute.t.raw_data)) == b"y" * 10_000


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(data):
    peek(memoryview(data))
    try:
        document = parsed(data)
        list(document.each(document.root, "many"))
    except MalformedError:
        return


def test_zero_is_told_from_absent_where_that_matters():
    assert parsed(message((2, 0))).root.HasField("number")
    assert not parsed(b"").root.HasField("number")


def test_a_message_that_stands_twice_is_merged_as_every_reader_does():
    tree = message((4, message((1, "a"), (3, b"x" * 5000))), (4, message((2, 7))))
    document = parsed(tree)
    assert (document.root.left.name, document.root.left.number) == ("a", 7)
    assert document.size(document.root.left.data) == 5000


def test_no_file_can_make_a_stub_of_its_own():
    document = parsed(message((3, b"x" * 5000)))
    stub = document.root.data
    assert len(stub) < 100
    assert document.size(stub) == 5000
    forged = bytes(16) + stub[16:]
    assert document.size(forged) == len(forged)
    assert bytes(document.whole(forged)) == forged


def test_long_fields_that_no_schema_names_are_left_out():
    document = parsed(message((1, "a"), (99, b"x" * 100_000), (6, b"\x01" * 10_000)))
    assert document.root.ByteSize() < 20_000
    assert len(document.root.numbers) == 10_000


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\xff" * 11,
        b"\x08" + b"\x80" * 12,
        b"\x0b\x0c",
        b"\x0f",
        b"\x02\x01x",
        b"\x0a\x01\xff",
        message((3, b"x" * 5000))[:-1],
        b"\x0a" + varint(2**63) + b"x",
        message((4, b"\xff" * 5000)),
    ],
)
def test_what_is_no_message_is_malformed(data):
    with pytest.raises(MalformedError, match="file"):
        parsed(data)


def test_a_part_that_is_no_message_is_malformed_when_it_is_its_turn():
    document = parsed(message((5, message((1, "good"))), (5, b"\xff\xff")))
    parts = document.each(document.root, "many")
    assert next(parts).name == "good"
    with pytest.raises(MalformedError, match="Tree"):
        next(parts)


@pytest.mark.parametrize("filler", [b"", b"x" * 5000])
@pytest.mark.parametrize("depth", [200, 100_000])
def test_messages_nested_too_deep_are_no_crash(depth, filler):
    head = b"".join(b"\x22" + varint(5_000_000) for _ in range(10)) if depth > 1000 else b""
    data = message((3, filler))
    for _ in range(200):
        data = message((4, data))
    with pytest.raises(MalformedError):
        parsed(head + data)


def test_more_fields_or_bytes_or_parts_than_an_honest_file_has_are_a_limit(monkeypatch):
    monkeypatch.setattr(_protobuf_wire, "MAX_FIELDS", 1000)
    with pytest.raises(LimitExceededError, match="fields"):
        parsed(b"\x10\x00" * 10_000)
    monkeypatch.setattr(_protobuf_wire, "MAX_FIELDS", 10**6)
    monkeypatch.setattr(_protobuf_wire, "MAX_KEPT", 10_000)
    with pytest.raises(LimitExceededError, match="structure"):
        parsed(message((1, "x" * 11_000)))
    monkeypatch.setattr(protobuf, "_FEWEST_MESSAGES", 10)
    document = parsed(b"\x2a\x00" * 1000)
    with pytest.raises(LimitExceededError, match="parts"):
        list(document.each(document.root, "many"))


def test_more_bytes_than_any_library_reads_are_a_limit(monkeypatch):
    monkeypatch.setattr(protobuf, "MAX_BYTES", 100)
    with pytest.raises(LimitExceededError, match="100 bytes"):
        parsed(bytes(100))


def test_a_mebibyte_more_of_empty_parts_takes_little_more_memory():
    """The library's own messages of it take ten times as much."""
    script = """
        from vitrify.core.errors import VitrifyError
        from vitrify.formats.onnx import Onnx
        from vitrify.reading.files import HeldFiles

        def look(inner):
            length = bytes([len(inner) & 127 | 128, (len(inner) >> 7) & 127 | 128, len(inner) >> 14])
            files = HeldFiles({"m": memoryview(b"\\x08\\x08\\x3a" + length + inner)})
            for way in ("describe", "hazards", "graph"):
                try:
                    found = getattr(Onnx(), way)(files, {"file": "m"})
                    if way == "hazards":
                        list(found)
                except VitrifyError:
                    pass

        peaks = []
        for size in (1_000_000, 2_000_000):
            for part in (b"\\x0a\\x00", b"\\x2a\\x00", b"\\x0a\\x02\\x2a\\x00"):
                look(part * (size // len(part)))
            peaks.append(peak())
        print(peaks[1] - peaks[0])
    """
    code = PEAK + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 1024


@pytest.mark.parametrize("part", [b"\x0a\x00", b"\x2a\x00", b"\x0a\x02\x2a\x00"])
@pytest.mark.parametrize("way", ["describe", "hazards", "graph"])
def test_empty_parts_are_each_looked_at_once(part, way):
    def look(count):
        files = HeldFiles({"m": memoryview(message((1, 8), (7, part * count)))})
        with suppress(VitrifyError):
            found = getattr(Onnx(), way)(files, {"file": "m"})
            if way == "hazards":
                list(found)

    assert_linear(look, 5_000)


def test_peeking_gives_the_first_of_each_field():
    data = memoryview(message((1, 5), (2, "a"), (2, "b")) + b"\x1d\x00\x00\x00\x00")
    found = peek(data)
    assert found[1] == 5
    assert bytes(found[2]) == b"a"
    assert found[3] == 0
    assert peek(data[:-1]) is None
    assert peek(data[:-1], most=2) is not None
