"""Write a TorchScript module so that the same module gives the same bytes.

``torch.jit.save`` puts paths of the machine into ``.debug_pkl`` members and counts, through the whole process, the
classes whose name is taken (``___torch_mangle_7``). The first are left out, the second are counted anew in each file.

Source: ``torch/csrc/jit/serialization/export_module.cpp``; ``torch/csrc/jit/frontend/name_mangler.cpp``.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile

import torch

from vitrify.formats._torch.quiet import quiet
from vitrify.reading.zip_writer import Packer

ROOT = "model/"
_LEFT_OUT = (".debug_pkl", "/.data/serialization_id")
_MANGLE = re.compile(rb"___torch_mangle_(\d+)")
_WITH_TEXT = frozenset({"BINUNICODE", "SHORT_BINUNICODE"})


def written(module: torch.jit.ScriptModule) -> bytes:
    """Return the file of a module, as PyTorch writes it, without what is not of the module."""
    raw, stream = io.BytesIO(), io.BytesIO()
    with quiet():
        torch.jit.save(module, raw)
    with zipfile.ZipFile(raw) as archive:
        names = [name for name in archive.namelist() if not name.endswith(_LEFT_OUT)]
        numbers = _numbers(archive, names)
        with Packer(stream) as packer:
            for name in names:
                data = archive.read(name)
                if name.endswith(".py"):
                    data = _renumbered(data, numbers)
                elif name.endswith(".pkl"):
                    data = _repickled(data, numbers)
                own = ROOT + name.partition("/")[2]
                packer.add(_renumbered(own.encode(), numbers).decode(), [data])
    return stream.getvalue()


def _numbers(archive: zipfile.ZipFile, names: list[str]) -> dict[bytes, bytes]:
    """Return the new number of each, in the order in which the objects and then the code mention them."""
    ordered = sorted(names, key=lambda name: (not name.endswith("/data.pkl"), names.index(name)))
    found: dict[bytes, bytes] = {}
    for name in ordered:
        texts = [name.encode(), *([archive.read(name)] if name.endswith((".pkl", ".py")) else [])]
        for number in (match[1] for text in texts for match in _MANGLE.finditer(text)):
            found.setdefault(number, str(len(found)).encode())
    return found


def _renumbered(text: bytes, numbers: dict[bytes, bytes]) -> bytes:
    return _MANGLE.sub(lambda match: b"___torch_mangle_" + numbers[match[1]], text)


def _repickled(data: bytes, numbers: dict[bytes, bytes]) -> bytes:
    """Renumber the names in a pickle, and drop notes that nobody reads: PyTorch takes them by who else has the object.

    Text carries its own length, which may change.
    """
    data = pickletools.optimize(data)
    if not _MANGLE.search(data):
        return data
    operations = [(code, start) for code, _, start in pickletools.genops(data)]
    ends = [start for _, start in operations[1:]] + [len(data)]
    parts = []
    for (code, start), end in zip(operations, ends, strict=True):
        part = data[start:end]
        if code.name == "GLOBAL":
            part = _renumbered(part, numbers)
        elif code.name in _WITH_TEXT and _MANGLE.search(part):
            text = _renumbered(part[5 if code.name == "BINUNICODE" else 2 :], numbers)
            part = b"X" + len(text).to_bytes(4, "little") + text
        parts.append(part)
    return b"".join(parts)
