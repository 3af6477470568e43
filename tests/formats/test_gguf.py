from __future__ import annotations

import pickle
import struct

import pytest
from gguf import GGML_QUANT_SIZES, GGUFReader
from gguf.constants import GGMLQuantizationType, LlamaFileType
from hypothesis import given
from hypothesis import strategies as st
from measured import MIB, memory
from samples import weights

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.formats import _facts
from vitrify.formats._gguf.types import BLOCKS, RECIPES
from vitrify.formats.gguf import Gguf
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles

FORMAT = Gguf()
ENTRY = {"file": "m"}


def held(data):
    return HeldFiles({"m": memoryview(data)})


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def tensor(name, shape, kind, start):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, start)


def made(entries=(), tensors=(), content=b"", counts=None):
    """A file of version 3, its tensors' bytes at the next multiple of 32."""
    keys, listed = counts or (len(entries), len(tensors))
    head = b"GGUF" + struct.pack("<IQQ", 3, listed, keys) + b"".join([*entries, *tensors])
    return head + bytes(-len(head) % 32) + content


def rules(data):
    return [finding.rule for finding in FORMAT.hazards(held(data), ENTRY)]


@pytest.mark.parametrize("name", ["gguf/llama", "gguf/big-endian"])
def test_tensors_and_metadata_are_those_of_the_reference_reader(name, tmp_path):
    path = weights.SAMPLES[name](tmp_path)
    shown = FORMAT.describe(files_at(path), {"file": path.name})
    reference = GGUFReader(path)
    assert [one["name"] for one in shown["tensors"]] == [one.name for one in reference.tensors]
    assert [one["bytes"] for one in shown["tensors"]] == [one.n_bytes for one in reference.tensors]
    assert [one["shape"] for one in shown["tensors"]] == [one.shape.tolist()[::-1] for one in reference.tensors]
    assert [one["type"] for one in shown["tensors"]] == [
        _facts.element(one.tensor_type.name) for one in reference.tensors
    ]
    assert shown["parameters"] == sum(one.n_elements for one in reference.tensors)
    assert (shown["architecture"], shown["license"], shown["context_length"]) == ("llama", "apache-2.0", 2048)
    assert shown["chat_templates"] == ["tokenizer.chat_template"]


def test_a_large_vocabulary_is_counted_and_not_copied(tmp_path):
    path = weights.kept("m.gguf", weights.gguf(tokens=100_000))(tmp_path)
    with memory() as measured:
        shown = FORMAT.describe(files_at(path), {"file": path.name})
    assert measured.used < path.stat().st_size + 4 * MIB
    assert shown["tokenizer"]["tokens"] == 100_000
    assert shown["metadata"]["tokenizer.ggml.tokens"]["first"][0] == "token0"


def test_the_types_are_those_of_the_reference():
    theirs = {kind.value: (kind.name, *GGML_QUANT_SIZES[kind]) for kind in GGMLQuantizationType}
    # The Python package has Q8_1 with two floats more than ggml.
    assert {kind: tuple(block) for kind, block in BLOCKS.items() if kind != 9} == {
        kind: block for kind, block in theirs.items() if kind != 9 and kind in BLOCKS
    }
    names = {kind.value: kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
    assert {kind: names[kind] for kind in RECIPES if kind in names} == {k: v for k, v in RECIPES.items() if k in names}


ALIGNED = entry("general.alignment", 4, struct.pack("<I", 32))
ONE = tensor("w", (8,), 0, 0)
REFUSED = {
    "alignment 0": made([entry("general.alignment", 4, bytes(4))]),
    "alignment 3": made([entry("general.alignment", 4, struct.pack("<I", 3))]),
    "a tensor past the end": made([], [tensor("w", (1 << 20,), 0, 0)], bytes(64)),
    "a shape whose product overflows": made([], [tensor("w", (1 << 62, 1 << 62), 0, 0)], bytes(64)),
    "a start past the end": made([], [tensor("w", (1,), 0, 1 << 63)], bytes(64)),
    "a start that is not aligned": made([], [tensor("w", (1,), 0, 4)], bytes(64)),
    "a row that is no multiple of a block": made([], [tensor("w", (31,), 2, 0)], bytes(64)),
    "two tensors of one name": made([], [ONE, ONE], bytes(64)),
    "a key twice": made([ALIGNED, ALIGNED]),
    "an unknown type of value": made([entry("k", 99, b"")]),
    "arrays in arrays without end": made([entry("k", 9, struct.pack("<IQ", 9, 1) * 9)]),
    "a text longer than the file": made([entry("k", 8, struct.pack("<Q", 1 << 62))]),
    "an array longer than the file": made([entry("k", 9, struct.pack("<IQ", 6, 1 << 61))]),
    "too many dimensions": made([], [tensor("w", (1,) * 9, 0, 0)]),
    "another version": b"GGUF\x09\0\0\0" + bytes(16),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_header_that_lies_is_refused(how):
    for look in (FORMAT.describe, lambda *given: list(FORMAT.hazards(*given))):
        with pytest.raises(MalformedError):
            look(held(REFUSED[how]), ENTRY)


@pytest.mark.parametrize("counts", [(1 << 60, 0), (0, 1 << 60)])
def test_a_count_that_no_model_has_is_a_limit(counts):
    with pytest.raises(LimitExceededError):
        FORMAT.describe(held(made(counts=counts)), ENTRY)


def test_a_long_array_of_text_is_a_limit():
    with pytest.raises(LimitExceededError):
        FORMAT.describe(held(made([entry("k", 9, struct.pack("<IQ", 8, 1 << 60))])), ENTRY)


def test_bytes_behind_the_tensors_are_found_and_handed_on():
    payload = pickle.dumps({"a": 1})
    data = made([], [ONE], bytes(32) + payload)
    assert rules(data) == ["hidden-bytes"]
    ((_, files),) = FORMAT.parts(held(data), ENTRY)
    assert files.read(files.names()[0]) == payload


def test_bytes_between_the_tensors_are_found_and_padding_is_not():
    two = [tensor("a", (1,), 0, 0), tensor("b", (1,), 0, 32)]
    assert rules(made([], two, bytes(36))) == []
    assert rules(made([], two, bytes(4) + b"hidden" + bytes(26))) == ["hidden-bytes"]
    assert rules(made([], [tensor("a", (1,), 0, 0), tensor("b", (1,), 0, 64)], bytes(68))) == ["hidden-bytes"]


def test_tensors_that_share_bytes_are_found():
    assert rules(made([], [tensor("a", (16,), 0, 0), tensor("b", (8,), 0, 32)], bytes(64))) == ["overlap"]


def test_a_type_that_is_not_known_is_not_checked():
    (finding,) = FORMAT.hazards(held(made([], [tensor("a", (4,), 77, 0)], bytes(4096))), ENTRY)
    assert (finding.rule, finding.verdict) == ("unknown-type", "not checked")


def test_a_template_is_judged_and_never_rendered():
    evil = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    for key in ("tokenizer.chat_template", "tokenizer.chat_template.tool_use"):
        found = list(FORMAT.hazards(held(made([entry(key, 8, text(evil))])), ENTRY))
        assert {one.rule for one in found} == {"template"}
        assert key in found[0].place
    assert rules(made([entry("tokenizer.chat_template", 8, text(weights.CHATML))])) == []
    assert rules(made([entry("general.description", 8, text(evil))])) == []


@given(st.data())
def test_no_bytes_make_it_do_anything_but_describe_or_refuse(data):
    start = made([ALIGNED], [ONE], bytes(32))
    cut = data.draw(st.integers(8, len(start)))
    content = start[:cut] + data.draw(st.binary(max_size=80))
    for look in (FORMAT.describe, lambda *given: list(FORMAT.hazards(*given))):
        try:
            look(held(content), ENTRY)
        except VitrifyError:
            continue


def test_a_gibibyte_is_described_without_being_read(tmp_path):
    path = tmp_path / "large.gguf"
    size = 1 << 30
    with path.open("wb") as stream:
        stream.write(made([], [tensor("w", (size // 4,), 0, 0)]))
        stream.truncate(stream.tell() + size)
    with memory() as measured:
        assert FORMAT.describe(files_at(path), {"file": path.name})["bytes"] == size
        assert not list(FORMAT.hazards(files_at(path), {"file": path.name}))
    assert measured.used < 16 * MIB
