"""Trees and their ensembles, as older releases of scikit-learn wrote them.

1.3 lets trees decide about missing values; 1.4 keeps class frequencies as fractions and shares its losses between the
two kinds of gradient boosting; 1.6 has one AdaBoost.
"""

from __future__ import annotations

from typing import Any

from vitrify.pickles import bounds
from vitrify.pickles._older.gone import Gone
from vitrify.pickles._older.steps import State, move, reword, step
from vitrify.reading.malformed import refuse

_CRITERIA = {"mse": "squared_error", "mae": "absolute_error"}
_TREES = tuple(
    f"tree._classes.{kind}Tree{what}" for kind in ("Decision", "Extra") for what in ("Classifier", "Regressor")
)
_CLASSIFIERS = tuple(name for name in _TREES if name.endswith("Classifier"))
_FORESTS = tuple(
    f"ensemble._forest.{name}"
    for name in (
        *("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"),
        "RandomTreesEmbedding",
    )
)
_BOOSTED = ("ensemble._gb.GradientBoostingClassifier", "ensemble._gb.GradientBoostingRegressor")
_HISTOGRAM = tuple(
    f"ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoosting{what}"
    for what in ("Classifier", "Regressor")
)
_LOSS_WORDS = {
    "ls": "squared_error",
    "lad": "absolute_error",
    "deviance": "log_loss",
    "least_squares": "squared_error",
    "least_absolute_deviation": "absolute_error",
    "auto": "log_loss",
    "binary_crossentropy": "log_loss",
    "categorical_crossentropy": "log_loss",
}
_LOSSES = {
    "BinomialDeviance": "HalfBinomialLoss",
    "BinaryCrossEntropy": "HalfBinomialLoss",
    "MultinomialDeviance": "HalfMultinomialLoss",
    "CategoricalCrossEntropy": "HalfMultinomialLoss",
    "ExponentialLoss": "ExponentialLoss",
    "LeastSquaresError": "HalfSquaredError",
    "LeastSquares": "HalfSquaredError",
    "LeastAbsoluteError": "AbsoluteError",
    "LeastAbsoluteDeviation": "AbsoluteError",
    "HuberLossFunction": "HuberLoss",
    "QuantileLossFunction": "PinballLoss",
    "Poisson": "HalfPoissonLoss",
}


@step("tree._tree.Tree")
def missing_values(state: State) -> None:
    """Send missing values to the right: an older tree has never met one."""
    from sklearn.tree._tree import NODE_DTYPE

    state["nodes"] = _widened(state.get("nodes"), NODE_DTYPE)


@step(*_TREES, *_FORESTS)
def words_of_trees(state: State) -> None:
    """Say the parameters in today's words."""
    reword(state, "criterion", _CRITERIA)
    tree = state.get("tree_")
    if tree is not None and hasattr(tree, "n_features"):
        state.setdefault("n_features_in_", tree.n_features)
    move(state, n_features_="n_features_in_")


@step(*(name for name in (*_TREES, *_FORESTS) if name.endswith("Classifier")))
def features_of_classifiers(state: State) -> None:
    """``auto`` was the square root."""
    reword(state, "max_features", {"auto": "sqrt"})


@step(*(name for name in (*_TREES, *_FORESTS) if name.endswith("Regressor")))
def features_of_regressors(state: State) -> None:
    """``auto`` was all."""
    reword(state, "max_features", {"auto": 1.0})


@step(*_CLASSIFIERS, before=(1, 4))
def fractions(state: State) -> None:
    """Turn the counts of the classes in each node into fractions; twice is the same as once."""
    values = getattr(state.get("tree_"), "value", None)
    if values is not None:
        total = values.sum(axis=-1, keepdims=True)
        values /= total + (total == 0)


@step("ensemble._iforest.IsolationForest")
def path_lengths(state: State) -> None:
    """Measure the trees as fitting does since 1.3."""
    if "_decision_path_lengths" in state or "estimators_" not in state:
        return
    from sklearn.ensemble._iforest import _average_path_length

    if state.pop("behaviour", "new") == "old" or "offset_" not in state:
        refuse("IsolationForest", "its scores and its threshold are apart, which they are no longer")
    trees = [one.tree_ for one in state["estimators_"]]
    for tree in trees:  # they are walked before the whole model is checked
        bounds.check(tree, where="IsolationForest")
    state["_decision_path_lengths"] = [tree.compute_node_depths() for tree in trees]
    state["_average_path_length_per_tree"] = [_average_path_length(tree.n_node_samples) for tree in trees]
    state.setdefault("n_features_in_", trees[0].n_features if trees else 0)


@step(*_BOOSTED)
def boosting(state: State) -> None:
    """Give gradient boosting its shared loss, and what follows from its trees."""
    move(state, loss_="_loss", n_features_="n_features_in_")
    reword(state, "loss", _LOSS_WORDS)
    reword(state, "criterion", _CRITERIA)
    reword(state, "max_features", {"auto": "sqrt" if "classes_" in state else 1.0})
    if "estimators_" not in state:
        return
    state.setdefault("n_trees_per_iteration_", state["estimators_"].shape[1])
    classes = len(state["classes_"]) if "classes_" in state else None
    if isinstance(state.get("_loss"), Gone):
        state["_loss"] = _loss(state["_loss"].name, classes, state.get("alpha"))
    if isinstance(state.get("init_"), Gone):
        state["init_"] = _initial(state["init_"], state)


@step(*_HISTOGRAM)
def histogram(state: State) -> None:
    """Give histogram gradient boosting its shared loss, and what it keeps about categories: there were none."""
    import numpy as np

    move(state, loss_="_loss", bin_mapper_="_bin_mapper", n_features_="_n_features", scorer_="_scorer")
    word = "log_loss" if "classes_" in state else "squared_error"
    reword(state, "loss", {**_LOSS_WORDS, "auto": word})
    if "_predictors" not in state:
        return
    trees = state.setdefault("n_trees_per_iteration_", 1)
    if isinstance(state.get("_loss"), Gone):
        state["_loss"] = _loss(state["_loss"].name, trees if trees > 1 else None, None)
    state["_baseline_prediction"] = np.asarray(state.get("_baseline_prediction"), dtype=np.float64).reshape(1, -1)
    for name in ("_preprocessor", "_is_categorical_remapped", "is_categorical_", "_scorer"):
        state.setdefault(name, None)
    if "_n_features" in state:
        state.setdefault("n_features_in_", state["_n_features"])


@step("ensemble._hist_gradient_boosting.binning._BinMapper")
def bins(state: State) -> None:
    """There were no categories, and missing values have the last bin."""
    import numpy as np

    move(state, max_bins="n_bins", actual_n_bins_="n_bins_non_missing_")
    thresholds = state.get("bin_thresholds_")
    if thresholds is not None:
        state.setdefault("is_categorical_", np.zeros(len(thresholds), dtype=np.uint8))
        state.setdefault("missing_values_bin_idx_", state.get("n_bins", 256) - 1)


@step("ensemble._hist_gradient_boosting.predictor.TreePredictor")
def predictor(state: State) -> None:
    """Lay the nodes out as today: numbers and categories are compared in different ways since 0.24."""
    import numpy as np
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    state["nodes"] = _widened(state.get("nodes"), PREDICTOR_RECORD_DTYPE, {"num_threshold": "threshold"})
    for name in ("raw_left_cat_bitsets", "binned_left_cat_bitsets"):
        state.setdefault(name, np.zeros((0, 8), dtype=np.uint32))


@step("ensemble._weight_boosting.AdaBoostClassifier")
def one_boosting(state: State) -> None:
    """Refuse the algorithm that today's AdaBoost no longer has: it would vote differently, and say nothing."""
    if state.pop("algorithm", "SAMME") == "SAMME.R" and "estimators_" in state:
        refuse("AdaBoostClassifier", "it was fitted with algorithm='SAMME.R', which scikit-learn no longer has")


def _widened(nodes: Any, dtype: Any, renamed: dict[str, str] | None = None) -> Any:
    """Return an array of nodes with the fields of today; those that it lacks are zero."""
    import numpy as np

    if not isinstance(nodes, np.ndarray) or nodes.dtype == dtype:
        return nodes
    wide = np.zeros(nodes.shape, dtype)
    sources = {name: name if name in (nodes.dtype.names or ()) else (renamed or {}).get(name) for name in dtype.names}
    if not set(nodes.dtype.names or ()) <= set(sources.values()):
        refuse("tree", f"nodes of {nodes.dtype}, which no known release wrote")
    for name, source in sources.items():
        if source is not None and source in (nodes.dtype.names or ()):
            wide[name] = nodes[source]
    return wide


def _loss(name: str, classes: int | None, quantile: Any) -> Any:
    """Return today's loss for a class of an older release."""
    from sklearn._loss import loss

    if name not in _LOSSES:
        refuse("gradient boosting", f"a loss {name}, which no known release had")
    made = getattr(loss, _LOSSES[name])
    if name in {"MultinomialDeviance", "CategoricalCrossEntropy"}:
        return made(n_classes=classes)
    return made(quantile=quantile) if name in {"HuberLossFunction", "QuantileLossFunction"} else made()


def _initial(gone: Gone, state: State) -> Any:
    """Return the first guess of gradient boosting before 0.21 as today's, which predicts the same."""
    import numpy as np
    from sklearn.dummy import DummyClassifier, DummyRegressor

    if gone.name == "ZeroEstimator":
        return "zero"
    if "classes_" not in state:
        value = gone.state.get("mean", gone.state.get("quantile"))
        model = DummyRegressor(strategy="constant", constant=value)
        return model.fit(np.zeros((1, 1)), np.full(1, value, dtype=np.float64))
    if "priors" in gone.state:  # they were taken for scores as they are, of which today's take the logarithm
        prior = np.exp(gone.state["priors"])
        prior /= prior.sum()
    else:
        scale = 2.0 if gone.name == "ScaledLogOddsEstimator" else 1.0
        positive = 1 / (1 + np.exp(-scale * gone.state["prior"]))
        prior = np.array([1 - positive, positive])
    classes = np.arange(len(prior))
    return DummyClassifier(strategy="prior").fit(np.zeros((len(prior), 1)), classes, sample_weight=prior)
