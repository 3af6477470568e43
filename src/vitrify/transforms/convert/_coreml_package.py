"""A Core ML package as files that are the same for the same model: no date, no random names, nothing for debugging.

Source: https://github.com/apple/coremltools/tree/main/modelpackage (the manifest).
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.formats._coreml.package import DATA, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Sink

_AUTHOR = "com.apple.CoreML"
_MODEL, _WEIGHTS = f"{_AUTHOR}/model.mlmodel", f"{_AUTHOR}/weights"
_DATE = "com.github.apple.coremltools.conversion_date"
_HOME = uuid.UUID("6f1c9b1e-52c4-5b0e-9d53-0d6f4b0c7a11")
"""Names of items are made from their paths in this name space."""
_CHUNK = 1 << 20


def write(model: Any, properties: Mapping[str, str], sink: Sink) -> None:
    """Write a converted model.

    Args:
        model: What coremltools made, not yet loaded.
        properties: Kept in the model's own metadata.
        sink: Where to.
    """
    spec = model.get_spec()
    facts = spec.description.metadata.userDefined
    if _DATE in facts:
        del facts[_DATE]
    facts.update(properties)
    ids = {path: str(uuid.uuid5(_HOME, path)) for path in (_MODEL, _WEIGHTS)}
    weights = sorted(path for path in Path(model.weights_dir).rglob("*") if path.is_file()) if model.weights_dir else []
    items = {ids[_MODEL]: _item("CoreML Model Specification", "model.mlmodel", _MODEL)}
    if weights:
        items[ids[_WEIGHTS]] = _item("CoreML Model Weights", "weights", _WEIGHTS)
    manifest = {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": dict(sorted(items.items())),
        "rootModelIdentifier": ids[_MODEL],
    }
    with sink.open(MANIFEST, "weight.config") as stream:
        stream.write(json.dumps(manifest, indent=4).encode())
    with sink.open(f"{DATA}/{_MODEL}", "weight") as stream:
        stream.write(spec.SerializeToString(deterministic=True))
    for path in weights:
        name = path.relative_to(model.weights_dir).as_posix()
        with sink.open(f"{DATA}/{_WEIGHTS}/{name}", "weight") as stream, path.open("rb") as data:
            while chunk := data.read(_CHUNK):
                stream.write(chunk)


def _item(description: str, name: str, path: str) -> dict[str, str]:
    return {"author": _AUTHOR, "description": description, "name": name, "path": path}
