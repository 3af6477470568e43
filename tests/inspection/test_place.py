"""Places are put together and taken apart."""

from __future__ import annotations

import pytest

from vitrify.inspection.place import file_of, part, under, within


@pytest.mark.parametrize(
    ("place", "name", "inner", "expected"),
    [
        ("a/m.pkl", "m.pkl", "m.pkl:opcode 3", "a/m.pkl:opcode 3"),
        ("z.zip!m.pkl", "m.pkl", "m.pkl", "z.zip!m.pkl"),
        ("m.onnx", "m.onnx", "node 'x'", "m.onnx: node 'x'"),
        ("m", "m", "metadata", "m: metadata"),
        ("m", "m", "", "m"),
        ("m", "m", "m-2: x", "m: m-2: x"),
        ("", None, "sub/a.bin: x", "sub/a.bin: x"),
        ("dir", None, "a.bin", "dir/a.bin"),
    ],
)
def test_a_place_in_a_file_names_the_file_once(place, name, inner, expected):
    assert within(place, name, inner) == expected


def test_what_a_file_holds_and_what_lies_in_a_folder():
    assert (
        part("a.zip", "a.zip", "b")
        == part("a.zip", "a.zip", "a.zip!b")
        == part("a.zip", "a.zip", "a.zip: b")
        == "a.zip!b"
    )
    assert part("a", "a", "ab") == "a!ab"
    assert part("dir", None, "b") == under("dir", "b") == "dir/b"
    assert under("", "b") == "b"
    assert under("dir", "") == "dir"


def test_the_file_on_disk_comes_back_from_a_place():
    assert file_of("a/z.zip!m.pkl:opcode 3") == ("a/z.zip", "m.pkl:opcode 3")
    assert file_of("m.pkl:opcode 3") == ("m.pkl", "opcode 3")
    assert file_of("m.onnx: node") == ("m.onnx", "node")
    assert file_of("m.onnx") == ("m.onnx", "")
