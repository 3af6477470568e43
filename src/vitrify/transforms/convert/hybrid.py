"""Estimators to hybrid artifacts: what cannot go to ONNX stays in its own format, the rest becomes graphs."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from vitrify.core.catalog import catalog
from vitrify.core.document import Code
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.core.wire import to_builtins
from vitrify.formats._hybrid import recipe as recipes
from vitrify.formats._hybrid.recipe import FILE, VERSION, Recipe, Source, Stage
from vitrify.transforms.convert._hybrid.split import Part, Split, start
from vitrify.transforms.convert.sklearn_onnx import SklearnToOnnx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vitrify.core.manifest import FileKind
    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject


class ToHybrid:
    """From a fitted pipeline to a chain of ONNX graphs and the parts that stay as they are.

    A model that goes to ONNX as a whole is refused: it needs no hybrid. So is one of which nothing goes there.
    """

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List why the model is no hybrid: all of it goes to ONNX, or none, or a part cannot be kept."""
        found = _split(source, step)
        return found if isinstance(found, tuple) else ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write ``hybrid.json``, and each part into a folder of its own.

        Raises:
            UnsupportedModelError: The model is no hybrid, or a part cannot be kept in its format.
        """
        found = _split(source, step)
        if isinstance(found, tuple):
            msg = "the model cannot be carried in parts"
            raise UnsupportedModelError(msg, problems=found)
        stages: list[Stage] = []
        notes: list[str] = []
        for index, part in enumerate(found.parts):
            if isinstance(part, Stage):
                stages.append(part)
                continue
            stage, written = _written(part, step, _Folder(sink, index))
            stages.append(stage)
            notes += [note for note in written.notes if note not in (*notes, *source.document.notes)]
            if part.why:
                reasons = "; ".join(finding.message.partition("\n")[0] for finding in part.why)
                kept = stage.document.format if stage.document else ""
                notes.append(f"{part.name} ({type(part.model).__name__}) stays native, as {kept}: {reasons}")
        recipe = Recipe(version=VERSION, steps=tuple(stages), outputs=_outputs(source, found))
        with sink.open(FILE, "weight.config") as stream:
            stream.write(json.dumps(to_builtins(recipe), indent=1, sort_keys=True).encode())
        names = {name for _, _, document in recipes.models(recipe) for name in document.code.names}
        return Written(entry={}, names=tuple(sorted(names)), notes=tuple(notes))


def _split(source: Subject, step: Step) -> Split | tuple[Finding, ...]:
    """Return the parts, or why there is no hybrid of this model."""
    signature = source.document.signature
    if signature is None or not signature.outputs or not source.golden:
        remedy = "save the model with an example: save(model, name, example=X[:100])"
        return (Finding(place="signature", message="there is none: what reaches each part is unknown", remedy=remedy),)
    document = source.document
    model = source.native
    if model is None:
        model = catalog().load("format", document.format).read(source.files, document.entry, source.allow)
    whole = SklearnToOnnx().problems(replace(source, native=model), step)
    if not whole:
        message = "every part of it goes to ONNX, so that no part has to stay as it is"
        return (Finding(place=type(model).__name__, message=message, remedy="vitrify convert NAME --to onnx"),)
    split = Split(step, source.allow)
    split.run(model, start(source.golden, signature), type(model).__name__.lower())
    models = [part for part in split.parts if isinstance(part, Part)]
    if all(part.why for part in models):
        return whole
    missing = [item.name for item in signature.outputs if item.name not in _outputs(source, split)]
    if missing:
        message = f"the parts do not give {', '.join(missing)}, which the whole gives"
        return (Finding(place=type(model).__name__, message=message, remedy="use the model in its own format"),)
    return split


def _outputs(source: Subject, split: Split) -> dict[str, Source]:
    """Return where each output of the whole comes from."""
    signature = source.document.signature
    assert signature is not None
    last = split.parts[-1]
    if isinstance(last, Part):
        return {item.name: Source(slot=last.gives[item.name]) for item in signature.outputs if item.name in last.gives}
    return {item.name: Source(slot=next(iter(last.gives.values()))) for item in signature.outputs[:1]}


def _written(part: Part, step: Step, folder: _Folder) -> tuple[Stage, Written]:
    """Write one part and say how it is fed."""
    document = part.subject.document
    if part.why:
        name, runtime = document.format, document.runtime
        written: Written = catalog().load("format", name).write(part.model, folder, part.example)
        entry = {**document.entry, **written.entry}
    else:
        written = SklearnToOnnx().apply(part.subject, step, folder)
        name, runtime, entry = "onnx", "onnxruntime", dict(written.entry)
    kept = document.replace(
        format=name, runtime=runtime, entry=entry, notes=written.notes, code=Code(names=tuple(sorted(written.names)))
    )
    stage = Stage(name=part.name, gives=part.gives, feeds=part.feeds, document=kept, files=tuple(sorted(folder.names)))
    return stage, written


class _Folder:
    """A folder inside a sink: implements :class:`vitrify.core.protocols.Sink`."""

    def __init__(self, sink: Sink, index: int) -> None:
        self._sink = sink
        self._index = index
        self.names: list[str] = []

    def open(self, name: str, kind: FileKind) -> AbstractContextManager[BinaryIO]:
        """Write one file as a stream."""
        self.names.append(name)
        return self._sink.open(recipes.path(self._index, name), kind)

    @contextmanager
    def path(self, name: str, kind: FileKind) -> Iterator[Path]:
        """Yield a path for a library that writes files itself."""
        self.names.append(name)
        with self._sink.path(recipes.path(self._index, name), kind) as place:
            yield place
