"""Estimators and boosters to PMML: each proven against its source, or refused with a remedy."""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import (
    cluster,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    naive_bayes,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

from vitrify import containers
from vitrify.checks.parity import compare_sessions
from vitrify.core.catalog import catalog
from vitrify.core.document import Document
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.plan import Step
from vitrify.core.protocols import Allow, Subject
from vitrify.runtimes.jpmml import Jpmml
from vitrify.testing.directory import DirectorySink
from vitrify.testing.transforms import TransformConformance

RANDOM = np.random.default_rng(0)
ROWS = 120
X = RANDOM.normal(size=(ROWS, 4)) * [1, 10, 100, 0.01]
SINGLE = X.astype(np.float32)
Y = X[:, 0] * 3 + np.sin(X[:, 1]) + 7
SIDE = np.where(X[:, 0] + X[:, 1] / 10 > 0, "yes", "no")
BIT = (SIDE == "yes").astype(int)
THREE = np.digitize(X[:, 0] + X[:, 2] / 100, [-0.7, 0.7]) * 10
HOLES = np.where(RANDOM.random(X.shape) < 0.15, np.nan, X)
WHOLE = np.c_[X[:, 0], THREE // 10]
TABLE = pd.DataFrame(
    {
        "age": RANDOM.integers(18, 90, ROWS),
        "income": RANDOM.normal(4e4, 1e4, ROWS),
        "colour": RANDOM.choice(["red", "green", "blue ", "", "<&\"'>"], ROWS),
        "flag": RANDOM.random(ROWS) > 0.5,
        "narrow": RANDOM.normal(size=ROWS).astype(np.float32),
        "size": pd.Categorical(RANDOM.choice(["a", "b", "c"], ROWS)),
    }
)
OBJECTS = TABLE[["colour"]].astype(object)
OBJECTS.iloc[3, 0], OBJECTS.iloc[9, 0] = None, np.nan
SIZED = TABLE[["age", "income", "size"]]
FEW = {"n_estimators": 5, "n_jobs": 1}
LIGHT = {"n_estimators": 5, "verbose": -1, "n_jobs": 1, "min_child_samples": 5}
CATS = {**LIGHT, "min_data_per_group": 5, "cat_smooth": 1}
BOOST = {"iterations": 6, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


def columns():
    return compose.make_column_transformer(
        (preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour", "size"]),
        (preprocessing.StandardScaler(), ["age", "income", "narrow"]),
        ("passthrough", ["flag"]),
    )


def behind(*steps):
    return pipeline.make_pipeline(*steps)


LOGISTIC = linear_model.LogisticRegression
PREDICTORS = {
    "linear": (linear_model.LinearRegression(), X, Y),
    "linear of two targets": (linear_model.LinearRegression(), X, np.c_[Y, -Y]),
    "linear in single precision": (linear_model.Ridge(), SINGLE, Y.astype(np.float32)),
    "poisson": (linear_model.PoissonRegressor(), X / [1, 10, 100, 0.01], np.abs(Y)),
    "logistic": (LOGISTIC(), X, SIDE),
    "logistic of truth": (LOGISTIC(), X, SIDE == "yes"),
    "logistic of three": (LOGISTIC(), X, THREE),
    "logistic one against the rest": (linear_model.SGDClassifier(loss="log_loss", random_state=0), X, THREE),
    "ridge classifier": (linear_model.RidgeClassifier(), X, SIDE),
    "linear machine of three": (svm.LinearSVC(random_state=0), X, THREE),
    "outliers by a line": (linear_model.SGDOneClassSVM(random_state=0), X, None),
    "discriminant": (discriminant_analysis.LinearDiscriminantAnalysis(), X, THREE),
    "tree": (tree.DecisionTreeClassifier(max_depth=5, random_state=0), X, THREE),
    "tree in single precision": (tree.DecisionTreeRegressor(random_state=0), SINGLE, Y),
    "tree with holes": (tree.DecisionTreeClassifier(max_depth=4, random_state=0), HOLES, SIDE),
    "forest": (ensemble.RandomForestClassifier(6, max_depth=4, random_state=0), X, SIDE),
    "forest of two targets": (ensemble.RandomForestRegressor(3, max_depth=3, random_state=0), X, np.c_[Y, -Y]),
    "forest of outliers": (ensemble.IsolationForest(n_estimators=4, random_state=0), X, None),
    "logistic by pairs": (linear_model.LogisticRegression(solver="liblinear"), X, SIDE),
    "forest of numbers": (ensemble.ExtraTreesRegressor(4, max_depth=4, random_state=0), X, Y),
    "boosting": (ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0), X, SIDE),
    "boosting of three": (ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0), X, THREE),
    "boosting of numbers": (ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0), X, Y),
    "histograms": (ensemble.HistGradientBoostingClassifier(max_iter=4), HOLES, SIDE),
    "histograms of counts": (ensemble.HistGradientBoostingRegressor(max_iter=4, loss="poisson"), X, np.abs(Y)),
    "machine": (svm.SVC(), X, SIDE),
    "machine of numbers": (svm.SVR(kernel="poly"), X, Y),
    "machine of outliers": (svm.OneClassSVM(), X, None),
    "bayes": (naive_bayes.GaussianNB(), X, THREE),
    "bayes of bits": (naive_bayes.BernoulliNB(), X, THREE),
    "bayes of counts": (naive_bayes.MultinomialNB(), np.abs(X), THREE),
    "clusters": (cluster.KMeans(4, random_state=0, n_init=1), X, None),
    "network": (neural_network.MLPClassifier((5, 4), max_iter=30, random_state=0), X, SIDE),
    "network of three": (neural_network.MLPClassifier((5,), activation="tanh", max_iter=30, random_state=0), X, THREE),
    "network of numbers": (
        neural_network.MLPRegressor(hidden_layer_sizes=(5,), activation="logistic", max_iter=30, random_state=0),
        X,
        Y,
    ),
    "columns": (behind(columns(), LOGISTIC(max_iter=500)), TABLE, SIDE),
    "columns of trees": (behind(columns(), ensemble.RandomForestClassifier(4, random_state=0)), TABLE, SIDE),
    "components": (behind(decomposition.PCA(3, whiten=True), linear_model.LinearRegression()), X, Y),
    "filled and scaled": (
        behind(impute.SimpleImputer(add_indicator=True), preprocessing.RobustScaler(), LOGISTIC()),
        HOLES,
        BIT,
    ),
    "scaled with holes": (
        behind(preprocessing.MinMaxScaler(clip=True), ensemble.HistGradientBoostingClassifier(max_iter=3)),
        HOLES,
        BIT,
    ),
    "chosen": (behind(feature_selection.SelectKBest(k=2), LOGISTIC()), X, BIT),
    "xgboost": (xgb.XGBClassifier(max_depth=3, **FEW), HOLES, BIT),
    "xgboost of three": (xgb.XGBClassifier(max_depth=3, **FEW), HOLES, THREE // 10),
    "xgboost of numbers": (xgb.XGBRegressor(base_score=0.1, **FEW), SINGLE, Y),
    "xgboost of counts": (xgb.XGBRegressor(objective="count:poisson", **FEW), HOLES, np.abs(Y)),
    "xgboost dropping trees": (xgb.XGBRegressor(booster="dart", rate_drop=0.3, random_state=0, **FEW), HOLES, Y),
    "xgboost with a mark for missing": (
        xgb.XGBClassifier(missing=-999.0, **FEW),
        np.nan_to_num(HOLES, nan=-999.0),
        BIT,
    ),
    "xgboost with categories": (xgb.XGBClassifier(enable_categorical=True, **FEW), SIZED, BIT),
    "xgboost scaled": (behind(preprocessing.StandardScaler(), xgb.XGBClassifier(**FEW)), X, BIT),
    "lightgbm": (lgb.LGBMClassifier(**LIGHT), HOLES, SIDE),
    "lightgbm of three": (lgb.LGBMClassifier(**LIGHT), HOLES, THREE),
    "lightgbm one against the rest": (lgb.LGBMClassifier(objective="multiclassova", **LIGHT), X, THREE),
    "lightgbm with zero missing": (lgb.LGBMRegressor(zero_as_missing=True, **LIGHT), np.nan_to_num(HOLES), Y),
    "lightgbm of counts": (lgb.LGBMRegressor(objective="poisson", **LIGHT), SINGLE, np.abs(Y)),
    "lightgbm with categories": (lgb.LGBMClassifier(**CATS), SIZED, BIT),
    "lightgbm with whole numbers": (lgb.LGBMClassifier(categorical_feature=[1], **CATS), WHOLE, BIT),
    "lightgbm as a forest": (
        lgb.LGBMRegressor(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **LIGHT),
        X,
        10 * X[:, 0],
    ),
    "catboost": (cb.CatBoostClassifier(**BOOST), HOLES, SIDE),
    "catboost of three": (cb.CatBoostClassifier(**BOOST), HOLES, THREE),
    "catboost one against the rest": (cb.CatBoostClassifier(loss_function="MultiClassOneVsAll", **BOOST), X, THREE),
    "catboost leaf by leaf": (cb.CatBoostRegressor(grow_policy="Lossguide", **BOOST), HOLES, Y),
    "catboost of counts": (cb.CatBoostRegressor(loss_function="Poisson", **BOOST), HOLES, np.abs(Y)),
}
ENCODER = preprocessing.OneHotEncoder
TRANSFORMERS = {
    "scaler": (preprocessing.StandardScaler(), SINGLE),
    "largest": (preprocessing.MaxAbsScaler(), X),
    "norm": (preprocessing.Normalizer(), X),
    "binary": (preprocessing.Binarizer(threshold=0.1), X),
    "products": (preprocessing.PolynomialFeatures(3), X[:, :3]),
    "bins": (preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), X),
    "components": (decomposition.PCA(3), X),
    "rare categories": (ENCODER(handle_unknown="infrequent_if_exist", min_frequency=30, sparse_output=False), OBJECTS),
    "categories that are numbers": (ENCODER(handle_unknown="ignore", sparse_output=False), TABLE[["age"]]),
    "numbered categories": (
        preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        OBJECTS.assign(size=TABLE["size"]),
    ),
    "filled text": (
        behind(impute.SimpleImputer(strategy="most_frequent"), ENCODER(handle_unknown="ignore", sparse_output=False)),
        OBJECTS,
    ),
    "united": (
        pipeline.make_union(
            preprocessing.StandardScaler(),
            preprocessing.FunctionTransformer(np.square),
            verbose_feature_names_out=False,
        ),
        X,
    ),
}
FUNCTIONS = (
    *(np.abs, np.exp, np.tanh, np.expm1, np.rint, np.sinh, np.cosh, np.arctan, np.sin, np.cos, np.tan, np.arcsin),
    *(np.arccos, np.log, np.log10, np.log1p, np.sqrt, np.floor, np.ceil, np.trunc, np.square, np.negative),
)


@pytest.fixture
def made(subject, memory):
    """Return a function that converts a live model: its source and the session of the document."""

    def run(model, example):
        source = subject(model, example)
        step = step_of(source)
        written = catalog().load("transform", step.transform).apply(source, step, memory)
        document = source.document.replace(format="pmml", runtime="jpmml", entry=written.entry)
        document = Document.from_json(document.to_json(), where="as a store keeps it")
        return source, Jpmml().open(memory, document, Allow())

    return run


@pytest.fixture
def proven(made):
    """Return a function that converts a live model and proves the result, as the verb does, but without a store."""

    def run(model, example):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of overflow in the source, which probes provoke
            source, candidate = made(model, example)
            row = catalog().for_object("runtime", model) or catalog().row("runtime", "estimator")
            native = row.load().wrap(model, source.document)
            report = compare_sessions(candidate, native, source.golden, row_count=400, model=model)
        assert report.passed, str(report)
        return candidate

    return run


@pytest.fixture
def refused(subject):
    """Return a function that says why a live model is refused."""

    def run(model, example):
        source = subject(model, example)
        step = step_of(source)
        found = catalog().load("transform", step.transform).problems(source, step)
        assert all(finding.remedy for finding in found)
        return "\n".join(str(finding) for finding in found)

    return run


def step_of(source):
    name = source.document.format
    return Step(transform=f"{name}-to-pmml", source=name, target="pmml", fidelity="numeric")


def fitted(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of training that was stopped early, and of empty bins
        return model.fit(*data)


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_predictor_is_proven(name, proven):
    model, data, target = PREDICTORS[name]
    proven(fitted(model, data, target), data)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_is_proven(name, proven):
    model, data = TRANSFORMERS[name]
    proven(fitted(model, data), data)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_is_proven_over_all_of_its_domain(function, proven):
    proven(fitted(preprocessing.FunctionTransformer(function), X[:, :2]), X[:, :2])


def test_a_booster_without_its_wrapper_is_proven(proven):
    matrix = xgb.DMatrix(HOLES, BIT)
    proven(xgb.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, matrix, 4), HOLES)


def test_the_document_has_the_elements_of_the_standard(made, memory):
    made(fitted(behind(columns(), ensemble.RandomForestClassifier(2, random_state=0)), TABLE, SIDE), TABLE)
    shown = catalog().load("format", "pmml").describe(memory, {"file": "model.pmml"})
    assert (shown["versions"], shown["class"], shown["classes"]) == ({"pmml": "4.4"}, "MiningModel", ["no", "yes"])
    assert [port["name"] for port in shown["inputs"]] == ["age", "income", "colour", "flag", "narrow", "size"]
    assert [port["name"] for port in shown["outputs"]] == ["label", "probability(no)", "probability(yes)"]
    assert shown["models"] == {"MiningModel": 1, "TreeModel": 2}


def test_what_no_output_depends_on_is_not_in_the_document(made):
    model = fitted(tree.DecisionTreeRegressor(max_depth=1), X, (X[:, 2] > 0) * 1.0)
    _, session = made(model, X)
    assert [name for name in session._inputs["X"] if name] == ["X_2"]


def test_votes_that_are_equal_go_to_the_first_label_as_in_the_source(made):
    labels = np.array(["second", "first"] * 20)
    model = fitted(ensemble.RandomForestClassifier(2, bootstrap=False, random_state=0), np.ones((40, 2)), labels)
    source, session = made(model, np.ones((3, 2)))
    given = session.run(source.golden)
    assert given["probability"].tolist() == [[0.5, 0.5]] * 3
    assert given["label"].tolist() == model.predict(np.ones((3, 2))).tolist() == ["first"] * 3


def test_everything_that_cannot_be_carried_is_listed_at_once(refused):
    steps = [
        preprocessing.FunctionTransformer(np.cbrt),
        preprocessing.QuantileTransformer(n_quantiles=4),
        svm.SVC(),
    ]
    told = refused(fitted(behind(*steps), X, THREE), X)
    assert all(word in told for word in ("cbrt", "QuantileTransformer", "between pairs of classes"))


@pytest.mark.parametrize(
    ("model", "data", "target", "word"),
    [
        (tree.DecisionTreeClassifier(), X, np.c_[BIT, BIT], "several targets"),
        (ensemble.GradientBoostingClassifier(n_estimators=2, loss="exponential"), X, SIDE, "exponential"),
        (xgb.XGBRegressor(booster="gblinear", **FEW), X, Y, "gblinear"),
        (lgb.LGBMRegressor(linear_tree=True, **LIGHT), X, Y, "linear_tree"),
        (behind(preprocessing.StandardScaler(), LOGISTIC()), X, np.array(["n\1o", "yes"])[BIT], "XML cannot write"),
        (decomposition.PCA(70), RANDOM.normal(size=(80, 80)), None, "4,900 weights|5,600 weights"),
    ],
)
def test_what_pmml_cannot_say_is_refused_with_a_remedy(model, data, target, word, refused):
    assert re.search(word, refused(fitted(model, data, target), data))


def test_a_model_without_an_example_is_refused(subject):
    source = subject(fitted(LOGISTIC(), X, BIT), X)
    source = type(source)(None, source.document.replace(signature=None), {}, native=source.native)
    (problem,) = catalog().load("transform", "skops-to-pmml").problems(source, step_of(source))
    assert "example" in problem.remedy


def test_a_tree_that_is_deeper_than_readers_go_is_refused(refused):
    rows = np.arange(400.0).reshape(-1, 1)
    deep = fitted(tree.DecisionTreeRegressor(splitter="best", random_state=0), rows, np.cumprod(np.full(400, 3.0**1.5)))
    assert deep.get_depth() > 200
    assert "levels" in refused(deep, rows)


@settings(max_examples=15)
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=64).filter(lambda value: abs(value) < 1e38),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
def test_a_threshold_divides_the_numbers_beside_it_as_the_source_does(values):
    points = np.unique(np.asarray(values, np.float32))
    if len(points) < 2:
        return
    model = fitted(tree.DecisionTreeRegressor(), points.reshape(-1, 1), np.arange(len(points)))
    cuts = model.tree_.threshold[model.tree_.children_left >= 0]
    near = np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), points, -points, [0.0, -0.0]])
    with np.errstate(over="ignore"):
        single = near.astype(np.float32)
        near = np.concatenate(
            [near, np.nextafter(single, np.float32(-np.inf)), np.nextafter(single, np.float32(np.inf))]
        )
    rows = near[np.abs(near) < 3e38].reshape(-1, 1).astype(np.float64)
    assert answers(model, rows)["prediction"].tolist() == model.predict(rows).tolist()


@settings(max_examples=15)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=6), min_size=2, max_size=5, unique=True
    )
)
def test_any_text_is_a_category_or_refused(words):
    table = pd.DataFrame({"word": pd.Series(words, dtype=object)})
    model = fitted(preprocessing.OrdinalEncoder(), table)
    try:
        given_ = answers(model, table)["transformed"]
    except UnsupportedModelError as error:
        assert "XML cannot write" in str(error)  # noqa: PT017 (only some words raise)
        assert any(ord(letter) < 32 or ord(letter) in {0xFFFE, 0xFFFF} for word in words for letter in word)
    else:
        assert given_.tolist() == model.transform(table).tolist()


def answers(model, data):
    """Convert without fixtures, which Hypothesis would share between examples."""
    held = catalog().for_object("format", model).name
    engine = catalog().row("runtime", "estimator").load()
    example = containers.example(data)
    document = Document(schema=1, format=held, runtime="estimator", entry={}, signature=example.signature)
    outputs = engine.wrap(model, document).run(example.arrays)
    fields = engine.describe_outputs(model, outputs, {})
    document = document.replace(signature=example.signature.replace(outputs=fields))
    source = Subject(files=None, document=document, golden=example.arrays, native=model)
    with tempfile.TemporaryDirectory() as folder:
        sink = DirectorySink(Path(folder))
        return _answered(source, sink)


def _answered(source, sink):
    written = catalog().load("transform", "skops-to-pmml").apply(source, step_of(source), sink)
    document = source.document.replace(format="pmml", entry=written.entry)
    return Jpmml().open(sink.files(), document, Allow()).run(source.golden)


@pytest.mark.slow
class TestSklearn(TransformConformance):
    name = "skops-to-pmml"

    def model(self):
        return fitted(behind(columns(), ensemble.RandomForestClassifier(3, max_depth=3, random_state=0)), TABLE, SIDE)

    def example(self):
        return TABLE

    def impossible(self):
        roots = compose.make_column_transformer((preprocessing.FunctionTransformer(np.cbrt), ["age", "income"]))
        return fitted(behind(roots, svm.SVC()), TABLE, THREE)


@pytest.mark.slow
class TestXGBoost(TransformConformance):
    name = "xgboost-to-pmml"

    def model(self):
        return fitted(xgb.XGBClassifier(max_depth=3, **FEW), X, BIT)

    def example(self):
        return X


@pytest.mark.slow
class TestLightGBM(TransformConformance):
    name = "lightgbm-to-pmml"

    def model(self):
        return fitted(lgb.LGBMRegressor(**LIGHT), X, Y)

    def example(self):
        return X


@pytest.mark.slow
class TestCatBoost(TransformConformance):
    name = "catboost-to-pmml"

    def model(self):
        return fitted(cb.CatBoostRegressor(**BOOST), X, Y)

    def example(self):
        return X
