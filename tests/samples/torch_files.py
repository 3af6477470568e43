"""Files of PyTorch: of ``torch.save`` in all its ages, TorchScript, programs, compiled packages, TorchServe."""

from __future__ import annotations

import importlib.util
import io
import json
import pickle
import shutil
import struct
import subprocess
import tarfile
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path


def network():
    """Return a small module: layers with parameters, buffers, and none of both."""
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)]
    return torch.nn.Sequential(*layers).eval()


def checkpoint():
    """Return what a training script saves: weights, an optimizer's state, plain values."""
    import torch

    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": 0.5, "note": "first"}


@cache
def saved(kind, *, legacy=False):
    """Return the bytes that ``torch.save`` writes."""
    import torch

    stream = io.BytesIO()
    value = {"module": network, "checkpoint": checkpoint, "tied": tied}[kind]()
    torch.save(value, stream, _use_new_zipfile_serialization=not legacy)
    return stream.getvalue()


def tied():
    """Return tensors that share their storage in every way."""
    import torch

    base = torch.arange(12.0)
    return {"base": base, "part": base[2:5], "turned": base.view(3, 4).t(), "again": base, "none": torch.empty(0, 3)}


def tar_era():
    """Return what PyTorch 0.1.9 wrote: a TAR file with storages and tensors in a list each."""
    stream = io.BytesIO()
    name = type("Name", (), {})

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return str(value.number) if isinstance(value, name) else None

    def dumped(value):
        out = io.BytesIO()
        Pickler(out, 2).dump(value)
        return out.getvalue()

    tensor = name()
    tensor.number = 7
    cls = b"\x80\x02(X\x01\x00\x00\x005X\x03\x00\x00\x00cpuctorch\nFloatStorage\nt."
    storages = dumped(1) + cls + struct.pack("<q6f", 6, *range(6)) + dumped([])
    head = b"\x80\x02(K\x07X\x01\x00\x00\x005ctorch\nFloatTensor\nt."
    tensors = dumped(1) + head + struct.pack("<ii5q", 2, 0, 2, 3, 3, 1, 0)
    parts = {"sys_info": dumped({"little_endian": True}), "pickle": dumped({"weight": tensor})}
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member, data in {**parts, "tensors": tensors, "storages": storages}.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


@cache
def scripted(*, traced=False):
    """Return the bytes of a TorchScript file."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.trace(network(), torch.ones(3, 4)) if traced else torch.jit.script(network())
        stream = io.BytesIO()
        torch.jit.save(made, stream)
    return stream.getvalue()


@cache
def exported():
    """Return the bytes of ``torch.export.save``."""
    import torch

    stream = io.BytesIO()
    rows = torch.export.Dim("rows")
    program = torch.export.export(network(), (torch.ones(3, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(program, stream)
    return stream.getvalue()


@cache
def library():
    """Return a small shared library, made by the C compiler where there is one."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 3, 62, 1) + bytes(40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.so")
        command = [compiler, "-shared", "-nostdlib", "-x", "c", "-", "-o", str(path)]
        subprocess.run(command, input=b"int run(void) { return 1; }", capture_output=True, check=True)
        return path.read_bytes()


def compiled():
    """Return an AOTInductor package as PyTorch lays it out, around a library of our own."""
    parts = {
        "data/aotinductor/model/abc.wrapper.so": library(),
        "data/aotinductor/model/abc.wrapper.cpp": b"int run(void) { return 1; }\n",
        "data/aotinductor/model/abc.wrapper_metadata.json": b'{"AOTI_DEVICE_KEY": "cpu"}',
        "archive_format": b"pt2",
        "archive_version": b"0",
        "byteorder": b"little",
    }
    return zipped({f"model/{name}": data for name, data in parts.items()})


MANIFEST = {
    "createdOn": "01/01/2024 00:00:00",
    "runtime": "python",
    "model": {
        "modelName": "net",
        "serializedFile": "model.pt",
        "handler": "handler.py",
        "modelVersion": "1.0",
    },
    "archiverVersion": "0.12.0",
}
HANDLER = b"def handle(data, context):\n    return data\n"


def served():
    """Return the members of a TorchServe archive."""
    manifest = json.dumps(MANIFEST).encode()
    return {"model.pt": saved("checkpoint"), "handler.py": HANDLER, "MAR-INF/MANIFEST.json": manifest}


def zipped(members, method=zipfile.ZIP_STORED):
    """Return a ZIP file of these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def tarred(members, mode="w"):
    """Return a TAR file of these members."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def of_package(package, *path):
    """Return a file of an installed package, which need not be importable."""
    (folder,) = importlib.util.find_spec(package).submodule_search_locations
    return Path(folder).joinpath(*path).read_bytes()


def file(name, content):
    """Return a sample that writes this content under a name."""

    def make(folder):
        path = folder / name
        path.write_bytes(content())
        return path

    return make


SAMPLES = {
    "torch/zip": file("model.pt", lambda: saved("checkpoint")),
    "torch/module": file("model.pt", lambda: saved("module")),
    "torch/legacy": file("model.pth", lambda: saved("checkpoint", legacy=True)),
    "torch/legacy-tied": file("model.bin", lambda: saved("tied", legacy=True)),
    "torch/tied": file("model.ckpt", lambda: saved("tied")),
    "torch/tar": file("model.pth", tar_era),
    "torch/lpips": file("alex.pth", lambda: of_package("lpips", "weights", "v0.1", "alex.pth")),
    "torch/renamed": file("model", lambda: saved("checkpoint")),
    "torchscript/scripted": file("model.pt", scripted),
    "torchscript/traced": file("model.pt", lambda: scripted(traced=True)),
    "torchscript/silero": file("silero.jit", lambda: of_package("silero_vad", "data", "silero_vad.jit")),
    "torch-export/pt2": file("model.pt2", exported),
    "aoti/package!": file("model.pt2", compiled),
    "torchserve/mar!": file("model.mar", lambda: zipped(served(), zipfile.ZIP_DEFLATED)),
    "torchserve/tgz!": file("model.mar", lambda: tarred(served(), "w:gz")),
}
