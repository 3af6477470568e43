"""Operators of ``ai.onnx.ml`` on numbers: tree ensembles by gathers, linear models, encoders.

A tree ensemble goes down all trees of all rows at once, one level after the other; how a node compares is in a table.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._torch_register import op
from vitrify.transforms.replay._torch_values import from_numpy

if TYPE_CHECKING:
    from torch import Tensor

    from vitrify.transforms.replay.walk import Node

Array = np.ndarray[Any, Any]

ML = "ai.onnx.ml"
_POST = {"NONE": 0, "SOFTMAX": 1, "LOGISTIC": 2, "SOFTMAX_ZERO": 3, "PROBIT": 4}


class Mode(IntEnum):
    """How a node compares; true goes to its first child."""

    LESS_OR_EQUAL = 0
    LESS = 1
    GREATER_OR_EQUAL = 2
    GREATER = 3
    EQUAL = 4
    NOT_EQUAL = 5
    MEMBER = 6


_OLD_MODES = {
    "BRANCH_LEQ": Mode.LESS_OR_EQUAL,
    "BRANCH_LT": Mode.LESS,
    "BRANCH_GTE": Mode.GREATER_OR_EQUAL,
    "BRANCH_GT": Mode.GREATER,
    "BRANCH_EQ": Mode.EQUAL,
    "BRANCH_NEQ": Mode.NOT_EQUAL,
}


@dataclass(frozen=True)
class Forest:
    """All nodes of all trees; a leaf is a node whose children are itself.

    Attributes:
        roots: The first node of each tree.
        feature: Column that a node looks at.
        split: What it compares with.
        mode: How.
        missing_true: Whether NaN goes the way of a comparison that is true.
        true: Next node if it is.
        false: Next node if it is not.
        sets: For each node the row of ``members`` that it looks in.
        members: The values of each set, padded with NaN.
        depth: Steps from the roots to the deepest leaf.
    """

    roots: Array
    feature: Array
    split: Array
    mode: Array
    missing_true: Array
    true: Array
    false: Array
    sets: Array
    members: Array
    depth: int

    def leaves(self, x: Tensor) -> Tensor:
        """Return the leaf of each row in each tree: (rows, trees)."""
        feature, true, false, missing = map(from_numpy, (self.feature, self.true, self.false, self.missing_true))
        split = from_numpy(self.split)
        here = from_numpy(self.roots).unsqueeze(0).expand(x.shape[0], len(self.roots))
        for _ in range(self.depth):
            column = feature[here]
            value = torch.gather(x, 1, column)
            # As functions: Core ML has no translation of ``&`` and ``|``.
            absent = torch.logical_and(torch.isnan(value), missing[here])
            goes = torch.logical_or(self._compares(value, split[here], here), absent)
            here = torch.where(goes, true[here], false[here])
        return here

    def _compares(self, value: Tensor, split: Tensor, here: Tensor) -> Tensor:
        modes = sorted({int(mode) for mode in self.mode})
        answers = [(mode, self._one(Mode(mode), value, split, here)) for mode in modes]
        answer = answers[0][1]
        if len(answers) > 1:
            kind = from_numpy(self.mode)[here]
            for mode, one in answers[1:]:
                answer = torch.where(kind == mode, one, answer)
        return answer

    def _one(self, mode: Mode, value: Tensor, split: Tensor, here: Tensor) -> Tensor:
        match mode:
            case Mode.LESS_OR_EQUAL:
                return value <= split
            case Mode.LESS:
                return value < split
            case Mode.GREATER_OR_EQUAL:
                return value >= split
            case Mode.GREATER:
                return value > split
            case Mode.EQUAL:
                return value == split
            case Mode.NOT_EQUAL:
                return value != split
        members = from_numpy(self.members)[from_numpy(self.sets)[here]]
        return (value.unsqueeze(-1) == members).any(-1)


def _depth(roots: Array, true: Array, false: Array) -> int:
    depth, level = 0, np.unique(roots)
    while True:
        after = np.unique(np.concatenate([true[level], false[level]]))
        if np.array_equal(after, np.unique(np.concatenate([after, level]))) and np.array_equal(after, level):
            return depth
        if depth > len(true):
            msg = "a tree with a circle in it"
            raise UnsupportedModelError(msg, remedy="export the model again")
        depth, level = depth + 1, after


def _sets(values: Array, modes: Array) -> tuple[Array, Array]:
    """Split the list of members, each set of which ends in NaN, into rows; and say which node has which."""
    rows: list[list[float]] = [[]]
    for value in values.tolist():
        if value != value:  # noqa: PLR0124 (NaN)
            rows.append([])
        else:
            rows[-1].append(value)
    width = max(map(len, rows)) or 1
    table = np.full((len(rows), width), np.nan, values.dtype)
    for row, members in enumerate(rows):
        table[row, : len(members)] = members
    numbers = np.cumsum(modes == Mode.MEMBER) - 1
    return np.where(modes == Mode.MEMBER, numbers, 0), table


@op("TreeEnsemble", domain=ML)
def _tree_ensemble(node: Node, x: Tensor) -> Tensor:
    split = np.asarray(node.get("nodes_splits"))
    inner, weights = len(split), np.asarray(node.get("leaf_weights"))
    modes = np.concatenate([np.asarray(node.get("nodes_modes")), np.zeros(len(weights), np.uint8)]).astype(np.int64)

    def child(side: str) -> Array:
        place = np.asarray(node.get(f"nodes_{side}nodeids"), np.int64)
        leaf = np.asarray(node.get(f"nodes_{side}leafs"), bool)
        return np.concatenate([np.where(leaf, inner + place, place), inner + np.arange(len(weights))])

    def filled(name: str, default: Any, dtype: Any) -> Array:
        values = np.asarray(node.get(name, [default] * inner), dtype)
        return np.concatenate([values, np.zeros(len(weights), dtype)])

    true, false = child("true"), child("false")
    roots = np.asarray(node.get("tree_roots"), np.int64)
    sets, members = _sets(np.asarray(node.get("membership_values", np.zeros(0, split.dtype))), modes)
    forest = Forest(
        roots=roots,
        feature=filled("nodes_featureids", 0, np.int64),
        split=np.concatenate([split, np.zeros(len(weights), split.dtype)]),
        mode=modes,
        missing_true=filled("nodes_missing_value_tracks_true", 0, bool),
        true=true,
        false=false,
        sets=sets,
        members=members,
        depth=_depth(roots, true, false),
    )
    targets = np.asarray(node.get("leaf_targetids"), np.int64)
    leaves = forest.leaves(x) - inner
    total = _totals(node, leaves, from_numpy(weights), targets, len(roots))
    return post_transformed(total, node.get("post_transform", 0))


def _totals(node: Node, leaves: Tensor, weights: Tensor, targets: Array, trees: int) -> Tensor:
    """Add what the leaves hold to their targets, tree by tree in their order."""
    count, aggregate = node.get("n_targets", 1), node.get("aggregate_function", 1)
    values, places = weights[leaves], from_numpy(targets)[leaves]
    if count == trees and aggregate == 1:  # one target a tree: nothing to add
        one_each = all(len(set(targets[start:end])) == 1 for start, end in _runs(targets, trees))
        if one_each:
            return values
    names = torch.arange(count).reshape(1, 1, -1)
    mine = places.unsqueeze(-1) == names
    if aggregate in {0, 1}:
        table = torch.where(mine, values.unsqueeze(-1), torch.zeros_like(values.unsqueeze(-1)))
        total = table.sum(1)
        return total / trees if aggregate == 0 else total
    least = float("inf") if aggregate == 2 else -float("inf")  # noqa: PLR2004 (ONNX's numbers: MIN is 2)
    table = torch.where(mine, values.unsqueeze(-1), torch.full_like(values.unsqueeze(-1), least))
    return table.amin(1) if aggregate == 2 else table.amax(1)  # noqa: PLR2004 (as above)


def _runs(targets: Array, trees: int) -> list[tuple[int, int]]:
    """Return where the leaves of each target begin and end, where they stand together in the trees' order."""
    starts = np.searchsorted(targets, np.arange(trees))
    if not np.array_equal(np.sort(targets), targets):
        return [(0, len(targets))]
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(targets)], strict=True))


def post_transformed(scores: Tensor, kind: int | str) -> Tensor:
    """Return scores as the operators of ``ai.onnx.ml`` give them back."""
    number = _POST[kind] if isinstance(kind, str) else kind
    if number == 1:
        return torch.softmax(scores, -1)
    if number == 2:  # noqa: PLR2004 (ONNX's numbers)
        return torch.sigmoid(scores)
    if number == 0:
        return scores
    msg = f"the post transform {kind!r}"
    raise UnsupportedModelError(msg, remedy="export the model without it")


@op("TreeEnsembleRegressor", domain=ML)
def _tree_ensemble_regressor(node: Node, x: Tensor) -> Tensor:
    forest, order = _old_forest(node)
    leaves = forest.leaves(x.float() if x.dtype not in {torch.float32, torch.float64} else x)
    table = _old_table(node, "target", node.get("n_targets", 1), order)
    values = from_numpy(table).to(torch.float32)[leaves]
    total = {"SUM": values.sum(1), "AVERAGE": values.mean(1), "MIN": values.amin(1), "MAX": values.amax(1)}[
        node.get("aggregate_function", "SUM")
    ]
    base = node.get("base_values")
    total = total if not base else total + torch.tensor(base, dtype=torch.float32)
    return post_transformed(total, node.get("post_transform", "NONE"))


def _old_forest(node: Node) -> tuple[Forest, dict[tuple[int, int], int]]:
    """Return the trees of the older operators, whose nodes and leaves are one list."""
    keys = list(zip(node.get("nodes_treeids"), node.get("nodes_nodeids"), strict=True))
    order = {key: place for place, key in enumerate(keys)}
    modes = node.get("nodes_modes")
    own = np.arange(len(keys))
    leaf = np.array([mode == "LEAF" for mode in modes])

    def child(name: str) -> Array:
        ids = node.get(name)
        return np.array([place if leaf[place] else order[keys[place][0], ids[place]] for place in own])

    true, false = child("nodes_truenodeids"), child("nodes_falsenodeids")
    inner = np.concatenate([true[~leaf], false[~leaf]])
    firsts: dict[int, int] = {}
    for place in sorted(set(own.tolist()) - set(inner.tolist())):
        firsts.setdefault(keys[place][0], place)
    splits = node.get("nodes_values_as_tensor")
    missing = node.get("nodes_missing_value_tracks_true") or [0] * len(keys)
    roots = np.array(list(firsts.values()))
    forest = Forest(
        roots=roots,
        feature=np.asarray(node.get("nodes_featureids"), np.int64),
        split=np.asarray(node.get("nodes_values"), np.float32) if splits is None else splits,
        mode=np.array([0 if mode == "LEAF" else _OLD_MODES[mode] for mode in modes], np.int64),
        missing_true=np.asarray(missing, bool),
        true=true,
        false=false,
        sets=np.zeros(len(keys), np.int64),
        members=np.zeros((1, 1), np.float32),
        depth=_depth(roots, true, false),
    )
    return forest, order


def _old_table(node: Node, what: str, width: int, order: dict[tuple[int, int], int]) -> Array:
    weights = node.get(f"{what}_weights_as_tensor")
    weights = np.asarray(node.get(f"{what}_weights"), np.float32) if weights is None else weights
    table = np.zeros((len(order), width), weights.dtype)
    ids = zip(*(node.get(f"{what}_{name}") for name in ("treeids", "nodeids", "ids")), strict=True)
    for (tree, one, column), weight in zip(ids, weights, strict=True):
        table[order[tree, one], column] += weight
    return table


@op("LinearRegressor", domain=ML)
def _linear_regressor(node: Node, x: Tensor) -> Tensor:
    targets = node.get("targets", 1)
    weights = torch.tensor(node.get("coefficients"), dtype=torch.float32).reshape(targets, -1)
    total = x.float() @ weights.t()
    if bias := node.get("intercepts"):
        total = total + torch.tensor(bias, dtype=torch.float32)
    return post_transformed(total, node.get("post_transform", "NONE"))


@op("Scaler", domain=ML)
def _scaler(node: Node, x: Tensor) -> Tensor:
    offset, scale = (torch.tensor(node.get(name), dtype=torch.float32) for name in ("offset", "scale"))
    return (x.float() - offset) * scale


@op("Normalizer", domain=ML)
def _normalizer(node: Node, x: Tensor) -> Tensor:
    values = x.float()
    match node.get("norm", "MAX"):
        case "MAX":
            size = values.abs().amax(-1, keepdim=True)
        case "L1":
            size = values.abs().sum(-1, keepdim=True)
        case _:
            size = torch.sqrt((values * values).sum(-1, keepdim=True))
    return torch.where(size == 0, values, values / size)


@op("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(_: Node, x: Tensor, places: Tensor) -> Tensor:
    found = x.index_select(-1, places.reshape(-1).to(torch.int64))
    return found.reshape(1, -1) if x.ndim == 1 else found


@op("Imputer", domain=ML)
def _imputer(node: Node, x: Tensor) -> Tensor:
    name = "floats" if x.is_floating_point() else "int64s"
    values = torch.tensor(node.get(f"imputed_value_{name}"), dtype=x.dtype)
    old = node.get("replaced_value_float" if x.is_floating_point() else "replaced_value_int64", 0)
    missing = torch.isnan(x) if old != old else x == old  # noqa: PLR0124 (NaN)
    return torch.where(missing, values, x)


@op("LabelEncoder", domain=ML)
def _label_encoder(node: Node, x: Tensor) -> Tensor:
    keys, values = (_column(node, side) for side in ("keys", "values"))
    default = _default(node, values.dtype)
    table, places = from_numpy(values), x.reshape(-1, 1) == from_numpy(keys).to(x.dtype)
    if x.is_floating_point() and np.isnan(keys).any():
        places = torch.logical_or(places, torch.logical_and(torch.isnan(x).reshape(-1, 1), from_numpy(np.isnan(keys))))
    found, first = places.any(1), places.to(torch.uint8).argmax(1)
    return torch.where(found, table[first], torch.as_tensor(default, dtype=table.dtype)).reshape(x.shape)


def _column(node: Node, side: str) -> Array:
    tensor = node.get(f"{side}_tensor")
    if tensor is None:
        for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
            if node.get(f"{side}_{kind}") is not None:
                return np.asarray(node.get(f"{side}_{kind}"), dtype)
    if tensor is None or tensor.dtype.kind not in "iufb":
        msg = "a LabelEncoder of text, and PyTorch has none"
        raise UnsupportedModelError(msg, remedy="keep the ONNX form, or encode the text before the model")
    return np.asarray(tensor)


def _default(node: Node, dtype: Any) -> Any:
    tensor = node.get("default_tensor")
    if tensor is not None:
        return np.asarray(tensor).reshape(-1)[0].item()
    return node.get("default_int64", -1) if dtype.kind == "i" else node.get("default_float", -0.0)
