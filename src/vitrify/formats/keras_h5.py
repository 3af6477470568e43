"""Keras in one HDF5 file: a whole model as Keras 1 and 2 wrote it, or weights alone as all of them do.

Specification: https://keras.io/guides/serialization_and_saving/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError, VitrifyError
from vitrify.formats._archives import one_file
from vitrify.reading.files import only
from vitrify.reading.hdf5_start import start
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.formats._keras.saved import Saved
    from vitrify.reading.hdf5 import File

_ATTRIBUTES = frozenset({"model_config", "layer_names", "keras_version"})
_GROUPS = ("_layer_checkpoint_dependencies", "layers", "vars")


class KerasH5:
    """The `.h5` and `.weights.h5` formats of Keras."""

    def detect(self, files: Files) -> bool:
        """Say whether an HDF5 file has the attributes or the groups that Keras writes."""
        name = only(files)
        if name is None or start(files.map(name)) is None:
            return False
        try:
            return _is_keras(_open(files, {}))
        except VitrifyError:
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return version, backend, layers, inputs, outputs, tensors and how it was compiled."""
        from vitrify.formats._keras.facts import describe

        return describe(_read(_open(files, entry)))

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the layers and the tensors between them.

        Raises:
            UnsupportedModelError: There are only weights.
        """
        from vitrify.formats._keras.drawing import draw

        saved = _read(_open(files, entry))
        if saved.config is None:
            msg = f"{saved.where}: no model in it, only weights"
            raise UnsupportedModelError(msg, remedy="draw the file that it was trained from")
        return draw(saved.config)

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what in the configuration runs code or reads files, and what leads out of the file."""
        from vitrify.formats._hdf5.hazards import hazards as in_file
        from vitrify.formats._keras.hazards import hazards as in_config

        file = _open(files, entry)
        yield from in_file(file, plain=True)
        saved = _read(file)
        yield from in_config(saved.config, where=f"{saved.where}: model_config")
        yield from in_config(saved.training, where=f"{saved.where}: training_config")

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield what is before and after the file proper: it may be a file of its own."""
        from vitrify.formats.hdf5 import around

        yield from around(_open(files, entry))


def _open(files: Files, entry: Mapping[str, Any]) -> File:
    from vitrify.reading.hdf5 import File as Hdf5File

    view, where = one_file(files, entry)
    return Hdf5File(view, where=where)


def _is_keras(file: File) -> bool:
    return bool(_ATTRIBUTES & file.root.attrs.keys()) or any(name in file.root.links for name in _GROUPS)


def _read(file: File) -> Saved:
    from vitrify.formats._keras.saved import Saved, produced_by

    backend = _text(file, "backend")
    facts = {**produced_by(_text(file, "keras_version")), **({"backend": backend} if backend else {})}
    return Saved(file.where, _json(file, "model_config"), _json(file, "training_config"), (file,), facts)


def _text(file: File, name: str) -> str | None:
    """Return a text attribute of the root, or of the weights below it, where older files have it."""
    from vitrify.reading.hdf5 import Group

    for node in (file.root, file.root.get("model_weights")):
        if isinstance(node, Group) and name in node.attrs:
            value = node.attrs[name].value()
            value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if not isinstance(value, str):
                refuse(file.where, f"the attribute {name} is no text")
            return value
    return None


def _json(file: File, name: str) -> dict[str, Any] | None:
    from vitrify.formats._keras.saved import read_json

    text = _text(file, name)
    if text is None:
        return None
    return read_json(text.encode(), where=f"{file.where}: {name}", size=file.size)
