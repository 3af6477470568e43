"""A saved model as it is looked at: its graphs, signatures, savers, assets and Keras's own words about it."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.formats._protos.tensorflow import SCHEMA
from vitrify.formats._tensorflow.graph import Walked, port
from vitrify.formats._tensorflow.operators import known
from vitrify.formats._tensorflow.paths import Paths
from vitrify.reading.json import parse
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.protobuf import Document

MAX_GRAPHS = 100
MAX_LISTED = 100_000
MAX_PORTS = 10_000
DEFAULT = "serving_default"

_KERAS = "_tf_keras_"
_INTERNAL = "__saved_model"


class MetaGraph:
    """One of a saved model's graphs; most have one."""

    def __init__(self, document: Document, message: Any) -> None:
        """Take the message and the document that it is part of."""
        self.document = document
        self.message = message
        self.walked = Walked(document, message.graph_def)

    @cached_property
    def assets(self) -> list[tuple[str, str]]:
        """The tensor and the file of each asset."""
        listed = self.document.each(self.message, "asset_file_def", most=MAX_PORTS)
        return [(asset.tensor_info.name, asset.filename) for asset in listed]

    @property
    def paths(self) -> Paths:
        """Where paths in this graph may come from."""
        tensors = frozenset(tensor.partition(":")[0] for tensor, _ in self.assets)
        return Paths(self.walked, self.message.saver_def.filename_tensor_name, tensors)

    @cached_property
    def signatures(self) -> dict[str, dict[str, Any]]:
        """The inputs and outputs of each signature, by name."""
        each = self.document.each
        return {
            pair.key: {
                field: [port(self.document, one.key, one.value) for one in each(pair.value, field, most=MAX_PORTS)]
                for field in ("inputs", "outputs")
            }
            for pair in each(self.message, "signature_def", most=MAX_PORTS)
            if not pair.key.startswith(_INTERNAL)
        }

    @property
    def signature(self) -> dict[str, Any]:
        """The signature that a server calls when none is named, or else the first."""
        found = self.signatures
        return found.get(DEFAULT) or next(iter(found.values()), {"inputs": [], "outputs": []})

    def keras(self) -> Iterator[tuple[str, str]]:
        """Yield what Keras wrote about each of its objects: the kind, and JSON."""
        for one in self.document.each(self.message.object_graph_def, "nodes"):
            if one.user_object.identifier.startswith(_KERAS):
                yield one.user_object.identifier, one.user_object.metadata


class Saved:
    """A saved model's main file."""

    def __init__(self, view: memoryview, where: str) -> None:
        """Parse it.

        Raises:
            MalformedError: It is no saved model.
            LimitExceededError: It is larger or deeper than what is read from a stranger.
        """
        self.document = SCHEMA.parse(view, "SavedModel", where=where)
        if not self.document.root.meta_graphs:
            refuse(where, "not a saved model (no graph in it)")
        if len(self.document.root.meta_graphs) > MAX_GRAPHS:
            exceed(where, f"{len(self.document.root.meta_graphs)} graphs")

    def graphs(self) -> Iterator[MetaGraph]:
        """Yield each graph."""
        for message in self.document.each(self.document.root, "meta_graphs"):
            yield MetaGraph(self.document, message)


def operators(walked: Walked) -> dict[str, Any]:
    """Return how often each operator occurs, and what foreign ones need.

    Raises:
        LimitExceededError: There are more kinds than any library has.
    """
    found: Counter[str] = Counter()
    for one in walked.operators():
        found[one.node.op] += 1
        if len(found) > MAX_LISTED:
            exceed(walked.document.where, f"more than {MAX_LISTED} kinds of operators")
    foreign = sorted(name for name in found if not known(name) and name not in walked.functions)
    return {
        "operators": dict(sorted(found.items())),
        "needs": ["tensorflow", *(f"a library with the operator {name!r}" for name in foreign)],
    }


def keras_facts(one: MetaGraph) -> dict[str, Any]:
    """Return the class and the name of the Keras model; empty where it is none, or says so in no way that is known."""
    for kind, text in one.keras():
        if kind in {f"{_KERAS}{name}" for name in ("model", "network", "sequential")}:
            try:
                said = parse(text.encode(), where="metadata of Keras")
            except MalformedError:
                return {}
            known_keys = {"class": said.get("class_name"), "name": said.get("name")} if isinstance(said, dict) else {}
            return {"library": "keras", **{key: value for key, value in known_keys.items() if isinstance(value, str)}}
    return {}


def lambdas(where: str, said: Iterator[tuple[str, str]]) -> Iterator[Finding]:
    """Yield each Keras object that brings Python code: a Lambda layer is compiled code, run when Keras loads it."""
    for kind, text in said:
        place = f"{where}: {kind}"
        if not text:
            continue
        try:
            found = _classes(parse(text.encode(), where=place))
        except MalformedError as error:
            yield Finding(
                place=place,
                rule="keras-metadata",
                subject=kind,
                message=f"could not be read: {error.message}",
                verdict="not checked",
            )
            continue
        if "Lambda" in found:
            yield Finding(
                place=place,
                rule="keras-lambda",
                subject="keras.layers.Lambda",
                message="a Lambda layer: Keras would run the Python code that is in it",
                remedy="save the model without Lambda layers",
            )


def _classes(value: Any) -> set[str]:
    found: set[str] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(name := one.get("class_name"), str):
                found.add(name.rpartition(">")[2])
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return found
