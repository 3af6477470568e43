"""A saved Keras model, from whichever of the two file formats: its configuration, what was said beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.reading.json import parse
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.hdf5 import File

FREE = 2 * 1024 * 1024
"""Bytes of JSON that any file may hold; a larger one as many more as it has itself."""
MODELS = frozenset({"Functional", "Model", "Sequential"})


@dataclass(frozen=True)
class Saved:
    """What was read.

    Attributes:
        where: The file.
        config: The model: ``class_name``, ``config`` and so on; None where there are only weights.
        training: How it was compiled, where it was.
        weights: The HDF5 files with its weights.
        facts: Version, backend, date and what else the file says beside it.
    """

    where: str
    config: dict[str, Any] | None
    training: dict[str, Any] | None
    weights: tuple[File, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def read_json(data: bytes | memoryview, *, where: str, size: int) -> dict[str, Any] | None:
    """Return a JSON object from a file of ``size`` bytes, or None for ``null``.

    Raises:
        MalformedError: It is something else.
        LimitExceededError: It is larger than a file of this size may say.
    """
    value = parse(data, where=where, most=FREE + size)
    if b"\\u" in bytes(data):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            refuse(where, "half a character, which no text may hold")
    if value is not None and not isinstance(value, dict):
        refuse(where, f"a {type(value).__name__}, expected an object")
    return value


def produced_by(version: Any) -> dict[str, Any]:
    """Return what to say of the version of Keras that wrote a file, as far as the file says it."""
    if not isinstance(version, str) or not version:
        return {"producer": "Keras"}
    return {"producer": f"Keras {version}", "versions": {"keras": version}}


def layers(config: Any) -> Iterator[dict[str, Any]]:
    """Yield the layers of a model's configuration, as they stand; nothing where it has another form."""
    inner = inside(config)
    listed = inner.get("layers") if isinstance(inner, dict) else inner  # Keras 1 had a bare list
    for layer in listed if isinstance(listed, list) else ():
        if isinstance(layer, dict):
            yield layer


def inside(config: Any) -> Any:
    """Return what stands under ``config``, an empty object where nothing does."""
    return config.get("config", {}) if isinstance(config, dict) else {}


def name_of(layer: dict[str, Any]) -> str:
    """Return the name of a layer or model, empty where it has none."""
    inner = inside(layer)
    name = layer.get("name") or (inner.get("name") if isinstance(inner, dict) else None)
    return name if isinstance(name, str) else ""


def class_of(layer: Any) -> str:
    """Return the class of an object, empty where it says none."""
    name = layer.get("class_name") if isinstance(layer, dict) else None
    return name if isinstance(name, str) else ""
