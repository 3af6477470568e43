"""Operators of ``ai.onnx.ml`` on numbers: tree ensembles by gathers, all trees and rows at once, level by level.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._jax_values import Tensor, op

if TYPE_CHECKING:
    from vitrify.transforms.replay.walk import Node

    Array = np.ndarray[Any, Any]

ML = "ai.onnx.ml"
_COMPARE = (jnp.less_equal, jnp.less, jnp.greater_equal, jnp.greater, jnp.equal, jnp.not_equal)
_MEMBER = len(_COMPARE)
_AVERAGE, _SUM, _MIN, _MAX = range(4)
_POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True)
class Forest:
    """All nodes of all trees; a leaf is a node whose children are itself.

    Attributes:
        roots: The first node of each tree.
        feature: Column that a node looks at.
        split: What it compares with.
        mode: How, by ONNX's number.
        missing: Whether NaN goes where a comparison that is true goes.
        true: Next node if it is.
        false: Next node if it is not.
        sets: For each node the row of ``members`` that it looks in.
        members: The values of each set, padded with NaN.
    """

    roots: Array
    feature: Array
    split: Array
    mode: Array
    missing: Array
    true: Array
    false: Array
    sets: Array
    members: Array

    @classmethod
    def of(cls, node: Node) -> Forest:
        """Read a TreeEnsemble: leaves are numbered behind the inner nodes."""
        split, weights = np.asarray(node.get("nodes_splits")), np.asarray(node.get("leaf_weights"))
        inner, leaves = len(split), len(weights)

        def filled(name: str, dtype: Any) -> Array:
            values = node.get(name)
            own = np.zeros(inner, dtype) if values is None else np.asarray(values, dtype)
            return np.concatenate([own, np.zeros(leaves, dtype)])

        def child(side: str) -> Array:
            place = np.asarray(node.get(f"nodes_{side}nodeids"), np.int64)
            leaf = np.asarray(node.get(f"nodes_{side}leafs"), bool)
            return np.concatenate([np.where(leaf, inner + place, place), inner + np.arange(leaves)])

        mode = filled("nodes_modes", np.int64)
        found = node.get("membership_values")
        sets, members = _sets(np.zeros(0, split.dtype) if found is None else np.asarray(found), mode == _MEMBER)
        return cls(
            roots=np.asarray(node.get("tree_roots"), np.int64),
            feature=filled("nodes_featureids", np.int64),
            split=np.concatenate([split, np.zeros(leaves, split.dtype)]),
            mode=mode,
            missing=filled("nodes_missing_value_tracks_true", bool),
            true=child("true"),
            false=child("false"),
            sets=sets,
            members=members,
        )

    def leaves(self, x: Tensor) -> Tensor:
        """Return the leaf of each row in each tree: (rows, trees)."""
        feature, split, missing = map(jnp.asarray, (self.feature, self.split, self.missing))
        true, false = jnp.asarray(self.true), jnp.asarray(self.false)
        here = jnp.broadcast_to(jnp.asarray(self.roots), (x.shape[0], len(self.roots)))

        def down(_: Any, place: Tensor) -> Tensor:
            value = jnp.take_along_axis(x, feature[place], axis=1)
            goes = self._compares(value, split[place], place) | (jnp.isnan(value) & missing[place])
            return jnp.where(goes, true[place], false[place])

        return jax.lax.fori_loop(0, self._depth(), down, here)

    def _compares(self, value: Tensor, split: Tensor, here: Tensor) -> Tensor:
        answer: Tensor = None
        for mode in sorted(set(self.mode.tolist())):
            if mode == _MEMBER:
                members = jnp.asarray(self.members)[jnp.asarray(self.sets)[here]]
                one = (value[..., None] == members).any(-1)
            else:
                one = _COMPARE[mode](value, split)
            answer = one if answer is None else jnp.where(jnp.asarray(self.mode)[here] == mode, one, answer)
        return answer

    def _depth(self) -> int:
        level, depth = np.unique(self.roots), 0
        while True:
            after = np.unique(np.concatenate([self.true[level], self.false[level]]))
            if np.array_equal(after, level) and np.array_equal(self.true[level], level):
                return depth
            if depth > len(self.true):
                msg = "a tree with a circle in it"
                raise UnsupportedModelError(msg, remedy="export the model again")
            level, depth = after, depth + 1


def _sets(values: Array, asks: Array) -> tuple[Array, Array]:
    """Return which node looks in which row, and the rows: sets end in NaN."""
    rows: list[list[Any]] = [[]]
    for value in values.tolist():
        if value != value:  # noqa: PLR0124 (NaN)
            rows.append([])
        else:
            rows[-1].append(value)
    table = np.full((len(rows), max(1, *map(len, rows))), np.nan, values.dtype)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return np.where(asks, np.cumsum(asks) - 1, 0), table


@op("TreeEnsemble", domain=ML)
def _tree_ensemble(node: Node, x: Tensor) -> Tensor:
    forest, weights = Forest.of(node), np.asarray(node.get("leaf_weights"))
    targets = np.asarray(node.get("leaf_targetids"), np.int64)
    leaves = forest.leaves(x) - len(np.asarray(node.get("nodes_splits")))
    values, places = jnp.asarray(weights)[leaves], jnp.asarray(targets)[leaves]
    count = node.get("n_targets") or 1
    total = _totals(values, places, count, node.get("aggregate_function", _SUM))
    return transformed(total, _POST[node.get("post_transform", 0)])


def _totals(values: Tensor, places: Tensor, count: int, how: int) -> Tensor:
    """Add (rows, trees) to the targets of each, or take the mean, the smallest or the largest."""
    start = {_MIN: np.inf, _MAX: -np.inf}.get(how, 0)
    rows = jnp.arange(values.shape[0])[:, None]
    total = jnp.full((values.shape[0], count), start, values.dtype).at[rows, places]
    if how == _MIN:
        return total.min(values)
    if how == _MAX:
        return total.max(values)
    added = total.add(values)
    return added / values.shape[1] if how == _AVERAGE else added


def transformed(scores: Tensor, kind: str) -> Tensor:
    """Return scores as the operators of ``ai.onnx.ml`` give them back."""
    if kind == "SOFTMAX":
        return jax.nn.softmax(scores, -1)
    if kind == "LOGISTIC":
        return jax.nn.sigmoid(scores)
    if kind == "NONE":
        return scores
    msg = f"the post transform {kind}"
    raise UnsupportedModelError(msg, remedy="export the model without it")


@op("LinearRegressor", domain=ML)
def _linear_regressor(node: Node, x: Tensor) -> Tensor:
    weights = jnp.asarray(node.get("coefficients"), jnp.float32).reshape(node.get("targets", 1), -1)
    total = jnp.matmul(x.astype(jnp.float32), weights.T, precision="highest")
    bias = node.get("intercepts")
    total = total if not bias else total + jnp.asarray(bias, jnp.float32)
    return transformed(total, node.get("post_transform", "NONE"))


@op("Scaler", domain=ML)
def _scaler(node: Node, x: Tensor) -> Tensor:
    offset, scale = (jnp.asarray(node.get(name), jnp.float32) for name in ("offset", "scale"))
    return (x.astype(jnp.float32) - offset) * scale


@op("Normalizer", domain=ML)
def _normalizer(node: Node, x: Tensor) -> Tensor:
    values = x.astype(jnp.float32)
    sizes = {
        "MAX": lambda: jnp.max(values, -1, keepdims=True),
        "L1": lambda: jnp.sum(jnp.abs(values), -1, keepdims=True),
        "L2": lambda: jnp.sqrt(jnp.sum(values * values, -1, keepdims=True)),
    }
    size = sizes[node.get("norm", "MAX")]()
    return jnp.where(size == 0, values, values / size)


@op("Binarizer", domain=ML)
def _binarizer(node: Node, x: Tensor) -> Tensor:
    return (x > node.get("threshold", 0.0)).astype(x.dtype)


@op("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(_: Node, x: Tensor, places: Tensor) -> Tensor:
    found = jnp.take(x, places.reshape(-1), axis=-1)
    return found.reshape(1, -1) if x.ndim == 1 else found


@op("Imputer", domain=ML)
def _imputer(node: Node, x: Tensor) -> Tensor:
    real = x.dtype.kind == "f"
    values = jnp.asarray(node.get("imputed_value_floats" if real else "imputed_value_int64s"), x.dtype)
    old = node.get("replaced_value_float" if real else "replaced_value_int64", 0)
    return jnp.where(jnp.isnan(x) if old != old else x == old, values, x)  # noqa: PLR0124 (NaN)


@op("LabelEncoder", domain=ML)
def _label_encoder(node: Node, x: Tensor) -> Tensor:
    keys, values = (_column(node, side) for side in ("keys", "values"))
    default = node.get("default_tensor")
    if default is None:
        default = node.get("default_int64", -1) if values.dtype.kind == "i" else node.get("default_float", -0.0)
    same = x.reshape(-1, 1) == jnp.asarray(keys, x.dtype)
    if x.dtype.kind == "f":
        same |= jnp.isnan(x).reshape(-1, 1) & jnp.isnan(jnp.asarray(keys, x.dtype))
    found = jnp.asarray(values)[jnp.argmax(same, axis=1)]
    other = jnp.asarray(np.asarray(default, values.dtype).reshape(-1)[0])
    return jnp.where(same.any(1), found, other).reshape(x.shape)


def _column(node: Node, side: str) -> Array:
    for name, dtype in (("tensor", None), ("int64s", np.int64), ("floats", np.float32)):
        if (found := node.get(f"{side}_{name}")) is not None:
            column = np.asarray(found, dtype)
            if column.dtype.kind in "biuf":
                return column
    msg = "a LabelEncoder of text, and JAX has none"
    raise UnsupportedModelError(msg, remedy="keep the ONNX form, or encode the text before the model")
