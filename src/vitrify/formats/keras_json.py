"""A Keras model's configuration as JSON, without weights: what ``model.to_json()`` gives; ``config.json`` in a folder.

Keras builds the whole model from it, so that it is as much code as a whole model.

Specification: https://keras.io/guides/serialization_and_saving/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats._archives import one_file
from vitrify.reading.files import only
from vitrify.reading.json import peek

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding


_KEYS = ("class_name", "config")


class KerasJson:
    """Keras' configurations as JSON."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a JSON object with a class and its configuration."""
        name = only(files)
        return name is not None and is_configuration(files.map(name))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return version, backend, layers, inputs and outputs, and how it was compiled."""
        from vitrify.formats._keras.facts import describe
        from vitrify.formats._keras.saved import Saved, produced_by

        config, where = _read(files, entry)
        training = config.get("compile_config")
        facts = produced_by(config.get("keras_version"))
        return describe(Saved(where, config, training if isinstance(training, dict) else None, facts=facts))

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the layers and the tensors between them."""
        from vitrify.formats._keras.drawing import draw

        return draw(_read(files, entry)[0])

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what in the configuration runs code or reads files."""
        from vitrify.formats._keras.hazards import hazards as in_config

        config, where = _read(files, entry)
        yield from in_config(config, where=where)


def is_configuration(view: memoryview) -> bool:
    """Say whether bytes are a JSON object with a class and its configuration, under these keys however written."""
    return len(peek(view, *_KEYS)) == len(_KEYS)


def _read(files: Files, entry: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    from vitrify.formats._keras.saved import read_json

    view, where = one_file(files, entry)
    return read_json(view, where=where, size=len(view)) or {}, where
