"""The tree operators of ONNX as arrays, whichever of them a graph has.

There are three: TreeEnsemble (``ai.onnx.ml`` 5) and, before it, TreeEnsembleRegressor and TreeEnsembleClassifier.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html and its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from onnx import NodeProto

    Array = np.ndarray[Any, Any]

ML = "ai.onnx.ml"
OPERATORS = frozenset({"TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier"})
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
EQUAL, MEMBER = 4, 6
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_COLUMNS = ("feature", "split", "mode", "missing", "true", "false")
_SIDES = ("true", "false", "roots")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class Ensemble:
    """Trees as arrays over their inner nodes, and over their leaves, which are numbered behind all inner nodes.

    Attributes:
        feature: Column that a node looks at.
        split: What it compares with; of a MEMBER node nothing, see ``members``.
        mode: Place in ``MODES``.
        missing: Whether NaN goes where a true comparison goes.
        true: The node or leaf that is next where the comparison holds.
        false: The other.
        roots: Where each tree starts.
        leaf: Leaf, target and weight of each thing that leaves hold, in the order of the file.
        weights: The weights, one a row of ``leaf``.
        leaves: How many there are.
        targets: Columns of the result.
        aggregate: Place in ``AGGREGATES``.
        transform: Place in ``TRANSFORMS``.
        members: The values of each MEMBER node.
        base: What is added to each target, or None.
    """

    feature: Array
    split: Array
    mode: Array
    missing: Array
    true: Array
    false: Array
    roots: Array
    leaf: Array
    weights: Array
    leaves: int
    targets: int
    aggregate: int
    transform: int
    members: dict[int, Array]
    base: Array | None = None

    @property
    def depth(self) -> int:
        """The most comparisons on any way from a root to a leaf."""
        count, here = 0, np.unique(self.roots)
        while (inner := here[here < len(self.feature)]).size:
            here = np.unique(np.concatenate([self.true[inner], self.false[inner]]))
            count += 1
            if count > len(self.feature):
                msg = "the nodes of a tree ensemble lead in a circle"
                raise UnsupportedModelError(msg, remedy="convert the model again: no reader can end on this graph")
        return count

    @property
    def owners(self) -> Array:
        """The tree of each leaf; -1 for one that no tree reaches."""
        owners = np.full(self.leaves, -1)
        for tree, root in enumerate(self.roots):
            here = np.array([root])
            while here.size:
                inner = here[here < len(self.feature)]
                owners[here[here >= len(self.feature)] - len(self.feature)] = tree
                here = np.unique(np.concatenate([self.true[inner], self.false[inner]]))
        return owners

    @property
    def one_tree_a_target(self) -> bool:
        """Whether the trees stand one by one in the result: nothing is added up, so nothing is rounded."""
        return self.targets == len(self.roots) and bool(
            len(self.leaf) == self.leaves
            and np.array_equal(self.leaf[:, 0], np.arange(self.leaves))
            and np.array_equal(self.leaf[:, 1], self.owners)
        )

    def without_members(self) -> Ensemble:
        """Return the same with each set as a chain of comparisons for equality."""
        inner, added = len(self.feature), sum(max(len(values) - 1, 0) for values in self.members.values())
        sides = {name: np.where(at >= inner, at + added, at) for name in _SIDES for at in [getattr(self, name)]}
        columns = {name: sides.get(name, getattr(self, name)).tolist() for name in _COLUMNS}
        for member, values in self.members.items():
            node = member
            first, *more = values.tolist() or [np.nan]
            columns["mode"][node], columns["split"][node] = EQUAL, first
            for value in more:
                link = (columns["feature"][node], value, EQUAL, False, columns["true"][node], columns["false"][node])
                columns["false"][node] = node = len(columns["feature"])
                for name, item in zip(_COLUMNS, link, strict=True):
                    columns[name].append(item)
        arrays: dict[str, Any] = {name: np.array(columns[name], getattr(self, name).dtype) for name in _COLUMNS}
        return replace(self, **arrays, roots=sides["roots"], members={})


def ensemble(node: NodeProto, dtype: np.dtype[Any]) -> Ensemble:
    """Read a tree operator; ``dtype`` is what it compares in.

    Raises:
        UnsupportedModelError: Its attributes do not belong together.
    """
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    try:
        return _current(attributes) if node.op_type == "TreeEnsemble" else _older(node.op_type, attributes, dtype)
    except (IndexError, KeyError, ValueError) as error:
        msg = f"{node.op_type} {node.name!r}: its attributes do not belong together ({type(error).__name__}: {error})"
        raise UnsupportedModelError(msg, remedy="convert the model again, or get it from its maker again") from error


def labels(node: NodeProto) -> list[Any]:
    """Return the labels of a classifier, in the order of its scores."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    texts = [text.decode() for text in attributes.get("classlabels_strings", [])]
    return texts or list(attributes.get("classlabels_int64s", []))


def _current(attributes: dict[str, Any]) -> Ensemble:
    """TreeEnsemble 5: inner nodes and leaves in lists of their own."""
    column = {name: np.array(attributes[f"nodes_{name}"], np.int64) for name in ("featureids", "truenodeids")}
    inner = len(column["featureids"])
    false = np.array(attributes["nodes_falsenodeids"], np.int64)
    leaf_true, leaf_false = (np.array(attributes[f"nodes_{way}leafs"], bool) for way in ("true", "false"))
    mode = numpy_helper.to_array(attributes["nodes_modes"]).astype(np.int64)
    targets = np.array(attributes["leaf_targetids"], np.int64)
    sets = numpy_helper.to_array(attributes["membership_values"]) if "membership_values" in attributes else np.zeros(0)
    ends = np.flatnonzero(np.isnan(sets))
    starts = [0, *(ends + 1)]
    return Ensemble(
        feature=column["featureids"],
        split=numpy_helper.to_array(attributes["nodes_splits"]),
        mode=mode,
        missing=np.array(attributes.get("nodes_missing_value_tracks_true") or np.zeros(inner), bool),
        true=np.where(leaf_true, column["truenodeids"] + inner, column["truenodeids"]),
        false=np.where(leaf_false, false + inner, false),
        roots=np.array(attributes["tree_roots"], np.int64),
        leaf=np.stack([np.arange(len(targets)), targets], axis=1),
        weights=numpy_helper.to_array(attributes["leaf_weights"]),
        leaves=len(targets),
        targets=int(attributes["n_targets"]),
        aggregate=int(attributes.get("aggregate_function", AGGREGATES.index("SUM"))),
        transform=int(attributes.get("post_transform", 0)),
        members={
            int(place): sets[start:end]
            for place, start, end in zip(np.flatnonzero(mode == MEMBER), starts, ends, strict=False)
        },
    )


def _older(kind: str, attributes: dict[str, Any], dtype: np.dtype[Any]) -> Ensemble:
    """Return TreeEnsembleRegressor or TreeEnsembleClassifier: nodes of all kinds in one list, by tree and number."""
    held = "class" if kind == "TreeEnsembleClassifier" else "target"
    keys = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    modes = [text.decode() for text in attributes["nodes_modes"]]
    is_leaf = np.array([mode == "LEAF" for mode in modes])
    inner = int((~is_leaf).sum())
    number = np.where(is_leaf, inner + np.cumsum(is_leaf) - 1, np.cumsum(~is_leaf) - 1)
    place = dict(zip(keys, number.tolist(), strict=True))
    child = {
        way: np.array(
            [
                place[tree, node]
                for (tree, _), node, leaf in zip(keys, attributes[f"nodes_{way}nodeids"], is_leaf, strict=True)
                if not leaf
            ],
            np.int64,
        )
        for way in ("true", "false")
    }
    pairs = zip(attributes[f"{held}_treeids"], attributes[f"{held}_nodeids"], attributes[f"{held}_ids"], strict=True)
    first = {tree: place[tree, node] for tree, node in reversed(keys)}
    column = {name: np.array(attributes[f"nodes_{name}"]) for name in ("featureids",)}
    missing = np.array(attributes.get("nodes_missing_value_tracks_true") or np.zeros(len(keys)), bool)
    base = _numbers(attributes, "base_values", dtype)
    return Ensemble(
        feature=column["featureids"][~is_leaf].astype(np.int64),
        split=_numbers(attributes, "nodes_values", dtype)[~is_leaf],
        mode=np.array([MODES.index(mode) for mode in modes if mode != "LEAF"], np.int64),
        missing=missing[~is_leaf],
        true=child["true"],
        false=child["false"],
        roots=np.array(list(dict(sorted(first.items())).values()), np.int64),
        leaf=np.array([[place[tree, node] - inner, target] for tree, node, target in pairs], np.int64).reshape(-1, 2),
        weights=_numbers(attributes, f"{held}_weights", dtype),
        leaves=int(is_leaf.sum()),
        targets=int(attributes.get("n_targets", 0))
        or len(attributes.get("classlabels_int64s", []))
        or len(attributes.get("classlabels_strings", [])),
        aggregate=AGGREGATES.index(attributes.get("aggregate_function", b"SUM").decode()),
        transform=TRANSFORMS.index(attributes.get("post_transform", b"NONE").decode()),
        members={},
        base=base if len(base) else None,
    )


def _numbers(attributes: dict[str, Any], name: str, dtype: np.dtype[Any]) -> Array:
    if f"{name}_as_tensor" in attributes:
        held: Array = numpy_helper.to_array(attributes[f"{name}_as_tensor"])
        return held
    return np.array(attributes.get(name, []), np.float32).astype(dtype)
