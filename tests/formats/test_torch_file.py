"""Files of ``torch.save``: what comes back, and what does not run."""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import tarfile
import warnings
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from measured import assert_linear
from samples import torch_files

from vitrify.core.errors import (
    LimitExceededError,
    MalformedError,
    UnsupportedModelError,
    UntrustedCodeError,
    VitrifyError,
)
from vitrify.core.protocols import Allow
from vitrify.formats._torch.elements import SIZES, STORAGES
from vitrify.formats._torch.modules import FUNCTIONS, MODULES
from vitrify.formats.torch_file import TorchFile
from vitrify.inspection.scan import scan_files
from vitrify.reading.files import HeldFiles

FORMAT = TorchFile()
ENTRY = {"file": "model.pt"}


def held(data):
    return HeldFiles({"model.pt": memoryview(data)})


def saved(value, *, legacy=False):
    stream = io.BytesIO()
    torch.save(value, stream, _use_new_zipfile_serialization=not legacy)
    return stream.getvalue()


def read(data, allow=()):
    return FORMAT.read(held(data), ENTRY, Allow.of(allow))


def found(data):
    return {(one.rule, one.subject) for one in FORMAT.hazards(held(data), ENTRY)}


def assert_same(left, right):
    assert type(left) is type(right)
    match left:
        case torch.nn.Module():
            assert_same(dict(left.state_dict()), dict(right.state_dict()))
            assert str(left) == str(right)
        case torch.Tensor():
            traits = [(one.dtype, one.shape, one.layout, one.requires_grad, one.device) for one in (left, right)]
            assert traits[0] == traits[1]
            if left.device.type != "meta":
                assert torch.equal(_bits(left), _bits(right))
        case dict():
            assert list(left) == list(right)
            for key, value in left.items():
                assert_same(value, right[key])
        case list() | tuple():
            assert len(left) == len(right)
            for one, other in zip(left, right, strict=True):
                assert_same(one, other)
        case np.ndarray():
            assert np.array_equal(left, right)
        case _:
            assert left == right


def _bits(tensor):
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.dequantize() if tensor.is_quantized else tensor.detach()
    return tensor.resolve_conj().contiguous().view(torch.uint8) if tensor.ndim else tensor


def quantised(*, channels):
    if channels:
        return torch.quantize_per_channel(
            torch.randn(2, 4), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.quint8
        )
    return torch.quantize_per_tensor(torch.randn(4), 0.1, 3, torch.qint8)


def tagged():
    parameter = torch.nn.Parameter(torch.randn(3))
    parameter.tag = "x"
    return parameter


KINDS = (
    *(torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.bool, torch.complex64),
    *(torch.complex128, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2),
)
VALUES = {
    "state dict": lambda: torch_files.network().state_dict(),
    "checkpoint": torch_files.checkpoint,
    "tied": torch_files.tied,
    "every type": lambda: {str(kind): torch.ones(3).to(kind) for kind in KINDS},
    "small values": lambda: {
        "size": torch.Size([1, 2]),
        "device": torch.device("cuda:1"),
        "type": torch.float32,
        "options": argparse.Namespace(rate=0.1, name="a"),
        "array": np.arange(3),
        "scalar": np.float64(2.5),
        "counts": collections.Counter("aab"),
        "lists": collections.defaultdict(list, a=[1]),
    },
    "odd shapes": lambda: [torch.empty(0, 3), torch.tensor(3.0), torch.ones(3, 1).expand(3, 4)],
    "quantised": lambda: quantised(channels=False),
    "quantised by channel": lambda: quantised(channels=True),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "parameter": lambda: torch.nn.Parameter(torch.randn(3)),
    "parameter with an attribute": tagged,
    "no data": lambda: torch.empty(3, 2, device="meta"),
    "conjugate": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "module": torch_files.network,
    "transformer": lambda: torch.nn.TransformerEncoderLayer(8, 2, activation="gelu", batch_first=True).eval(),
    "recurrent": lambda: torch.nn.ModuleDict({"a": torch.nn.LSTM(2, 3), "b": torch.nn.GRU(2, 3)}),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's own, about sparse and quantised tensors
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_what_was_saved_comes_back_without_anyones_permission(make, legacy):
    value = make()
    data = saved(value, legacy=legacy)
    assert FORMAT.detect(held(data))
    assert found(data) == set()
    assert scan_files(held(data)).verdict == "clean"
    assert FORMAT.describe(held(data), ENTRY)["needs"] == []
    assert_same(value, read(data))


def test_ties_and_views_stay(tmp_path):
    for legacy in (False, True):
        back = read(torch_files.saved("tied", legacy=legacy))
        back["base"][3] = -1
        assert back["part"][1] == back["turned"][3, 0] == back["again"][3] == -1


def test_writing_into_a_loaded_tensor_leaves_the_file_as_it_was():
    data = torch_files.saved("tied")
    files = held(data)
    FORMAT.read(files, ENTRY, Allow())["base"].zero_()
    assert_same(FORMAT.read(files, ENTRY, Allow())["base"], torch.arange(12.0))


def test_a_file_of_the_tar_era_is_read():
    back = read(torch_files.tar_era())
    assert_same(back, {"weight": torch.arange(6.0).view(2, 3)})
    described = FORMAT.describe(held(torch_files.tar_era()), ENTRY)
    assert described["layout"] == "tar"
    assert described["tensors"] == [{"name": "weight", "type": "float32", "shape": [2, 3], "bytes": 24}]


def test_a_file_of_another_hand_is_read():
    data = torch_files.of_package("lpips", "weights", "v0.1", "alex.pth")
    back = read(data)
    ours = {name: tuple(tensor.shape) for name, tensor in back.items()}
    assert ours == {one["name"]: tuple(one["shape"]) for one in FORMAT.describe(held(data), ENTRY)["tensors"]}
    theirs = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    assert_same(theirs, back)


def test_describing_lists_the_tensors_and_reads_none_of_them():
    described = FORMAT.describe(held(torch_files.saved("tied")), ENTRY)
    assert [one["name"] for one in described["tensors"]] == ["base", "part", "turned", "none"]
    assert described["tied"] == {"again": "base"}
    assert described["parameters"] == 12 + 3 + 12
    described = FORMAT.describe(held(torch_files.saved("checkpoint")), ENTRY)
    assert described["values"] == {"epoch": 3, "note": "first"}
    assert described["tensors"][0]["name"] == "model.0.weight"
    assert FORMAT.describe(held(torch_files.saved("module")), ENTRY)["class"].endswith("Sequential")


class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)


def test_a_class_of_the_users_own_needs_permission_by_its_name():
    model = Own()
    data = saved(model)
    name = f"{Own.__module__}.{Own.__qualname__}"
    assert ("untrusted-global", name) in found(data)
    with pytest.raises(UntrustedCodeError) as caught:
        read(data)
    assert caught.value.names == (name,)
    assert_same(dict(read(data, [name]).state_dict()), dict(model.state_dict()))


def test_nothing_is_written():
    with pytest.raises(UnsupportedModelError, match="safetensors"):
        FORMAT.write({}, None, None)


def test_the_tables_are_those_of_this_pytorch():
    import importlib

    for dotted in MODULES | FUNCTIONS:
        module, _, name = dotted.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        assert callable(value), dotted
        if dotted in MODULES:
            assert issubclass(value, torch.nn.Module)
            assert (value.__module__, value.__qualname__) == (module, name)
    from torch.storage import _dtype_to_storage_type_map

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, storage in _dtype_to_storage_type_map().items():
            assert STORAGES[f"torch.{storage}"] == str(kind).removeprefix("torch.")
    for name, size in SIZES.items():
        if hasattr(torch, name):
            assert getattr(torch, name).itemsize == size, name


# Files made to do harm


class Payload:
    """A pickle that creates a marker file when it is loaded."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rezipped(data, **changes):
    content = members(data)
    root = next(name for name in content if name.endswith("data.pkl")).removesuffix("data.pkl")
    for name, part in changes.items():
        content[root + name.replace("__", "/").replace("_", ".")] = part
    return torch_files.zipped(content)


def in_legacy(payload, which):
    """Put a pickle in place of one of the five of a legacy file."""
    data = torch_files.saved("checkpoint", legacy=True)
    stream, parts = io.BytesIO(data), []
    for _ in range(5):
        start = stream.tell()
        for _ in pickletools.genops(stream):
            pass
        parts.append(data[start : stream.tell()])
    rest = data[stream.tell() :]
    parts[which] = payload
    return b"".join(parts) + rest


def in_tar(payload, which):
    with tarfile.open(fileobj=io.BytesIO(torch_files.tar_era())) as archive:
        content = {one.name: archive.extractfile(one).read() for one in archive}
    content[which] = payload
    return torch_files.tarred(content)


CARRIERS = {
    "zip": lambda payload: rezipped(torch_files.saved("checkpoint"), data_pkl=payload),
    "legacy, in place of the machine": lambda payload: in_legacy(payload, 2),
    "legacy, in place of the object": lambda payload: in_legacy(payload, 3),
    "legacy, in place of the keys": lambda payload: in_legacy(payload, 4),
    "tar, the object": lambda payload: in_tar(payload, "pickle"),
    "tar, the storages": lambda payload: in_tar(payload, "storages"),
    "tar, the machine": lambda payload: in_tar(payload, "sys_info"),
}


@pytest.mark.parametrize("carry", CARRIERS.values(), ids=CARRIERS)
def test_a_payload_is_found_and_does_not_run(carry, tmp_path):
    data = carry(pickle.dumps(Payload(tmp_path / "marker"), 2))
    assert scan_files(held(data)).verdict == "found"
    with pytest.raises(VitrifyError):
        read(data)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("carrier", ["zip", "legacy, in place of the object"])
def test_the_payload_is_real(carrier, tmp_path):
    path, marker = tmp_path / "model.pt", tmp_path / "marker"
    path.write_bytes(CARRIERS[carrier](pickle.dumps(Payload(marker), 2)))
    script = f"import torch; torch.load({str(path)!r}, weights_only=False)"
    subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert marker.exists()


def payload_beside(tmp_path, name):
    return rezipped(torch_files.saved("checkpoint"), **{name: pickle.dumps(Payload(tmp_path / "marker"), 2)})


def archived(tmp_path, make):
    return make({"data.txt": pickle.dumps(Payload(tmp_path / "marker"), 2)})


HIDDEN = {
    "an inner text file (64)": lambda path: payload_beside(path, "notes_txt"),
    "a member that looks like a storage": lambda path: payload_beside(path, "data__999"),
    "zip in zip (67)": lambda path: torch_files.zipped({"a.pt": CARRIERS["zip"](pickle.dumps(Payload(path / "x"), 2))}),
    "tar as .pt (70)": lambda path: archived(path, torch_files.tarred),
    "zip as .pt": lambda path: archived(path, torch_files.zipped),
    "a pickle before the zip (66)": lambda path: pickle.dumps(Payload(path / "x"), 2) + torch_files.saved("tied"),
    "a pickle after the zip": lambda path: torch_files.saved("tied") + pickle.dumps(Payload(path / "x"), 2),
    "a pickle after the last storage": lambda path: (
        torch_files.saved("tied", legacy=True) + pickle.dumps(Payload(path / "x"), 2)
    ),
    "_load_from_bytes (11)": lambda _: rezipped(
        torch_files.saved("tied"), data_pkl=b"\x80\x02ctorch.storage\n_load_from_bytes\nC\x01x\x85R."
    ),
}


@pytest.mark.parametrize("make", HIDDEN.values(), ids=HIDDEN)
def test_what_hides_in_a_file_is_found(make, tmp_path):
    assert scan_files(held(make(tmp_path))).verdict == "found"
    assert not list(tmp_path.iterdir())


def test_a_7z_file_is_not_checked_whatever_it_is_called():  # recipe 69
    from samples.archives import seven_zip

    assert scan_files(held(seven_zip())).verdict == "not checked"


def tensor(offset=0, shape="K\x02\x85", strides="K\x01\x85", count=6, hooks="ccollections\nOrderedDict\n)R"):
    """Return the pickle of one tensor, given the opcodes of its parts."""
    storage = f"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ{_int(count)}tQ"
    parts = f"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n({storage}J{_int(offset)}{shape}{strides}\x89{hooks}tR."
    return parts.encode("latin1")


def _int(number):
    return struct.pack("<i", number).decode("latin1")


def with_pickle(pickled):
    return torch_files.zipped({"m/data.pkl": pickled, "m/data/0": bytes(24), "m/version": b"3\n"})


def test_the_crafted_tensor_is_honest():
    assert_same(read(with_pickle(tensor())), torch.zeros(2))


BROKEN = {
    "an offset beyond its storage": tensor(offset=5),
    "a negative offset": tensor(offset=-1),
    "a shape beyond its storage": tensor(shape="K\x07\x85"),
    "strides beyond its storage": tensor(strides="K\x06\x85"),
    "a negative stride": tensor(strides="J\xff\xff\xff\xff\x85"),
    "a product that overflows": tensor(
        shape="(\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x02t", strides="K\x01K\x01\x86"
    ),
    "more sizes than strides": tensor(strides=")"),
    "a shape that is a text": tensor(shape="X\x01\x00\x00\x00a"),
    "a storage that is smaller than it says": tensor(count=7),
    "a storage of a negative size": tensor(count=-1),
    "no storage": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NK\x00))\x89NtR.",
    "an id that is none": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "a state on a tensor": tensor()[:-1] + b"}X\x01\x00\x00\x00aK\x01sb.",
    "a module that is called": b"\x80\x02ctorch.nn.modules.linear\nLinear\n(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ftR.",
    "a device in place of a class": tensor().replace(b"torch\nFloatStorage", b"torch\ndevice"),
}


@pytest.mark.parametrize("pickled", BROKEN.values(), ids=BROKEN)
def test_a_broken_tensor_is_found_and_never_made(pickled):
    data = with_pickle(pickled)
    assert scan_files(held(data)).verdict == "found"
    with pytest.raises(VitrifyError):
        read(data)


def test_hooks_that_a_pickle_brings_along_are_found():
    model = torch.nn.Linear(2, 2)
    model._forward_hooks[0] = np.clip
    data = saved(model)
    assert ("module-hooks", "torch.nn.modules.linear.Linear._forward_hooks") in found(data)
    with pytest.raises(MalformedError, match="hooks"):
        read(data)
    with pytest.raises(MalformedError, match="hooks"):
        read(with_pickle(tensor(hooks="}K\x00cnumpy\nclip\ns")))


def test_two_objects_in_one_file_are_malformed():
    data = torch_files.zipped({**members(torch_files.saved("tied")), "other/data.pkl": b"\x80\x02N."})
    assert scan_files(held(data)).verdict == "found"
    with pytest.raises(MalformedError, match="2 objects"):
        read(data)


def test_big_endian_numbers_are_refused_by_name():
    data = rezipped(torch_files.saved("tied"), byteorder=b"big")
    assert FORMAT.describe(held(data), ENTRY)["byte_order"] == "big"
    with pytest.raises(MalformedError, match="big-endian"):
        read(data)


def test_wrappers_in_wrappers_are_each_looked_at_once():
    def scanned(count):
        deep = b"ctorch._utils\n_rebuild_parameter\n(" * count + b"N" + b"\x89NtR" * count
        scan_files(held(with_pickle(b"\x80\x02" + deep + b".")))

    assert_linear(scanned, 10_000)


@given(data=st.data(), sample=st.sampled_from(["zip", "legacy", "tar"]))
def test_damage_gives_typed_errors_only(data, sample):
    makers = {"zip": lambda: torch_files.saved("checkpoint"), "tar": torch_files.tar_era}
    made = bytearray(makers.get(sample, lambda: torch_files.saved("checkpoint", legacy=True))())
    for _ in range(data.draw(st.integers(1, 4))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(made)) | st.just(len(made)))
    files = held(bytes(made[:cut]))
    FORMAT.detect(files)
    for ask in (FORMAT.describe, lambda *args: list(FORMAT.hazards(*args)), lambda *args: list(FORMAT.parts(*args))):
        with contextlib.suppress(VitrifyError):
            ask(files, ENTRY)
    with contextlib.suppress(VitrifyError):
        FORMAT.read(files, ENTRY, Allow())


def test_a_limit_is_a_limit():
    data = torch_files.zipped({"m/data.pkl": bytes(80_000_000)}, zipfile.ZIP_DEFLATED)
    assert FORMAT.detect(held(data))
    with pytest.raises(LimitExceededError):
        list(FORMAT.hazards(held(data), ENTRY))
