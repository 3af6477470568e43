"""What a LightGBM booster says of itself: the text that it writes, read.

Source: LightGBM's ``src/io/tree.cpp``, ``include/LightGBM/tree.h`` (``NumericalDecision``, ``CategoricalDecision``)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._trees.ensemble import Mode, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.transforms.convert._building.graph import Array

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NONE, _ZERO, _NAN = 0, 1, 2
ZERO_WIDTH = float(np.float32(1e-35))
"""LightGBM's ``kZeroThreshold``: what is no farther from zero is zero."""

_IDENTITY = frozenset(
    {
        *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
        *("lambdarank", "rank_xendcg", "custom", "none"),
    }
)
EXPONENTIAL = frozenset({"poisson", "gamma", "tweedie"})


class Model:
    """A booster's text, read."""

    def __init__(self, native: Any) -> None:
        header, *blocks = native.model_to_string().split("\n\nTree=")
        fields = _fields(header)
        self.width = int(fields["num_tree_per_iteration"])
        self.average = "average_output" in header.splitlines()
        self.objective, self.parameters = _objective(fields.get("objective", "none"))
        self.features = int(fields["max_feature_idx"]) + 1
        self.categories: list[list[Any]] | None = native.pandas_categorical
        known = (
            _IDENTITY | EXPONENTIAL | {"binary", "multiclass", "multiclassova", "cross_entropy", "cross_entropy_lambda"}
        )
        if self.objective not in known:
            refuse(f"has the objective {self.objective}", "use one of LightGBM's usual objectives")
        self._raw = [_fields(block.split("\n\n\n")[0]) for block in blocks]
        self.zero_features: set[int] = set()
        self.whole_features: set[int] = set()
        self.trees = self._trees()
        self.linear = any(tree.get("is_linear", "0") == "1" for tree in self._raw)

    def leaves(self) -> list[Leaves]:
        """Return the linear models in the leaves, tree by tree."""
        return [_leaves(tree) for tree in self._raw]

    def _trees(self) -> list[Tree]:
        kinds: dict[int, set[int]] = {}
        trees = [_tree(tree, kinds) for tree in self._raw]
        for feature, found in kinds.items():
            if _ZERO in found:
                if len(found) > 1:
                    msg = f"treats zero in feature {feature} as missing in some trees and not in others"
                    refuse(msg, "train all trees with one zero_as_missing")
                self.zero_features.add(feature)
            if -1 in found:
                self.whole_features.add(feature)
        return trees

    @property
    def splits_near_zero(self) -> bool:
        """Whether a threshold lies among the values that LightGBM reads as zero."""
        return any(np.any((np.abs(tree.threshold) <= ZERO_WIDTH) & (tree.threshold != 0)) for tree in self.trees)

    @property
    def rounds(self) -> int:
        """Number of boosting rounds."""
        return max(len(self.trees) // self.width, 1)


def _fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _objective(text: str) -> tuple[str, dict[str, str]]:
    name, *rest = text.split(" ")
    return name, {key: value for key, _, value in (part.partition(":") for part in rest)}


def _numbers(tree: Mapping[str, str], key: str, dtype: Any) -> Array:
    return np.array([dtype(value) for value in tree.get(key, "").split()])


def _tree(tree: Mapping[str, str], kinds: dict[int, set[int]]) -> Tree:
    """Return one tree: inner nodes first, then leaves; and note how each feature treats what is missing."""
    leaf_value = np.array([float(value) for value in tree["leaf_value"].split()])
    inner = len(leaf_value) - 1
    end = np.full(len(leaf_value), -1)

    def children(key: str) -> Array:
        found = _numbers(tree, key, int) if inner else np.array([], int)
        return np.append(np.where(found < 0, inner + ~found, found), end).astype(np.int64)

    decisions = _numbers(tree, "decision_type", int) if inner else np.array([], int)
    feature = _numbers(tree, "split_feature", int) if inner else np.array([], int)
    threshold = _numbers(tree, "threshold", float) if inner else np.array([])
    categorical = (decisions & _CATEGORICAL) > 0
    missing = (decisions >> 2) & 3
    for node in range(inner):
        kinds.setdefault(int(feature[node]), set()).add(-1 if categorical[node] else int(missing[node]))
    # Without a missing type NaN is zero; with one it takes the default; a category that is NaN goes right.
    left = np.where(missing == _NONE, threshold >= 0, (decisions & _DEFAULT_LEFT) > 0) & ~categorical
    pad = np.zeros(len(leaf_value), int)
    return Tree(
        feature=np.append(feature, pad).astype(np.int64),
        threshold=np.append(threshold, pad).astype(np.float64),
        left=children("left_child"),
        right=children("right_child"),
        missing_left=np.append(left, pad).astype(bool),
        value=np.append(np.zeros(inner), leaf_value).reshape(-1, 1),
        mode=np.append(np.where(categorical, int(Mode.MEMBER), int(Mode.LESS_OR_EQUAL)), pad),
        members=_members(tree, threshold, categorical),
    )


def _members(tree: Mapping[str, str], threshold: Array, categorical: Array) -> dict[int, list[float]]:
    """Return the categories that go left at each categorical node, from LightGBM's bit sets."""
    if not categorical.any():
        return {}
    bounds = _numbers(tree, "cat_boundaries", int)
    words = _numbers(tree, "cat_threshold", int)
    members = {}
    for node in np.flatnonzero(categorical).tolist():
        which = int(threshold[node])
        bits = words[bounds[which] : bounds[which + 1]].tolist()
        members[node] = [
            float(32 * word + bit) for word, value in enumerate(bits) for bit in range(32) if value >> bit & 1
        ]
    return members


@dataclass(frozen=True)
class Leaves:
    """The linear models in one tree's leaves.

    Attributes:
        constant: What each leaf starts from.
        features: For each leaf, the features that it adds, in that order.
        coefficients: And what each is multiplied with.
    """

    constant: Array
    features: list[Array]
    coefficients: list[Array]


def _leaves(tree: Mapping[str, str]) -> Leaves:
    if tree.get("is_linear", "0") != "1":
        constant = _numbers(tree, "leaf_value", float)
        none = [np.array([], int)] * len(constant)
        return Leaves(constant, none, none)
    ends = np.cumsum(_numbers(tree, "num_features", int))[:-1]
    return Leaves(
        _numbers(tree, "leaf_const", float),
        np.split(_numbers(tree, "leaf_features", int), ends),
        np.split(_numbers(tree, "leaf_coeff", float), ends),
    )
