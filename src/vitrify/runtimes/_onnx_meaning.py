"""Whether the evaluator means what a graph means, asked before anything runs.

It has one implementation of most operators, that of the newest version, and gives it to every older graph. Where the
versions differ in what a node says, or are known to differ without a word, the node is refused: an answer that is
nearly right is worse than none.

Source: https://onnx.ai/onnx/repo-docs/Changelog.html.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx
from onnx.reference.op_run import RuntimeContextError

from vitrify.core.report import Finding
from vitrify.runtimes._onnx_evaluator import OWN, Evaluator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HOMES = {
    "": "onnx.reference.ops",
    "ai.onnx.ml": "onnx.reference.ops.aionnxml",
    "ai.onnx.preview": "onnx.reference.ops.aionnx_preview",
    "ai.onnx.preview.training": "onnx.reference.ops.aionnx_preview_training",
}
_MEANT_OTHERWISE_BEFORE = {"Scan": 9, "RoiAlign": 16, "GroupNormalization": 21}
_MEANT_OTHERWISE_BEFORE |= dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), 13)
"""Operators whose meaning changed in that version, and what they take did not say so."""


def problems(model: onnx.ModelProto) -> tuple[Finding, ...]:
    """List everything in a model that the evaluator has not, or would take for something else."""
    own = {(one.domain, one.name) for one in model.functions}
    imports = {one.domain: one.version for one in model.opset_import}
    places = [(model.graph.node, imports)]
    places += [(one.node, {each.domain: each.version for each in one.opset_import}) for one in model.functions]
    found = {
        (node.domain, node.op_type, text): None
        for nodes, opsets in places
        for node in _inside(nodes)
        if (node.domain, node.op_type) not in own and (text := _problem(node, opsets.get(node.domain, 0)))
    }
    remedy = "run it where its operators are, or write it in a newer operator set"
    return tuple(
        Finding(place=".".join(filter(None, (domain, name))), message=text, remedy=remedy)
        for domain, name, text in sorted(found)
    )


def _inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and those of the graphs in their attributes."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _inside(graph.node)


def _problem(node: onnx.NodeProto, version: int) -> str:
    """Return what is wrong with a node of that version of its domain; empty where nothing is."""
    if node.domain not in _HOMES:
        return "is no operator of the standard"
    if version > _newest(node.domain):
        return f"is of operator set {version}, and onnx {onnx.__version__} knows those up to {_newest(node.domain)}"
    try:
        meant = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return f"is not in operator set {version}"
    if strange := [attribute.name for attribute in node.attribute if attribute.name not in meant.attributes]:
        return f"has no attribute {strange[0]!r}"  # the evaluator would give any name to its own object
    try:
        used = _used(node.domain, node.op_type, version)
    except (NotImplementedError, RuntimeError):
        return f"is not in the evaluator of onnx {onnx.__version__}"
    changed = _changed(node, meant, used) if used and used.since_version > meant.since_version else ""
    return changed and f"is of version {meant.since_version}, and {used.since_version} is evaluated, with {changed}"


def _changed(node: onnx.NodeProto, meant: Any, used: Any) -> str:
    """Return what a newer version of an operator has otherwise than a node of an older one needs it."""
    if meant.since_version < _MEANT_OTHERWISE_BEFORE.get(node.op_type, 0):
        return "another meaning"
    given = {attribute.name for attribute in node.attribute}
    for name, old in meant.attributes.items():
        new = used.attributes.get(name)
        if name in given and (new is None or new.type != old.type):
            return f"no attribute {name!r} like that"
        if name not in given and new is not None and (new.required or new.default_value != old.default_value):
            return f"another default of {name!r}"
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    more = [one.name for one in used.inputs[len(node.input) :] if one.option == single]
    return f"the input {more[0]!r}" if more else ""


@cache
def _newest(domain: str) -> int:
    """Return the newest version of a domain that the package knows: each changes an operator at least."""
    return max(int(one.since_version) for one in onnx.defs.get_all_schemas() if one.domain == domain)


@cache
def _used(domain: str, name: str, version: int) -> Any:
    """Return the version of an operator that is evaluated; None where it is the one that was asked for.

    Raises:
        NotImplementedError: There is none.
        RuntimeError: There is none of that version.
    """
    if domain == "" and name in OWN and version < OWN[name][1]:
        return None
    options = {"evaluator_cls": Evaluator} if domain == "" else {}
    try:
        found = importlib.import_module(_HOMES[domain]).load_op(domain, name, version, **options)
    except RuntimeContextError:  # made of other operators, once the types of its inputs are known
        return None
    if not isinstance(found, type) or found.__name__ != name:  # as its schema says, or of a version that was named
        return None
    return onnx.defs.get_schema(name, domain)
