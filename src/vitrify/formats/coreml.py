"""Apple's Core ML: a ``.mlmodel`` file, or a ``.mlpackage`` directory with the model and its weights apart.

Entry: ``file`` for a model file; empty for a package.

Specification: https://apple.github.io/coremltools/mlmodel/index.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import VitrifyError
from vitrify.core.report import Finding
from vitrify.reading.files import only
from vitrify.reading.protobuf import peek

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.formats._coreml.model import Model


class CoreMl:
    """The format of Core ML models."""

    def detect(self, files: Files) -> bool:
        """Say whether the file is a model, or the directory's manifest is that of a package with one."""
        from vitrify.formats._coreml.package import MANIFEST, manifest

        name = only(files)
        if name is not None:
            return _is_model(files, name)
        if MANIFEST not in files.names():
            return False
        try:
            return manifest(files) is not None
        except VitrifyError:
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kind, versions, inputs, outputs, layers or operations, weights, author, licence and metadata."""
        from vitrify.formats._coreml.describe import describe

        return describe(_model(files, entry))

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield classes that an app has to bring, models and weights in other places, and links."""
        from vitrify.formats._coreml.package import Blobs, items
        from vitrify.formats._links import links

        yield from items(files)
        model = _model(files, entry)
        yield from _models(model)
        blobs = Blobs(model, files, model.where)
        for step in model.steps():
            place = f"{model.where}: {step.place}"
            if step.operator in {"custom", "custom_layer"}:
                named = step.message.custom.className if step.operator == "custom" else step.operator
                yield _custom(place, named)
            elif not step.operator:
                yield Finding(
                    place=place,
                    rule="unknown-layer",
                    subject=step.message.DESCRIPTOR.name,
                    message="is of a kind that is not known here",
                    remedy="update Vitrify",
                    verdict="not checked",
                )
            for stored in model.stored(step):
                if stored.file:
                    yield from blobs.hazards(stored)
        yield from links(files, model.where)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph of layers or operations; the models of a pipeline are inside its nodes."""
        from vitrify.formats._coreml.draw import Drawing

        return Drawing(_model(files, entry)).graph()


def _is_model(files: Files, name: str) -> bool:
    found = peek(files.map(name))
    if not found or not {1, 2} <= set(found):  # a version and a description
        return False
    from vitrify.formats._coreml.model import is_model

    return is_model(files.map(name))


def _model(files: Files, entry: Mapping[str, Any]) -> Model:
    from vitrify.formats._coreml.model import Model
    from vitrify.formats._coreml.package import model_file

    name = str(entry["file"]) if "file" in entry else model_file(files)
    return Model(files.map(name), name)


def _models(model: Model) -> Iterator[Finding]:
    from vitrify.formats._coreml.model import kind

    for where, inner in model.models():
        place = f"{model.where}: {where}"
        if kind(inner) == "customModel":
            yield _custom(place, inner.customModel.className)
        elif kind(inner) == "linkedModel":
            file = inner.linkedModel.linkedModelFile
            path = f"{file.linkedModelSearchPath.defaultValue}/{file.linkedModelFileName.defaultValue}".strip("/")
            yield Finding(
                place=place,
                rule="linked-model",
                subject=path,
                message=f"is the model {path!r}, which is looked for on the machine that runs it",
            )
        elif kind(inner) in {"", "serializedModel"}:
            yield Finding(
                place=place,
                rule="unknown-model",
                subject=kind(inner) or "unknown",
                message="is of a kind whose content is not known here",
                verdict="not checked",
            )


def _custom(place: str, name: str) -> Finding:
    return Finding(
        place=place,
        rule="custom-operator",
        subject=name,
        message=f"is code: the class {name!r} of whatever app loads the model",
        remedy="allow it by this exact name if you know that class",
    )
