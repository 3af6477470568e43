"""TFLite (LiteRT) models: a FlatBuffer, with an optional zip of files (labels, vocabularies) behind it.

Specification: https://ai.google.dev/edge/litert and its ``schema.fbs``; for the files behind it
https://ai.google.dev/edge/litert/conversion/tensorflow/metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.reading.files import HeldFiles, head, only
from vitrify.reading.flatbuffer import identifier
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.formats._tflite.model import Model
    from vitrify.reading.zip import Zip

MAGIC = b"TFL3"
_TAIL = 22 + 0xFFFF
_END = b"PK\x05\x06"
"""What the end of a zip file begins with, in the last 64 KiB."""


class TFLite:
    """The format of TFLite models. Nothing in such a file is code, but it may ask for code by name."""

    def detect(self, files: Files) -> bool:
        """Say whether it has the identifier of version 3 of the schema, the only one that was ever released."""
        return identifier(head(files, 8)) == MAGIC

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts of the model, and the names of the files behind it.

        Raises:
            MalformedError: It is no TFLite model, or cut off.
        """
        from vitrify.formats._tflite.facts import describe

        name = _name(files, entry)
        model = _parse(files, name)
        packed = _behind(files.map(name), model, name)
        found = {"files": list(packed.members)} if packed else {}
        return {**describe(model), **found}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield operators that are not TFLite's own, external data, and bytes that belong to nothing.

        Raises:
            MalformedError: It is no TFLite model, or cut off.
        """
        from vitrify.formats._tflite.hazards import hazards

        name = _name(files, entry)
        view = files.map(name)
        model = _parse(files, name)
        packed = _behind(view, model, name)
        if packed is None:
            yield from hazards(model, name, len(view))
            return
        yield from hazards(model, name, min(one.offset for one in packed.members.values()) if packed.members else 0)
        # The zip's offsets count from the file's start, so that the model is what it calls hidden.
        yield from (one for one in packed.findings() if " bytes at 0 that no member has" not in one.message)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield each file behind the model.

        Raises:
            MalformedError: One of them is not what the zip says.
        """
        name = _name(files, entry)
        packed = _behind(files.map(name), _parse(files, name), name)
        for member in packed.members if packed else ():
            if packed and not member.endswith("/"):
                yield f"{name}: {member}", HeldFiles({member: packed.read(member)})

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph, those of IF and WHILE folded.

        Raises:
            MalformedError: It is no TFLite model, or cut off.
        """
        from vitrify.formats._tflite.drawing import draw

        return draw(_parse(files, _name(files, entry)))


def _name(files: Files, entry: Mapping[str, Any]) -> str:
    return str(entry.get("file") or only(files) or refuse("this directory", "is not one TFLite model"))


def _parse(files: Files, name: str) -> Model:
    from vitrify.formats._tflite.model import parse

    view = files.map(name)
    if identifier(view[:8]) != MAGIC:
        refuse(name, f"is no TFLite model: it has not the identifier {MAGIC.decode()}")
    return parse(view, where=name)


def _behind(view: memoryview, model: Model, where: str) -> Zip | None:
    """Return the zip behind the model; None where nothing is."""
    from vitrify.reading.zip import Zip

    if len(view) == model.end or _END not in bytes(view[max(model.end, len(view) - _TAIL) :]):
        return None
    return Zip(view, where=where)
