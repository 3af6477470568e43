"""What a pickle says about the model in it, for people: read from inert values, nothing is built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.formats import _facts
from vitrify.formats._pickled import arrays
from vitrify.pickles.inert import Call, Dict, Global, text

if TYPE_CHECKING:
    from vitrify.pickles.machine import Audit

_MAX_DEPTH = 4
_MAX_VALUES = 100
_MAX_TEXT = 200
_MAX_INTEGER = 1 << 63
_STEPS = ("steps", "transformers", "estimators", "transformer_list")
_LIBRARIES = {"sklearn": "scikit-learn"}


def of(found: Audit) -> dict[str, Any]:
    """Return the common keys (:mod:`vitrify.formats`), and ``uses``, ``params``, ``steps`` and ``protocol``."""
    told: dict[str, Any] = {
        "protocol": found.protocol,
        "code": bool(found.findings),
        "uses": sorted({name.dotted for name in found.names}),
        "needs": list(found.untrusted),
    }
    if versions := {_library(name): version for name, version in found.versions.items()}:
        told["versions"] = versions
    told["class"] = _class(found.root)
    if "." in told["class"]:
        root = told["class"].partition(".")[0]
        told["library"] = _LIBRARIES.get(root, root)
    attributes = _attributes(found.root)
    if attributes:
        told["params"] = _params(attributes, 0)
    for name in _STEPS:
        if isinstance(steps := attributes.get(name), list):
            told["steps"] = [_step(one) for one in steps[:_MAX_VALUES]]
            break
    return {**told, **_ports(found.root)}


def _ports(root: Any) -> dict[str, Any]:
    """Return what an estimator takes and the classes it knows; those of a pipeline stand in its first and last step."""
    first, last = _end(root, 0), _end(root, -1)
    names = arrays.values(first.get("feature_names_in_"))
    classes = arrays.values(last.get("classes_"))
    found = {"inputs": _facts.columns(names, first.get("n_features_in_")), "classes": classes}
    return {key: value for key, value in found.items() if value}


def _end(value: Any, side: int) -> dict[str, Any]:
    """Return the attributes of an estimator, or of the step at one end of a pipeline, however deep."""
    for _ in range(_MAX_DEPTH):
        steps = _attributes(value).get("steps")
        if type(steps) is not list or not steps or type(steps[side]) is not tuple or len(steps[side]) < 2:  # noqa: PLR2004 (name and step)
            break
        value = steps[side][1]
    return _attributes(value)


def _library(key: str) -> str:
    name = key.strip("_").removesuffix("_version")
    return _LIBRARIES.get(name, name)


def _class(value: Any) -> str:
    if isinstance(value, Call | Global):
        return value.dotted or "unknown"
    return "dict" if isinstance(value, Dict) else type(value).__name__.lower().replace("nonetype", "None")


def _attributes(value: Any) -> dict[str, Any]:
    state = value.state if isinstance(value, Call) else None
    return dict(state.items()) if isinstance(state, Dict) else {}


def _params(attributes: dict[str, Any], depth: int) -> dict[str, Any]:
    """Parameters are the attributes that neither start nor end with an underscore, as scikit-learn names them."""
    named = {name: value for name, value in attributes.items() if not name.startswith("_") and not name.endswith("_")}
    return {name: _value(value, depth + 1) for name, value in list(named.items())[:_MAX_VALUES]}


def _step(step: Any) -> Any:
    parts = step if isinstance(step, tuple) else (step,)
    return [_value(part, _MAX_DEPTH) for part in parts[:3]]


def _value(value: Any, depth: int) -> Any:
    if value is None or type(value) is bool or (type(value) is int and abs(value) < _MAX_INTEGER):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if (found := text(value)) is not None:
        return found[:_MAX_TEXT]
    return _class(value) if depth >= _MAX_DEPTH else _nested(value, depth)


def _nested(value: Any, depth: int) -> Any:
    if type(value) in {list, tuple} and len(value) <= _MAX_VALUES:
        return [_value(part, depth + 1) for part in value]
    if isinstance(value, Dict) and len(value) <= _MAX_VALUES:
        return {key[:_MAX_TEXT]: _value(part, depth + 1) for key, part in value.items()}
    if isinstance(value, Call) and (params := _params(_attributes(value), depth)):
        return {"class": value.dotted, "params": params}
    return _class(value)
