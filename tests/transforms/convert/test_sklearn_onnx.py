"""scikit-learn to ONNX: every estimator against itself, on training rows and on rows made to break it."""

from __future__ import annotations

import numpy as np
import onnx
import pandas as pd
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
    gaussian_process,
    impute,
    linear_model,
    model_selection,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.cross_decomposition import PLSRegression
from sklearn.feature_extraction import text

from vitrify.core.errors import ModelError, UnsupportedModelError, UsageError
from vitrify.core.plan import Step
from vitrify.transforms.convert.sklearn_onnx import SklearnToOnnx

ROWS = 120


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 4)) * [1, 10, 100, 0.01]


@pytest.fixture(scope="module")
def binary(x):
    return np.where(x[:, 0] + x[:, 1] / 10 > 0, "yes", "no")


@pytest.fixture(scope="module")
def three(x):
    return np.digitize(x[:, 0] + x[:, 2] / 100, [-0.7, 0.7]) * 10


@pytest.fixture(scope="module")
def real(x):
    return x[:, 0] * 3 + np.sin(x[:, 1]) + 5


# How far an output may be off: ulps of its own element type. What is exact in the source's arithmetic has zero;
# sums that BLAS orders in its own way, and functions that libm rounds in its own way, have a few.
EXACT, ROUNDED, SMOOTH = 0, 64, 1e6

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
    "gradient boosting from linear": (
        ensemble.GradientBoostingRegressor(n_estimators=5, init=linear_model.LinearRegression(), random_state=0),
        1e10,  # it feeds the linear model float32, which BLAS adds in its own order
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
    "forest": (ensemble.RandomForestClassifier(12, random_state=0), EXACT),
    "extra trees": (ensemble.ExtraTreesClassifier(12, random_state=0), EXACT),
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
        EXACT,
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


WORDS = np.array(["", "a", "Ünïcode", "red", "RED", "red wine", "naïve", "日本", "12", "x_1"])


@pytest.fixture(scope="module")
def table():
    """Return a table with columns of every kind that a graph can take."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": rng.normal(4e4, 1e4, ROWS),
            "id": rng.integers(2**53, 2**60, ROWS),
            "flag": rng.random(ROWS) > 0.5,
            "narrow": rng.normal(size=ROWS).astype(np.float32),
            "colour": WORDS[rng.integers(0, len(WORDS), ROWS)],
            "text": [" ".join(rng.choice(WORDS, 5)) for _ in range(ROWS)],
        }
    )


@pytest.fixture(scope="module")
def labels(table):
    return np.where((table["income"] > 4e4) ^ (table["colour"] == "red"), "yes", "no")


def test_a_table_of_numbers_and_text_predicts_the_same(table, labels, convert):
    columns = compose.ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), ["income", "age", "id"]),
            ("flags", "passthrough", ["flag", "narrow"]),
            ("colours", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour"]),
            ("words", text.TfidfVectorizer(), "text"),
        ],
        sparse_threshold=0,
    )
    model = pipeline.make_pipeline(columns, ensemble.RandomForestClassifier(8, random_state=0)).fit(table, labels)
    pair = convert(model, table)
    types = {value.name: value.type.tensor_type.elem_type for value in pair.proto.graph.input}
    assert types == {"age": 7, "income": 11, "id": 7, "flag": 9, "narrow": 1, "colour": 8, "text": 8}
    odd = table.copy()
    odd["colour"] = np.array(["never seen", "Red", "ünïcode", " red"])[np.arange(ROWS) % 4]
    odd["text"] = np.array(["", "a", "RED wine", "e\u0301 naïve Ünïcode", "日本 語日本 x_1", "red,red;wine"])[
        np.arange(ROWS) % 6
    ]
    for rows in (table, odd, table.iloc[:1], odd.iloc[[0]], table[table.columns[::-1]]):
        pair.agree(rows, ulps=4)


def test_columns_are_found_by_name_and_not_by_place(table, labels, convert):
    numbers = table[["age", "income", "flag"]].rename(columns={"age": 2, "income": 0, "flag": 1})
    columns = compose.ColumnTransformer([("n", preprocessing.MinMaxScaler(), slice(0, 2))], remainder="passthrough")
    convert(columns.fit(numbers), numbers).agree(numbers, ulps=0)


SELECTORS = {
    "names": ["income", "age"],
    "places": [1, 0],
    "mask": [True, True, False],
    "slice": slice(0, 2),
    "callable": compose.make_column_selector(dtype_include=np.number),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_every_way_to_choose_columns_works(name, table, convert):
    numbers = table[["age", "income", "flag"]]
    model = compose.ColumnTransformer([("n", preprocessing.StandardScaler(), SELECTORS[name])], remainder="passthrough")
    convert(model.fit(numbers), numbers).agree(numbers, ulps=0)


VECTORIZERS = {
    "count": text.CountVectorizer(),
    "tf-idf": text.TfidfVectorizer(),
    "case kept": text.TfidfVectorizer(lowercase=False),
    "pairs": text.TfidfVectorizer(ngram_range=(1, 2)),
    "pairs only": text.CountVectorizer(ngram_range=(2, 3)),
    "binary": text.CountVectorizer(binary=True),
    "sublinear": text.TfidfVectorizer(sublinear_tf=True, norm="l1"),
    "no idf": text.TfidfVectorizer(use_idf=False, norm=None),
    "single characters": text.CountVectorizer(token_pattern=r"(?u)\b\w+\b"),
    "stop words": text.CountVectorizer(stop_words=["red", "wine"]),
    "a given vocabulary": text.CountVectorizer(vocabulary=["wine", "red", "absent"]),
    "few": text.TfidfVectorizer(max_features=3, min_df=2),
    "single precision": text.TfidfVectorizer(dtype=np.float32),
}

TEXTS = [
    "",
    " ",
    "a",
    "Red WINE, red-wine; RED_wine",
    "naïve Ünïcode ÜNÏCODE e\u0301te\u0301",
    "日本 日本語 x_1 12 1 2 3",
    "don't stop. \n\ttabs  and   spaces",
    "ﬁne Straße STRASSE ½ ² ٣٤ é",
    "\U0001d54f\U0001d550 emoji 😀 word😀word",
]


@pytest.mark.parametrize("name", VECTORIZERS)
def test_text_is_cut_into_the_same_words(name, convert):
    model = VECTORIZERS[name].fit([*TEXTS, "red wine", "red", "wine naïve wine"])
    texts = pd.Series([*TEXTS, "red wine", "wine", "unseen words only"], name="t")
    pair = convert(model, texts)
    ulps = 0 if "count" in name or "only" in name else 8
    for rows in (texts, texts.iloc[:1], texts.iloc[:3]):
        pair.agree(rows, ulps=ulps)


@pytest.mark.parametrize("kind", ["U", "O"])
def test_an_array_of_texts_is_a_vector_of_text(kind, convert):
    texts = np.array(["red wine", "white wine", "bread", ""] * 5).astype(kind)
    model = pipeline.make_pipeline(text.TfidfVectorizer(), linear_model.LogisticRegression())
    convert(model.fit(texts, np.arange(20) % 2 == 0), texts).agree(texts, ulps=64)


def test_lowering_text_beyond_ascii_is_noted(convert):
    texts = pd.Series(["Ünïcode", "ascii"])
    assert convert(text.CountVectorizer().fit(texts), texts).written.notes
    assert not convert(text.CountVectorizer().fit(texts[1:]), texts).written.notes


def test_the_names_that_set_output_gives_are_followed(table, labels, convert):
    numbers = table[["age", "income"]]
    scale = compose.ColumnTransformer([("s", preprocessing.StandardScaler(), ["income", "age"])])
    chosen = compose.ColumnTransformer([("n", preprocessing.MinMaxScaler(), ["s__age"])])
    model = pipeline.make_pipeline(scale, chosen).set_output(transform="pandas")
    convert(model.fit(numbers), numbers).agree(numbers, ulps=0)


ENCODERS = {
    "one-hot": preprocessing.OneHotEncoder(handle_unknown="ignore"),
    "one-hot, first dropped": preprocessing.OneHotEncoder(drop="first", handle_unknown="ignore"),
    "one-hot, rare together": preprocessing.OneHotEncoder(min_frequency=12, handle_unknown="infrequent_if_exist"),
    "one-hot, few": preprocessing.OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist"),
    "ordinal": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "ordinal, unknown is NaN": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
    "ordinal, rare together": preprocessing.OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, max_categories=3
    ),
    "target": preprocessing.TargetEncoder(cv=2, random_state=0),
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("missing", [None, np.nan], ids=["none", "nan"])
@pytest.mark.filterwarnings("ignore:Found unknown categories:UserWarning")
def test_a_category_becomes_the_same(name, missing, table, labels, convert):
    frame = table[["age", "narrow", "flag"]].copy()
    frame["age"] //= 10
    frame["colour"] = pd.Series(np.where(np.arange(ROWS) % 7 == 0, missing, table["colour"]), dtype=object)
    frame["narrow"] = frame["narrow"].round()
    frame.loc[::9, "narrow"] = np.nan
    model = ENCODERS[name].fit(frame, labels == "yes") if name == "target" else ENCODERS[name].fit(frame)
    odd = frame.copy()
    odd["age"] = 77
    odd["narrow"] = np.float32(-0.0)
    odd.loc[1::2, "colour"] = "zzz"
    pair = convert(model, frame)
    for rows in (frame, odd):
        pair.agree(rows, ulps=0)


def test_an_unknown_category_that_the_source_refuses_is_refused(table, convert):
    frame = table[["colour"]]
    pair = convert(preprocessing.OneHotEncoder().fit(frame), frame)
    for session in (pair.source, pair.graph):
        with pytest.raises(ModelError):
            session.predict(pd.DataFrame({"colour": ["zzz"]}))


IMPUTERS = {
    "most frequent": impute.SimpleImputer(strategy="most_frequent"),
    "constant": impute.SimpleImputer(strategy="constant", fill_value="gone"),
}


@pytest.mark.parametrize("name", IMPUTERS)
def test_missing_text_is_filled(name, table, convert):
    frame = pd.DataFrame(
        {"colour": pd.Series(np.where(np.arange(ROWS) % 7 == 0, np.nan, table["colour"]), dtype=object)}
    )
    encoder = preprocessing.OneHotEncoder(handle_unknown="ignore")
    convert(pipeline.make_pipeline(IMPUTERS[name], encoder).fit(frame), frame).agree(frame, ulps=0)


def test_missing_whole_numbers_are_doubles_with_nan(convert, rng):
    frame = pd.DataFrame({"n": pd.array(rng.integers(0, 9, ROWS), dtype="Int64"), "x": rng.normal(size=ROWS)})
    frame.loc[::5, "n"] = pd.NA
    model = ensemble.HistGradientBoostingRegressor(max_iter=5).fit(frame, np.arange(ROWS))
    pair = convert(model, frame)
    assert pair.proto.graph.input[0].type.tensor_type.elem_type == 11
    pair.agree(frame, ulps=0)


def test_categories_of_a_histogram_model_split_as_sets(convert, rng):
    frame = pd.DataFrame({"n": rng.normal(size=ROWS), "c": pd.Categorical(WORDS[rng.integers(1, 8, ROWS)])})
    model = ensemble.HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=3)
    model.fit(frame, (frame["c"].isin(["red", "a", "日本"]) * 3 + frame["n"]))
    convert(model, frame).agree(frame, ulps=0)


LABELS = [[False, True], ["no", "yes"], [3, 7], [-1.0, 2.0], ["ä", "日本", ""]]


@pytest.mark.parametrize("kind", LABELS, ids=str)
def test_labels_come_back_in_their_own_type_and_order(kind, x, convert):
    y = np.array(kind)[np.arange(ROWS) % len(kind)]
    pair = convert(linear_model.LogisticRegression(max_iter=500).fit(x, y), x)
    pair.agree(x, ulps=64)
    assert pair.document.signature.output("label").classes == tuple(sorted(kind))
    assert not any(node.op_type == "ZipMap" for node in pair.proto.graph.node)


def test_several_targets_are_several_outputs(x, binary, three, real, convert):
    many = np.stack([real, -real], axis=1)
    for model in (
        tree.DecisionTreeRegressor(max_depth=3),
        ensemble.RandomForestRegressor(5, max_depth=3),
        multioutput.MultiOutputRegressor(ensemble.GradientBoostingRegressor(n_estimators=3)),
    ):
        convert(model.fit(x, many), x).agree(x, ulps=0)
    convert(linear_model.LinearRegression().fit(x, many), x).agree(x, ulps=64, atol=1e-13)
    kinds = np.stack([(binary == "yes").astype(int), three], axis=1)
    for model in (
        tree.DecisionTreeClassifier(max_depth=3),
        multioutput.MultiOutputClassifier(tree.DecisionTreeClassifier(max_depth=2)),
    ):
        pair = convert(model.fit(x, kinds), x)
        assert [value.name for value in pair.proto.graph.output] == ["label", "probability_0", "probability_1"]
        pair.agree(x, ulps=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_gaussian_process_holds_in_double(convert, rng):
    x = rng.uniform(0, 100, size=(300, 3))
    model = gaussian_process.GaussianProcessRegressor(alpha=1e-6).fit(x, x[:, 0])
    expected, given = convert(model, x).both(x)
    np.testing.assert_allclose(given["prediction"], expected["prediction"], atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint16, np.bool_])
def test_an_array_keeps_its_element_type(dtype, convert, rng):
    x = (rng.normal(size=(ROWS, 3)) * 50).astype(dtype)
    y = x[:, 0].astype(float) + 1
    for model, ulps in (
        (preprocessing.StandardScaler(), 0),
        (preprocessing.MinMaxScaler(), 0),
        (tree.DecisionTreeRegressor(), 0),
        (ensemble.HistGradientBoostingRegressor(max_iter=3), 0),
        (linear_model.LinearRegression(), 1e4),
    ):
        pair = convert(model.fit(x, y), x)
        assert pair.proto.graph.input[0].type.tensor_type.elem_type == onnx.helper.np_dtype_to_tensor_dtype(
            np.dtype(dtype)
        )
        pair.agree(x, ulps=ulps, atol=1e-10 if ulps else 0)


def test_thresholds_are_kept_to_one_ulp(x, real, convert, probes):
    forest = ensemble.RandomForestRegressor(10, random_state=0).fit(x, real)
    cuts = {}
    for member in forest.estimators_:
        inner = member.tree_.children_left >= 0
        for column in range(4):
            cuts.setdefault(column, []).append(member.tree_.threshold[inner & (member.tree_.feature == column)])
    rows = probes(x, {column: np.concatenate(values) for column, values in cuts.items()}, missing=True)
    assert len(rows) > 5000
    convert(forest, x).agree(rows, ulps=0)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_forests_hold_in_another_precision(precision, x, real, convert):
    pair = convert(ensemble.RandomForestRegressor(5, random_state=0).fit(x, real), x, precision=precision)
    expected, given = pair.both(x)
    np.testing.assert_allclose(given["prediction"], expected["prediction"], rtol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_another_precision_is_used_throughout_and_the_types_outside_stay(precision, x, binary, convert):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()).fit(x, binary)
    pair = convert(model, x, precision=precision)
    inside = {value.data_type for value in pair.proto.graph.initializer} & {1, 11}
    assert inside == {1 if precision == "float32" else 11}
    assert pair.written.entry["casts"] == ({"probability": "float64"} if precision == "float32" else {})
    expected, given = pair.both(x)
    np.testing.assert_allclose(given["probability"], expected["probability"], atol=1e-4)
    assert given["probability"].dtype == np.float64


def test_the_model_says_what_it_is_and_holds_nothing_unused(x, binary, convert):
    model = pipeline.Pipeline(
        [("scale", preprocessing.StandardScaler()), ("trees", ensemble.RandomForestClassifier(3))]
    )
    pair = convert(model.fit(x, binary), x)
    graph = pair.proto.graph
    used = {name for node in graph.node for name in node.input}
    assert {value.name for value in graph.initializer} <= used
    assert not any(node.op_type == "Identity" for node in graph.node)
    assert all(node.name.startswith(("scale/", "trees/")) or "/" not in node.name for node in graph.node)
    assert [dim.dim_param for dim in graph.input[0].type.tensor_type.shape.dim][:1] == ["batch"]
    assert pair.written.entry["opset"] == 21
    assert pair.written.entry["ir"] == pair.proto.ir_version == 10
    assert {prop.key for prop in pair.proto.metadata_props} == {
        "vitrify.precision", "vitrify.source_class", "vitrify.source_format",
    }  # fmt: skip


@pytest.mark.parametrize("opset", [18, 20, 22])
def test_the_opset_can_be_chosen(opset, x, binary, convert):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), tree.DecisionTreeClassifier()).fit(x, binary)
    pair = convert(model, x, opset=opset)
    assert {value.domain: value.version for value in pair.proto.opset_import}[""] == opset
    pair.agree(x, ulps=0)


@pytest.mark.parametrize("options", [{"opset": 9}, {"precision": "float8"}])
def test_an_option_that_cannot_be_is_an_error(options, x, binary, problems):
    with pytest.raises(UsageError):
        problems(tree.DecisionTreeClassifier().fit(x, binary), x, **options)


def test_the_same_model_gives_the_same_bytes(x, binary, convert):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), ensemble.RandomForestClassifier(3)).fit(x, binary)
    assert convert(model, x).proto.SerializeToString() == convert(model, x).proto.SerializeToString()


def double(values):
    return values * 2


def test_every_unsupported_step_is_listed_at_once_with_its_place(table, labels, problems):
    columns = compose.ColumnTransformer(
        [
            ("bad", preprocessing.FunctionTransformer(double), ["age"]),
            ("good", preprocessing.StandardScaler(), ["income"]),
            ("spline", preprocessing.SplineTransformer(), ["narrow"]),
            ("words", text.TfidfVectorizer(strip_accents="unicode", analyzer="char"), "text"),
        ],
        sparse_threshold=0,
    )
    model = pipeline.Pipeline([("columns", columns), ("near", neighbors.NearestCentroid())]).fit(table, labels)
    found = problems(model, table)
    assert [finding.place for finding in found] == [
        "pipeline.steps[0] 'columns'.transformers[0] 'bad' (FunctionTransformer)",
        "pipeline.steps[0] 'columns'.transformers[2] 'spline' (SplineTransformer)",
        "pipeline.steps[0] 'columns'.transformers[3] 'words' (TfidfVectorizer)",
        "pipeline.steps[1] 'near' (NearestCentroid)",
    ]
    assert all(finding.remedy for finding in found)
    assert "strip_accents" in found[2].message
    assert "analyzer" in found[2].message


def test_apply_refuses_with_every_problem(subject, x, real):
    model = pipeline.make_pipeline(preprocessing.FunctionTransformer(double), linear_model.Ridge()).fit(x, real)
    step = Step(transform="skops-to-onnx", source="skops", target="onnx", fidelity="numeric")
    with pytest.raises(UnsupportedModelError, match="double") as caught:
        SklearnToOnnx().apply(subject(model, x), step, sink=None)
    assert len(caught.value.problems) == 1


REFUSED = {
    "a kernel in Python": svm.SVR(kernel=lambda a, b: a @ b.T),
    "a target taken back by code": compose.TransformedTargetRegressor(
        linear_model.Ridge(), func=double, inverse_func=double, check_inverse=False
    ),
    "a step without a converter": pipeline.make_pipeline(
        preprocessing.SplineTransformer(extrapolation="linear"), linear_model.Ridge()
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_refused_with_a_remedy(name, x, real, problems):
    (finding,) = problems(REFUSED[name].fit(x, real), x)
    assert finding.message
    assert finding.remedy


def test_a_column_of_times_is_named(problems, rng):
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=ROWS), "n": rng.normal(size=ROWS)})
    model = compose.ColumnTransformer([("n", preprocessing.StandardScaler(), ["n"])]).fit(frame)
    (finding,) = problems(model, frame)
    assert finding.place == "input 'when'"
