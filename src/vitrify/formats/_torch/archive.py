"""Read a ``.pt2`` file of ``torch.export.save`` as data: its graph, and those tensors that are not pickled.

It is a ZIP file: ``models/<name>.json`` is the graph, ``data/weights`` and ``data/constants`` hold raw tensors and a
JSON file that says their types and shapes. What a ``.pt2`` may pickle besides (custom objects, sample inputs) is
never opened.

Source: ``torch/export/pt2_archive/constants.py`` in PyTorch.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from pathlib import Path

    import torch

_MAX_MEMBERS = 1_000_000
_PARTS = ("weights", "constants")


def is_archive(path: Path) -> bool:
    """Say whether a file is a ZIP file that calls itself a PyTorch 2 archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            root = _root(archive)
            return _stored(archive, f"{root}/archive_format") == b"pt2"
    except (OSError, LookupError, ValueError, zipfile.BadZipFile, RuntimeError):
        return False


def read_archive(path: Path, *, where: str) -> tuple[bytes, dict[str, torch.Tensor]]:
    """Return the graph and the tensors by name; tied ones are one object.

    Raises:
        MalformedError: It is no such archive, or a tensor is not where the file says.
        UnsupportedModelError: Something that the graph needs is pickled; everything is listed.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            root, names = _root(archive), archive.namelist()
            graphs = [name for name in names if name.startswith(f"{root}/models/") and name.endswith(".json")]
            if len(graphs) != 1 or len(names) > _MAX_MEMBERS:
                refuse(where, f"{len(names)} members and {len(graphs)} graphs, expected one graph")
            tensors: dict[str, torch.Tensor] = {}
            problems: list[Finding] = []
            for part in _PARTS:
                _read_part(archive, f"{root}/data/{part}/", tensors, problems)
            text = _stored(archive, graphs[0])
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, zipfile.BadZipFile) as error:
        refuse(where, f"not a .pt2 archive that can be read ({type(error).__name__}: {error})")
    if problems:
        msg = f"{where}: {len(problems)} part(s) of this archive are pickled, and unpickling runs code"
        raise UnsupportedModelError(
            msg, problems=problems, remedy="if you trust it, load it with torch.export.load and save its module()"
        )
    return text, tensors


def _root(archive: zipfile.ZipFile) -> str:
    return archive.namelist()[0].partition("/")[0]


def _stored(archive: zipfile.ZipFile, member: str) -> bytes:
    """Return a member as it lies in the file, so that none can unfold to more than the file holds."""
    info = archive.getinfo(member)
    if info.compress_type != zipfile.ZIP_STORED:
        msg = f"{member} is compressed, which PyTorch never does"
        raise ValueError(msg)
    return archive.read(info)


def _read_part(
    archive: zipfile.ZipFile, folder: str, tensors: dict[str, torch.Tensor], problems: list[Finding]
) -> None:
    names = [name for name in archive.namelist() if name.startswith(folder)]
    problems += [Finding(place=name, message="a pickle") for name in names if name.endswith(".pt")]
    shared: dict[str, torch.Tensor] = {}
    for config in (name for name in names if name.endswith("_config.json")):
        for name, about in json.loads(_stored(archive, config))["config"].items():
            if about["use_pickle"] or about["tensor_meta"] is None:
                problems.append(Finding(place=name, message="a pickle"))
                continue
            key = json.dumps([about["path_name"], about["tensor_meta"]], sort_keys=True)
            if key not in shared:
                shared[key] = _tensor(archive, folder + about["path_name"], about["tensor_meta"])
            tensors[name] = shared[key]


def _tensor(archive: zipfile.ZipFile, member: str, meta: dict[str, Any]) -> torch.Tensor:
    import torch
    from torch._export.serde import schema, serialize

    dtype = serialize.deserialize_scalar_type(schema.ScalarType(meta["dtype"]))
    sizes, strides = ([size["as_int"] for size in meta[key]] for key in ("sizes", "strides"))
    data = bytearray(_stored(archive, member))
    storage = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return torch.as_strided(storage, sizes, strides, meta["storage_offset"]["as_int"])
