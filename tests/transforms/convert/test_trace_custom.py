"""Classes and functions of the user's own, as steps of a model: traced to a graph that answers as they do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import compose, linear_model, pipeline, preprocessing
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

import vitrify
from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError

ROWS = 120


class Centre(TransformerMixin, BaseEstimator):
    def __init__(self, slope=2.0):
        self.slope = slope

    def fit(self, X, y=None):
        self.middle_ = validate_data(self, X).mean(axis=0)
        return self

    def transform(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.where(self.middle_ < X, X - self.middle_, self.slope * X)


class Ratio(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        X = X.copy()
        X["ratio"] = X["age"] / (np.abs(X["income"]) + 1)
        X = X.assign(old=lambda frame: (frame["age"] > 50) * 1.0, capped=X["narrow"].clip(-1, 1).fillna(0))
        return X[["age", "ratio", "old", "capped"]].astype(float)


class Nearest(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.centres_ = np.stack([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def decision_function(self, X):
        X = check_array(X)
        return -((X[:, None, :] - self.centres_) ** 2).sum(-1)

    def predict(self, X):
        return self.classes_[self.decision_function(X).argmax(axis=1)]


class Weighted(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.weights_ = np.arange(X.shape[1]) + 0.5
        return self

    def predict(self, X):
        total = X[:, 0] * self.weights_[0]
        for index in range(1, X.shape[1]):
            total += X[:, index] * self.weights_[index]
        return total


class Renamed(linear_model.LogisticRegression):
    """Differs from its parent in how it is fitted only."""

    def fit(self, X, y):
        return super().fit(X, y)


class Batch(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return (X - X.mean(axis=0)) / X.std(axis=0)


class Counting(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.calls_ = 0
        return self

    def transform(self, X):
        self.calls_ += 1
        return X + self.calls_


def double(values):
    return values * 2


def distance(X, radius=6371.0):
    a = np.radians(X)
    half = np.sin((a[:, 2] - a[:, 0]) / 2) ** 2
    half = half + np.cos(a[:, 0]) * np.cos(a[:, 2]) * np.sin((a[:, 3] - a[:, 1]) / 2) ** 2
    return (2 * radius * np.arcsin(np.sqrt(half)))[:, None]


def loop(values):
    return np.array([[cell * 2 for cell in row] for row in np.asarray(values)])


def there(y):
    return np.log1p(y / 2)


def back(y):
    return np.expm1(y) * 2


def test_a_transformer_written_in_numpy_is_equal_to_the_bit(x, binary, convert):
    pair = convert(Centre().fit(x), x)
    assert pair.agree(x, ulps=0)
    assert any("Centre was traced" in note for note in pair.written.notes)
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), Centre(), linear_model.LogisticRegression())
    convert(model.fit(x, binary), x).agree(x, ulps=64)


def test_a_frame_goes_in_and_comes_out(table, labels, convert):
    columns = table[["age", "income", "narrow"]].copy()
    convert(Ratio().fit(columns), columns).agree(columns, ulps=0)
    model = pipeline.make_pipeline(Ratio(), preprocessing.StandardScaler(), linear_model.LogisticRegression())
    convert(model.fit(columns, labels), columns).agree(columns, ulps=64, atol=1e-12)


def test_predictors_are_traced_with_their_labels_and_scores(x, binary, three, real, convert):
    for y in (binary, three):
        pair = convert(Nearest().fit(x, y), x)
        assert set(pair.agree(x, ulps=0)) == {"label", "score"}
    convert(Weighted().fit(x, real), x).agree(x, ulps=0)
    voting = pipeline.make_pipeline(preprocessing.MinMaxScaler(), Nearest())
    convert(voting.fit(x, binary), x).agree(x, ulps=0)


class Doubtful(ClassifierMixin, BaseEstimator):
    """Says -1, which is none of its classes, where a row is far away."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.where(np.abs(X[:, 0]) > 50, -1, np.where(X[:, 0] > 0, 7, 3))


def test_a_label_that_is_none_of_the_classes_stays_what_it_is(x, convert):
    pair = convert(Doubtful().fit(x, np.where(x[:, 0] > 0, 7, 3)), x)
    assert pair.graph.predict(x * 1000)["label"].tolist() == pair.source.predict(x * 1000)["label"].tolist()
    assert -1 in pair.graph.predict(x * 1000)["label"]


@pytest.mark.parametrize("place", [0, 1])
def test_a_function_put_on_one_object_is_refused(place, x, binary, problems):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()).fit(x, binary)
    setattr(model[place], "predict" if place else "transform", lambda X: X * 9)
    (found,) = problems(model, x)
    assert "put on this one object" in found.message
    assert f"steps[{place}]" in found.place


def test_a_class_that_only_fits_otherwise_is_converted_as_its_parent(x, binary, convert):
    pair = convert(Renamed().fit(x, binary), x)
    pair.agree(x, ulps=64)
    assert not pair.written.notes


def test_functions_are_traced_with_their_arguments(x, real, convert):
    convert(preprocessing.FunctionTransformer(double).fit(x), x).agree(x, ulps=0)
    pair = convert(preprocessing.FunctionTransformer(distance, kw_args={"radius": 1.0}).fit(x), x)
    pair.agree(x, ulps=64)
    target = compose.TransformedTargetRegressor(linear_model.Ridge(), func=there, inverse_func=back)
    convert(target.fit(x, np.abs(real)), x).agree(x, ulps=256)


def test_a_function_of_some_columns_of_a_table(table, real, convert):
    columns = compose.ColumnTransformer(
        [
            ("twice", preprocessing.FunctionTransformer(double), ["age", "income"]),
            ("one", preprocessing.FunctionTransformer(lambda frame: np.log1p(frame[["age"]])), ["age", "narrow"]),
        ]
    )
    convert(columns.fit(table), table).agree(table, ulps=4)


def test_tracing_leaves_no_mark_on_the_model(x, problems):
    model = Centre().fit(x)
    before = dict(vars(model))
    problems(model, x)
    assert {name: type(value) for name, value in vars(model).items()} == {
        name: type(value) for name, value in before.items()
    }


def test_every_refusal_says_what_and_where(x, real, problems):
    model = pipeline.make_pipeline(Batch(), preprocessing.FunctionTransformer(loop), linear_model.Ridge()).fit(x, real)
    first, second = problems(model, x)
    assert first.place == "pipeline.steps[0] 'batch' (Batch)"
    assert "Batch.transform" in first.message
    assert "test_trace_custom.py, line" in first.message
    assert "other rows" in first.message
    assert "fit" in first.remedy
    assert "loop" in second.message
    assert "rows one by one" in second.message


def test_a_hidden_state_is_refused(x, problems):
    (finding,) = problems(Counting().fit(x), x)
    assert "second time" in finding.message


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.array([1, None] * 60, dtype="Int64"), "rules of its own"),
        (pd.Categorical(["a", "b"] * 60), "rules of its own"),
    ],
    ids=["nullable", "categorical"],
)
def test_columns_with_rules_of_their_own_are_refused(column, message, problems):
    frame = pd.DataFrame({"a": column, "b": np.arange(120.0)})
    step = preprocessing.FunctionTransformer(lambda frame: frame[["b"]] * 2)
    (finding,) = problems(step.fit(frame), frame)
    assert message in finding.message


FRAMES = {
    "a mean of a column": lambda frame: frame[["age"]] - frame["age"].mean(),
    "picked rows": lambda frame: frame[frame["age"] > 30],
    "integers divided as pandas does": lambda frame: (frame[["age"]] // 0) * 1.0,
    "applied row by row": lambda frame: frame.apply(lambda row: row * 2, axis=1),
    "a sum that leaves nan out": lambda frame: frame[["age", "income"]].sum(axis=1),
}


@pytest.mark.parametrize("name", FRAMES)
def test_what_pandas_does_by_rules_of_its_own_is_refused(name, table, problems):
    step = preprocessing.FunctionTransformer(FRAMES[name])
    frame = table[["age", "income"]]
    found = problems(step.fit(frame), frame)
    assert len(found) == 1
    assert "to_numpy" in found[0].remedy or "rows" in found[0].remedy


def test_f17_two_functions_and_a_target_in_one_pipeline_are_proven(side_module):
    """Field case F17, through the whole flow, with a class of a side module (F21)."""
    module = side_module(
        "house_prices",
        """
        import numpy as np
        from sklearn.base import BaseEstimator, TransformerMixin

        class Areas(TransformerMixin, BaseEstimator):
            def fit(self, X, y=None):
                self.largest_ = np.asarray(X).max(axis=0)
                return self

            def transform(self, X):
                X = np.asarray(X, dtype=float)
                share = X / self.largest_
                return np.concatenate([share, np.clip(share, 0.2, 0.8) ** 2], axis=1)
        """,
    )
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 100, size=(200, 3))
    y = x[:, 0] * 3 + 1
    steps = pipeline.make_pipeline(preprocessing.FunctionTransformer(np.log1p), module.Areas(), linear_model.Ridge())
    model = compose.TransformedTargetRegressor(steps, func=np.log, inverse_func=np.exp).fit(x, y)
    source = vitrify.save(model, "prices", example=x)
    assert source.document.code.names == ("house_prices.Areas",)
    result = vitrify.convert(source, to="onnx", allow=["house_prices.Areas"])
    assert result.document.format == "onnx"
    assert result.document.code.names == ()
    assert not any(name.endswith(".py") for name in result.files.names())


def test_an_object_without_predict_or_transform_is_refused(x, subject):
    class Scores:
        def score_samples(self, X):
            return np.asarray(X)[:, 0]

    from vitrify.transforms.convert._building.graph import Graph
    from vitrify.transforms.convert._building.steps import Steps

    steps = Steps(Graph(21))
    steps.run(Scores(), steps.graph.input("x", np.dtype(float), ("batch", 4)), "scores")
    assert "no method to trace" in steps.problems[0].message


def test_the_roads_of_pickles_are_there():
    for name in ("pickle-to-onnx", "pickle-to-skops", "pickle-to-hybrid"):
        assert catalog().load("transform", name)


def test_apply_refuses_what_problems_lists(x, real, subject):
    from vitrify.core.plan import Step
    from vitrify.transforms.convert.sklearn_onnx import SklearnToOnnx

    step = Step(transform="skops-to-onnx", source="skops", target="onnx", fidelity="numeric")
    with pytest.raises(UnsupportedModelError, match="Batch"):
        SklearnToOnnx().apply(subject(Batch().fit(x), x), step, sink=None)
