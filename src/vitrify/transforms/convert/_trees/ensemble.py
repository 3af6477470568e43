"""Tree ensembles, computed as their source computes them.

An ensemble has two halves. *Which leaf*: one TreeEnsemble node compares features with thresholds and answers
with a leaf's number a tree. *What is in it*: the leaves' values are looked up in a table and added one tree
after another. Where a leaf holds one number, TreeEnsemble does both, in the type that the source adds in.

Source: TreeEnsemble-5, https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import F32, I64, ML, Array, DType, Graph, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    ValuesOf = Callable[[Graph, Sequence["Tree"], Tensor], Tensor]

_BLOCK = 256
"""Trees added at a time: bounds the memory of a call to rows x 256 x outputs values."""

_EXACT_IN_FLOAT32 = 2**24
_MEAN, _SUM = 0, 1
_NO_TRANSFORM = 0


class Mode(IntEnum):
    """How a node compares its feature with its threshold; true goes left.

    MEMBER asks whether the value is in a set; its feature must hold whole numbers (ONNX Runtime cuts others).
    """

    LESS_OR_EQUAL = 0
    LESS = 1
    GREATER = 3
    MEMBER = 6


@dataclass(frozen=True)
class Tree:
    """One tree as arrays over its nodes; node 0 is the root.

    Attributes:
        feature: Column that an inner node looks at.
        threshold: What it compares with, in the type that the source compares in.
        left: Child if the comparison is true; negative at a leaf.
        right: Child if it is false.
        missing_left: Whether NaN goes left.
        value: What a leaf holds: (nodes, outputs) in the type that the source adds in.
        members: The values that go left, for each node of mode MEMBER.
        mode: How each node compares.
    """

    feature: Array
    threshold: Array
    left: Array
    right: Array
    missing_left: Array
    value: Array
    mode: Array
    members: Mapping[int, Sequence[float]] | None = None

    @property
    def leaves(self) -> Array:
        """The nodes that are leaves."""
        return np.flatnonzero(self.left < 0)


def constant_tree(value: Array) -> Tree:
    """Return a tree of one leaf."""
    none = np.array([-1])
    zero = np.zeros(1, np.int64)
    return Tree(
        zero, np.zeros(1, F32), none, none, np.zeros(1, bool), value.reshape(1, -1), np.array([Mode.LESS_OR_EQUAL])
    )


def negated(trees: Sequence[Tree]) -> list[Tree]:
    """Return trees that add up to the same number with the other sign, to the bit."""
    return [replace(tree, value=-tree.value) for tree in trees]


def leaf_values(graph: Graph, trees: Sequence[Tree], x: Tensor) -> Tensor:
    """Return what each tree's leaf holds: (rows, trees, outputs).

    One number of the features' own type is what TreeEnsemble can answer with itself, each tree for itself.
    """
    if trees[0].value.shape[1] == 1 and graph.real(trees[0].value.dtype) == x.dtype:
        weights = np.concatenate([tree.value[tree.leaves, 0] for tree in map(_rooted, trees)])
        answer = _ensemble(graph, trees, x, weights)
        return graph.op("Unsqueeze", answer, np.array([2]), dtype=x.dtype)
    numbers = leaf_numbers(graph, trees, x)
    table = np.concatenate([tree.value[tree.leaves] for tree in trees])
    return graph.gather(graph.constant(table, "leaves"), numbers)


def leaf_numbers(graph: Graph, trees: Sequence[Tree], x: Tensor) -> Tensor:
    """Return each tree's leaf, numbered through all trees in their order: (rows, trees) of int64.

    Args:
        graph: Where it is computed.
        trees: The ensemble.
        x: The features, in float32 or float64.
    """
    if sum(len(tree.leaves) for tree in trees) > _EXACT_IN_FLOAT32:
        x = graph.cast(x, np.float64)
    numbers = np.arange(sum(len(_rooted(tree).leaves) for tree in trees))
    return graph.op("Cast", _ensemble(graph, trees, x, numbers), dtype=I64, to=7)


def _ensemble(
    graph: Graph,
    trees: Sequence[Tree],
    x: Tensor,
    weights: Array,
    targets: Array | None = None,
    *,
    mean: bool = False,
) -> Tensor:
    """Return the weights of the trees' leaves, added up by target; without targets, each tree's: (rows, trees)."""
    flat = _Flat([_in(tree, x.dtype) for tree in trees])
    owners = np.arange(len(trees)) if targets is None else targets
    attributes = _attributes(flat, int(owners.max()) + 1, x.dtype) | {
        "aggregate_function": _MEAN if mean else _SUM,
        "leaf_weights": weights.astype(x.dtype),
        "leaf_targetids": owners[flat.owners].tolist(),
    }
    return graph.op("TreeEnsemble", x, dtype=x.dtype, domain=ML, **attributes)


def add_in_order(
    graph: Graph,
    trees: Sequence[Tree],
    x: Tensor,
    start: Array | Tensor | None,
    *,
    groups: int = 1,
    mean: bool = False,
    values_of: ValuesOf = leaf_values,
) -> Tensor:
    """Return ``start + tree 1 + tree 2 + ...``, added strictly in that order: (rows, groups x values of a leaf).

    Args:
        graph: Where it is computed.
        trees: The ensemble.
        x: The features, in the type that the source compares in.
        start: What the source starts from: a constant for each column of the result, or (rows, columns); None for
            nothing.
        groups: The trees take turns in adding to so many sums of their own, such as one a class.
        mean: Whether the sum is divided by the number of trees: of one group that starts from nothing.
        values_of: What gives each tree's value, (rows, trees, values of a leaf), where that is no constant of the leaf;
            the start is then not a constant.
    """
    values_of_leaf = trees[0].value.shape[1]
    width = groups * values_of_leaf
    if values_of is leaf_values and values_of_leaf == 1 and not isinstance(start, Tensor):
        return _summed(graph, trees, x, start, groups, mean=mean)
    total: Tensor | None = None
    count = len(trees)
    if isinstance(start, Tensor):
        total = graph.reshape(start, -1, 1, width)
    elif start is not None and np.any(start != 0):
        trees = [*_constants(start, groups, values_of_leaf, trees[0].value.dtype), *trees]
    block = max(_BLOCK // groups, 1) * groups
    for first in range(0, len(trees), block):
        values = values_of(graph, trees[first : first + block], x)
        if groups > 1:
            values = graph.reshape(values, 0, -1, width)
        if total is not None:
            values = graph.concat([total, values])
        alone = total is None and len(trees) == 1
        total = values if alone else _last_sum(graph, values)
    assert total is not None
    result = graph.reshape(total, -1, width)
    return graph.binary("Div", result, np.array(float(count))) if mean else result


def _last_sum(graph: Graph, values: Tensor) -> Tensor:
    """Return the sum along the trees, added one after another."""
    sums = graph.op("CumSum", values, np.array(1), dtype=values.dtype)
    return graph.gather(sums, np.array([-1]), axis=1)


def _summed(graph: Graph, trees: Sequence[Tree], x: Tensor, start: Array | None, groups: int, *, mean: bool) -> Tensor:
    """Return the same where a leaf is one number: TreeEnsemble adds in the order of the trees, in the features' type.

    It divides a mean by their number too. What the source starts from is a tree of one leaf, the first. ONNX Runtime
    may split the trees over its threads; a thread's sum is then a term, which changes no more than the last bits.
    """
    kind = graph.real(trees[0].value.dtype)
    if start is not None and np.any(start != 0):
        trees = [*_constants(start, groups, 1, trees[0].value.dtype), *trees]
    x = graph.cast(x, np.result_type(kind, x.dtype))
    weights = np.concatenate([tree.value[tree.leaves, 0] for tree in map(_rooted, trees)])
    targets = np.arange(len(trees)) % groups
    total = _ensemble(graph, trees, x, weights, targets, mean=mean)
    return graph.cast(total, kind)


def _constants(start: Array, groups: int, values_of_leaf: int, kind: DType) -> Iterator[Tree]:
    """Return what the source starts from as trees: one a group, before the first of its own."""
    width = groups * values_of_leaf
    return map(constant_tree, np.broadcast_to(start, width).astype(kind).reshape(groups, values_of_leaf))


def _in(tree: Tree, dtype: np.dtype[Any]) -> Tree:
    """Return the tree with thresholds of another type that divide that type's numbers alike."""
    if tree.threshold.dtype == dtype:
        return tree
    with np.errstate(over="ignore"):
        near = tree.threshold.astype(dtype)
    # For x of the narrower type x <= t and x > t keep their meaning if t is rounded down, x < t if it is rounded up.
    down = np.where(near > tree.threshold, np.nextafter(near, dtype.type(-np.inf)), near)
    up = np.where(near < tree.threshold, np.nextafter(near, dtype.type(np.inf)), near)
    return replace(tree, threshold=np.where(tree.mode == Mode.LESS, up, down).astype(dtype))


class _Flat:
    """All trees' nodes in the two lists that TreeEnsemble wants: inner nodes and leaves."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        columns: dict[str, list[Array]] = {
            key: [] for key in ("feature", "split", "mode", "missing", "left", "right", "left_leaf", "right_leaf")
        }
        roots: list[int] = []
        owners: list[Array] = []
        self.members: list[float] = []
        nodes = leaves = 0
        for index, tree in enumerate(trees):
            tree = _rooted(tree)  # noqa: PLW2901 (the tree as TreeEnsemble can hold it)
            is_leaf = tree.left < 0
            inner = np.flatnonzero(~is_leaf)
            place = np.where(is_leaf, leaves + np.cumsum(is_leaf) - 1, nodes + np.cumsum(~is_leaf) - 1)
            roots.append(nodes)
            for key, values in (
                ("feature", tree.feature[inner]),
                ("split", tree.threshold[inner]),
                ("mode", tree.mode[inner]),
                ("missing", tree.missing_left[inner]),
                ("left", place[tree.left[inner]]),
                ("right", place[tree.right[inner]]),
                ("left_leaf", is_leaf[tree.left[inner]]),
                ("right_leaf", is_leaf[tree.right[inner]]),
            ):
                columns[key].append(values)
            for node in inner[tree.mode[inner] == Mode.MEMBER].tolist():
                self.members += [*(tree.members or {})[node], float("nan")]
            owners.append(np.full(int(is_leaf.sum()), index))
            nodes += len(inner)
            leaves += int(is_leaf.sum())
        self.roots = roots
        self.owners = np.concatenate(owners)
        self.columns = {key: np.concatenate(values) for key, values in columns.items()}


def _rooted(tree: Tree) -> Tree:
    """Return a tree whose root is an inner node: a single leaf becomes a node both of whose ways lead to it."""
    if tree.left[0] >= 0:
        return tree
    # Both children are the one leaf; its number stays the only one of this tree.
    return Tree(
        feature=np.zeros(2, np.int64),
        threshold=np.zeros(2, tree.threshold.dtype),
        left=np.array([1, -1]),
        right=np.array([1, -1]),
        missing_left=np.zeros(2, bool),
        value=np.concatenate([tree.value, tree.value]),
        mode=np.full(2, int(Mode.LESS_OR_EQUAL)),
    )


def _attributes(flat: _Flat, count: int, dtype: np.dtype[Any]) -> dict[str, Any]:
    column = flat.columns
    return {
        "n_targets": count,
        "post_transform": _NO_TRANSFORM,
        "tree_roots": flat.roots,
        "nodes_featureids": column["feature"].tolist(),
        "nodes_splits": column["split"].astype(dtype),
        "nodes_modes": column["mode"].astype(np.uint8),
        "nodes_missing_value_tracks_true": column["missing"].astype(int).tolist(),
        "nodes_truenodeids": column["left"].tolist(),
        "nodes_falsenodeids": column["right"].tolist(),
        "nodes_trueleafs": column["left_leaf"].astype(int).tolist(),
        "nodes_falseleafs": column["right_leaf"].astype(int).tolist(),
        "membership_values": np.asarray(flat.members, dtype) if flat.members else None,
    }
