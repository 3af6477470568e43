"""What the two roads over tf2onnx share: its graph with our names, and what it says when it cannot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.formats._tensorflow.quiet import mute, quiet
from vitrify.transforms.convert._clean.graph import inner_graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


with mute():  # it imports TensorFlow
    import tf2onnx

OPSET = 18
"""The newest that tf2onnx writes."""
_IR = 8
_MAX_REASON = 400
_FOREIGN = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


def made(make: Callable[[], tuple[onnx.ModelProto, Any]]) -> onnx.ModelProto:
    """Return the graph that tf2onnx makes.

    Raises:
        UnsupportedModelError: It lacks an operator; all that it left over are listed.
    """
    try:
        with quiet():
            model, _ = make()
    except Exception as error:
        message = f"tf2onnx cannot translate it: {type(error).__name__}: {str(error).strip()[:_MAX_REASON]}"
        finding = Finding(place="graph", message=message, remedy="keep the form that it has")
        raise UnsupportedModelError("this graph has no form in ONNX", problems=(finding,)) from error
    _translate(model.graph)
    left = sorted({node.op_type for node in _nodes(model.graph) if node.domain not in _FOREIGN or not _is_known(node)})
    if left:
        remedy = "replace it in the model by operators that ONNX has, or keep the form that it has"
        problems = [Finding(place=kind, message="tf2onnx has no translation for it", remedy=remedy) for kind in left]
        msg = f"{len(left)} operator(s) of this graph have no form in ONNX"
        raise UnsupportedModelError(msg, problems=problems)
    return model


def _translate(graph: onnx.GraphProto) -> None:
    """Write out the operators that tf2onnx leaves over and ONNX can say, in this graph and those inside it."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for inner in inner_graphs(node):
            _translate(inner)
        nodes += _TRANSLATED[node.op_type](node) if node.op_type in _TRANSLATED else [node]
    graph.ClearField("node")
    graph.node.extend(nodes)


def _erfc(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    (x,), (y,) = node.input, node.output
    return [
        *_constant(f"{y}/one", 1.0, x),
        helper.make_node("Erf", [x], [f"{y}/erf"]),
        helper.make_node("Sub", [f"{y}/one", f"{y}/erf"], [y]),
    ]


def _gelu(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    (x,), (y,) = node.input, node.output
    make = helper.make_node
    nodes = [*_constant(f"{y}/half", 0.5, x), *_constant(f"{y}/one", 1.0, x)]
    if any(attribute.name == "approximate" and attribute.i for attribute in node.attribute):
        nodes += [*_constant(f"{y}/cubic", 0.044715, x), *_constant(f"{y}/factor", math.sqrt(2 / math.pi), x)]
        nodes += [make("Mul", [x, x], [f"{y}/square"]), make("Mul", [f"{y}/square", x], [f"{y}/cube"])]
        nodes += [make("Mul", [f"{y}/cubic", f"{y}/cube"], [f"{y}/bent"]), make("Add", [x, f"{y}/bent"], [f"{y}/sum"])]
        nodes += [
            make("Mul", [f"{y}/factor", f"{y}/sum"], [f"{y}/inner"]),
            make("Tanh", [f"{y}/inner"], [f"{y}/curve"]),
        ]
    else:
        nodes += _constant(f"{y}/root", math.sqrt(2), x)
        nodes += [make("Div", [x, f"{y}/root"], [f"{y}/inner"]), make("Erf", [f"{y}/inner"], [f"{y}/curve"])]
    nodes += [make("Add", [f"{y}/one", f"{y}/curve"], [f"{y}/share"]), make("Mul", [f"{y}/half", x], [f"{y}/part"])]
    return [*nodes, make("Mul", [f"{y}/part", f"{y}/share"], [y])]


def _constant(name: str, value: float, like: str) -> list[onnx.NodeProto]:
    """Return a number in the element type of a value."""
    return [
        helper.make_node("Constant", [], [f"{name}/double"], value_float=value),
        helper.make_node("CastLike", [f"{name}/double", like], [name]),
    ]


_TRANSLATED = {"Erfc": _erfc, "TFL_GELU": _gelu}


def guard_pools(model: onnx.ModelProto) -> None:
    """Leave NaN out of the maximum over a window, in place: in TensorFlow all NaN give the lowest number.

    It is done here and not before: tf2onnx writes a choice as products, in which NaN stays, and moves no transposition
    past it.
    """
    values = onnx.shape_inference.infer_shapes(model).graph
    kinds = {value.name: value.type.tensor_type.elem_type for value in (*values.value_info, *values.input)}
    _guard(model.graph, kinds)


def _guard(graph: onnx.GraphProto, kinds: Mapping[str, int]) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for inner in inner_graphs(node):
            _guard(inner, kinds)
        if node.op_type == "MaxPool" and len(node.output) == 1:
            nodes += _without_nan(node, kinds.get(node.input[0], TensorProto.FLOAT))
        nodes.append(node)
    graph.ClearField("node")
    graph.node.extend(nodes)


def _without_nan(pool: onnx.NodeProto, kind: int) -> list[onnx.NodeProto]:
    """Return what stands before a pool, and let it read that."""
    if kind not in {TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}:
        return []
    x, name = pool.input[0], pool.output[0]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    lowest = numpy_helper.from_array(np.array(np.finfo(dtype).min, dtype), f"{name}/lowest")
    pool.input[0] = f"{name}/known"
    return [
        helper.make_node("Constant", [], [f"{name}/lowest"], value=lowest),
        helper.make_node("IsNaN", [x], [f"{name}/unknown"]),
        helper.make_node("Where", [f"{name}/unknown", f"{name}/lowest", x], [f"{name}/known"]),
    ]


def named(
    model: onnx.ModelProto, inputs: Mapping[str, str], outputs: Mapping[str, str], source: str
) -> onnx.ModelProto:
    """Give the graph's inputs and outputs our names, and say where it comes from.

    Args:
        model: As tf2onnx made it.
        inputs: Its names to ours.
        outputs: The same for outputs.
        source: The format that it comes from.
    """
    graph = model.graph
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    renamed = {name: new for name, new in {**inputs, **outputs}.items() if name != new}
    clashes = taken & set(renamed.values()) - set(renamed)
    aside = {name: _free(f"{name}_", taken) for name in clashes}
    both = {**aside, **renamed}
    for node in _nodes(graph):
        node.input[:] = [both.get(name, name) for name in node.input]
        node.output[:] = [both.get(name, name) for name in node.output]
        node.ClearField("doc_string")
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = both.get(value.name, value.name)
    graph.name, model.doc_string, model.producer_name = "model", "", "vitrify"
    graph.ClearField("doc_string")
    model.producer_version = ""
    model.ir_version = min(model.ir_version, _IR)
    model.ClearField("metadata_props")
    for key, value in (("vitrify.source", source), ("vitrify.tf2onnx", tf2onnx.__version__)):
        model.metadata_props.add(key=key, value=value)
    return model


def sized(values: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, Sequence[int | str]]) -> None:
    """Give sizes that may change the signature's names."""
    for value in values:
        shape = shapes.get(value.name)
        kind = value.type.tensor_type
        if shape is None or not kind.HasField("shape") or len(kind.shape.dim) != len(shape):
            continue
        for dimension, size in zip(kind.shape.dim, shape, strict=True):
            if isinstance(size, str):
                dimension.dim_param = size


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _nodes(graph: onnx.GraphProto) -> Any:
    for node in graph.node:
        yield node
        for inner in inner_graphs(node):
            yield from _nodes(inner)


def _is_known(node: onnx.NodeProto) -> bool:
    return bool(node.domain not in {"", "ai.onnx"} or onnx.defs.has(node.op_type, OPSET, ""))
