"""TensorFlow's checkpoint: an index of named tensors and the data files that they lie in.

Entry: ``file`` where an index is given alone; empty for a directory.

Specification: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/protobuf/tensor_bundle.proto.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._links import links
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse
from vitrify.reading.sstable import is_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files

STATE = "checkpoint"
SAVED_MODEL = "saved_model.pb"

_MAX_STATE = 1024 * 1024
_PATH = re.compile(rb'model_checkpoint_paths?:\s*"([^"\n]*)"')


class TfCheckpoint:
    """The format of TensorFlow's checkpoints."""

    def detect(self, files: Files) -> bool:
        """Say whether there is an index that ends as a sorted table does, and no saved model around it."""
        return SAVED_MODEL not in files.names() and bool(_indices(files))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors of the newest checkpoint, and the names of all."""
        from vitrify.formats._tensorflow.bundle import Bundle

        found = _found(files, entry)
        latest = next((name for path in _state(files) for name in found if name == f"{path}.index"), found[-1])
        return {
            "producer": "TensorFlow",
            **Bundle(files, latest).describe(),
            "checkpoint": latest.removesuffix(".index"),
            "checkpoints": [name.removesuffix(".index") for name in found],
            "needs": ["tensorflow", "the code of the model: a checkpoint has no graph"],
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield tensors that leave their file, data that is not here, paths that lead elsewhere, and links."""
        from vitrify.formats._tensorflow.bundle import Bundle

        for path in _state(files):
            if path.startswith(("/", "\\")) or ".." in path.replace("\\", "/").split("/") or ":" in path:
                yield Finding(
                    place=STATE,
                    rule="checkpoint-path",
                    subject=path,
                    message=f"says that the checkpoint is {path!r}, outside its directory: restoring it reads that",
                )
        found = _found(files, entry)
        for name in found:
            yield from Bundle(files, name).hazards()
        yield from links(files, found[0])


def _indices(files: Files) -> list[str]:
    single = only(files)
    names = [single] if single is not None else [name for name in files.names() if name.endswith(".index")]
    return [name for name in names if "/" not in name and is_table(files.map(name))]


def _found(files: Files, entry: Mapping[str, Any]) -> list[str]:
    found = [str(entry["file"])] if "file" in entry else _indices(files)
    if not found or found[0] not in files.names():
        refuse("a checkpoint", "no index in it")
    return found


def _state(files: Files) -> list[str]:
    """Return the paths that the state file names, the newest first."""
    if STATE not in files.names():
        return []
    text = bytes(files.map(STATE)[:_MAX_STATE])
    return [path.decode("utf-8", "backslashreplace") for path in _PATH.findall(text)]
