"""Classical machine learning (``ai.onnx.ml``), on TensorFlow.

A forest is a table of nodes; all rows stand at one node of each tree and go down together, level by level, until all
stand at leaves, which lead to themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay._tensorflow_base import Array, is_nan, op, refuse, tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.transforms.replay.walk import Node

ML = "ai.onnx.ml"
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_COMPARE = {
    _LEQ: tf.less_equal,
    _LT: tf.less,
    _GTE: tf.greater_equal,
    _GT: tf.greater,
    _EQ: tf.equal,
    _NEQ: tf.not_equal,
}
_AVERAGE, _SUM, _MIN, _MAX = range(4)
_NONE, _SOFTMAX, _LOGISTIC, _SOFTMAX_ZERO, _PROBIT = range(5)


class Forest:
    """The nodes of all trees in one table, leaves behind them, with the depth that the deepest leaf has."""

    def __init__(self, node: Node) -> None:
        """Read the attributes of a TreeEnsemble."""

        def numbers(name: str) -> Array:
            return np.asarray(node.get(name, []), np.int64)

        self.feature = numbers("nodes_featureids")
        count = len(self.feature)
        self.leaves = len(numbers("leaf_targetids"))
        self.mode = np.asarray(node.attributes["nodes_modes"]).astype(np.int64)
        self.split = np.asarray(node.attributes["nodes_splits"])
        missing = numbers("nodes_missing_value_tracks_true")
        self.missing = (missing if len(missing) else np.zeros(count, np.int64)).astype(bool)
        self.yes = numbers("nodes_truenodeids") + count * numbers("nodes_trueleafs")
        self.no = numbers("nodes_falsenodeids") + count * numbers("nodes_falseleafs")
        self.roots = self._one_leaf(numbers("tree_roots"))
        self.members = self._sets(np.asarray(node.get("membership_values", [])))
        self.target, self.weight = numbers("leaf_targetids"), np.asarray(node.attributes["leaf_weights"])
        ends = np.arange(count, count + self.leaves)
        self.yes, self.no = np.concatenate([self.yes, ends]), np.concatenate([self.no, ends])
        none = np.zeros(self.leaves, np.int64)
        self.feature, self.mode = np.concatenate([self.feature, none]), np.concatenate([self.mode, none - 1])
        self.split = np.concatenate([self.split, none.astype(self.split.dtype)])
        self.missing = np.concatenate([self.missing, none.astype(bool)])
        self.count = count

    def _one_leaf(self, roots: Array) -> Array:
        """Let a tree whose root leads to one leaf both ways stand at that leaf: it asks nothing."""
        same = self.yes[roots] == self.no[roots]
        return np.where(same & (self.yes[roots] >= len(self.yes)), self.yes[roots], roots)

    def _sets(self, values: Array) -> list[Array]:
        """Return the members of each node of that mode; in the attribute NaN ends a set."""
        if not len(values):
            return []
        ends = np.flatnonzero(np.isnan(values))
        return [part[~np.isnan(part)] for part in np.split(values, ends + 1)][: int((self.mode == _MEMBER).sum())]

    def steps(self) -> int:
        """Return how many comparisons the deepest leaf is away."""
        here, steps = np.unique(self.roots), 0
        while (here < self.count).any():
            inner = here[here < self.count]
            here, steps = np.unique(np.concatenate([self.yes[inner], self.no[inner]])), steps + 1
            if steps > self.count:
                break
        return steps


@op("TreeEnsemble", domain=ML)
def tree_ensemble(node: Node, x: Any) -> Any:
    forest, x = Forest(node), tensor(x)
    kind = x.dtype
    places = tf.tile(tf.constant(forest.roots[np.newaxis], tf.int32), [tf.shape(x)[0], 1])
    tables = {name: tf.constant(getattr(forest, name), tf.int32) for name in ("feature", "yes", "no")}
    split = tf.constant(forest.split, kind)
    for _ in range(forest.steps()):
        value = tf.gather(x, tf.gather(tables["feature"], places), batch_dims=1, axis=1)
        chosen = _chosen(forest, places, value, tf.gather(split, places))
        places = tf.where(chosen, tf.gather(tables["yes"], places), tf.gather(tables["no"], places))
    return _transformed(node, _aggregated(node, forest, places - forest.count, kind))


def _chosen(forest: Forest, places: Any, value: Any, split: Any) -> Any:
    """Say where the comparison is true."""
    modes = sorted({int(mode) for mode in forest.mode if mode >= 0})
    mode = tf.gather(tf.constant(forest.mode, tf.int32), places) if len(modes) > 1 else None
    chosen = None
    for one in modes:
        found = _member(forest, places, value) if one == _MEMBER else _COMPARE[one](value, split)
        chosen = found if chosen is None else tf.where(tf.equal(mode, one), found, chosen)
    if forest.missing.any():
        chosen = tf.logical_or(chosen, tf.logical_and(is_nan(value), tf.gather(tf.constant(forest.missing), places)))
    return chosen


def _member(forest: Forest, places: Any, value: Any) -> Any:
    """Say where the value is in its node's set: each set is a row of a table, filled up with its first member."""
    longest = max((len(one) for one in forest.members), default=0)
    table = np.full((len(forest.mode), max(longest, 1)), np.nan)
    for at, members in zip(np.flatnonzero(forest.mode == _MEMBER), forest.members, strict=True):
        if len(members):
            table[at] = np.resize(members, table.shape[1])
            table[at, len(members) :] = members[0]
    rows = tf.gather(tf.constant(table, value.dtype), places)
    return tf.reduce_any(tf.equal(value[..., tf.newaxis], rows), -1)


def _aggregated(node: Node, forest: Forest, leaves: Any, kind: Any) -> Any:
    """Return the weights of the leaves put together by target, one tree after another."""
    count, how = int(node.attributes["n_targets"]), node.get("aggregate_function", _SUM)
    weights = tf.gather(tf.constant(forest.weight, kind), leaves)
    owner = _owners(forest)
    if owner is not None and len(set(owner.tolist())) == len(owner) == count:
        return tf.gather(weights, tf.constant(np.argsort(owner), tf.int32), axis=1)
    if owner is not None:
        lanes = [np.flatnonzero(owner == target) for target in range(count)]
        columns = [_folded(weights, lane, how) for lane in lanes]
        found = tf.stack(columns, 1)
    else:
        targets = tf.gather(tf.constant(forest.target, tf.int32), leaves)
        chosen = tf.one_hot(targets, count, on_value=True, off_value=False, dtype=tf.bool)
        empty = tf.constant({_MIN: np.inf, _MAX: -np.inf}.get(how, 0), kind)
        spread = tf.where(chosen, weights[..., tf.newaxis], empty)
        function = {_MIN: tf.reduce_min, _MAX: tf.reduce_max}.get(how, tf.reduce_sum)
        found = function(spread, 1)
        found = tf.where(tf.reduce_any(chosen, 1), found, tf.zeros([], kind))
    return found / tf.cast(len(forest.roots), kind) if how == _AVERAGE else found


def _folded(weights: Any, lane: Array, how: int) -> Any:
    if not len(lane):
        return tf.zeros([tf.shape(weights)[0]], weights.dtype)
    part = tf.gather(weights, tf.constant(lane, tf.int32), axis=1)
    return {_MIN: tf.reduce_min, _MAX: tf.reduce_max}.get(how, tf.reduce_sum)(part, 1)


def _owners(forest: Forest) -> Array | None:
    """Return the one target of each tree, or None where a tree has leaves of several."""
    owners = []
    for root in forest.roots:
        here, seen, targets = [int(root)], set[int](), set[int]()
        while here:
            at = here.pop()
            if at >= forest.count:
                targets.add(int(forest.target[at - forest.count]))
            elif at not in seen:
                seen.add(at)
                here += [int(forest.yes[at]), int(forest.no[at])]
        if len(targets) != 1:
            return None
        owners.append(targets.pop())
    return np.array(owners)


def _transformed(node: Node, scores: Any) -> Any:
    how = node.get("post_transform", _NONE)
    if how == _LOGISTIC:
        return tf.sigmoid(scores)
    if how == _SOFTMAX:
        powers = tf.exp(scores - tf.reduce_max(scores, 1, keepdims=True))
        return powers / tf.reduce_sum(powers, 1, keepdims=True)
    if how in {_SOFTMAX_ZERO, _PROBIT}:
        refuse(node, "its post transform")
    return scores


@op("Scaler", domain=ML)
def scaler(node: Node, x: Any) -> Any:
    x = tf.cast(tensor(x), tf.float32)
    offset, scale = (
        tf.constant(node.get(name, default), tf.float32) for name, default in (("offset", [0.0]), ("scale", [1.0]))
    )
    return (x - offset) * scale


@op("ArrayFeatureExtractor", domain=ML)
def extract(_: Node, x: Any, places: Any) -> Any:
    x = tensor(x)
    found = tf.gather(x, tf.reshape(tensor(places), [-1]), axis=-1)
    return found[tf.newaxis] if x.shape.rank == 1 else found


@op("Binarizer", domain=ML)
def binarizer(node: Node, x: Any) -> Any:
    x = tensor(x)
    return tf.cast(x > tf.cast(node.get("threshold", 0.0), x.dtype), x.dtype)


@op("Normalizer", domain=ML)
def normalizer(node: Node, x: Any) -> Any:
    x = tf.cast(tensor(x), tf.float32)
    how = node.get("norm", "MAX")
    if how == "MAX":
        norm = tf.reduce_max(x, -1, keepdims=True)
    elif how == "L1":
        norm = tf.reduce_sum(tf.abs(x), -1, keepdims=True)
    else:
        norm = tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True))
    return tf.where(tf.equal(norm, 0.0), x, x / norm)


@op("Imputer", domain=ML)
def imputer(node: Node, x: Any) -> Any:
    x = tensor(x)
    kind = "floats" if x.dtype.is_floating else "int64s"
    values = tf.constant(node.attributes[f"imputed_value_{kind}"], x.dtype)
    wanted = node.get("replaced_value_float" if x.dtype.is_floating else "replaced_value_int64", 0)
    lost = is_nan(x) if x.dtype.is_floating and np.isnan(wanted) else tf.equal(x, tf.cast(wanted, x.dtype))
    return tf.where(lost, values, x)


@op("FeatureVectorizer", domain=ML)
def feature_vectorizer(_: Node, *values: Any) -> Any:
    parts = [tf.cast(tensor(value), tf.float32) for value in values]
    return tf.concat([part[:, tf.newaxis] if part.shape.rank == 1 else part for part in parts], 1)


@op("LabelEncoder", domain=ML)
def label_encoder(node: Node, x: Any) -> Any:
    x = tensor(x)
    keys, values = _table(node, "keys"), _table(node, "values")
    kinds = {
        tf.string: ("default_string", "_Unused"),
        tf.float32: ("default_float", -0.0),
        tf.int64: ("default_int64", -1),
    }
    given = tensor(values)
    default = node.get("default_tensor")
    if default is None:
        name, unset = kinds.get(given.dtype, ("", 0))
        default = np.asarray(node.get(name, unset), object if given.dtype == tf.string else given.dtype.as_numpy_dtype)
    held = tensor(keys)
    flat = tf.reshape(x, [-1, 1])
    same = tf.equal(flat, held)
    if held.dtype.is_floating:
        same = tf.logical_or(same, tf.logical_and(is_nan(flat), is_nan(held)))
    places = tf.argmax(tf.cast(same, tf.int32), 1)
    found = tf.where(tf.reduce_any(same, 1), tf.gather(given, places), tf.reshape(tensor(np.asarray(default)), []))
    return tf.reshape(found, tf.shape(x))


def _table(node: Node, side: str) -> Array:
    for kind, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32), ("tensor", None)):
        if (value := node.get(f"{side}_{kind}")) is not None:
            return np.asarray(value, dtype)
    return np.asarray(refuse(node, f"without its {side}"))


@op("OneHotEncoder", domain=ML)
def one_hot_encoder(node: Node, x: Any) -> Any:
    x = tensor(x)
    names: Sequence[Any] = node.get("cats_strings") or node.get("cats_int64s") or []
    held = tensor(np.asarray(names, object if x.dtype == tf.string else np.int64))
    found = tf.equal((x if x.dtype == tf.string else tf.cast(x, tf.int64))[..., tf.newaxis], held)
    if not node.get("zeros", 1):
        refuse(node, "it may fail where a category is unknown")
    return tf.cast(found, tf.float32)


@op("LinearRegressor", domain=ML)
def linear_regressor(node: Node, x: Any) -> Any:
    x, targets = tf.cast(tensor(x), tf.float32), node.get("targets", 1)
    weights = tf.constant(np.asarray(node.attributes["coefficients"], np.float32).reshape(targets, -1))
    scores = tf.matmul(x, weights, transpose_b=True)
    scores = scores + tf.constant(node.get("intercepts", [0.0] * targets), tf.float32)
    if node.get("post_transform", "NONE") != "NONE":
        refuse(node, "its post transform")
    return scores
