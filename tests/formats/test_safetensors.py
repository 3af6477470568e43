"""Tensors of every type and layout come back as they were, and the reference library reads the same file."""

from __future__ import annotations

import json
import threading
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import numpy as reference_numpy
from safetensors import torch as reference_torch

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats._safetensors import write
from vitrify.formats._safetensors.header import nbytes, parse
from vitrify.formats.safetensors import Safetensors
from vitrify.inspection.identify import files_at

NUMPY = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
ML = ("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz")
TORCH = (*NUMPY, *ML, "complex64", "complex128")


def save(model, files_and_sink):
    place = files_and_sink()
    return Safetensors().write(model, place.sink, None), place


def round_trip(model, files_and_sink):
    written, place = save(model, files_and_sink)
    return Safetensors().read(place.files(), json.loads(json.dumps(written.entry)), Allow())


def assert_same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if isinstance(expected, torch.Tensor):
        assert torch.equal(
            actual.reshape(-1).contiguous().view(torch.uint8), expected.reshape(-1).contiguous().view(torch.uint8)
        )
    else:
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a.T,
        lambda a: a[::2],
        lambda a: a[:, ::-1],
        lambda a: a[::-3, 1::2],
        np.asfortranarray,
        lambda a: a[:0],
        lambda a: a[1, 2],
        lambda a: np.asarray(a[1, 2]),
        lambda a: np.broadcast_to(a[0], (5, *a.shape[1:])),
        lambda a: a.astype(">f4"),
        lambda a: a.astype(">i8")[::-1].T,
        lambda a: a.astype("<M8[ns]"),
        lambda a: a.astype(">m8[s]"),
        lambda a: a.astype(np.complex128).T * 1j,
        lambda a: a.astype(">c16"),
        lambda a: a.astype(np.complex64)[:, 0],
    ],
)
def test_an_array_of_any_layout_comes_back_equal(make, files_and_sink):
    array = np.asarray(make(np.arange(24, dtype=np.float64).reshape(4, 6)))
    assert_same(round_trip({"a": array}, files_and_sink)["a"], array)


@pytest.mark.parametrize("name", [*NUMPY, *ML, "complex64", "complex128"])
def test_every_numpy_type_comes_back_with_its_type(name, files_and_sink):
    dtype = np.dtype(getattr(ml_dtypes, name)) if name in ML else np.dtype(name)
    array = np.arange(6).astype(dtype).reshape(2, 3).T
    assert_same(round_trip({"a": array}, files_and_sink)["a"], array)


@pytest.mark.parametrize("name", TORCH)
def test_every_torch_type_comes_back_with_its_type(name, files_and_sink):
    tensor = torch.arange(6).to(torch.float32).to(getattr(torch, name)).reshape(2, 3)
    state = {"a": tensor.T, "scalar": tensor[1, 1], "none": tensor[:0], "one": tensor[0, :1]}
    back = round_trip(state, files_and_sink)
    for key, value in state.items():
        assert_same(back[key], value)


def test_a_conjugated_or_negated_view_keeps_its_values(files_and_sink):
    values = torch.tensor([1 + 2j, 3 - 4j])
    back = round_trip({"conj": values.conj(), "neg": values.conj().imag}, files_and_sink)
    assert torch.equal(back["conj"], values.conj().resolve_conj())
    assert torch.equal(back["neg"], values.conj().imag.resolve_neg())


def test_tied_tensors_are_stored_once_and_come_back_tied_in_their_places(files_and_sink):
    weight = torch.randn(100, 10)
    state = {"decoder": weight, "middle": torch.zeros(1), "encoder": torch.nn.Parameter(weight), "late": weight[:]}
    written, place = save(state, files_and_sink)
    assert len(place.files().read("model.safetensors")) < 1.5 * weight.nbytes
    back = Safetensors().read(place.files(), written.entry, Allow())
    assert list(back) == ["decoder", "middle", "encoder", "late"]
    assert back["decoder"] is back["encoder"] is back["late"]
    assert torch.equal(back["decoder"], weight)


def test_tied_arrays_stay_tied_and_equal_copies_do_not_become_tied(files_and_sink):
    array = np.arange(5.0)
    back = round_trip({"a": array, "b": array, "c": array.copy()}, files_and_sink)
    assert back["a"] is back["b"]
    assert back["c"] is not back["a"]
    assert not np.shares_memory(back["a"], back["c"])


def test_different_views_of_one_buffer_are_stored_apart_and_said(files_and_sink):
    base = torch.arange(10.0)
    written, place = save({"all": base, "head": base[:4], "other": torch.ones(3)}, files_and_sink)
    assert len(written.notes) == 1
    assert "all, head" in written.notes[0]
    assert "other" not in written.notes[0]
    assert torch.equal(Safetensors().read(place.files(), written.entry, Allow())["head"], base[:4])


def test_the_same_dict_gives_the_same_bytes(files_and_sink):
    state = {"b": np.arange(6).reshape(2, 3).T, "a": np.zeros(3, np.float16)}
    places = [save(state, files_and_sink)[1] for _ in range(2)]
    assert places[0].files().read("model.safetensors") == places[1].files().read("model.safetensors")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_everything_that_cannot_be_kept_is_listed_at_once(files_and_sink):
    state = {
        "fine": torch.ones(1),
        "nested": {"a": torch.ones(1)},
        "number": 3,
        "sparse": torch.eye(2).to_sparse(),
        "meta": torch.empty(2, device="meta"),
        "array": np.array(["text"]),
        7: torch.ones(1),
        "\ud800": torch.ones(1),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    }
    place = files_and_sink()
    with pytest.raises(UnsupportedModelError) as caught:
        Safetensors().write(state, place.sink, None)
    assert {problem.place for problem in caught.value.problems} == {
        "the dict",
        *(repr(name) for name in state if name != "fine"),
    }
    assert not place.files().names()


@pytest.mark.parametrize("array", [np.array([object()]), np.ma.array([1, 2]), np.zeros(2, "f4,i4"), np.longdouble([1])])
def test_an_array_that_would_lose_something_is_refused(array, files_and_sink):
    with pytest.raises(UnsupportedModelError):
        save({"a": array}, files_and_sink)


def test_a_model_that_is_no_dict_is_refused_with_the_way_out(files_and_sink):
    with pytest.raises(UnsupportedModelError, match="state_dict"):
        save(torch.nn.Linear(1, 1), files_and_sink)


def test_arrays_are_read_only_views_of_the_mapped_file(files_and_sink):
    back = round_trip({"a": np.arange(5.0), "b": np.arange(3).astype(">i4")}, files_and_sink)
    assert not back["a"].flags.writeable
    assert not back["b"].flags.writeable
    assert not back["a"].flags.owndata


def test_writing_into_a_loaded_tensor_leaves_the_file_alone(files_and_sink):
    written, place = save({"a": torch.zeros(5000)}, files_and_sink)
    before = place.files().read("model.safetensors")
    Safetensors().read(place.files(), written.entry, Allow())["a"].add_(1)
    assert place.files().read("model.safetensors") == before


def test_a_large_dict_becomes_shards_of_about_equal_size(files_and_sink, monkeypatch):
    monkeypatch.setattr(write, "SHARD", 4000)
    state = {f"t{i:02d}": torch.full((100,), float(i)) for i in range(32)} | {"big": torch.ones(3000), "tie": None}
    state["tie"] = state["t00"]
    written, place = save(state, files_and_sink)
    names = place.files().names()
    assert names[0] == f"model-00001-of-{len(names) - 1:05d}.safetensors"
    sizes = [
        nbytes(tensor.dtype, tensor.shape)
        for name in names[:-1]
        for tensor in parse(place.files().map(name), where=name).tensors.values()
    ]
    assert max(sizes) == 12000
    assert written.entry["shards"] == list(names[:-1])
    back = Safetensors().read(place.files(), written.entry, Allow())
    assert list(back) == list(state)
    assert all(torch.equal(back[name], state[name]) for name in state)
    assert back["tie"] is back["t00"]


def test_shards_are_written_at_the_same_time(files_and_sink, monkeypatch):
    monkeypatch.setattr(write, "SHARD", 100)
    monkeypatch.setattr(write.os, "cpu_count", lambda: 2)
    place = files_and_sink()
    together = threading.Barrier(2, timeout=20)
    original = place.sink.open

    def meet(name, kind):
        if kind == "weight":
            together.wait()
        return original(name, kind)

    monkeypatch.setattr(place.sink, "open", meet)
    Safetensors().write({"a": np.zeros(12), "b": np.zeros(12)}, place.sink, None)
    assert len(place.files().names()) == 3


def test_writing_a_strided_tensor_never_copies_it_whole(files_and_sink):
    state = {"a": torch.zeros(4096, 4096).T, "b": torch.zeros(1, 2, 4 * 1024 * 1024)[..., ::2]}
    tracemalloc.start()
    try:
        save(state, files_and_sink)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < state["a"].nbytes // 2


def test_the_reference_library_reads_what_is_written(files_and_sink):
    weight = torch.randn(3, 4)
    state = {
        "w": weight.T,
        "tied": weight.T,
        "h": weight.to(torch.bfloat16),
        "z": torch.zeros(0, 2),
        "n": torch.tensor(3),
    }
    _, place = save(state, files_and_sink)
    back = reference_torch.load_file(place.files().path("model.safetensors"))
    assert set(back) == {"w", "h", "z", "n"}
    assert all(torch.equal(back[name], state[name]) for name in back)


def test_files_of_the_reference_library_are_read(files_and_sink):
    place = files_and_sink()
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros((0, 2), np.int8), "c": np.array(True)}
    with place.sink.path("foreign.safetensors", "weight") as path:
        reference_numpy.save_file(arrays, path, {"by": "reference"})
    back = Safetensors().read(place.files(), {}, Allow())
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)
    assert Safetensors().describe(place.files(), {})["metadata"] == {"by": "reference"}


def test_a_foreign_torch_file_with_an_unpadded_header_is_read(files_and_sink):
    header = b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    header += b" " * ((3 - len(header)) % 8)
    place = files_and_sink()
    data = len(header).to_bytes(8, "little") + header + np.array([1, 2], "<f4").tobytes()
    place.put("x.safetensors", data)
    assert torch.equal(Safetensors().read(place.files(), {}, Allow())["a"], torch.tensor([1.0, 2.0]))
    assert np.array_equal(Safetensors().read(place.files(), {"kind": "numpy"}, Allow())["a"], [1, 2])


def test_elements_of_less_than_a_byte_are_described_and_read_where_a_library_has_them(tmp_path):
    values = torch.arange(8, dtype=torch.uint8).reshape(2, 4).view(torch.float4_e2m1fn_x2)
    path = tmp_path / "model.safetensors"
    reference_torch.save_file({"w": values}, path)
    entry = {"file": path.name}
    (told,) = Safetensors().describe(files_at(path), entry)["tensors"]
    assert (told["shape"], told["bytes"]) == ([2, 8], 8)
    made = Safetensors().read(files_at(path), entry | {"kind": "torch"}, Allow())["w"]
    assert made.shape == values.shape
    assert torch.equal(made.view(torch.uint8), values.view(torch.uint8))
    with pytest.raises(MalformedError, match="share bytes"):
        Safetensors().read(files_at(path), entry | {"kind": "numpy"}, Allow())


def test_describing_lists_tensors_without_reading_them(files_and_sink):
    written, place = save({"a": np.zeros((2, 3), np.float32), "b": np.zeros(2, ">i2")}, files_and_sink)
    found = Safetensors().describe(place.files(), written.entry)
    file = "model.safetensors"
    assert found["tensors"] == [
        {"name": "a", "type": "float32", "shape": [2, 3], "bytes": 24, "file": file},
        {"name": "b", "type": ">i2", "shape": [2], "bytes": 4, "file": file},
    ]
    assert found["bytes"] == 28


def test_detection_goes_by_content(tmp_path, files_and_sink):
    _, place = save({"a": np.zeros(2)}, files_and_sink)
    good = place.files().path("model.safetensors")
    assert Safetensors().detect(files_at(good))
    (tmp_path / "folder").mkdir()
    assert not Safetensors().detect(files_at(tmp_path / "folder"))
    (tmp_path / "folder" / "a.safetensors").write_bytes(good.read_bytes())
    assert Safetensors().detect(files_at(tmp_path / "folder"))
    (tmp_path / "liar.safetensors").write_bytes(b"PK\x03\x04 not at all")
    assert not Safetensors().detect(files_at(tmp_path / "liar.safetensors"))


arrays = hnp.arrays(
    dtype=st.one_of(
        hnp.boolean_dtypes(),
        hnp.integer_dtypes(endianness="?"),
        hnp.unsigned_integer_dtypes(endianness="?"),
        hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
        hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    ),
    shape=hnp.array_shapes(min_dims=0, min_side=0, max_side=4),
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name != "__metadata__")


@given(state=st.dictionaries(names, arrays, max_size=5), data=st.data())
def test_any_dict_of_arrays_comes_back_and_the_reference_reads_it(state, data, files_and_sink):
    state = {
        name: array[data.draw(hnp.basic_indices(array.shape, allow_ellipsis=False))] if array.ndim else array
        for name, array in state.items()
    }
    state = {name: np.asarray(array) for name, array in state.items()}
    written, place = save(state, files_and_sink)
    back = Safetensors().read(place.files(), written.entry, Allow())
    assert list(back) == list(state)
    for name, array in state.items():
        assert_same(back[name], array)
    theirs = reference_numpy.load_file(place.files().path("model.safetensors"))
    assert set(state) >= set(theirs)
    for name, array in theirs.items():
        expected = state[name].astype(state[name].dtype.newbyteorder("="))
        assert array.tobytes() == expected.tobytes()


def test_a_directory_of_more_than_shards_is_another_format_s(tmp_path):
    reference_numpy.save_file({"a": np.zeros(2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    assert not Safetensors().detect(files_at(tmp_path))


def test_the_description_has_totals_and_the_library(tmp_path):
    reference_torch.save_file({"a": torch.zeros(2, 3), "b": torch.zeros(4).half()}, tmp_path / "m", {"format": "pt"})
    shown = Safetensors().describe(files_at(tmp_path / "m"), {"file": "m"})
    assert (shown["library"], shown["parameters"], shown["bytes"]) == ("torch", 10, 32)
    assert shown["precision"] == {"float32": 6, "float16": 4}
