"""The headers of safetensors files that belong together, checked against each other and their index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow
from vitrify.formats._facts import tensor, weights
from vitrify.formats._safetensors.header import Header, element, parse
from vitrify.reading.json import parse as parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Files

SUFFIX = ".safetensors"
INDEX = ".safetensors.index.json"
EXTRAS = "vitrify"
"""The metadata key of what the format itself has no place for."""

_MAX_INDEX = 100_000_000
_FRAMEWORKS = {"pt": "torch", "np": "numpy", "tf": "tensorflow"}


@dataclass(frozen=True)
class Shards:
    """The headers of all shards, checked against each other.

    Attributes:
        headers: By file name, in order.
        dtypes: The element type to give back, where the stored one does not say it.
        tied: For each tied name: the stored name, and its position in the whole.
    """

    headers: dict[str, Header]
    dtypes: dict[str, str]
    tied: dict[str, tuple[str, int]]

    @property
    def kind(self) -> str:
        """``torch`` or ``numpy``, as the files say."""
        return "torch" if any(header.metadata.get("format") == "pt" for header in self.headers.values()) else "numpy"


def read_headers(files: Files, entry: Mapping[str, Any]) -> Shards:
    """Read every shard's header, and no tensor.

    Args:
        files: The artifact's files.
        entry: ``file``, the only one, or ``shards``, the file names in order; without either, all that end in
            ``.safetensors``.

    Raises:
        MalformedError: A header is wrong, or the shards do not fit each other or their index.
    """
    names = [entry["file"]] if "file" in entry else entry.get("shards")
    names = names or [name for name in files.names() if name.endswith(".safetensors")]
    headers = {name: parse(files.map(name), where=name) for name in names}
    stored: dict[str, str] = {}
    dtypes: dict[str, str] = {}
    tied: dict[str, tuple[str, int]] = {}
    for file, header in headers.items():
        if twice := sorted(stored.keys() & header.tensors.keys()):
            msg = f"tensor {twice[0]!r} stands in {stored[twice[0]]} and in {file}"
            raise MalformedError(msg)
        stored.update(dict.fromkeys(header.tensors, file))
        if text := header.metadata.get(EXTRAS):
            _add_extras(text, file, dtypes, tied)
    _check_index(files, stored)
    if stray := {*dtypes, *(kept for kept, _ in tied.values())} - stored.keys() or tied.keys() & stored.keys():
        msg = f"the metadata speaks of tensors that are not stored, or are stored as well: {sorted(stray)}"
        raise MalformedError(msg)
    return Shards(headers, dtypes, tied)


def describe_tensors(files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the headers say, as JSON: the tensors, their totals, what is tied, the metadata."""
    shards = read_headers(files, entry)
    tensors = [
        tensor(name, shards.dtypes.get(name, element(held.dtype)), held.shape, held.end - held.start) | {"file": file}
        for file, header in shards.headers.items()
        for name, held in header.tensors.items()
    ]
    metadata = {key: text for header in shards.headers.values() for key, text in header.metadata.items()}
    framework = metadata.get("format", "")
    return {
        **({"library": _FRAMEWORKS.get(framework, framework)} if framework else {}),
        **weights(tensors),
        "tied": {alias: kept for alias, (kept, _) in shards.tied.items()},
        "metadata": {key: text for key, text in metadata.items() if key != EXTRAS},
    }


def _check_index(files: Files, stored: dict[str, str]) -> None:
    for name in files.names():
        if not name.endswith(INDEX):
            continue
        try:
            weight_map = dict(parse_json(files.map(name), where=name, most=_MAX_INDEX)["weight_map"])
        except (ValueError, KeyError, TypeError) as error:
            msg = f"{name}: not an index of safetensors files ({error})"
            raise MalformedError(msg) from error
        if weight_map != stored:
            wrong = [tensor for tensor in {**weight_map, **stored} if weight_map.get(tensor) != stored.get(tensor)][:5]
            msg = f"{name} and the shards disagree, for example about {wrong}"
            raise MalformedError(msg, remedy="get the missing shards, or make the index again")


def _add_extras(text: str, file: str, dtypes: dict[str, str], tied: dict[str, tuple[str, int]]) -> None:
    try:
        extras = json.loads(shallow(text.encode()))
        dtypes.update({str(name): str(dtype) for name, dtype in extras.get("dtypes", {}).items()})
        tied.update({str(alias): (str(kept), int(at)) for alias, (kept, at) in extras.get("tied", {}).items()})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        msg = f"{file}: metadata that Vitrify cannot have written ({error})"
        raise MalformedError(msg) from error
