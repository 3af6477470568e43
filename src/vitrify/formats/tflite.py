"""TFLite (LiteRT) models: a FlatBuffer, with an optional zip of files (labels, vocabularies) behind it.

Specification: https://ai.google.dev/edge/litert and its ``schema.fbs``; for the files behind it
https://ai.google.dev/edge/litert/conversion/tensorflow/metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _tail
from vitrify.formats._archives import parts_of
from vitrify.reading.files import HeldFiles, head, only
from vitrify.reading.flatbuffer import identifier
from vitrify.reading.malformed import refuse
from vitrify.reading.zip import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.formats._tflite.model import Model
    from vitrify.reading.zip import Zip

FILE = "model.tflite"
MAGIC = b"TFL3"
_TAIL = 22 + 0xFFFF
_END = b"PK\x05\x06"
"""What the end of a zip file begins with, in the last 64 KiB."""
_MODEL = " bytes at 0 that no member has"
"""What a zip file whose offsets count from the model's start says about the model."""


@dataclass(frozen=True)
class TfLiteModel:
    """A TFLite model in memory: its interpreter takes bytes, and has no object for a model that it does not run.

    Attributes:
        content: The file's bytes.
    """

    content: bytes


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
        yield from hazards(model, name)
        packed = _behind(view, model, name)
        yield from _tail.hidden(view, model.end, name) if packed is None else _in_front(view, model, packed, name)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield each file behind the model.

        Raises:
            MalformedError: One of them is not what the zip says.
        """
        name = _name(files, entry)
        view, model = files.map(name), _parse(files, name)
        packed = _behind(view, model, name)
        if packed is None:
            yield from _tail.parts(view, model.end)
            return
        yield from parts_of(packed, [one for one in packed.members if not one.endswith("/")], where=name)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph, those of IF and WHILE folded.

        Raises:
            MalformedError: It is no TFLite model, or cut off.
        """
        from vitrify.formats._tflite.drawing import draw

        return draw(_parse(files, _name(files, entry)))

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a model in memory, byte for byte.

        Raises:
            UnsupportedModelError: It is something else, or asks for operators that TFLite does not have.
        """
        if not isinstance(model, TfLiteModel):
            msg = f"a {type(model).__name__}, expected a TfLiteModel with a file's bytes"
            raise UnsupportedModelError(msg, remedy="pack the file: vitrify pack model.tflite")
        held = HeldFiles({FILE: memoryview(model.content)})
        found = tuple(finding for finding in self.hazards(held, {}) if finding.verdict == "found")
        if found:
            msg = "this model is not only a graph of TFLite's own operators"
            raise UnsupportedModelError(msg, problems=found)
        with sink.open(FILE, "weight") as stream:
            stream.write(model.content)
        return Written(entry={"file": FILE})

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> TfLiteModel:
        """Return the model in memory; what is behind it goes along.

        Raises:
            UntrustedCodeError: It asks for operators that are not TFLite's own, and ``allow`` has not all.
            MalformedError: It is no TFLite model, or hides something.
        """
        name = _name(files, entry)
        self.describe(files, entry)
        found = [finding for finding in self.hazards(files, entry) if finding.verdict == "found"]
        if nameless := [finding for finding in found if not finding.subject]:
            refuse(name, str(nameless[0]))
        allow.require({finding.subject for finding in found}, what=name)
        return TfLiteModel(files.read(name))


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
    if len(view) == model.end or _END not in bytes(view[max(model.end, len(view) - _TAIL) :]):
        return None
    return opened(view, where=where)


def _in_front(view: memoryview, model: Model, packed: Zip, where: str) -> Iterator[Finding]:
    """Yield what is wrong with the zip behind the model, and what is between the two.

    The zip's offsets count from the file's start, so that all of the model is bytes that no member has, at 0.
    """
    yield from (one for one in packed.findings() if _MODEL not in one.message)
    start = packed.start
    if start < model.end:
        message = f"the files behind the model begin at {start}, inside of it: it ends at {model.end}"
        yield Finding(place=where, message=message, rule="overlap", remedy="convert the model again")
    else:
        yield from _tail.hidden(view[:start], model.end, where)
