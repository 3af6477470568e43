"""What an HDF5 file says about itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.formats._facts import tensor
from vitrify.reading.hdf5 import Dataset, ExternalLink, OtherLink, SoftLink

if TYPE_CHECKING:
    from vitrify.reading.hdf5 import Attribute, File, Node

MAX_TEXT = 4096
MAX_VALUES = 64
MAX_STORED = 1 << 18


def tensors(file: File) -> list[dict[str, Any]]:
    """Return the datasets, each once; the bytes of one that lies in chunks are those that it unpacks to."""
    return walk(file)[0]


def walk(file: File) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return the datasets, and the links that are no plain names of objects: where they are and where they lead."""
    found: list[dict[str, Any]] = []
    links: list[dict[str, str]] = []
    seen = set()
    for path, node in file.walk():
        if isinstance(node, Dataset):
            if node.address not in seen:
                seen.add(node.address)
                found.append(_dataset(path, node))
        elif isinstance(node, SoftLink):
            links.append({"name": path, "to": node.target})
        elif isinstance(node, ExternalLink):
            links.append({"name": path, "file": node.file, "to": node.target})
        elif isinstance(node, OtherLink):
            links.append({"name": path, "kind": str(node.number)})
    return found, links


def _dataset(path: str, node: Dataset) -> dict[str, Any]:
    shape = (0,) if node.shape is None else node.shape
    size = node.declared if node.stored is None else node.stored
    return tensor(path.removeprefix("/"), node.type.name, shape, size)


def metadata(node: Node) -> dict[str, Any]:
    """Return the attributes of an object as JSON, long ones shortened."""
    return {name: _attribute(attribute) for name, attribute in node.attrs.items()}


def _attribute(attribute: Attribute) -> Any:
    if attribute.stored > MAX_STORED and attribute.type.kind != "text":
        return f"{attribute.type.name}{list(attribute.shape or ())}"
    return short(attribute.value())


def short(value: Any) -> Any:
    """Return a value as JSON that a person can look at."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]} ... ({len(value)} characters)"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        rest = [f"... ({len(value)} values)"] if len(value) > MAX_VALUES else []
        return [short(one) for one in value[:MAX_VALUES]] + rest
    if isinstance(value, dict):
        return {name: short(one) for name, one in value.items()}
    return value
