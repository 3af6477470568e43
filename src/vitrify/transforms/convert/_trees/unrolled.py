"""Tree operators written out in ONNX's own operators, for runtimes that have no trees.

All trees are walked at once. A row stands on one node of each tree; a step looks the node's feature, split and
children up in tables, compares, and goes on; a leaf leads to itself, so that after as many steps as the deepest tree
has, every row stands on a leaf. The comparisons are the operator's own, in its element type, so the leaf is the same.
What leaves hold is added up only where several trees give to one target; then the order is the runtime's.

Source: as :mod:`._trees.nodes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vitrify.core.report import Finding
from vitrify.transforms.convert._clean.graph import inner_graphs
from vitrify.transforms.convert._trees.nodes import AGGREGATES, MODES, OPERATORS, TRANSFORMS, ensemble, labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import NodeProto

    Array = np.ndarray[Any, Any]

_COMPARE = ("LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal")
_SUMS = (AGGREGATES.index("AVERAGE"), AGGREGATES.index("SUM"))
_FUNCTIONS = {TRANSFORMS.index("SOFTMAX"): "Softmax", TRANSFORMS.index("LOGISTIC"): "Sigmoid"}
_REMEDY = "keep the ONNX form, whose runtime has trees"
_TWO = 2


def unfit(model: onnx.ModelProto) -> tuple[Finding, ...]:
    """List the tree operators of a model that cannot be written out."""
    return tuple(
        Finding(place=node.name or node.op_type, message=reason, remedy=_REMEDY)
        for node in _trees(model.graph)
        if (reason := _reason(node))
    )


def compared_in_double(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the tree operators that compare in float64, by name; features that come from float32 need less."""
    types, singles = _types(model), _singles(model)
    return tuple(
        node.name or node.op_type
        for node in _trees(model.graph)
        if types.get(node.input[0]) == TensorProto.DOUBLE and node.input[0] not in singles
    )


def unrolled(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without tree operators; what :func:`unfit` lists, and what stands in functions, stays."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    _rewrite(result.graph, _types(model), _singles(model))
    return result


def _trees(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        if node.op_type in OPERATORS and node.domain == "ai.onnx.ml":
            yield node
        for inner in inner_graphs(node):
            yield from _trees(inner)


def _reason(node: NodeProto) -> str:
    found = ensemble(node, np.dtype(np.float32))
    if found.aggregate not in _SUMS:
        return f"its trees are joined by {AGGREGATES[found.aggregate]}, which is not written out"
    if found.transform not in {0, *_FUNCTIONS}:
        return f"it ends in {TRANSFORMS[found.transform]}, which is not written out"
    if node.op_type == "TreeEnsembleClassifier":
        classes = len(labels(node))
        if classes <= _TWO or set(found.leaf[:, 1].tolist()) != set(range(classes)):
            return "how two classes, or classes without a score, are told apart is up to the runtime"
    return ""


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element type of every value whose type is known."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    known = {value.name: value.type.tensor_type.elem_type for value in (*inferred.value_info, *inferred.input)}
    return known | {tensor.name: tensor.data_type for tensor in inferred.initializer}


def _singles(model: onnx.ModelProto) -> dict[str, str]:
    """Return the doubles that are float32 cast, each with what it was cast from."""
    types = _types(model)
    return {
        node.output[0]: node.input[0]
        for node in model.graph.node
        if node.op_type == "Cast"
        and types.get(node.input[0]) == TensorProto.FLOAT
        and types.get(node.output[0]) == TensorProto.DOUBLE
    }


def _narrowed(split: Array, mode: Array) -> Array:
    """Return float64 splits as float32 ones that divide the numbers of float32 alike; NaN where none is equal."""
    with np.errstate(over="ignore"):
        near = split.astype(np.float32)
    below = np.where(near > split, np.nextafter(near, np.float32(-np.inf)), near)
    above = np.where(near < split, np.nextafter(near, np.float32(np.inf)), near)
    upwards = np.isin(mode, [MODES.index("BRANCH_LT"), MODES.index("BRANCH_GTE")])
    exact = np.isin(mode, [MODES.index("BRANCH_EQ"), MODES.index("BRANCH_NEQ")])
    ordered = np.where(upwards, above, below)
    return np.where(exact, np.where(near == split, near, np.float32(np.nan)), ordered).astype(np.float32)


def _rewrite(graph: onnx.GraphProto, types: dict[str, int], singles: dict[str, str]) -> None:
    written: list[NodeProto] = []
    for node in graph.node:
        for inner in inner_graphs(node):
            _rewrite(inner, types, singles)
        if node.op_type in OPERATORS and node.domain == "ai.onnx.ml" and not _reason(node):
            walk = _Walk(node, types.get(node.input[0], TensorProto.FLOAT), singles.get(node.input[0], ""))
            written += walk.nodes
            graph.initializer.extend(walk.constants)
        else:
            written.append(node)
    del graph.node[:]
    graph.node.extend(written)


class _Walk:
    """The nodes that stand for one tree operator; ``single`` is what its features were in float32, if they were."""

    def __init__(self, node: NodeProto, kind: int, single: str = "") -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._prefix = f"{node.name or node.output[0]}/"
        self._kind = kind if kind in {TensorProto.FLOAT, TensorProto.DOUBLE} else TensorProto.FLOAT
        self._dtype = helper.tensor_dtype_to_np_dtype(self._kind)
        x = node.input[0] if kind == self._kind else self._op("Cast", node.input[0], to=self._kind)
        self._trees = ensemble(node, self._dtype).without_members()
        self._splits = self._trees.split.astype(self._dtype)
        if single and self._dtype == np.float64:
            x, self._splits = single, _narrowed(self._splits, self._trees.mode)
        scores = self._transformed(self._sums(self._leaves(x)))
        if node.op_type == "TreeEnsembleClassifier":
            best = self._op("ArgMax", scores, axis=1, keepdims=0)
            given = labels(node)
            table = np.array(given, object if isinstance(given[0], str) else np.int64)
            self._op("Gather", self._constant("labels", table), best, to_name=node.output[0])
            if len(node.output) > 1 and node.output[1]:
                self._op("Cast", scores, to=TensorProto.FLOAT, to_name=node.output[1])
            return
        to = TensorProto.FLOAT if node.op_type == "TreeEnsembleRegressor" else self._kind
        self._op("Cast", scores, to=to, to_name=node.output[0])

    def _leaves(self, x: str) -> str:
        """Return the leaf that each row comes to in each tree: (rows, trees)."""
        trees = self._trees
        inner, leaves = len(trees.feature), trees.leaves
        stay = np.arange(inner, inner + leaves)
        tables = {
            "feature": np.concatenate([trees.feature, np.zeros(leaves, np.int64)]),
            "split": np.concatenate([self._splits, np.zeros(leaves, self._splits.dtype)]),
            "true": np.concatenate([trees.true, stay]),
            "false": np.concatenate([trees.false, stay]),
        }
        names = {key: self._constant(key, table) for key, table in tables.items()}
        rows = self._op("Slice", self._op("Shape", x), *map(self._vector, (0, 1)))
        size = self._op("Concat", rows, self._vector(len(trees.roots)), axis=0)
        state = self._op("Expand", self._constant("roots", trees.roots.reshape(1, -1)), size)
        for _ in range(trees.depth):
            looked = {key: self._op("Gather", name, state) for key, name in names.items()}
            value = self._op("GatherElements", x, looked["feature"], axis=1)
            state = self._op("Where", self._holds(value, looked["split"], state), looked["true"], looked["false"])
        return self._op("Sub", state, self._constant("inner", np.array(inner)))

    def _holds(self, value: str, split: str, state: str) -> str:
        """Return whether each comparison holds: the nodes may compare in different ways."""
        trees = self._trees
        modes = np.unique(trees.mode).tolist()
        parts = []
        for mode in modes:
            part = self._compared(mode, value, split)
            if len(modes) > 1:
                part = self._op("And", part, self._looked_up(f"is_{MODES[mode]}", trees.mode == mode, state))
            parts.append(part)
        if trees.missing.any():
            asked = self._looked_up("missing", trees.missing, state)
            parts.append(self._op("And", self._op("IsNaN", value), asked))
        holds = parts[0]
        for part in parts[1:]:
            holds = self._op("Or", holds, part)
        return holds

    def _compared(self, mode: int, value: str, split: str) -> str:
        if mode < len(_COMPARE):
            return self._op(_COMPARE[mode], value, split)
        return self._op("Not", self._op("Equal", value, split))

    def _looked_up(self, name: str, table: Array, state: str) -> str:
        whole = np.concatenate([table.astype(bool), np.zeros(self._trees.leaves, bool)])
        return self._op("Gather", self._constant(name, whole), state)

    def _sums(self, leaves: str) -> str:
        """Return what the leaves of each row give to each target: (rows, targets)."""
        trees = self._trees
        if trees.one_tree_a_target:
            scores = self._op("Gather", self._constant("weights", trees.weights.astype(self._dtype)), leaves)
        else:
            table = np.zeros((trees.leaves, trees.targets), self._dtype)
            np.add.at(table, (trees.leaf[:, 0], trees.leaf[:, 1]), trees.weights.astype(self._dtype))
            if trees.targets == 1:  # an axis of one behind the sum leads OpenVINO's fusions astray
                table = table[:, 0]
            each = self._op("Gather", self._constant("weights", table), leaves)
            scores = self._op("ReduceSum", each, self._vector(1), keepdims=int(trees.targets == 1))
        if trees.aggregate == AGGREGATES.index("AVERAGE"):
            scores = self._op("Div", scores, self._constant("count", np.array(len(trees.roots), self._dtype)))
        if trees.base is not None:
            scores = self._op("Add", scores, self._constant("base", trees.base.astype(self._dtype)))
        return scores

    def _transformed(self, scores: str) -> str:
        function = _FUNCTIONS.get(self._trees.transform)
        if function is None:
            return scores
        return self._op(function, scores, axis=1) if function == "Softmax" else self._op(function, scores)

    def _op(self, kind: str, *inputs: str, to_name: str = "", **attributes: Any) -> str:
        name = to_name or f"{self._prefix}{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _vector(self, value: int) -> str:
        return self._constant(f"[{value}]", np.array([value]))

    def _constant(self, name: str, array: Array) -> str:
        full = f"{self._prefix}{name}"
        if all(tensor.name != full for tensor in self.constants):
            self.constants.append(numpy_helper.from_array(array, full))
        return full
