"""TensorFlow's SavedModel: a directory with graphs, variables and assets, or its ``saved_model.pb`` alone.

Entry: ``file`` where the main file is given alone; empty for the directory.

Specification: https://www.tensorflow.org/guide/saved_model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._links import links
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse
from vitrify.reading.protobuf import peek

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
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
