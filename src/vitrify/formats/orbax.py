"""Orbax checkpoints: a tree of arrays as Zarr, in files of their own or in OCDBT, with metadata beside them.

What the metadata says is told; the arrays' bytes are numbers, and are not read. Element types stand in the arrays'
own Zarr metadata, which OCDBT keeps inside its compressed nodes; where that is so they are left out.

Source: https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpoint_format.html, and for the arrays
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html and
https://google.github.io/tensorstore/kvstore/ocdbt/index.html.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.formats import _facts
from vitrify.formats._loose import items
from vitrify.formats._native_file import said
from vitrify.reading import json
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from vitrify.core.protocols import Files

_TREE, _ITEMS = "_METADATA", "_CHECKPOINT_METADATA"
_MARKS = {_TREE: "tree_metadata", _ITEMS: "item_handlers"}
_MOST_FOLDERS = 3
_MAX_JSON = 32 * 1024 * 1024
_MAX_TENSORS = 200_000
_MAX_SIZE = 2**62
_MANIFEST, _MANIFEST_MAGIC = "manifest.ocdbt", b"\x0c\xdb\x3a\x2a"
_NODES = re.compile(r"(?:.*/)?d/[0-9a-f]{32}")
_CHUNK = re.compile(r"(?:.*/)?(?:c/)?\d+(?:[./]\d+)*")
_OWN = "orbax."
_JSON_FILES = frozenset({_TREE, _ITEMS, "_sharding", ".zarray", ".zattrs", ".zgroup", "zarr.json", "metadata"})
_CODECS = frozenset(
    {
        *("blosc", "bytes", "bz2", "crc32c", "gzip", "lz4", "lzma", "sharding_indexed", "transpose", "zlib", "zstd"),
        *("delta", "fixedscaleoffset", "quantize", "bitround", "shuffle"),
    }
)
"""Codecs that change numbers; ``pickle`` and ``json2`` are codecs too, and make objects."""


class Orbax:
    """The format of checkpoint directories of JAX, Flax and others, with or without a manager's steps around them."""

    def detect(self, files: Files) -> bool:
        """Say whether a directory has Orbax's metadata."""
        return bool(_marks(files))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return the tree of arrays with their shapes, and types where they are to be had."""
        marks = _marks(files) or refuse("this directory", "no metadata of Orbax's")
        trees = [name for name in marks if _last(name) == _TREE]
        checkpoints = [_read(files, name) for name in marks if _last(name) == _ITEMS]
        tensors = [tensor for name in trees for tensor in _tensors(files, name)]
        layouts = [_read(files, name) for name in trees]
        names = frozenset(files.names())
        return said(
            {
                "library": "orbax",
                "leaves": {path: kind for name in trees for path, kind in _leaves(files, name)},
                "storage": sorted({_storage(layout) for layout in layouts}),
                "handlers": sorted({str(one) for checkpoint in checkpoints for one in _handlers(checkpoint)}),
                "metadata": {
                    name.removesuffix(_TREE).strip("/") or "checkpoint": layout["custom_metadata"]
                    for name, layout in zip(trees, layouts, strict=True)
                    if layout.get("custom_metadata")
                },
                "metrics": [one["metrics"] for one in checkpoints if one.get("metrics")],
                "steps": sorted({int(name.split("/")[0]) for name in marks if re.match(r"\d{1,18}/", name)}),
                **(_facts.weights(tensors) if tensors else {}),
                "bytes": sum(len(files.map(name)) for name in names if _is_data(names, name)),
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:  # noqa: ARG002 (the protocol's)
        """Yield codecs that make objects, and handlers that are not Orbax's; arrays are numbers."""
        names = frozenset(files.names())
        for name in sorted(names):
            last = _last(name)
            if last in _JSON_FILES or "array_metadatas/" in name:
                yield from _problems(name, _read(files, name))
            elif last == _MANIFEST:
                if bytes(files.map(name)[:4]) != _MANIFEST_MAGIC:
                    refuse(name, "no manifest of OCDBT")
            elif _is_data(names, name):
                # Numbers: opening them says that this format answers for them.
                files.map(name)


def _marks(files: Files) -> list[str]:
    """Return the metadata files, those of the outermost folder first."""
    names = [name for name in files.names() if _last(name) in _MARKS and name.count("/") < _MOST_FOLDERS]
    return sorted((name for name in names if _is_mark(files, name)), key=lambda name: (name.count("/"), name))


def _is_mark(files: Files, name: str) -> bool:
    try:
        return len(files.names()) > 1 and _MARKS[_last(name)] in _read(files, name)
    except MalformedError:
        return False


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _read(files: Files, name: str) -> dict[str, Any]:
    value = json.parse(files.map(name), where=name, most=_MAX_JSON)
    return value if isinstance(value, dict) else refuse(name, "no JSON object")


def _is_data(names: Collection[str], name: str) -> bool:
    """Say whether a file holds numbers: a node of OCDBT beside a manifest, or a chunk beside an array's metadata."""
    if _NODES.fullmatch(name):
        return f"{name.rpartition('d/')[0]}{_MANIFEST}" in names
    if not _CHUNK.fullmatch(name):
        return False
    folders = name.split("/")[:-1]
    return any(
        f"{'/'.join(folders[:depth])}/{mark}" in names
        for depth in range(len(folders), 0, -1)
        for mark in (".zarray", "zarr.json")
    )


def _storage(layout: dict[str, Any]) -> str:
    return f"zarr{3 if layout.get('use_zarr3') else 2}{' in ocdbt' if layout.get('use_ocdbt') else ''}"


def _handlers(checkpoint: dict[str, Any]) -> list[Any]:
    handlers = checkpoint.get("item_handlers")
    return list(handlers.values()) if isinstance(handlers, dict) else [handlers] if handlers else []


def _leaves(files: Files, name: str) -> Iterator[tuple[str, str]]:
    """Yield each leaf of a tree, and what kind of value it is."""
    for path, value in _values(files, name):
        yield path, str(value.get("value_type", ""))


def _values(files: Files, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each leaf of a tree, by its keys with dots between them, as Orbax names its array."""
    tree = _read(files, name).get("tree_metadata")
    if not isinstance(tree, dict) or len(tree) > _MAX_TENSORS:
        exceed(name, f"no tree, or one of more than {_MAX_TENSORS} leaves")
    for leaf in tree.values():
        keys = leaf.get("key_metadata") if isinstance(leaf, dict) else None
        value = leaf.get("value_metadata") if isinstance(leaf, dict) else None
        if not isinstance(keys, list) or not isinstance(value, dict) or not all(isinstance(key, dict) for key in keys):
            refuse(name, "a leaf without its keys and its value")
        yield ".".join(str(key.get("key")) for key in keys), value


def _tensors(files: Files, name: str) -> Iterator[dict[str, Any]]:
    """Yield the arrays of one tree whose shapes are known."""
    base = name.removesuffix(_TREE)
    for path, value in _values(files, name):
        kind, shape = _array(files, f"{base}{path}/")
        shape = shape if shape is not None else value.get("write_shape")
        if shape is None:
            continue  # its shape stands in OCDBT's nodes only
        if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < _MAX_SIZE for size in shape):
            refuse(name, f"{path}: a shape that is none: {str(shape)[:80]}")
        yield _facts.tensor(path, kind or "unknown", shape, 0)


def _array(files: Files, folder: str) -> tuple[str, Any]:
    """Return the type and shape that an array's own metadata has, where it lies in a file."""
    for mark, kind in ((".zarray", "dtype"), ("zarr.json", "data_type")):
        if folder + mark in files.names():
            found = _read(files, folder + mark)
            return str(found.get(kind, "")), found.get("shape")
    return "", None


def _problems(name: str, value: dict[str, Any]) -> Iterator[Finding]:
    last = _last(name)
    if last == _ITEMS:
        for handler in _handlers(value):
            if not str(handler).startswith(_OWN):
                yield Finding(
                    place=name,
                    message=f"is read by {str(handler)[:200]!r}, which is not Orbax's: what that does is not known",
                    rule="custom-handler",
                    subject=str(handler),
                    verdict="not checked",
                )
    if last in {".zarray", "zarr.json"}:
        kind = str(value.get("dtype", value.get("data_type", "")))
        if kind.lstrip("|<>=") == "O" or kind == "object":
            yield Finding(place=name, message="an array of Python objects", rule="object-array", subject=name)
        codecs = [value.get("compressor"), *items(value.get("filters")), *items(value.get("codecs"))]
        for codec in codecs:
            called = str(codec.get("id", codec.get("name"))) if isinstance(codec, dict) else None
            if called is not None and called not in _CODECS:
                yield Finding(
                    place=name,
                    message=f"its bytes go through the codec {called[:80]!r}, which makes more than numbers",
                    rule="codec",
                    subject=called,
                )
