"""The numbers inside trees, which scikit-learn uses as indices without looking.

A node's children and its feature are read from the file and then followed by compiled code. A number out of
range would read memory that is not the model's, or run in circles; so each is checked when a tree is made.
Source: the same reason for which skops does not trust these classes (scikit-learn pull request 34558).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.formats import _trust

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check(value: Any, *, where: str) -> None:
    """Check a freshly made object, if it is a tree or has one.

    Raises:
        MalformedError: An index points outside.
    """
    dotted = f"{type(value).__module__}.{type(value).__qualname__}"
    if dotted == _trust.TREE:
        good = _tree(value)
    elif dotted == _trust.PREDICTOR:
        good = _predictor(value)
    else:
        good = _estimator(value)
    if not good:
        msg = f"{where}: a {dotted} with indices that point outside of it"
        raise MalformedError(msg, remedy="do not use this file: no training makes such a tree")


def _tree(tree: Any) -> bool:
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    inner = left != -1
    return bool(np.all((feature[inner] >= 0) & (feature[inner] < tree.n_features))) and _descends(left, right, inner)


def _predictor(predictor: Any) -> bool:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    bitsets = len(predictor.raw_left_cat_bitsets)
    categorical = inner & (nodes["is_categorical"] != 0)
    good = len(nodes) > 0 and np.all(nodes["feature_idx"][inner] >= 0)
    good = good and np.all(nodes["bitset_idx"][categorical] < bitsets)
    left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
    return bool(good) and _descends(left, right, inner)


def _descends(left: NDArray[Any], right: NDArray[Any], inner: NDArray[Any]) -> bool:
    """Whether each inner node's children stand behind it, so that every path ends."""
    index = np.flatnonzero(inner)
    return all(np.all((side[inner] > index) & (side[inner] < len(side))) for side in (left, right))


def _estimator(value: Any) -> bool:
    """Whether the trees of an estimator expect no more features than the estimator lets in."""
    width = getattr(value, "n_features_in_", None)
    tree: Any = vars(value).get("tree_") if hasattr(value, "__dict__") else None
    return width is None or type(tree).__name__ != "Tree" or bool(tree.n_features == width)
