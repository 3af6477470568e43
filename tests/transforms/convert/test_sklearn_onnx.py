"""scikit-learn to ONNX: every estimator against itself, on training rows and on rows made to break it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import (
    calibration,
    cluster,
    compose,
    decomposition,
    discriminant_analysis,
    dummy,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    model_selection,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.cross_decomposition import PLSRegression

ROWS = 120


# How far an output may be off: ulps of its own element type. What is exact in the source's arithmetic has zero;
# sums that BLAS orders in its own way, and functions that libm rounds in its own way, have a few.
EXACT, ROUNDED, SMOOTH = 0, 64, 1e6
FOREST = 16
"""Of two classes the first one has what the second one leaves: the last bits of a small share are lost."""

REGRESSORS = {
    "linear": (linear_model.LinearRegression(), ROUNDED),
    "ridge": (linear_model.Ridge(), ROUNDED),
    "lasso": (linear_model.Lasso(alpha=0.01), ROUNDED),
    "huber": (linear_model.HuberRegressor(max_iter=1000), ROUNDED),
    "bayesian ridge": (linear_model.BayesianRidge(), ROUNDED),
    "sgd": (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.SGDRegressor(random_state=0)), ROUNDED),
    "poisson": (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.PoissonRegressor()), SMOOTH),
    "tweedie": (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.TweedieRegressor()), ROUNDED),
    "quantile": (linear_model.QuantileRegressor(alpha=0), SMOOTH),
    "ransac": (linear_model.RANSACRegressor(random_state=0), SMOOTH),
    "dummy": (dummy.DummyRegressor(), EXACT),
    "pls": (PLSRegression(n_components=1), SMOOTH),
    "linear svr": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.LinearSVR()), ROUNDED),
    "svr": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVR()), SMOOTH),
    "svr poly": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVR(kernel="poly", degree=2)), SMOOTH),
    "tree": (tree.DecisionTreeRegressor(random_state=0), EXACT),
    "extra tree": (tree.ExtraTreeRegressor(random_state=0), EXACT),
    "stump": (tree.DecisionTreeRegressor(max_depth=1), EXACT),
    "leaf": (tree.DecisionTreeRegressor(min_samples_leaf=ROWS), EXACT),
    "forest": (ensemble.RandomForestRegressor(12, random_state=0), EXACT),
    "extra trees": (ensemble.ExtraTreesRegressor(12, random_state=0), EXACT),
    "many trees": (ensemble.RandomForestRegressor(300, max_depth=2, random_state=0), EXACT),
    "gradient boosting": (ensemble.GradientBoostingRegressor(n_estimators=12, random_state=0), EXACT),
    "gradient boosting from a tree": (
        ensemble.GradientBoostingRegressor(n_estimators=5, init=tree.DecisionTreeRegressor(max_depth=2)),
        EXACT,
    ),
    "gradient boosting quantile": (ensemble.GradientBoostingRegressor(n_estimators=5, loss="quantile"), EXACT),
    "histogram": (ensemble.HistGradientBoostingRegressor(max_iter=12), EXACT),
    "histogram poisson": (ensemble.HistGradientBoostingRegressor(max_iter=12, loss="poisson"), 4),
    "ada boost": (ensemble.AdaBoostRegressor(n_estimators=5, random_state=0), EXACT),
    "bagging": (ensemble.BaggingRegressor(n_estimators=5, max_features=0.5, random_state=0), 4),
    "voting": (
        ensemble.VotingRegressor(
            [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))], weights=[1, 2]
        ),
        ROUNDED,
    ),
    "stacking": (
        ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))]),
        SMOOTH,
    ),
    "mlp": (
        pipeline.make_pipeline(
            preprocessing.StandardScaler(),
            neural_network.MLPRegressor(hidden_layer_sizes=(5,), max_iter=20, tol=1e9, random_state=0),
        ),
        SMOOTH,
    ),
    "nearest": (neighbors.KNeighborsRegressor(), SMOOTH),
    "log target": (
        compose.TransformedTargetRegressor(linear_model.Ridge(alpha=1e6), func=np.log, inverse_func=np.exp),
        SMOOTH,
    ),
    "scaled target": (
        compose.TransformedTargetRegressor(linear_model.Ridge(), transformer=preprocessing.StandardScaler()),
        ROUNDED,
    ),
    "search": (model_selection.GridSearchCV(tree.DecisionTreeRegressor(), {"max_depth": [1, 3]}, cv=2), EXACT),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_predicts_the_same(name, x, real, convert, probes):
    model, ulps = REGRESSORS[name]
    target = np.abs(real) + 0.1 if "poisson" in name or name == "log target" else real
    pair = convert(model.fit(x, target), x)
    rows = x if name in {"poisson", "histogram poisson", "log target"} else probes(x)
    # Where a sum cancels its error is as large as its terms'.
    pair.agree(
        rows, ulps=ulps, atol=0 if ulps == EXACT else 1e-11 * np.abs(pair.source.predict(rows)["prediction"]).max()
    )


CLASSIFIERS = {
    "logistic": (linear_model.LogisticRegression(max_iter=1000), SMOOTH),
    "logistic of each class": (
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression(solver="liblinear")),
        SMOOTH,
    ),
    "sgd log": (linear_model.SGDClassifier(loss="log_loss", random_state=0), SMOOTH),
    "sgd huber": (linear_model.SGDClassifier(loss="modified_huber", random_state=0), SMOOTH),
    "sgd hinge": (linear_model.SGDClassifier(random_state=0), SMOOTH),
    "perceptron": (linear_model.Perceptron(), SMOOTH),
    "ridge": (linear_model.RidgeClassifier(), SMOOTH),
    "linear svc": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.LinearSVC()), SMOOTH),
    "lda": (discriminant_analysis.LinearDiscriminantAnalysis(), SMOOTH),
    "qda": (
        pipeline.make_pipeline(preprocessing.StandardScaler(), discriminant_analysis.QuadraticDiscriminantAnalysis()),
        SMOOTH,
    ),
    "gaussian nb": (naive_bayes.GaussianNB(), SMOOTH),
    "bernoulli nb": (naive_bayes.BernoulliNB(), SMOOTH),
    "svc": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC()), SMOOTH),
    "nu svc": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.NuSVC(nu=0.3)), SMOOTH),
    "svc sigmoid": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC(kernel="sigmoid")), SMOOTH),
    "tree": (tree.DecisionTreeClassifier(random_state=0), EXACT),
    "forest": (ensemble.RandomForestClassifier(12, random_state=0), FOREST),
    "extra trees": (ensemble.ExtraTreesClassifier(12, random_state=0), FOREST),
    "gradient boosting": (ensemble.GradientBoostingClassifier(n_estimators=8, random_state=0), 8),
    "histogram": (ensemble.HistGradientBoostingClassifier(max_iter=8), 8),
    "ada boost": (ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), 8),
    "bagging": (ensemble.BaggingClassifier(n_estimators=5, random_state=0), 4),
    "voting soft": (
        ensemble.VotingClassifier(
            [("a", naive_bayes.GaussianNB()), ("b", tree.DecisionTreeClassifier(max_depth=3))], voting="soft"
        ),
        SMOOTH,
    ),
    "voting hard": (
        ensemble.VotingClassifier([("a", naive_bayes.GaussianNB()), ("b", tree.DecisionTreeClassifier(max_depth=3))]),
        EXACT,
    ),
    "stacking": (
        ensemble.StackingClassifier(
            [("a", naive_bayes.GaussianNB()), ("b", tree.DecisionTreeClassifier(max_depth=3))], cv=2
        ),
        SMOOTH,
    ),
    "one vs rest": (multiclass.OneVsRestClassifier(tree.DecisionTreeClassifier(max_depth=3)), 4),
    "calibrated sigmoid": (calibration.CalibratedClassifierCV(tree.DecisionTreeClassifier(max_depth=3), cv=2), 8),
    "calibrated isotonic": (
        calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method="isotonic", cv=2),
        SMOOTH,
    ),
    "mlp": (
        pipeline.make_pipeline(
            preprocessing.StandardScaler(), neural_network.MLPClassifier((5,), max_iter=20, tol=1e9, random_state=0)
        ),
        SMOOTH,
    ),
    "nearest": (neighbors.KNeighborsClassifier(), SMOOTH),
    "dummy": (dummy.DummyClassifier(), EXACT),
    "scaled forest": (
        pipeline.make_pipeline(preprocessing.StandardScaler(), ensemble.RandomForestClassifier(12, random_state=0)),
        FOREST,
    ),
    "scaled histogram": (
        pipeline.make_pipeline(preprocessing.RobustScaler(), ensemble.HistGradientBoostingClassifier(max_iter=8)),
        8,
    ),
}


@pytest.mark.parametrize("target", ["binary", "three"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_predicts_the_same(name, *, target, x, binary, three, convert, probes):
    model, ulps = CLASSIFIERS[name]
    pair = convert(model.fit(x, {"binary": binary, "three": three}[target]), x)
    rows = x if ulps == SMOOTH else probes(x)
    pair.agree(rows, ulps=ulps, atol=1e-13 if ulps else 0)


TRANSFORMERS = {
    "standard": (preprocessing.StandardScaler(), EXACT),
    "min max": (preprocessing.MinMaxScaler(clip=True), EXACT),
    "max abs": (preprocessing.MaxAbsScaler(), EXACT),
    "robust": (preprocessing.RobustScaler(), EXACT),
    "normalizer l1": (preprocessing.Normalizer("l1"), 4),
    "normalizer l2": (preprocessing.Normalizer(), 4),
    "normalizer max": (preprocessing.Normalizer("max"), EXACT),
    "binarizer": (preprocessing.Binarizer(threshold=0.5), EXACT),
    "polynomial": (preprocessing.PolynomialFeatures(3), EXACT),
    "interactions": (preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False), EXACT),
    "yeo-johnson": (preprocessing.PowerTransformer(), SMOOTH),
    "bins": (preprocessing.KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"), EXACT),
    "bins one-hot": (preprocessing.KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), EXACT),
    "quantile": (preprocessing.QuantileTransformer(n_quantiles=20), SMOOTH),
    "identity": (preprocessing.FunctionTransformer(), EXACT),
    "absolute": (preprocessing.FunctionTransformer(np.abs), EXACT),
    "square root": (
        pipeline.make_pipeline(preprocessing.FunctionTransformer(np.abs), preprocessing.FunctionTransformer(np.sqrt)),
        EXACT,
    ),
    "log1p": (
        pipeline.make_pipeline(preprocessing.FunctionTransformer(np.abs), preprocessing.FunctionTransformer(np.log1p)),
        8,
    ),
    "expm1": (
        pipeline.make_pipeline(preprocessing.MaxAbsScaler(clip=True), preprocessing.FunctionTransformer(np.expm1)),
        8,
    ),
    "impute mean": (impute.SimpleImputer(), EXACT),
    "impute with indicator": (impute.SimpleImputer(strategy="median", add_indicator=True), EXACT),
    "select": (feature_selection.SelectKBest(feature_selection.f_regression, k=2), EXACT),
    "variance": (feature_selection.VarianceThreshold(0.1), EXACT),
    "from model": (feature_selection.SelectFromModel(tree.DecisionTreeRegressor(random_state=0)), EXACT),
    "rfe": (feature_selection.RFE(linear_model.Ridge(), n_features_to_select=2), ROUNDED),
    "pca": (decomposition.PCA(3, whiten=True), SMOOTH),
    "incremental pca": (decomposition.IncrementalPCA(2), SMOOTH),
    "svd": (decomposition.TruncatedSVD(2, random_state=0), SMOOTH),
    "ica": (decomposition.FastICA(2, random_state=0, tol=0.1), SMOOTH),
    "factors": (decomposition.FactorAnalysis(2), SMOOTH),
    "union": (
        pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2), "passthrough"),
        SMOOTH,
    ),
    "leaves": (ensemble.RandomTreesEmbedding(5, max_depth=2, random_state=0), EXACT),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_gives_the_same(name, x, real, convert, probes):
    model, ulps = TRANSFORMERS[name]
    holes = x.copy()
    if name.startswith("impute"):
        holes[::3, 1] = np.nan
    pair = convert(model.fit(holes, real), holes)
    rows = holes if ulps == SMOOTH else probes(holes)
    pair.agree(rows, ulps=ulps, atol=1e-9 if ulps == SMOOTH else 0)


OUTLIERS = {
    "isolation forest": (ensemble.IsolationForest(n_estimators=10, random_state=0), 8),
    "isolation forest of half the columns": (
        ensemble.IsolationForest(n_estimators=10, max_features=0.5, random_state=0),
        8,
    ),
    "one-class svm": (pipeline.make_pipeline(preprocessing.StandardScaler(), svm.OneClassSVM()), SMOOTH),
    "one-class sgd": (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.SGDOneClassSVM()), SMOOTH),
    "k-means": (cluster.KMeans(3, n_init=1, random_state=0), EXACT),
    "mini-batch k-means": (cluster.MiniBatchKMeans(3, n_init=1, random_state=0), EXACT),
}


@pytest.mark.parametrize("name", OUTLIERS)
def test_an_unsupervised_model_labels_the_same(name, x, convert):
    model, ulps = OUTLIERS[name]
    convert(model.fit(x), x).agree(x, ulps=ulps, atol=1e-10 if ulps == SMOOTH else 1e-15)
