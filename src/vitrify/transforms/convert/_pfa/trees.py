"""TreeEnsemble as trees of PFA's own: ``model.tree.simpleTree``.

Each tree answers with its leaf's weight, or with its leaf's number where leaves of one tree add to several targets. A
comparison with NaN is never true, so a node whose missing values go the way of a true comparison asks the contrary,
with its branches swapped. Whether a value is in a set has no contrary of that kind; there, NaN becomes a number that no
set has.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html, https://dmg.org/pfa/docs/tree/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pfa.document import Array, Expression, Row, array_of, inline, literal, pfa_type
from vitrify.transforms.convert._pfa.elementwise import each
from vitrify.transforms.convert._pfa.layout import look_up
from vitrify.transforms.convert._pfa.rows import RowError, op

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

_OPERATORS = ("<=", "<", ">=", ">", "==", "!=")
_CONTRARY = {"<=": ">", "<": ">=", ">=": "<", ">": "<="}
_MEMBER = 6
_EQUAL, _NOT_EQUAL = 4, 5
_DEEPEST = 85
"""Levels of a tree: deeper ones are deeper JSON than is read from a stranger."""
_MISSING = -1.7e38
"""What NaN becomes where sets are asked: in the range of both floating-point types, and in no set."""


@dataclass(frozen=True)
class Forest:
    """The attributes of one TreeEnsemble.

    Attributes:
        roots: The first node of each tree.
        feature: Column that a node looks at.
        mode: How it compares.
        split: With what.
        missing_true: Whether NaN goes the way of true.
        true: Next node, or leaf.
        true_leaf: Whether that is a leaf.
        false: The same where it is not true.
        false_leaf: The same.
        members: The sets of nodes that ask for one.
        targets: What each leaf adds to.
        weights: What it adds.
    """

    roots: Array
    feature: Array
    mode: Array
    split: Array
    missing_true: Array
    true: Array
    true_leaf: Array
    false: Array
    false_leaf: Array
    members: dict[int, list[float]]
    targets: Array
    weights: Array


def _forest(node: Node) -> Forest:
    split = np.asarray(node.get("nodes_splits"))
    modes = np.asarray(node.get("nodes_modes"))
    missing = node.get("nodes_missing_value_tracks_true")
    return Forest(
        roots=np.asarray(node.get("tree_roots"), int),
        feature=np.asarray(node.get("nodes_featureids"), int),
        mode=modes,
        split=split,
        missing_true=np.asarray(missing if missing is not None else np.zeros(len(split)), bool),
        true=np.asarray(node.get("nodes_truenodeids"), int),
        true_leaf=np.asarray(node.get("nodes_trueleafs"), bool),
        false=np.asarray(node.get("nodes_falsenodeids"), int),
        false_leaf=np.asarray(node.get("nodes_falseleafs"), bool),
        members=_members(node.get("membership_values"), modes),
        targets=np.asarray(node.get("leaf_targetids"), int),
        weights=np.asarray(node.get("leaf_weights")),
    )


def _members(values: Any, modes: Array) -> dict[int, list[float]]:
    """Return the set of each node that asks for one; in the attribute each ends in NaN."""
    sets: list[list[float]] = [[]]
    for value in np.asarray(values if values is not None else []).tolist():
        if value != value:  # noqa: PLR0124 (NaN)
            sets.append([])
        else:
            sets[-1].append(value)
    return dict(zip(np.flatnonzero(modes == _MEMBER).tolist(), sets, strict=False))


@op("TreeEnsemble", domain="ai.onnx.ml")
def _tree_ensemble(node: Node, x: Row) -> Row:
    if node.get("post_transform", 0) or node.get("aggregate_function", 1) not in {0, 1}:
        message = "another post transform or aggregate than a sum or a mean"
        raise RowError(message)
    if len(x.shape) != 1:
        message = f"features of {len(x.shape) + 1} axes"
        raise RowError(message)
    forest = _forest(node)
    trees = _Trees(forest, x)
    leaves = trees.leaves()
    count = int(node.get("n_targets", 1))
    own = trees.targets()
    if own is None:
        numbers = leaves
        total = _by_leaf(forest, numbers, count)
    elif own == list(range(count)):
        return leaves
    else:
        total = _by_tree(leaves, own, count)
    if node.get("aggregate_function", 1) == 0:
        share = np.asarray(len(forest.roots), x.dtype)
        return each(x.document, [total, share], x.dtype, lambda t, n: {f"cast.{pfa_type(x.dtype)}": {"/": [t, n]}})
    return total


def _by_tree(leaves: Row, targets: list[int], count: int) -> Row:
    """Add what trees answer to their targets, in the trees' order."""
    document, dtype, kind = leaves.document, leaves.dtype, pfa_type(leaves.dtype)
    total = inline({"t": kind, "x": kind}, kind, {"+": ["t", "x"]})
    sums: list[Expression] = []
    for target in range(count):
        mine = document.take(leaves, np.flatnonzero(np.array(targets) == target))
        sums.append({"a.fold": [mine.name, literal(0, dtype), total]})
    return document.let({"new": sums, "type": array_of(dtype)}, dtype, (count,))


def _by_leaf(forest: Forest, numbers: Row, count: int) -> Row:
    """Add what leaves hold to their targets, in the trees' order."""
    table = np.zeros((len(forest.weights), count), forest.weights.dtype)
    table[np.arange(len(forest.weights)), forest.targets] = forest.weights
    values = look_up(table, numbers)
    columns = values.document.take(values, np.arange(values.size).reshape(values.shape).T)
    parts = [
        values.document.take(columns, np.arange(at * numbers.size, (at + 1) * numbers.size)) for at in range(count)
    ]
    dtype, kind = values.dtype, pfa_type(values.dtype)
    total = inline({"t": kind, "x": kind}, kind, {"+": ["t", "x"]})
    sums = [{"a.fold": [part.name, literal(0, dtype), total]} for part in parts]
    return values.document.let({"new": sums, "type": array_of(dtype)}, dtype, (count,))


class _Trees:
    """Writes an ensemble's trees as one cell, and asks them."""

    def __init__(self, forest: Forest, x: Row) -> None:
        self._forest = forest
        self._x = x
        self._sets = (forest.mode == _MEMBER).any()
        asked = np.isin(forest.mode, (_MEMBER, _EQUAL, _NOT_EQUAL))
        self._asks_sets = bool(asked.any())
        self._own = self.targets()
        plain, sets = (np.unique(forest.feature[one]).tolist() for one in (~asked, asked))
        self._fields = [f"f{at}" for at in plain] + [f"c{at}" for at in sets]

    def targets(self) -> list[int] | None:
        """Return the target of each tree; None where the leaves of one have several."""
        found = []
        for root in self._forest.roots.tolist():
            mine = {int(self._forest.targets[leaf]) for leaf in self._leaves_of(root)}
            if len(mine) != 1:
                return None
            found.append(mine.pop())
        return found

    def _leaves_of(self, root: int) -> list[int]:
        forest, left, steps = self._forest, [root], 0
        leaves: list[int] = []
        while left:
            node = left.pop()
            steps += 1
            if steps > len(forest.split):
                message = "a tree with a circle in it"
                raise RowError(message)
            for child, leaf in ((forest.true, forest.true_leaf), (forest.false, forest.false_leaf)):
                (leaves if leaf[node] else left).append(int(child[node]))
        return leaves

    def leaves(self) -> Row:
        """Return what each tree answers."""
        document, dtype = self._x.document, self._x.dtype
        score = "int" if self._own is None else pfa_type(dtype)
        type_ = self._type(score)
        trees = [self._tree(root, score) for root in self._forest.roots.tolist()]
        cell = document.cell({"type": "array", "items": type_}, trees, "trees")
        datum = document.let(self._datum(type_["name"]), dtype, ())
        ask = inline({"tree": type_["name"]}, score, {"model.tree.simpleTree": [datum.name, "tree"]})
        result = np.dtype(np.int32) if self._own is None else dtype
        return document.let({"a.map": [cell, ask]}, result, (len(trees),))

    def _name(self) -> str:
        """Return a name of the trees' type; ensembles on the same features share it."""
        return self._x.document.type_name(
            "Tree", [self._fields, self._x.dtype.name, self._own is None, self._asks_sets]
        )

    def _type(self, score: str) -> dict[str, Any]:
        name, kind = self._name(), pfa_type(self._x.dtype)
        field = {"type": "enum", "name": f"{name}Fields", "symbols": self._fields}
        value = [kind, {"type": "array", "items": kind}] if self._asks_sets else kind
        fields = (
            ("field", field),
            ("operator", "string"),
            ("value", value),
            ("pass", [name, score]),
            ("fail", [name, score]),
        )
        return {"type": "record", "name": name, "fields": [{"name": key, "type": one} for key, one in fields]}

    def _datum(self, name: str) -> Expression:
        x, kind = self._x, pfa_type(self._x.dtype)
        values = {}
        for field in self._fields:
            value: Expression = {"attr": x.name, "path": [int(field[1:])]}
            if field[0] == "c":
                value = {"if": {"impute.isnan": value}, "then": literal(_MISSING, x.dtype), "else": value}
            values[field] = value
        fields = [{"name": field, "type": kind} for field in self._fields]
        return {"new": values, "type": {"type": "record", "name": f"{name}Datum", "fields": fields}}

    def _tree(self, root: int, score: str) -> dict[str, Any]:
        return self._node(root, score, 1)

    def _node(self, at: int, score: str, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            message = f"a tree of more than {_DEEPEST} levels"
            raise RowError(message)
        forest = self._forest
        sides = [
            self._branch(int(child[at]), bool(leaf[at]), score, depth)
            for child, leaf in ((forest.true, forest.true_leaf), (forest.false, forest.false_leaf))
        ]
        field, operator, value, swapped = self._question(at)
        passed, failed = sides[::-1] if swapped else sides
        return {"field": field, "operator": operator, "value": value, "pass": passed, "fail": failed}

    def _branch(self, child: int, leaf: bool, score: str, depth: int) -> dict[str, Any]:  # noqa: FBT001 (ONNX's)
        if not leaf:
            return {self._name(): self._node(child, score, depth + 1)}
        return {score: child if self._own is None else float(self._forest.weights[child])}

    def _question(self, at: int) -> tuple[str, str, Any, bool]:
        """Return field, operator and value of a node, and whether true and false change places."""
        forest, mode = self._forest, int(self._forest.mode[at])
        feature, split, missing = int(forest.feature[at]), float(forest.split[at]), bool(forest.missing_true[at])
        if mode < _EQUAL:
            if not np.isfinite(split):
                message = "a tree that compares with what is not finite"
                raise RowError(message)
            name = _OPERATORS[mode]
            value: Any = {pfa_type(self._x.dtype): split} if self._asks_sets else split
            return f"f{feature}", _CONTRARY[name] if missing else name, value, missing
        members, swapped = forest.members.get(at, [split]), mode == _NOT_EQUAL
        if missing and not swapped:  # NaN is unlike everything, so it is true for != in any case, as in ONNX Runtime
            members = [*members, float(self._x.dtype.type(_MISSING))]
        return f"c{feature}", "in", {"array": members}, swapped
