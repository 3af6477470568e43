"""Linear models, neighbours, transformers and the rest, as older releases of scikit-learn wrote them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from vitrify.pickles import bounds
from vitrify.pickles._older.gone import Gone, passthrough
from vitrify.pickles._older.steps import State, move, reword, step
from vitrify.reading.malformed import refuse

_SGD_LOSSES = {"log": "log_loss", "squared_loss": "squared_error"}
_SVM = tuple(f"svm._classes.{name}" for name in ("NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR"))
_PLS = tuple(f"cross_decomposition._pls.{name}" for name in ("CCA", "PLSCanonical", "PLSRegression"))
_FAMILIES = {
    "NormalDistribution": "HalfSquaredError",
    "PoissonDistribution": "HalfPoissonLoss",
    "GammaDistribution": "HalfGammaLoss",
}


@step(
    *(f"linear_model._stochastic_gradient.{name}" for name in ("SGDClassifier", "SGDRegressor", "SGDOneClassSVM")),
    *(f"linear_model._passive_aggressive.PassiveAggressive{what}" for what in ("Classifier", "Regressor")),
    "linear_model._perceptron.Perceptron",
)
def stochastic_gradient(state: State) -> None:
    """The loss is looked up by its name, which some have changed; predictions need none."""
    reword(state, "loss", _SGD_LOSSES)
    reword(state, "penalty", {"none": None})
    state.pop("loss_function_", None)


@step("linear_model._logistic.LogisticRegression")
def logistic_penalty(state: State) -> None:
    """1.8 says the kind of penalty by the share of L1, and none by an infinite C."""
    penalty = state.get("penalty")
    if state.get("l1_ratio") is None:
        state["l1_ratio"] = 1.0 if penalty == "l1" else 0.0
    if penalty in {None, "none"} and "penalty" in state:
        state["C"] = float("inf")
    state["penalty"] = "deprecated"


@step("linear_model._logistic.LogisticRegression", "linear_model._logistic.LogisticRegressionCV", before=(1, 8))
def one_against_rest(state: State) -> None:
    """Refuse one model a class: today's predicts as if the classes were fitted together."""
    kind = state.pop("multi_class", "ovr")
    by_solver = kind in {"auto", "deprecated"} and state.get("solver") == "liblinear"
    if (by_solver or kind in {"ovr", "warn"}) and len(state.get("classes_", ())) > 2:  # noqa: PLR2004 (two classes are one model)
        refuse("LogisticRegression", "it was fitted with one model a class, which scikit-learn no longer has")


@step("linear_model._ridge.RidgeClassifier", "linear_model._ridge.RidgeClassifierCV")
def ridge_classes(state: State) -> None:
    """The classes are an attribute since 1.8."""
    if "_label_binarizer" in state:
        state.setdefault("classes_", state["_label_binarizer"].classes_)


@step(*(f"linear_model._glm.glm.{name}Regressor" for name in ("Poisson", "Gamma", "Tweedie", "_GeneralizedLinear")))
def generalised_linear(state: State) -> None:
    """1.1 replaced families and links with losses."""
    family = state.pop("_family_instance", None)
    state.pop("_link_instance", None)
    if isinstance(family, Gone) and "_base_loss" not in state:
        from sklearn._loss import loss

        if family.name not in _FAMILIES:
            refuse("generalised linear model", f"a family {family.name}, which today's does not have by that name")
        state["_base_loss"] = getattr(loss, _FAMILIES[family.name])()


@step(*_SVM)
def support_vectors(state: State) -> None:
    """0.23 and 1.8 made private what the library behind needs."""
    import numpy as np

    move(state, probA_="_probA", probB_="_probB", n_support_="_n_support")
    if "support_" not in state:
        return
    held = len(state["support_"])
    if "classes_" not in state:  # older releases left in these places what they found in memory
        state["_n_support"] = np.array([held, held], dtype=np.int32)
        state.setdefault("offset_", -state["intercept_"])
    state.setdefault("_num_iter", np.zeros(1, dtype=np.int32))
    state.setdefault("_effective_probability", bool(state.get("probability")) and len(state["_probA"]) > 0)
    if "shape_fit_" in state:
        state.setdefault("n_features_in_", state["shape_fit_"][1])


@step("neighbors._kde.KernelDensity")
def bandwidth(state: State) -> None:
    """A bandwidth may be estimated since 1.2; it was a number."""
    if "tree_" in state:
        state.setdefault("bandwidth_", state.get("bandwidth"))


@step("naive_bayes.GaussianNB")
def variance(state: State) -> None:
    """1.0 calls it by its name."""
    move(state, sigma_="var_")


@step("naive_bayes.CategoricalNB")
def features_of_categories(state: State) -> None:
    """0.24 counts them for every estimator, and this one goes through them."""
    if "feature_log_prob_" in state:
        state.setdefault("n_features_in_", len(state["feature_log_prob_"]))


@step("neighbors._nearest_centroid.NearestCentroid")
def equal_priors(state: State) -> None:
    """1.6 weighs classes; all were equal."""
    import numpy as np

    if "classes_" in state:
        classes = len(state["classes_"])
        state.setdefault("class_prior_", np.full(classes, 1 / classes))


@step("impute._base.MissingIndicator")
def indicator(state: State) -> None:
    """0.24 may be given the mask by another transformer."""
    if "features_" in state:
        state.setdefault("_precomputed", False)


@step("gaussian_process._gpr.GaussianProcessRegressor")
def target_scale(state: State) -> None:
    """0.23 divides the target by its deviation; it was only centred."""
    import numpy as np

    if "_y_train_mean" in state:
        state.setdefault("_y_train_std", np.ones(1))


@step(
    *(f"neighbors._classification.{kind}NeighborsClassifier" for kind in ("K", "Radius")),
    *(f"neighbors._regression.{kind}NeighborsRegressor" for kind in ("K", "Radius")),
    *("neighbors._lof.LocalOutlierFactor", "neighbors._unsupervised.NearestNeighbors"),
)
def neighbours(state: State) -> None:
    """0.22 counts what it was fitted to."""
    if state.get("_fit_X") is not None:
        state.setdefault("n_samples_fit_", state["_fit_X"].shape[0])
        state.setdefault("n_features_in_", state["_fit_X"].shape[1])


@step("dummy.DummyClassifier")
def strategy(state: State) -> None:
    """0.22 told the strategy asked for from the one taken."""
    if "classes_" in state:
        state.setdefault("_strategy", state.get("strategy"))


@step("ensemble._stacking.StackingClassifier")
def stacking(state: State) -> None:
    """1.2 renamed what turns classes into numbers."""
    move(state, _le="_label_encoder")


@step("isotonic.IsotonicRegression")
def thresholds(state: State) -> None:
    """0.24 made them public."""
    move(state, _necessary_X_="X_thresholds_", _necessary_y_="y_thresholds_")
    state.pop("f_", None)


@step("cluster._kmeans.KMeans", "cluster._kmeans.MiniBatchKMeans", "cluster._bisect_k_means.BisectingKMeans")
def threads(state: State) -> None:
    """How many threads share the work, and which algorithm did it."""
    reword(state, "algorithm", {"auto": "lloyd", "full": "lloyd"})
    if "cluster_centers_" in state:
        state.setdefault("_n_threads", 1)
        state.setdefault("_n_features_out", len(state["cluster_centers_"]))


@step("decomposition._kernel_pca.KernelPCA")
def eigen(state: State) -> None:
    """1.0 renamed them; 1.3 works the width of the kernel out when it fits."""
    move(state, lambdas_="eigenvalues_", alphas_="eigenvectors_")
    if "X_fit_" in state and "gamma_" not in state:
        gamma = state.get("gamma")
        state["gamma_"] = 1 / state["X_fit_"].shape[1] if gamma is None else gamma


@step(*_PLS, "cross_decomposition._pls.PLSSVD")
def scales(state: State) -> None:
    """0.24 made private what the data is centred and scaled with."""
    move(state, x_mean_="_x_mean", x_std_="_x_std", y_mean_="_y_mean", y_std_="_y_std")


@step(*_PLS, before=(1, 5))
def coefficients(state: State) -> None:
    """1.3 turned the coefficients round and 1.5 scaled them to the data as they are: work them out from the factors."""
    import numpy as np

    for name in ("_coef_", "coef_"):
        state.pop(name, None)
    if "x_rotations_" in state:
        coef = np.dot(state["x_rotations_"], state["y_loadings_"].T)
        state["coef_"] = (coef * state["_y_std"]).T / state["_x_std"]
        state["intercept_"] = state["_y_mean"]
        state.setdefault("_predict_1d", False)
        state.setdefault("_n_features_out", state["x_rotations_"].shape[1])


@step("feature_extraction.text.TfidfTransformer")
def weights(state: State) -> None:
    """1.4 keeps the weights as an array, not on a diagonal."""
    if "_idf_diag" in state:
        matrix = state.pop("_idf_diag")
        bounds.check(matrix, where="TfidfTransformer")  # it is read before the whole model is checked
        state.setdefault("idf_", matrix.diagonal())


@step("feature_extraction.text.TfidfVectorizer")
def parameters_of_weights(state: State) -> None:
    """0.23 and older kept them in the transformer inside only."""
    inner = state.get("_tfidf")
    for name in ("norm", "use_idf", "smooth_idf", "sublinear_tf"):
        if hasattr(inner, name):
            state.setdefault(name, getattr(inner, name))


@step("preprocessing._polynomial.PolynomialFeatures")
def degrees(state: State) -> None:
    """0.24 may leave low degrees out."""
    move(state, n_input_features_="n_features_in_")
    if "n_output_features_" in state:
        degree = state["degree"]
        low, high = degree if isinstance(degree, tuple) else (0, degree)
        state.setdefault("_min_degree", low)
        state.setdefault("_max_degree", high)
        full = state["n_output_features_"] + (0 if state.get("include_bias", True) else 1)
        state.setdefault("_n_out_full", full)


_MAX_CATEGORIES = 1_000_000


@step("preprocessing._encoders.OneHotEncoder")
def one_hot(state: State) -> None:
    """1.1 groups rare categories, which no older one has; 1.2 renamed a parameter; 0.19 counted from zero."""
    import numpy as np

    move(state, sparse="sparse_output", _categories="categories", _n_values_="n_values_")
    if "n_values_" in state and "categories_" not in state:
        if state.get("categorical_features", "all") != "all":
            refuse("OneHotEncoder", "it encodes some columns and leaves the others, which scikit-learn no longer does")
        edges, active = state["feature_indices_"], state.get("active_features_")
        if active is None:
            if not 0 <= edges[0] <= edges[-1] <= _MAX_CATEGORIES:
                refuse("OneHotEncoder", f"it has more than {_MAX_CATEGORIES} categories and lists none of them")
            active = np.arange(edges[-1])
        active = np.unique(active)
        state["categories_"] = [active[(active >= start) & (active < stop)] - start for start, stop in pairwise(edges)]
    for name in ("n_values", "n_values_", "active_features_", "feature_indices_", "categorical_features"):
        state.pop(name, None)
    if state.get("categories") is None:
        state["categories"] = "auto"
    if "categories_" in state:
        state.setdefault("drop_idx_", None)
        state.setdefault("_drop_idx_after_grouping", state["drop_idx_"])
        state.setdefault("_infrequent_enabled", False)
        sizes = [len(one) for one in state["categories_"]]
        dropped = state["_drop_idx_after_grouping"]
        if dropped is not None:
            sizes = [size - (at is not None) for size, at in zip(sizes, dropped, strict=True)]
        state.setdefault("_n_features_outs", sizes)
        state.setdefault("n_features_in_", len(sizes))


@step("preprocessing._encoders.OrdinalEncoder")
def ordinal(state: State) -> None:
    """1.0 to 1.3 brought missing, unknown and rare categories."""
    if "categories_" in state:
        state.setdefault("_infrequent_enabled", False)
        state.setdefault("_missing_indices", {})
        state.setdefault("n_features_in_", len(state["categories_"]))


@step("impute._base.SimpleImputer")
def imputer(state: State) -> None:
    """0.20 replaced ``Imputer``; later releases remember which type they saw."""
    import numpy as np

    if state.pop("axis", 0) != 0:
        refuse("Imputer", "it fills along rows, which scikit-learn no longer does")
    reword(state, "missing_values", {"NaN": float("nan")})
    if "statistics_" in state:
        statistics = state["statistics_"] = np.asarray(state["statistics_"])
        state.setdefault("_fit_dtype", statistics.dtype)
        state.setdefault("_fill_dtype", state["_fit_dtype"])
        state.setdefault("indicator_", None)
        state.setdefault("n_features_in_", len(statistics))


@step("impute._knn.KNNImputer")
def neighbours_of_gaps(state: State) -> None:
    """0.24 keeps what is missing in the data that it was fitted to."""
    if "_fit_X" in state and "_mask_fit_X" not in state:
        from sklearn.utils._mask import _get_mask

        state["_mask_fit_X"] = _get_mask(state["_fit_X"], state["missing_values"])
    if "_mask_fit_X" in state:
        state.setdefault("_valid_mask", ~state["_mask_fit_X"].all(axis=0))
        state.setdefault("indicator_", None)


@step("compose._column_transformer.ColumnTransformer")
def columns(state: State) -> None:
    """1.4 keeps a transformer for what is passed through, and older ones do not say which columns go where."""
    fitted = state.get("transformers_")
    if fitted is None:
        return
    from sklearn.preprocessing import FunctionTransformer

    def passes() -> Any:
        made = FunctionTransformer(accept_sparse=True, check_inverse=False, feature_names_out="one-to-one")
        return made.set_output(transform="default") if hasattr(made, "set_output") else made

    state["transformers_"] = [
        (name, passes() if one == "passthrough" else one, where) if isinstance(one, str) else (name, one, where)
        for name, one, where in fitted
    ]
    if "_n_features" in state:
        state.setdefault("n_features_in_", state.pop("_n_features"))
    known = all(isinstance(where, list) and all(type(at) is int for at in where) for _, _, where in fitted)
    if "_transformer_to_input_indices" not in state and known:
        state["_transformer_to_input_indices"] = {name: where for name, _, where in fitted}


@step("calibration._CalibratedClassifier")
def calibrated(state: State) -> None:
    """0.24 and 1.2 renamed its parts."""
    move(state, base_estimator="estimator", calibrators_="calibrators")
    if state.get("classes") is None:
        state["classes"] = state.pop("classes_", None)


@step(*(f"model_selection._search{name}" for name in (".GridSearchCV", ".RandomizedSearchCV")))
def search(state: State) -> None:
    """1.3 has a class for scoring by the estimator's own score."""
    if state.get("scorer_") is passthrough:
        from sklearn.metrics._scorer import _PassthroughScorer

        state["scorer_"] = _PassthroughScorer(state.get("best_estimator_", state.get("estimator")))
