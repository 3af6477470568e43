"""TreeEnsemble brought to the operator before it: TreeEnsembleRegressor, which every ``ai.onnx.ml`` has.

The older operator answers in float32, whatever it compares in. So a forest in float64 answers with the numbers of its
leaves, which float32 has; what they hold is looked up in a table of float64, and added up there.

Source: as :mod:`._trees.nodes`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vitrify.core.report import Finding
from vitrify.transforms.convert._clean.graph import inner_graphs
from vitrify.transforms.convert._trees.nodes import AGGREGATES, ML, MODES, TRANSFORMS, ensemble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import NodeProto

    from vitrify.transforms.convert._trees.nodes import Ensemble

NEW = 5
"""The version of ``ai.onnx.ml`` that brings TreeEnsemble."""

_MEAN, _SUM = AGGREGATES.index("AVERAGE"), AGGREGATES.index("SUM")

_NUMBERS = 1 << 24
"""Whole numbers that float32 has."""

_DOUBLES = 3
"""The version whose older operators take thresholds in float64."""


def unfit(model: onnx.ModelProto, ml: int) -> tuple[Finding, ...]:
    """List the forests that have no equal in an older version of ``ai.onnx.ml``."""
    remedy = "ask for opset 21 or later, which has TreeEnsemble, or convert with precision float32"
    return tuple(
        Finding(place=node.name or node.output[0], message=reason, remedy=remedy)
        for node in _new(model.graph)
        if (reason := _reason(ensemble(node, np.dtype(np.float32)), ml))
    )


def older(model: onnx.ModelProto) -> None:
    """Change a model in place."""
    _rewrite(model.graph)


def _reason(trees: Ensemble, ml: int) -> str:
    if trees.split.dtype == np.float32:
        return ""
    if ml < _DOUBLES:
        return f"its thresholds are in {trees.split.dtype}, and those of ai.onnx.ml {ml} in float32"
    if _fits(trees) or (trees.aggregate in (_MEAN, _SUM) and not trees.transform and trees.leaves < _NUMBERS):
        return ""
    return f"it joins float64 trees by {AGGREGATES[trees.aggregate]}, and TreeEnsembleRegressor answers in float32"


def _fits(trees: Ensemble) -> bool:
    """Say whether the operator can answer itself: nothing is added up or divided, and float32 has every weight."""
    same = np.array_equal(trees.weights.astype(np.float32).astype(np.float64), trees.weights)
    divides = trees.aggregate == _MEAN and len(trees.roots) > 1
    return bool(trees.one_tree_a_target and same and not divides)


def _new(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        if node.op_type == "TreeEnsemble" and node.domain == ML:
            yield node
        for inner in inner_graphs(node):
            yield from _new(inner)


def _rewrite(graph: onnx.GraphProto) -> None:
    written: list[NodeProto] = []
    for node in graph.node:
        for inner in inner_graphs(node):
            _rewrite(inner)
        if node.op_type == "TreeEnsemble" and node.domain == ML:
            nodes, constants = _written(node)
            written += nodes
            graph.initializer.extend(constants)
        else:
            written.append(node)
    del graph.node[:]
    graph.node.extend(written)


def _written(node: NodeProto) -> tuple[list[NodeProto], list[TensorProto]]:
    """Return the nodes that stand for one forest, and their constants."""
    trees = ensemble(node, np.dtype(np.float32)).without_members()
    output = node.output[0]
    if trees.split.dtype == np.float32:
        return [_regressor(node, trees, output)], []
    answer = f"{output}/float32"
    if _fits(trees):
        return [_regressor(node, trees, answer), _cast(answer, output, TensorProto.DOUBLE)], []
    table = np.zeros((trees.leaves, trees.targets))
    np.add.at(table, (trees.leaf[:, 0], trees.leaf[:, 1]), trees.weights)
    names = {key: f"{output}/{key}" for key in ("numbers", "table", "held", "axes", "sum", "mean", "count", "base")}
    nodes = [
        _regressor(node, _by_number(trees), answer),
        _cast(answer, names["numbers"], TensorProto.INT64),
        helper.make_node("Gather", [names["table"], names["numbers"]], [names["held"]]),
        helper.make_node("ReduceSum", [names["held"], names["axes"]], [names["sum"]], keepdims=0),
    ]
    constants = {"table": table, "axes": np.array([1])}
    if trees.aggregate == _MEAN:
        nodes.append(helper.make_node("Div", [nodes[-1].output[0], names["count"]], [names["mean"]]))
        constants["count"] = np.array(float(len(trees.roots)))
    if trees.base is not None:
        nodes.append(helper.make_node("Add", [nodes[-1].output[0], names["base"]], [output]))
        constants["base"] = trees.base.astype(np.float64)
    nodes[-1].output[:] = [output]
    return nodes, [numpy_helper.from_array(array, names[key]) for key, array in constants.items()]


def _by_number(trees: Ensemble) -> Ensemble:
    """Return the trees, each with a target of its own, which it gives the number of its leaf."""
    inner = len(trees.feature)
    pairs = [(at - inner, tree) for tree, order in enumerate(_numbered(trees)) for at in order if at >= inner]
    numbers = np.array([leaf for leaf, _ in pairs], np.float32)
    return replace(trees, leaf=np.array(pairs), weights=numbers, targets=len(trees.roots), aggregate=_SUM, base=None)


def _regressor(node: NodeProto, trees: Ensemble, output: str) -> NodeProto:
    return helper.make_node("TreeEnsembleRegressor", node.input, [output], node.name, domain=ML, **_attributes(trees))


def _cast(value: str, output: str, kind: int) -> NodeProto:
    return helper.make_node("Cast", [value], [output], to=kind)


def _attributes(trees: Ensemble) -> dict[str, Any]:
    """Return the nodes of all trees in one list, each tree's numbered from its root."""
    numbers = _numbered(trees)
    inner = len(trees.feature)
    columns: dict[str, list[Any]] = {key: [] for key in _NODES}
    place = {at: (tree, number) for tree, order in enumerate(numbers) for number, at in enumerate(order)}
    for tree, order in enumerate(numbers):
        for number, at in enumerate(order):
            leaf = at >= inner
            row = (
                tree,
                number,
                0 if leaf else int(trees.feature[at]),
                "LEAF" if leaf else MODES[trees.mode[at]],
                0 if leaf else place[trees.true[at]][1],
                0 if leaf else place[trees.false[at]][1],
                0 if leaf else int(trees.missing[at]),
            )
            for key, value in zip(_NODES, row, strict=True):
                columns[key].append(value)
    flat = [at for order in numbers for at in order]
    values = np.concatenate([trees.split, np.zeros(trees.leaves, trees.split.dtype)])[flat]
    held = [
        (place[leaf + inner], target, weight)
        for (leaf, target), weight in zip(trees.leaf.tolist(), trees.weights, strict=True)
        if leaf + inner in place
    ]
    return {
        **columns,
        **_typed("nodes_values", values),
        "target_treeids": [tree for (tree, _), _, _ in held],
        "target_nodeids": [number for (_, number), _, _ in held],
        "target_ids": [target for _, target, _ in held],
        **_typed("target_weights", np.array([weight for *_, weight in held], trees.weights.dtype)),
        "n_targets": trees.targets,
        "aggregate_function": AGGREGATES[trees.aggregate],
        "post_transform": TRANSFORMS[trees.transform],
    }


_NODES = (
    *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes"),
    *("nodes_truenodeids", "nodes_falsenodeids", "nodes_missing_value_tracks_true"),
)


def _numbered(trees: Ensemble) -> list[list[int]]:
    """Return the nodes and leaves of each tree in the order of their numbers, the root first."""
    inner = len(trees.feature)
    orders = []
    for root in trees.roots.tolist():
        order, waiting = [], [root]
        while waiting:
            at = waiting.pop()
            order.append(at)
            if at < inner:
                waiting += [int(trees.false[at])] if trees.false[at] != trees.true[at] else []
                waiting.append(int(trees.true[at]))
        orders.append(order)
    return orders


def _typed(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    if values.dtype == np.float32:
        return {name: values.tolist()}
    return {f"{name}_as_tensor": numpy_helper.from_array(values)}
