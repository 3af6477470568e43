"""What a tree says about the model, for people: read from the schema, nothing is constructed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.formats import _facts
from vitrify.reading import npy

if TYPE_CHECKING:
    from vitrify.formats._skops.node import Node
    from vitrify.reading.zip import Zip

_MAX_DEPTH = 4
_MAX_VALUES = 100
_SKLEARN = "scikit-learn"
_STEPS = ("steps", "transformers", "estimators", "transformer_list")


def of(root: Node, archive: Zip) -> dict[str, Any]:
    """Return class, library, version, parameters, steps, inputs and classes, where the schema has them."""
    attributes, first, last = _attributes(root), _end(root, 0), _end(root, -1)
    described: dict[str, Any] = {"class": root.dotted, "params": _params(root, 0)}
    for name in _STEPS:
        if name in attributes:
            described["steps"] = _steps(attributes[name])
            break
    if "_sklearn_version" in attributes:
        described["library"] = _SKLEARN
        described["versions"] = {_SKLEARN: _value(attributes["_sklearn_version"], _MAX_DEPTH)}
    names = _array(first["feature_names_in_"], archive) if "feature_names_in_" in first else None
    count = _value(first["n_features_in_"], _MAX_DEPTH) if "n_features_in_" in first else None
    if inputs := _facts.columns(names if isinstance(names, list) else None, count):
        described["inputs"] = inputs
    if "classes_" in last:
        described["classes"] = _array(last["classes_"], archive)
    return described


def _end(node: Node, side: int) -> dict[str, Node]:
    """Return the attributes of an estimator, or of the step at one end of a pipeline, however deep."""
    for _ in range(_MAX_DEPTH):
        steps = _attributes(node).get("steps")
        if steps is None or not steps.children or len(steps.children[side].children) < 2:  # noqa: PLR2004 (name and step)
            break
        node = steps.children[side].children[1]
    return _attributes(node)


def _attributes(node: Node) -> dict[str, Node]:
    if node.loader != "ObjectNode" or not node.children or node.children[0].loader != "DictNode":
        return {}
    state = node.children[0]
    return dict(zip(state.raw["keys"], state.children[1:], strict=True))


def _params(node: Node, depth: int) -> dict[str, Any]:
    """Parameters are the attributes that neither start nor end with an underscore, as scikit-learn names them."""
    named = {name: child for name, child in _attributes(node).items() if not name.startswith("_")}
    return {name: _value(child, depth + 1) for name, child in named.items() if not name.endswith("_")}


def _value(node: Node, depth: int) -> Any:
    match node.loader:
        case "JsonNode":
            return _json(node)
        case "ListNode" | "TupleNode" if depth < _MAX_DEPTH and len(node.children) <= _MAX_VALUES:
            return [_value(child, depth + 1) for child in node.children]
        case "ObjectNode" if depth < _MAX_DEPTH and (params := _params(node, depth)):
            return {"class": node.dotted, "params": params}
        case _:
            return f"<{node.dotted}>"


def _steps(node: Node) -> list[list[Any]]:
    steps = [step.children for step in node.children if step.loader == "TupleNode" and len(step.children) > 1]
    return [[_value(name, _MAX_DEPTH), _class(step)] for name, step, *_ in steps]


def _class(node: Node) -> Any:
    return _json(node) if node.loader == "JsonNode" else node.dotted


def _array(node: Node, archive: Zip) -> Any:
    if node.loader == "NdArrayNode" and node.raw["type"] == "json":
        return [_value(child, _MAX_DEPTH) for child in node.children[:-1]]
    if node.loader != "NdArrayNode":
        return f"<{node.dotted}>"
    array = npy.decode(archive.read(node.raw["file"]), where=node.raw["file"])
    return (
        array.tolist()
        if array.dtype.kind in "biuU" or array.dtype == np.float64
        else [str(item) for item in array.flat]
    )


def _json(node: Node) -> Any:
    try:
        value = json.loads(node.raw["content"])
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"a JsonNode without JSON ({error})"
        raise MalformedError(msg) from error
    return value
