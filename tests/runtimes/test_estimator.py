"""The runtime of estimators: which methods are called, and what their outputs become."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import DBSCAN, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from vitrify import containers
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import ModelError, SignatureError, UsageError
from vitrify.core.protocols import Allow, Session
from vitrify.formats.skops import Skops
from vitrify.runtimes.estimator import Estimator

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = (X[:, 0] > 0).astype(int)
RUNTIME = Estimator()


def opened(model, data):
    """Open a session as saving does it: call once, describe the outputs, then call with the whole signature."""
    example = containers.example(data)
    entry = RUNTIME.entry(model, example)
    assert all(key.startswith("call_") for key in entry)
    document = Document(schema=SCHEMA, format="skops", runtime="estimator", entry=entry, signature=example.signature)
    outputs = RUNTIME.wrap(model, document).run(example.arrays)
    fields = RUNTIME.describe_outputs(model, outputs, entry)
    document = document.replace(signature=example.signature.replace(outputs=fields))
    return RUNTIME.wrap(model, document), document


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (LogisticRegression(), ["label", "probability"]),
        (RidgeClassifier(), ["label", "score"]),
        (SVC(), ["label", "score"]),
        (LinearRegression(), ["prediction"]),
        (StandardScaler(), ["transformed"]),
        (KMeans(2, n_init=1), ["label"]),
        (IsolationForest(n_estimators=5), ["label", "score"]),
        (LocalOutlierFactor(novelty=True), ["label", "score"]),
        (GaussianMixture(2), ["label", "probability"]),
        (KernelDensity(), ["score"]),
        (make_pipeline(StandardScaler(), LogisticRegression()), ["label", "probability"]),
        (GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2), ["label", "probability"]),
        (GridSearchCV(RidgeClassifier(), {"alpha": [1.0]}, cv=2), ["label", "score"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_outputs_are_named_after_what_the_estimator_is(model, names):
    session, _ = opened(model.fit(X, Y), X)
    assert isinstance(session, Session)
    assert list(session.predict(X)) == names == [field.name for field in session.signature.outputs]


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (np.where(Y, "yes", "no"), "string"),
        (np.where(Y, "yes", "no").astype(object), "string"),
        (Y.astype(bool), "bool"),
        (Y.astype(np.int8), "int8"),
        (Y.astype(float), "float64"),
    ],
    ids=["text", "objects", "bool", "int8", "float"],
)
def test_labels_keep_their_type_and_classes_their_order(labels, dtype):
    model = RandomForestClassifier(3, random_state=0).fit(X, labels)
    session, document = opened(model, X)
    label, probability = document.signature.outputs
    assert label.dtype == dtype
    assert label.shape == ("batch",)
    assert probability.shape == ("batch", 2)
    assert label.classes == probability.classes == tuple(model.classes_.tolist())
    assert {type(value) for value in label.classes} <= {str, bool, int, float}
    outputs = session.predict(X)
    assert outputs["label"].tolist() == model.predict(X).tolist()
    assert outputs["label"].dtype == (object if dtype == "string" else np.dtype(dtype))
    np.testing.assert_array_equal(outputs["probability"], model.predict_proba(X))


def test_scores_have_classes_only_where_there_is_a_column_for_each():
    three = np.array(["a", "b", "c"] * 10)
    binary = opened(RidgeClassifier().fit(X, Y), X)[1].signature.output("score")
    several = opened(RidgeClassifier().fit(X, three), X)[1].signature.output("score")
    assert (binary.shape, binary.classes) == (("batch",), None)
    assert (several.shape, several.classes) == (("batch", 3), ("a", "b", "c"))


def test_probabilities_of_several_targets_are_an_output_each():
    both = np.c_[Y, np.array(["1", "2", "3"] * 10).astype(int)]
    model = MultiOutputClassifier(RandomForestClassifier(3, random_state=0)).fit(X, both)
    session, document = opened(model, X)
    outputs = session.predict(X)
    assert list(outputs) == ["label", "probability_0", "probability_1"]
    assert [field.classes for field in document.signature.outputs] == [None, (0, 1), (1, 2, 3)]
    np.testing.assert_array_equal(outputs["probability_1"], model.predict_proba(X)[1])


def test_sparse_results_become_dense_and_frames_become_arrays():
    frame = pd.DataFrame({"text": ["aa bb", "bb cc"] * 5})
    model = ColumnTransformer([("t", TfidfVectorizer(), "text")], sparse_threshold=1.0).fit(frame)
    np.testing.assert_array_equal(
        opened(model, frame)[0].predict(frame)["transformed"], model.transform(frame).toarray()
    )
    numbers = pd.DataFrame(X, columns=list("abc"))
    scaler = StandardScaler().set_output(transform="pandas").fit(numbers)
    np.testing.assert_array_equal(
        opened(scaler, numbers)[0].predict(numbers)["transformed"], scaler.transform(numbers).to_numpy()
    )


def test_a_frame_of_several_types_is_an_output_a_column():
    frame = pd.DataFrame({"name": ["a", None], "size": [1.5, 2.5]})
    outputs = opened(FunctionTransformer().fit(frame), frame)[0].predict(frame)
    assert list(outputs) == ["transformed.name", "transformed.size"]
    assert outputs["transformed.size"].tolist() == [1.5, 2.5]
    assert outputs["transformed.name"][0] == "a"


def test_inputs_reach_the_model_in_the_container_it_was_fitted_with():
    frame = pd.DataFrame({"kind": ["x", "y", None] * 10, "size": X[:, 0]})
    columns = ColumnTransformer(
        [("k", OneHotEncoder(handle_unknown="ignore"), ["kind"]), ("s", "passthrough", ["size"])]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(frame, Y)
    session, _ = opened(model, frame)
    expected = model.predict_proba(frame)
    np.testing.assert_array_equal(session.predict(frame[["size", "kind"]])["probability"], expected)
    np.testing.assert_array_equal(session.predict(frame.to_dict("records"))["probability"], expected)
    with pytest.raises(SignatureError, match="size"):
        session.predict(frame[["kind"]])


def test_an_empty_batch_gives_empty_outputs_without_asking_the_model():
    outputs = opened(RandomForestClassifier(3).fit(X, Y), X)[0].predict(X[:0])
    assert {name: array.shape for name, array in outputs.items()} == {"label": (0,), "probability": (0, 2)}


@pytest.mark.parametrize(
    "model", [LogisticRegression(), make_pipeline(StandardScaler(), SVC()), GridSearchCV(SVC(), {"C": [1.0]})]
)
def test_an_unfitted_model_is_refused_with_what_to_do(model):
    with pytest.raises(ModelError, match="never fitted") as caught:
        RUNTIME.entry(model, containers.example(X))
    assert "fit" in caught.value.remedy


def test_a_stateless_transformer_needs_no_fit():
    assert RUNTIME.entry(FunctionTransformer(), containers.example(X)) == {"call_methods": {"transformed": "transform"}}


def test_a_model_without_a_method_for_new_rows_is_refused():
    with pytest.raises(ModelError, match="DBSCAN has no predict"):
        RUNTIME.entry(DBSCAN().fit(X), containers.example(X))


def test_what_the_model_raises_is_wrapped_with_its_cause():
    session, _ = opened(LinearRegression().fit(X, Y), X)
    broken = X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ModelError, match="ValueError: Input X contains NaN") as caught:
        session.predict(broken)
    assert isinstance(caught.value.__cause__, ValueError)


def test_without_a_signature_there_is_no_session():
    document = Document(schema=SCHEMA, format="skops", runtime="estimator")
    with pytest.raises(UsageError, match="signature"):
        RUNTIME.wrap(LinearRegression().fit(X, Y), document)


def test_it_opens_what_a_format_wrote_through_the_catalog(store):
    model = LogisticRegression().fit(X, Y)
    document = opened(model, X)[1]
    with store.stage() as stage:
        written = Skops().write(model, stage, None)
        document = document.replace(entry={**written.entry, **document.entry})
        with RUNTIME.open(stage.files(), document, Allow()) as session:
            np.testing.assert_array_equal(session.predict(X)["probability"], model.predict_proba(X))


class Plain:
    """A model that knows nothing of scikit-learn."""

    def predict(self, rows):
        return rows.sum(axis=1)


def test_any_object_with_predict_is_called():
    session, document = opened(Plain(), X)
    assert document.entry == {"call_methods": {"prediction": "predict"}}
    np.testing.assert_array_equal(session.predict(X)["prediction"], X.sum(axis=1))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning:sklearn")
def test_boosters_are_called_like_estimators():
    lightgbm = pytest.importorskip("lightgbm")
    catboost = pytest.importorskip("catboost")
    xgboost = pytest.importorskip("xgboost")
    booster = lightgbm.train({"objective": "binary", "verbose": -1, "min_data": 1}, lightgbm.Dataset(X, Y), 3)
    assert list(opened(booster, X)[0].predict(X)) == ["prediction"]
    text = np.where(Y, "yes", "no")
    for model in (
        lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, text),
        catboost.CatBoostClassifier(iterations=3, verbose=False, allow_writing_files=False).fit(X, text),
        xgboost.XGBClassifier(n_estimators=3).fit(X, Y),
    ):
        session, document = opened(model, X)
        assert list(session.predict(X)) == ["label", "probability"]
        assert document.signature.output("probability").classes == tuple(model.classes_.tolist())
    unfitted = catboost.CatBoostClassifier()
    with pytest.raises(ModelError, match="never fitted"):
        RUNTIME.entry(unfitted, containers.example(X))
