"""What an estimator lets in must fit what its compiled parts follow without looking.

scikit-learn checks new data against what fitting kept: as many columns as ``n_features_in_``, and nothing at all where
that is missing. The compiled code behind it believes in its own parts: in a tree's columns, in the centres' width, in a
vocabulary's places. Fitting makes the two agree; a file may not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.pickles import names as trust
from vitrify.pickles.indices import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    State = dict[str, Any]

MAX_THREADS = 1024
MAX_COLUMNS = 2**31 - 1


def check(value: Any) -> Iterator[Any]:
    """Yield whether each fact of an estimator fits; nothing for anything else."""
    state: State = getattr(value, "__dict__", {})
    for base in type(value).__mro__:
        dotted = f"{base.__module__}.{base.__qualname__}"
        if dotted in _RULES:
            yield from _RULES[dotted](value, state)


def check_use(value: Any) -> bool:
    """Say whether a boosting's first guess has a column for each of its trees, which write into it.

    Only the estimator that makes the guess can tell; so everything else has been checked before.
    """
    if not _is(value, _BOOSTING) or "estimators_" not in vars(value):
        return True
    rows = np.zeros((2, _width(vars(value))), np.float32)
    return bool(value._raw_predict_init(rows).shape == (2, value.n_trees_per_iteration_))  # noqa: SLF001 (it is not public)


def _is(value: Any, dotted: str) -> bool:
    return any(f"{base.__module__}.{base.__qualname__}" == dotted for base in type(value).__mro__)


def _width(state: State) -> int:
    """Return how many columns are let in; -1 where scikit-learn would not count them."""
    width = state.get("n_features_in_")
    return int(width) if type(width) is int or isinstance(width, np.integer) else -1


def _grown(tree: Any, width: int) -> bool:
    """Whether this is a fitted tree for so many columns; its users take it for one without asking."""
    grown: Any = getattr(tree, "tree_", None)
    return _is(tree, _DECISION_TREE) and _is(grown, trust.TREE) and grown.n_features == width == _width(vars(tree))


def _decision_tree(tree: Any, state: State) -> Iterator[Any]:
    if "tree_" in state:
        yield _grown(tree, _width(state))


def _ensemble(_: Any, state: State) -> Iterator[Any]:
    """Trees that see all columns; those of a bagging see some, and count them themselves."""
    if "estimators_" in state and "estimators_features_" not in state and "n_features_in_" in state:
        trees = [part for part in np.ravel(np.asarray(state["estimators_"], object)) if hasattr(part, "tree_")]
        yield all(part.n_features_in_ == state["n_features_in_"] for part in trees)


def _boosting(_: Any, state: State) -> Iterator[Any]:
    """Its trees are taken for trees of one output, and add to as many columns as there are trees in a round."""
    if "estimators_" not in state:
        return
    rounds, width = state["estimators_"], _width(state)
    yield isinstance(rounds, np.ndarray) and rounds.ndim == 2 and rounds.size > 0  # noqa: PLR2004 (rounds by outputs)
    yield all(_grown(tree, width) and tree.tree_.value.shape[1:] == (1, 1) for tree in rounds.flat)
    yield rounds.shape[1] == state.get("n_trees_per_iteration_")


def _histogram(_: Any, state: State) -> Iterator[Any]:
    if "_predictors" not in state:
        return
    width, bins = _width(state), state.get("_bin_mapper")
    yield not state.get("_in_fit", False)  # its data would be taken for bins
    categorical = np.asarray(getattr(bins, "is_categorical_", None))
    yield categorical.shape == (width,)
    for predictor in (part for parts in state["_predictors"] for part in parts):
        yield _is(predictor, trust.PREDICTOR)
        nodes = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        yield within(nodes["feature_idx"], width)
        yield np.all(categorical[nodes["feature_idx"][nodes["is_categorical"] != 0]])
    if (before := state.get("_preprocessor")) is not None:
        yield from _remapped(before, width)


def _remapped(before: Any, width: int) -> Iterator[Any]:
    """The step that puts categories first, which is made while fitting: what it lets through is as wide as the data."""
    steps = before.transformers_
    yield type(before).__name__ == "ColumnTransformer" and _width(vars(before)) == width
    yield all(type(step).__name__ in {"OrdinalEncoder", "FunctionTransformer"} for _, step, _ in steps[:2])
    masks = [np.asarray(columns) for _, _, columns in steps[:2]]
    yield all(mask.dtype == bool and mask.shape == (width,) for mask in masks)
    yield np.array_equal(np.sum(masks, axis=0), np.ones(width))


def _machine(machine: Any, state: State) -> Iterator[Any]:
    """A support vector machine, as libsvm takes it."""
    if "_n_support" not in state:
        return
    counts, support, vectors = machine._n_support, machine.support_, machine.support_vectors_  # noqa: SLF001 (what libsvm gets)
    classifies = machine._impl in {"c_svc", "nu_svc"}  # noqa: SLF001 (as above)
    total, pairs = len(support), len(counts) * (len(counts) - 1) // 2
    yield counts.sum() == total if classifies else np.all(counts <= total)  # and then they are not asked for
    yield np.all(counts >= 0)
    coefficients = machine._dual_coef_
    yield coefficients.shape == (len(counts) - 1, total)
    yield not machine._sparse or coefficients.data.size == coefficients.shape[0] * total  # noqa: SLF001 (as above)
    yield machine._intercept_.size == pairs
    chances = (machine._probA.size, machine._probB.size)  # noqa: SLF001 (as above)
    yield chances == (pairs, pairs) or (chances == (0, 0) and not machine._effective_probability)  # noqa: SLF001 (as above)
    if isinstance(machine.kernel, str) and machine.kernel != "precomputed":
        yield vectors.shape[0] == total and vectors.shape[1] == _width(state)
    else:
        yield within(support, machine.shape_fit_[0])
        yield isinstance(machine.kernel, str) or _is_kernel(machine.kernel)
        yield isinstance(machine.kernel, str) or len(state["_BaseLibSVM__Xfit"]) == machine.shape_fit_[0]


def _is_kernel(function: Any) -> bool:
    """Whether a function compares rows with rows: its columns are followed by the places of the support vectors."""
    import functools

    if isinstance(function, functools.partial):
        return not function.args and _is_kernel(function.func)
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", "")
    named = trust.Name(str(module), str(name), "refer")
    return not trust.trusted(named) or (module == "sklearn.metrics.pairwise" and name.endswith(_KERNELS))


def _rows(_: Any, state: State) -> Iterator[Any]:
    """Neighbours are looked for among rows that are as wide as the data."""
    if "_fit_X" in state:
        yield state["_fit_X"].ndim == 2 and state["_fit_X"].shape[1] == _width(state)  # noqa: PLR2004 (a matrix)


def _centres(_: Any, state: State) -> Iterator[Any]:
    if "cluster_centers_" not in state:
        return
    width = _width(state)
    yield state["cluster_centers_"].ndim == 2 and state["cluster_centers_"].shape[1] == width  # noqa: PLR2004 (a matrix)
    yield 1 <= state.get("_n_threads", 1) <= MAX_THREADS
    todo = [state["_bisecting_tree"]] if "_bisecting_tree" in state else []
    while todo:
        node = todo.pop()
        yield np.size(node.center) == width
        todo += [side for side in (node.left, node.right) if side is not None]


def _vocabulary(_: Any, state: State) -> Iterator[Any]:
    """Each word has a column, and there are as many columns as words."""
    words = state.get("vocabulary_", {})
    yield isinstance(words, dict) and not hasattr(words, "__missing__")
    places = list(words.values())
    yield all(type(place) is int or isinstance(place, np.integer) for place in places)
    yield within(np.array(places, object), len(places))


def _hashes(_: Any, state: State) -> Iterator[Any]:
    """The number of columns is divided by."""
    width = state.get("n_features", 1)
    yield (type(width) is int or isinstance(width, np.integer)) and 1 <= width <= MAX_COLUMNS


_KERNELS = ("_kernel", "cosine_similarity")
_BOOSTING = "sklearn.ensemble._gb.BaseGradientBoosting"
_DECISION_TREE = "sklearn.tree._classes.BaseDecisionTree"
_RULES: dict[str, Callable[[Any, Any], Iterator[Any]]] = {
    _DECISION_TREE: _decision_tree,
    "sklearn.cluster._kmeans._BaseKMeans": _centres,
    "sklearn.ensemble._base.BaseEnsemble": _ensemble,
    _BOOSTING: _boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": _histogram,
    "sklearn.feature_extraction._dict_vectorizer.DictVectorizer": _vocabulary,
    "sklearn.feature_extraction._hash.FeatureHasher": _hashes,
    "sklearn.feature_extraction.text.CountVectorizer": _vocabulary,
    "sklearn.feature_extraction.text.HashingVectorizer": _hashes,
    "sklearn.neighbors._base.NeighborsBase": _rows,
    "sklearn.svm._base.BaseLibSVM": _machine,
}
