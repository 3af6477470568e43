"""A header, metadata, index or file as an enemy would write it is malformed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import numpy as reference_numpy

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.core.protocols import Allow
from vitrify.formats._safetensors.header import Tensor, encode, nbytes, parse
from vitrify.formats.safetensors import Safetensors
from vitrify.inspection.identify import files_at


def file_of(header: bytes | dict[str, Any], data: bytes = b"") -> memoryview:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return memoryview(len(text).to_bytes(8, "little") + text + data)


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE = {
    "an empty file": memoryview(b""),
    "a short length": memoryview(b"\x02\x00\x00"),
    "a length past the end": memoryview((100).to_bytes(8, "little") + b"{}"),
    "a length of 2**63": memoryview((2**63).to_bytes(8, "little") + b"{}"),
    "a leading space": file_of(b" {}"),
    "no JSON": file_of(b"{nope"),
    "a list": file_of(b"[]"),
    "invalid UTF-8": file_of(b'{"\xff": 1}'),
    "deep nesting": file_of(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a name twice": file_of(
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    ),
    "NaN": file_of(b'{"__metadata__":{"a":NaN}}'),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}}),
    "metadata no map": file_of({"__metadata__": ["a"]}),
    "an unknown type": file_of({"a": entry("OBJECT")}, bytes(8)),
    "a type that cannot be hashed": file_of({"a": entry([])}, bytes(8)),
    "a negative size": file_of({"a": entry(shape=[-2, -1])}, bytes(8)),
    "a fractional size": file_of({"a": entry(shape=[2.0])}, bytes(8)),
    "a size of true": file_of({"a": entry(shape=[True, 2])}, bytes(8)),
    "a product beyond 64 bits": file_of({"a": entry(shape=[2**40, 2**40, 0], offsets=[0, 0])}),
    "an endless integer": file_of(
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}', bytes(8)
    ),
    "too many dimensions": file_of({"a": entry(shape=[1] * 65, offsets=[0, 4])}, bytes(4)),
    "three offsets": file_of({"a": entry(offsets=[0, 8, 8])}, bytes(8)),
    "backward offsets": file_of({"a": entry(offsets=[8, 0])}, bytes(8)),
    "an end past the file": file_of({"a": entry()}, bytes(7)),
    "bytes that nobody owns": file_of({"a": entry()}, bytes(9)),
    "a hole": file_of({"a": entry(), "b": entry(offsets=[12, 20])}, bytes(20)),
    "an overlap": file_of({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12)),
    "two in one place": file_of({"a": entry(), "b": entry()}, bytes(8)),
    "a field too many": file_of({"a": {**entry(), "more": 1}}, bytes(8)),
    "a field too few": file_of({"a": {"dtype": "F32"}}, bytes(8)),
    "an entry that is text": file_of({"a": "F32"}),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_malformed(data):
    with pytest.raises(MalformedError, match=r"evil\.safetensors"):
        parse(data, where="evil.safetensors")


EXTRAS = {
    "no JSON": "{",
    "a list": "[]",
    "a tie to nothing": '{"tied":{"b":["none",0]}}',
    "a tie that is stored": '{"tied":{"a":["a",0]}}',
    "a tie without place": '{"tied":{"b":["a"]}}',
    "an object type": '{"dtypes":{"a":"O"}}',
    "a type of another size": '{"dtypes":{"a":"<c16"}}',
    "a structured type": '{"dtypes":{"a":"f4,f4,O"}}',
    "a type of nothing": '{"dtypes":{"none":">f4"}}',
}


@pytest.mark.parametrize("text", EXTRAS.values(), ids=EXTRAS)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_hostile_metadata_is_malformed(text, kind, files_and_sink):
    place = files_and_sink()
    data = encode({"a": Tensor("F32", (2,), 0, 8)}, {"vitrify": text}) + bytes(8)
    place.put("x.safetensors", data)
    with pytest.raises(MalformedError):
        Safetensors().read(place.files(), {"kind": kind}, Allow())


@pytest.mark.parametrize(
    "index",
    [
        "{",
        "[]",
        "{}",
        '{"weight_map": []}',
        '{"weight_map": {"a": ["x"]}}',
        '{"weight_map": {"a": "x.safetensors", "missing": "y.safetensors"}}',
    ],
)
def test_an_index_that_disagrees_is_malformed(index, files_and_sink):
    place = files_and_sink()
    place.put("x.safetensors", encode({"a": Tensor("F32", (2,), 0, 8)}, {}) + bytes(8))
    place.put("x.safetensors.index.json", index.encode())
    with pytest.raises(MalformedError):
        Safetensors().read(place.files(), {}, Allow())


def test_a_tensor_in_two_shards_is_malformed(files_and_sink):
    place = files_and_sink()
    for name in "xy":
        place.put(f"{name}.safetensors", encode({"a": Tensor("F32", (2,), 0, 8)}, {}) + bytes(8))
    with pytest.raises(MalformedError, match="stands in"):
        Safetensors().read(place.files(), {}, Allow())


SMALL = encode({"a": Tensor("F32", (2, 1), 0, 8), "b": Tensor("I8", (3,), 8, 11)}, {"k": "v"}) + bytes(range(11))


@settings(max_examples=300)
@given(position=st.integers(0, len(SMALL) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_in_the_header_is_malformed_or_still_a_valid_file(position, bit):
    flipped = bytearray(SMALL)
    flipped[position] ^= 1 << bit
    try:
        header = parse(memoryview(flipped), where="flipped")
    except MalformedError:
        return
    assert sum(tensor.end - tensor.start for tensor in header.tensors.values()) == len(flipped) - header.offset
    assert all(nbytes(t.dtype, t.shape) == t.end - t.start for t in header.tensors.values())


@given(cut=st.integers(0, len(SMALL) - 1), more=st.binary(max_size=4))
def test_a_truncated_or_longer_file_is_malformed(cut, more):
    with pytest.raises(MalformedError):
        parse(memoryview(SMALL[:cut]), where="cut")
    if more:
        with pytest.raises(MalformedError):
            parse(memoryview(SMALL + more), where="longer")


@pytest.mark.parametrize(("dtype", "shape", "size"), [("F4", [3], 2), ("F6_E2M3", [2], 2), ("F4", [4], 4)])
def test_elements_that_do_not_fill_their_bytes_are_malformed(dtype, shape, size):
    text = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    with pytest.raises(MalformedError):
        parse(memoryview(len(text).to_bytes(8, "little") + text + bytes(size)), where="x")


@pytest.mark.parametrize("extra", [b"\x80\x04.", bytes(1)])
def test_bytes_behind_the_tensors_are_a_hazard(extra, tmp_path):
    (tmp_path / "m").write_bytes(reference_numpy.save({"a": np.zeros(2)}) + extra)
    with pytest.raises(MalformedError, match="bytes of data"):
        list(Safetensors().hazards(files_at(tmp_path / "m"), {"file": "m"}))


def test_a_header_of_more_values_than_any_model_has_is_a_limit():
    text = b'{"a":[' + b"1," * 4_000_001 + b"1]}"
    with pytest.raises(LimitExceededError):
        parse(memoryview(len(text).to_bytes(8, "little") + text), where="test")
