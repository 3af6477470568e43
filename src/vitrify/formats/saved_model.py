"""TensorFlow's SavedModel: a directory with graphs, variables and assets, or its ``saved_model.pb`` alone.

A live model is kept as the one function that serves: for any size of the signature's named dimensions, with the
variables that it reads, by name. What the model has besides (training, other functions) stays behind, and so does the
random name that TensorFlow gives each file: the same model gives the same bytes.

Entry: ``file`` where the main file is given alone; empty for a stranger's directory. What is written has ``inputs`` and
``outputs`` (signature name to the function's) and ``shapes`` (of the outputs by name; a size that may change is text).

Specification: https://www.tensorflow.org/guide/saved_model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._links import links
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse
from vitrify.reading.protobuf import peek

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.formats._tensorflow.saved import MetaGraph, Saved

FILE = "saved_model.pb"
TEXT = "saved_model.pbtxt"
INDEX = "variables/variables.index"
FINGERPRINT = "fingerprint.pb"
KERAS = "keras_metadata.pb"
ASSETS = "assets"

_SAVED_MODEL = frozenset({1, 2})
_META_GRAPH = frozenset(range(1, 8))


class SavedModel:
    """The format of TensorFlow's saved models."""

    def detect(self, files: Files) -> bool:
        """Say whether the directory holds a saved model's main file, or the file is one."""
        name = only(files) or FILE
        return name in files.names() and is_saved_model(files.map(name))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return versions, signatures, operators, variables, assets, and what Keras says about it."""
        from vitrify.formats._tensorflow.bundle import Bundle
        from vitrify.formats._tensorflow.saved import keras_facts, operators

        saved = _saved(files, entry)
        first = next(iter(saved.graphs()))
        info = first.message.meta_info_def
        signature = first.signature
        return {
            "producer": f"TensorFlow {info.tensorflow_version}".strip(),
            "versions": {
                "tensorflow": info.tensorflow_version,
                "saved_model": saved.document.root.saved_model_schema_version,
                "graph": first.message.graph_def.versions.producer,
            },
            "inputs": signature["inputs"],
            "outputs": signature["outputs"],
            **(Bundle(files, INDEX).describe() if INDEX in files.names() else {}),
            **operators(first.walked),
            "signatures": first.signatures,
            "tags": list(info.tags),
            "graphs": len(saved.document.root.meta_graphs),
            "functions": len(first.walked.functions),
            "assets": [file for _, file in first.assets],
            **keras_facts(first),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield operators that reach out, code of Keras, links, and variables or assets that are elsewhere."""
        from vitrify.formats._tensorflow.bundle import Bundle
        from vitrify.formats._tensorflow.hazards import hazards
        from vitrify.formats._tensorflow.saved import lambdas

        saved = _saved(files, entry)
        for one in saved.graphs():
            yield from hazards(one.walked, one.paths)
            yield from _assets(files, one)
            yield from lambdas(saved.document.where, one.keras())
        if KERAS in files.names():
            yield from lambdas(KERAS, _metadata(files))
        if INDEX in files.names():
            yield from Bundle(files, INDEX).hazards()
        if FINGERPRINT in files.names():
            _fingerprint(files)
        yield from links(files, str(entry.get("file", FILE)))

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the first graph, from and to the tensors of its main signature; functions are inside their callers."""
        from vitrify.formats._tensorflow.draw import Drawing

        first = next(iter(_saved(files, entry).graphs()))
        ports = (
            [port["tensor"].removesuffix(":0") for port in first.signature[side]] for side in ("inputs", "outputs")
        )
        return Drawing(first.walked).graph(*ports)

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Trace a module or a function, or take a loaded model's own signature, and write it.

        Raises:
            UnsupportedModelError: It cannot be called with such an example, returns something other than tensors, or
                has operators that reach out of it.
            ModelError: It rejects the example.
        """
        from vitrify.formats._tensorflow.serving import serving

        served = serving(model, example.signature if example else None)
        self.write_function(served.function, model, sink)
        return Written(entry=served.entry())

    def write_function(self, function: Any, model: Any, sink: Sink, variables: Mapping[str, Any] | None = None) -> None:
        """Write a traced function of named tensors that returns a dict of them.

        Args:
            function: The function.
            model: What holds the tables and files that it reads.
            sink: Where to.
            variables: The function's variables by the names that they get; without them, their own.

        Raises:
            UnsupportedModelError: It reads what no part of the model holds, or has operators that reach out of it.
        """
        from vitrify.formats._tensorflow import live

        with live.saved(function, model, variables) as files:
            found = tuple(finding for finding in self.hazards(files, {}) if finding.verdict == "found")
            if found:
                msg = "this function has operators that reach out of the model, or run other code"
                raise UnsupportedModelError(msg, problems=found)
            live.hand_over(files, sink)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Load the model.

        Raises:
            UntrustedCodeError: It has operators that reach out of it, or somebody's own, and ``allow`` has not all.
            MalformedError: The files are no saved model, or TensorFlow cannot load it.
            UnsupportedModelError: It has operators that this TensorFlow lacks.
        """
        from vitrify.formats._tensorflow import live

        self.describe(files, entry)
        found = [finding for finding in self.hazards(files, entry) if finding.verdict == "found"]
        if nameless := [finding for finding in found if not finding.subject]:
            msg = f"not loaded: {nameless[0]}"
            raise MalformedError(msg, remedy="get the model from its maker again, or do not use it")
        allow.require({finding.subject for finding in found}, what=str(entry.get("file", FILE)))
        return live.read(files)


def is_saved_model(view: memoryview) -> bool:
    """Say whether bytes begin as a saved model's main file does."""
    found = peek(view)
    if not found or not set(found) <= _SAVED_MODEL:
        return False
    graph = found.get(2)
    inside = peek(graph) if isinstance(graph, memoryview) else None
    if not inside or not set(inside) <= _META_GRAPH:
        return False
    return all(isinstance(value, memoryview) for value in inside.values())


def _saved(files: Files, entry: Mapping[str, Any]) -> Saved:
    from vitrify.formats._tensorflow.saved import Saved

    name = str(entry.get("file", FILE))
    if name not in files.names():
        refuse(name, "not there: a saved model's directory has it")
    return Saved(files.map(name), name)


def _fingerprint(files: Files) -> str:
    """Return the random name that TensorFlow gave the model; all else in the file are checksums."""
    from vitrify.formats._protos.tensorflow import SCHEMA

    found: str = SCHEMA.parse(files.map(FINGERPRINT), "Fingerprint", where=FINGERPRINT).root.uuid
    return found


def _metadata(files: Files) -> Iterator[tuple[str, str]]:
    from vitrify.formats._protos.tensorflow import SCHEMA

    document = SCHEMA.parse(files.map(KERAS), "KerasMetadata", where=KERAS)
    for one in document.each(document.root, "nodes"):
        yield one.identifier, one.metadata


def _assets(files: Files, one: MetaGraph) -> Iterable[Finding]:
    for tensor, name in one.assets:
        place = f"{one.document.where}: asset {tensor!r}"
        if ".." in name.replace("\\", "/").split("/") or name.startswith(("/", "\\")) or ":" in name:
            yield Finding(
                place=place,
                rule="asset-path",
                subject=name,
                message=f"is said to be the file {name!r}, outside the model's directory: loading it would read that",
            )
        elif len(files.names()) > 1 and f"{ASSETS}/{name}" not in files.names():
            yield Finding(
                place=place,
                rule="asset-missing",
                subject=name,
                message=f"is the file {name!r}, which is not in {ASSETS}/",
                verdict="not checked",
            )
