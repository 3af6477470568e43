"""The numbers that a model's compiled code uses as indices without looking.

A tree's children, a neighbour's position, the number of support vectors of a class: they are read from the file
and then followed in C. A number out of range would read memory that is not the model's, or run in circles; so
each is checked when its object is made. What is not checked here is computed with, not indexed by.
Source: the reason for which skops does not trust trees at all (scikit-learn pull request 34558).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.pickles import names as trust
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def check(value: Any, *, where: str) -> None:
    """Check a freshly made object, if it is one of those, or holds one of them.

    Raises:
        MalformedError: An index points outside.
    """
    dotted = f"{type(value).__module__}.{type(value).__qualname__}"
    if not all(_CHECKS[dotted](value) if dotted in _CHECKS else _estimator(value)):
        what = f"a {dotted} with indices that point outside of it"
        refuse(where, what, remedy="do not use this file: no training makes such a model")


def _tree(tree: Any) -> Iterator[Any]:
    inner = tree.children_left != -1
    yield _within(tree.feature[inner], tree.n_features)
    yield _descends(tree.children_left, tree.children_right, inner)


def _predictor(predictor: Any) -> Iterator[Any]:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    categorical = inner & (nodes["is_categorical"] != 0)
    yield len(nodes) > 0
    yield np.all(nodes["feature_idx"][inner] >= 0)
    yield _within(nodes["bitset_idx"][categorical], len(predictor.raw_left_cat_bitsets))
    yield predictor.raw_left_cat_bitsets.shape == predictor.binned_left_cat_bitsets.shape
    yield _descends(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), inner)


def _neighbours(tree: Any) -> Iterator[Any]:
    data, index, nodes, bounds = tree.get_arrays()
    yield index.shape == (len(data),)
    yield _within(index, len(data))
    yield np.all(nodes["idx_start"] >= 0)
    yield np.all((nodes["idx_end"] >= nodes["idx_start"]) & (nodes["idx_end"] <= len(data)))
    yield bounds.shape[1:] == (len(nodes), data.shape[1])
    # The last level's nodes have no children; every level is full.
    children = 2 * np.arange(len(nodes)) + 2
    yield np.all((nodes["is_leaf"] != 0) | (children < len(nodes)))


def _spline(spline: Any) -> Iterator[Any]:
    knots = spline.t
    bases = len(knots) - spline.k - 1
    yield knots.ndim == 1
    yield 0 <= spline.k < bases <= len(spline.c)
    yield np.all(np.diff(knots) >= 0)


_CHECKS = {
    trust.TREE: _tree,
    trust.PREDICTOR: _predictor,
    "sklearn.neighbors._kd_tree.KDTree": _neighbours,
    "sklearn.neighbors._ball_tree.BallTree": _neighbours,
    "scipy.interpolate._bsplines.BSpline": _spline,
}


def _estimator(value: Any) -> Iterator[Any]:
    """What an estimator lets in must fit what its parts expect."""
    state: dict[str, Any] = getattr(value, "__dict__", {})
    width = state.get("n_features_in_")
    if "sklearn" not in {base.__module__.partition(".")[0] for base in type(value).__mro__} or width is None:
        return
    if type(state.get("tree_")).__name__ == "Tree":
        yield state["tree_"].n_features == width
    if "estimators_" in state and "estimators_features_" not in state:
        trees = [part for part in np.ravel(np.asarray(state["estimators_"], object)) if hasattr(part, "tree_")]
        yield all(part.n_features_in_ == width for part in trees)
    for predictor in (part for parts in state.get("_predictors", ()) for part in parts):
        yield np.all(predictor.nodes["feature_idx"] < width)
    if "_n_support" in state:
        yield from _vectors(value, width)


def _vectors(machine: Any, width: int) -> Iterator[Any]:
    """A support vector machine, as libsvm takes it."""
    counts, support, vectors = machine._n_support, machine.support_, machine.support_vectors_  # noqa: SLF001 (what libsvm gets)
    classifies = machine._impl in {"c_svc", "nu_svc"}  # noqa: SLF001
    total = len(support)
    yield counts.sum() == total if classifies else np.all(counts == total)
    yield np.all(counts >= 0)
    yield machine._dual_coef_.shape == (len(counts) - 1, total)
    yield machine._intercept_.size == len(counts) * (len(counts) - 1) // 2
    if machine.kernel == "precomputed":
        yield _within(support, width)
    elif isinstance(machine.kernel, str):
        yield vectors.shape == (total, width)


def _within(index: NDArray[Any], end: int) -> Any:
    return np.all((index >= 0) & (index < end))


def _descends(left: NDArray[Any], right: NDArray[Any], inner: NDArray[Any]) -> bool:
    """Whether each inner node's children stand behind it, so that every path ends."""
    index = np.flatnonzero(inner)
    return all(np.all((side[inner] > index) & (side[inner] < len(side))) for side in (left, right))
