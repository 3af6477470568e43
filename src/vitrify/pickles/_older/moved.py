"""Where classes and functions live today that older releases kept elsewhere.

Found by comparing the releases 0.18 to 1.5 of scikit-learn with today's: scikit-learn 0.22 and 0.24 put an underscore
before most modules, SciPy 1.8 did the same, NumPy 2.0 renamed its core, pandas 2.0 has one class for the indexes that
had one an element type.
"""

from __future__ import annotations

_SKLEARN = {
    "cluster": "affinity_propagation_ bicluster birch dbscan_ hierarchical>_agglomerative k_means_>_kmeans mean_shift_"
    " optics_ spectral",
    "covariance": "elliptic_envelope empirical_covariance_ graph_lasso_ outlier_detection>_elliptic_envelope"
    " robust_covariance shrunk_covariance_",
    "cross_decomposition": "_cca>_pls cca_>_pls pls_",
    "decomposition": "base dict_learning factor_analysis fastica_ incremental_pca kernel_pca nmf online_lda>_lda pca"
    " sparse_pca truncated_svd",
    "ensemble": "bagging base forest gradient_boosting>_gb iforest voting voting_classifier>_voting weight_boosting",
    "feature_extraction": "dict_vectorizer hashing>_hash",
    "feature_selection": "base from_model mutual_info_ rfe univariate_selection variance_threshold",
    "gaussian_process": "gpc gpr",
    "linear_model": "base bayes coordinate_descent huber least_angle logistic omp passive_aggressive perceptron ransac"
    " ridge sag stochastic_gradient theil_sen sgd_fast",
    "manifold": "isomap locally_linear mds spectral_embedding_ t_sne",
    "metrics": "base classification ranking regression scorer",
    "metrics.cluster": "bicluster supervised unsupervised",
    "mixture": "base bayesian_mixture gaussian_mixture",
    "neighbors": "ball_tree base classification graph kd_tree kde lof nca nearest_centroid regression unsupervised",
    "neural_network": "multilayer_perceptron rbm",
    "preprocessing": "data label",
    "semi_supervised": "label_propagation",
    "svm": "base bounds classes",
    "tree": "tree>_classes",
}
"""By package, the modules that went: to ``_name``, without an underscore at the end, or to what stands after ``>``."""

_MODULES = {
    "numpy.core": "numpy._core",
    "_loss": "sklearn._loss._loss",  # scikit-learn 1.5 to 1.6, whose build left the package away
    "sklearn.impute": "sklearn.impute._base",
    "sklearn.linear_model._glm.link": "sklearn._loss.link",
    "sklearn.neighbors._dist_metrics": "sklearn.metrics._dist_metrics",
    "sklearn.neighbors._distance_metric": "sklearn.metrics._dist_metrics",
    "sklearn.neighbors.dist_metrics": "sklearn.metrics._dist_metrics",
    "pandas.core.indexes.numeric": "pandas.core.indexes.base",
    "pandas.core.internals": "pandas.core.internals.managers",
    "pandas.indexes.base": "pandas.core.indexes.base",
    "pandas.indexes.range": "pandas.core.indexes.range",
    "scipy.interpolate.interpolate": "scipy.interpolate._interpolate",
    **{
        f"scipy.sparse.{layout}": f"scipy.sparse._{layout}"
        for layout in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    },
    **{
        f"sklearn.{package}.{old}": f"sklearn.{package}.{new or '_' + old.strip('_')}"
        for package, words in _SKLEARN.items()
        for old, _, new in (word.partition(">") for word in words.split())
    },
}

_PREFIXES = {"sklearn.externals.joblib.": "joblib.", "numpy.core.": "numpy._core."}

_NAMES = {
    ("pandas.core.indexes.base", "Float64Index"): ("pandas.core.indexes.base", "Index"),
    ("pandas.core.indexes.base", "Int64Index"): ("pandas.core.indexes.base", "Index"),
    ("pandas.core.indexes.base", "UInt64Index"): ("pandas.core.indexes.base", "Index"),
    ("pandas.core.arrays.string_arrow", "ArrowStringArrayNumpySemantics"): ("pandas.arrays", "ArrowStringArray"),
    ("mtrand", "RandomState"): ("numpy.random.mtrand", "RandomState"),
    ("numpy.random", "__RandomState_ctor"): ("numpy.random._pickle", "__randomstate_ctor"),
    ("sklearn.lda", "LDA"): ("sklearn.discriminant_analysis", "LinearDiscriminantAnalysis"),
    ("sklearn.neighbors._ball_tree", "BinaryTree"): ("sklearn.neighbors._ball_tree", "BallTree"),
    ("sklearn.neighbors._kd_tree", "BinaryTree"): ("sklearn.neighbors._kd_tree", "KDTree"),
    ("sklearn.preprocessing._data", "OneHotEncoder"): ("sklearn.preprocessing._encoders", "OneHotEncoder"),
    ("sklearn.preprocessing._data", "PolynomialFeatures"): ("sklearn.preprocessing._polynomial", "PolynomialFeatures"),
    ("sklearn.preprocessing.imputation", "Imputer"): ("sklearn.impute._base", "SimpleImputer"),
    ("sklearn.qda", "QDA"): ("sklearn.discriminant_analysis", "QuadraticDiscriminantAnalysis"),
    ("sklearn.utils.deprecation", "DeprecationDict"): ("collections", "OrderedDict"),
    ("sklearn.utils", "Bunch"): ("sklearn.utils._bunch", "Bunch"),
    ("sklearn.datasets.base", "Bunch"): ("sklearn.utils._bunch", "Bunch"),
}
"""Single names whose new place does not follow from their module's; by their new module."""

_METRICS = "sklearn.metrics._dist_metrics"


def today(module: str, name: str) -> tuple[str, str]:
    """Return today's module and name; what has not moved is returned as it is."""
    for old, new in _PREFIXES.items():
        if module.startswith(old):
            module = new + module.removeprefix(old)
    module = _MODULES.get(module, module)
    if module == _METRICS and name.endswith("Distance"):  # scikit-learn 1.3 has one an element type
        return module, f"{name}64"
    return _NAMES.get((module, name), (module, name))
