"""The numbers that a model's compiled code uses as indices without looking.

A tree's children, a neighbour's position, the number of support vectors of a class: they are read from the file
and then followed in C. A number out of range would read memory that is not the model's, or run in circles; so
each is checked when its object is made. What is not checked here is computed with, not indexed by.
Source: the reason for which skops does not trust trees at all (scikit-learn pull request 34558).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.pickles import arrow
from vitrify.pickles import estimator_bounds as estimators
from vitrify.pickles import names as trust
from vitrify.pickles._trust.arrays import SLOTS
from vitrify.pickles.indices import behind, within
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(value: Any, *, where: str) -> None:
    """Check a freshly made object, if it is one of those, or holds one of them.

    Raises:
        MalformedError: An index points outside.
    """
    dotted = f"{type(value).__module__}.{type(value).__qualname__}"
    if not all(_CHECKS[dotted](value) if dotted in _CHECKS else estimators.check(value)):
        what = f"a {dotted} with indices that point outside of it"
        refuse(where, what, remedy="do not use this file: no training makes such a model")


def check_all(values: list[Any], *, where: str) -> None:
    """Check everything that was made, in whatever order it was; raises as :func:`check`."""
    for value in values:
        check(value, where=where)
    for value in values:
        if not estimators.check_use(value):
            what = f"a {type(value).__name__} whose first guess has no place for its trees"
            refuse(where, what, remedy="do not use this file: no training makes such a model")


def check_tree(args: tuple[Any, ...], *, where: str) -> None:
    """Check what a tree is made with: it reads as many numbers of classes as it has outputs.

    Raises:
        MalformedError: There are not so many.
    """
    if len(args) != 3 or not isinstance(args[1], np.ndarray) or args[1].shape != (args[2],):  # noqa: PLR2004 (features, classes, outputs)
        refuse(where, "a tree with more outputs than numbers of classes", remedy="do not use this file")


def _tree(tree: Any) -> Iterator[Any]:
    left, right = tree.children_left, tree.children_right
    index = np.flatnonzero(left != -1)
    yield tree.node_count > 0
    yield within(tree.feature[index], tree.n_features)
    yield behind(left[index], index, len(left)) and behind(right[index], index, len(left))
    # A path is written where there is room for the depth that the tree states; a node with two parents has two.
    met = np.zeros(len(left), bool)
    met[left[index]] = met[right[index]] = True
    yield np.count_nonzero(met) == 2 * len(index)
    yield tree.compute_node_depths().max() <= tree.max_depth + 1


def _predictor(predictor: Any) -> Iterator[Any]:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    categorical = inner & (nodes["is_categorical"] != 0)
    yield len(nodes) > 0
    yield np.all(nodes["feature_idx"][inner] >= 0)
    yield within(nodes["bitset_idx"][categorical], len(predictor.raw_left_cat_bitsets))
    for bits in (predictor.raw_left_cat_bitsets, predictor.binned_left_cat_bitsets):
        yield bits.shape == (len(predictor.raw_left_cat_bitsets), _WORDS)
    index = np.flatnonzero(inner)
    for side in ("left", "right"):
        yield behind(nodes[side][index].astype(np.int64), index, len(nodes))


def _neighbours(tree: Any) -> Iterator[Any]:
    data, index, nodes, bounds = tree.get_arrays()
    state = tree.__getstate__()
    count, distance, weights = state[6], state[11], state[12]
    yield count == len(nodes)
    yield distance is not None
    yield weights is None or weights.shape == (len(data),)
    yield len(bounds) == (2 if "KDTree" in type(tree).__name__ else 1)
    yield index.shape == (len(data),)
    yield within(index, len(data))
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


def _pieces(curve: Any) -> Iterator[Any]:
    """A polynomial for each stretch between two places; the code that finds the stretch believes that there is one."""
    places, factors = curve.x, curve.c
    yield isinstance(places, np.ndarray) and isinstance(factors, np.ndarray)
    yield places.ndim == 1 and len(places) > 1
    yield factors.ndim > 1 and factors.shape[0] > 0 and factors.shape[1] == len(places) - 1


def _sparse_column(column: Any) -> Iterator[Any]:
    yield isinstance(column.sp_values, np.ndarray)
    yield column.sp_values.shape == (column.sp_index.npoints,)


def _sparse(matrix: Any) -> Iterator[Any]:
    """What SciPy itself checks when it is asked to, and what it then multiplies with, unlooked."""
    yield all(isinstance(size, int | np.integer) and size >= 0 for size in matrix.shape)
    if matrix.format in {"bsr", "csc", "csr"}:
        yield all(isinstance(part, np.ndarray) for part in (matrix.indptr, matrix.indices, matrix.data))
        matrix.check_format(full_check=True)  # raises
        # What it leaves out: rows that end before they begin, where the last says that there are none; blocks that
        # do not fill the matrix.
        yield np.all(np.diff(matrix.indptr) >= 0)
        rows, columns = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        yield matrix.shape[0] % rows == 0 and matrix.shape[-1] % columns == 0
    elif matrix.format == "coo":
        yield len(matrix.coords) == len(matrix.shape)
        yield all(part.shape == matrix.data.shape for part in matrix.coords)
        yield all(within(part, size) for part, size in zip(matrix.coords, matrix.shape, strict=True))
    elif matrix.format == "dia":
        yield matrix.data.ndim == 2 and matrix.offsets.shape == (len(matrix.data),)  # noqa: PLR2004 (diagonals by columns)
    elif matrix.format == "lil":
        yield len(matrix.rows) == len(matrix.data) == matrix.shape[0]
        for row, data in zip(matrix.rows, matrix.data, strict=True):
            yield len(row) == len(data) and within(np.asarray(row, np.int64), matrix.shape[1])
    else:
        keys = np.asarray(list(matrix.keys()), np.int64).reshape(-1, len(matrix.shape))
        yield all(within(keys[:, axis], size) for axis, size in enumerate(matrix.shape))


def _blocks(manager: Any) -> Iterator[Any]:
    """Each item of the frame stands in exactly one block, and each block is as long as the frame."""
    *items, rows = (len(axis) for axis in manager.axes)
    for block in manager.blocks:
        yield len(block.shape) == len(manager.axes) and block.shape[-1] == rows
        yield len(block.mgr_locs) == block.shape[0] or not items  # a range of any length takes no place
    if items:
        places = [block.mgr_locs.as_array for block in manager.blocks]
        found = np.sort(np.concatenate([np.zeros(0, np.int64), *places]))
        yield np.array_equal(found, np.arange(items[0]))
    else:
        yield len(manager.blocks) == 1


def check_manager(state: Any, *, where: str) -> None:
    """Check the state that pandas before 1.3 gave to a frame's manager, which follows it while it takes it.

    Raises:
        MalformedError: A block stands outside of the frame.
    """
    held = state[3]["0.14.1"]
    items, rows = len(held["axes"][0]), len(held["axes"][-1])
    for block in held["blocks"]:
        shape, places = block["values"].shape, block["mgr_locs"]
        found = range(places.start, places.stop, places.step or 1) if isinstance(places, slice) else np.asarray(places)
        fits = len(found) == (shape[0] if len(held["axes"]) > 1 else items) and shape[-1] == rows
        if not fits or (len(found) > 0 and not 0 <= min(found) <= max(found) < items):
            refuse(where, "a frame of pandas with blocks that stand outside of it")


def _backed(values: Any) -> Iterator[Any]:
    """It has got its array: pandas does not look."""
    yield isinstance(values._ndarray, np.ndarray)  # noqa: SLF001 (what its code reads)


def _categories(values: Any) -> Iterator[Any]:
    yield from _backed(values)
    codes = values.codes
    yield np.all((codes >= -1) & (codes < len(values.categories)))


_WORDS = 8
"""Words of a set of categories, a bit each: there are 256."""

_HOMES = {
    "DatetimeArray": "datetimes",
    "NumpyExtensionArray": "numpy_",
    "PeriodArray": "period",
    "StringArray": "string_",
    "TimedeltaArray": "timedeltas",
}
_CHECKS = {
    trust.TREE: _tree,
    trust.PREDICTOR: _predictor,
    "sklearn.neighbors._kd_tree.KDTree": _neighbours,
    "sklearn.neighbors._ball_tree.BallTree": _neighbours,
    "scipy.interpolate._bsplines.BSpline": _spline,
    **{
        f"scipy.sparse._{layout}.{layout}_{kind}": _sparse
        for layout in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
        for kind in ("array", "matrix")
    },
    **{name: _pieces for name, slots in SLOTS.items() if "_c" in slots},
    **dict.fromkeys(("pandas.arrays.SparseArray", "pandas.core.arrays.sparse.array.SparseArray"), _sparse_column),
    "pandas.core.internals.managers.BlockManager": _blocks,
    "pandas.core.internals.managers.SingleBlockManager": _blocks,
    **dict.fromkeys(("pandas.Categorical", "pandas.core.arrays.categorical.Categorical"), _categories),
    **{
        f"{module}.{name}": _backed
        for name in ("DatetimeArray", "NumpyExtensionArray", "PeriodArray", "StringArray", "TimedeltaArray")
        for module in ("pandas.arrays", f"pandas.core.arrays.{_HOMES.get(name, '')}")
    },
    **arrow.COLUMNS,
}
