"""Where one step cannot go to ONNX it stays as it is, the rest becomes graphs, and the whole predicts the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import compose, impute, linear_model, model_selection, pipeline, preprocessing
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction import text

import vitrify
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.plan import Step
from vitrify.core.protocols import Allow, Subject
from vitrify.formats._hybrid import recipe as recipes
from vitrify.runtimes.hybrid import Hybrid
from vitrify.testing.directory import DirectorySink
from vitrify.transforms.convert.hybrid import ToHybrid


class RowByRow(TransformerMixin, BaseEstimator):
    """Python through and through."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.array([[float(cell) * 2 for cell in row] for row in np.asarray(X)])


class Plain:
    """Of no library's classes: only what a pipeline asks for."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.array([[float(cell) * 2 for cell in row] for row in np.asarray(X)])


class RowsAsTable(RowByRow):
    def transform(self, X):
        return pd.DataFrame({"twice": [cell * 2 for cell in X["a"]], "more": [cell + 1 for cell in X["b"]]})


@pytest.fixture
def made(tmp_path):
    """Return a function that converts a live model and opens both, side by side."""

    def make(model, example):
        source = subject_of(model, example)
        step = Step(transform="skops-to-hybrid", source="skops", target="hybrid", fidelity="numeric")
        assert ToHybrid().problems(source, step) == ()
        sink = DirectorySink(tmp_path)
        written = ToHybrid().apply(source, step, sink)
        document = source.document.replace(format="hybrid", runtime="hybrid", entry=written.entry)
        session = Hybrid().open(sink.files(), document, Allow.of(written.names))
        native = catalog().load("runtime", "estimator").wrap(model, source.document)
        return written, recipes.read(sink.files()), native, session

    return make


def subject_of(model, example):
    from vitrify import containers

    runtime, given = catalog().load("runtime", "estimator"), containers.example(example)
    entry = runtime.entry(model, given)
    document = Document(schema=SCHEMA, format="skops", runtime="estimator", entry=entry, signature=given.signature)
    outputs = runtime.wrap(model, document).run(given.arrays)
    fields = runtime.describe_outputs(model, outputs, entry)
    document = document.replace(signature=given.signature.replace(outputs=fields))
    return Subject(files=None, document=document, golden=given.arrays, native=model)


def forms(recipe):
    """Return for each step its format, and the class of what stays native."""
    return [stage.document.format if stage.document else "join" for stage in recipe.steps]


def agree(native, session, data):
    expected, given = native.predict(data), session.predict(data)
    assert list(expected) == list(given)
    for name, want in expected.items():
        assert (given[name].dtype, given[name].shape) == (want.dtype, want.shape), name
        if want.dtype.kind == "f":
            np.testing.assert_allclose(given[name], want, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_array_equal(given[name], want)


def test_a_step_in_the_middle_stays_and_its_neighbours_are_fused(x, binary, made):
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(),
        preprocessing.MinMaxScaler(),
        RowByRow(),
        preprocessing.MaxAbsScaler(),
        linear_model.LogisticRegression(),
    ).fit(x, binary)
    written, recipe, native, session = made(model, x)
    assert forms(recipe) == ["onnx", "skops", "onnx"]
    agree(native, session, x)
    assert written.names == (f"{RowByRow.__module__}.RowByRow",)
    (note,) = [note for note in written.notes if "native" in note]
    assert "pipeline.rowbyrow (RowByRow) stays native, as skops" in note
    assert "rows one by one" in note
    session.close()


def test_first_and_last_steps_stay_too(x, real, made):
    first = pipeline.make_pipeline(RowByRow(), preprocessing.StandardScaler(), linear_model.Ridge()).fit(x, real)
    _, recipe, native, session = made(first, x)
    assert forms(recipe) == ["skops", "onnx"]
    agree(native, session, x)


def test_a_class_of_no_library_stays_as_a_pickle(x, real, made):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), Plain(), linear_model.Ridge()).fit(x, real)
    written, recipe, native, session = made(model, x)
    assert forms(recipe) == ["onnx", "pickle", "onnx"]
    assert written.names == (f"{Plain.__module__}.Plain",)
    agree(native, session, x)


def test_text_missing_values_and_nullable_columns_are_handed_on(rng, made):
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=80),
            "n": pd.array([1, None] * 40, dtype="Int64"),
            "t": rng.choice(["u", "v", None], 80),
            "w": rng.choice(["red wine", "blue sea", "a b c"], 80),
        }
    )
    numbers = pipeline.make_pipeline(impute.SimpleImputer(), RowByRow(), preprocessing.StandardScaler())
    words = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="most_frequent"), preprocessing.OneHotEncoder(handle_unknown="ignore")
    )
    columns = compose.ColumnTransformer(
        [("n", numbers, ["a", "n"]), ("t", words, ["t"]), ("w", text.TfidfVectorizer(), "w")]
    )
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression())
    _, recipe, native, session = made(model.fit(frame, frame["a"] > 0), frame)
    assert forms(recipe) == ["onnx", "onnx", "skops", "onnx", "join", "onnx"]
    agree(native, session, frame)


def test_only_the_inner_step_of_one_branch_stays(table, labels, made):
    columns = compose.ColumnTransformer(
        [
            ("scaled", preprocessing.StandardScaler(), ["age", "income"]),
            ("own", pipeline.make_pipeline(preprocessing.MinMaxScaler(), RowByRow()), ["narrow", "age"]),
            ("words", preprocessing.OneHotEncoder(sparse_output=False), ["colour"]),
            ("kept", "passthrough", ["flag"]),
        ]
    )
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression(max_iter=500)).fit(table, labels)
    _, recipe, native, session = made(model, table)
    assert forms(recipe) == ["onnx", "onnx", "skops", "join", "onnx"]
    kept = recipe.steps[2].document
    assert kept.entry["call_methods"] == {"transformed": "transform"}
    agree(native, session, table)


def test_branches_of_a_matrix_are_cut_out_of_it(x, real, made):
    union = pipeline.make_union(RowByRow(), preprocessing.StandardScaler())
    columns = compose.ColumnTransformer(
        [("a", preprocessing.StandardScaler(), [3, 0]), ("b", RowByRow(), [1]), ("c", union, [2, 1])]
    )
    _, recipe, native, session = made(pipeline.make_pipeline(columns, linear_model.Ridge()).fit(x, real), x)
    assert forms(recipe).count("skops") == 2
    agree(native, session, x)


def test_a_union_and_a_search_are_split(x, binary, made):
    union = pipeline.make_union(preprocessing.StandardScaler(), RowByRow(), preprocessing.MinMaxScaler())
    inner = pipeline.Pipeline([("union", union), ("model", linear_model.LogisticRegression(max_iter=500))])
    search = model_selection.GridSearchCV(inner, {"model__C": [0.1, 1.0]}, cv=2).fit(x, binary)
    _, recipe, native, session = made(search, x)
    assert forms(recipe) == ["onnx", "skops", "join", "onnx"]
    agree(native, session, x)


def test_a_frame_between_the_steps_is_handed_on_by_column(x, real, made):
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1]})
    model = pipeline.make_pipeline(RowsAsTable(), preprocessing.StandardScaler(), linear_model.Ridge())
    _, recipe, native, session = made(model.fit(frame, real), frame)
    assert forms(recipe) == ["skops", "onnx"]
    agree(native, session, frame)


def test_a_transformer_alone_gives_its_join(x, made):
    columns = compose.ColumnTransformer([("a", preprocessing.StandardScaler(), [0, 1]), ("b", RowByRow(), [2, 3])])
    _, recipe, native, session = made(columns.fit(x), x)
    assert forms(recipe) == ["onnx", "skops", "join"]
    agree(native, session, x)


STEP = Step(transform="skops-to-hybrid", source="skops", target="hybrid", fidelity="numeric")


def test_what_goes_to_onnx_as_a_whole_is_sent_there(x, real):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()).fit(x, real)
    (finding,) = ToHybrid().problems(subject_of(model, x), STEP)
    assert "every part" in finding.message
    assert "--to onnx" in finding.remedy


def test_where_nothing_goes_to_onnx_its_own_reasons_are_given(x):
    (finding,) = ToHybrid().problems(subject_of(RowByRow().fit(x), x), STEP)
    assert "rows one by one" in finding.message
    with pytest.raises(UnsupportedModelError, match="rows one by one"):
        ToHybrid().apply(subject_of(RowByRow().fit(x), x), STEP, sink=None)


def test_without_an_example_there_is_nothing_to_split_by(x, real):
    source = subject_of(linear_model.Ridge().fit(x, real), x)
    bare = Subject(files=None, document=source.document.replace(signature=None), golden={}, native=source.native)
    (finding,) = ToHybrid().problems(bare, STEP)
    assert "example" in finding.remedy


def test_the_same_model_gives_the_same_bytes(x, real, tmp_path):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), RowByRow(), linear_model.Ridge()).fit(x, real)
    contents = []
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        sink = DirectorySink(tmp_path / label)
        ToHybrid().apply(subject_of(model, x), STEP, sink)
        contents.append(sink.contents())
    assert contents[0] == contents[1]


SIDE = """
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class Slow(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.array([[float(cell) * 2 for cell in row] for row in np.asarray(X)])
"""


def test_through_the_whole_flow_and_onnx_points_the_way(side_module, x, binary):
    module = side_module("slow_steps", SIDE)
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), module.Slow(), linear_model.LogisticRegression())
    source = vitrify.save(model.fit(x, binary), "slow", example=x)
    names = ["slow_steps.Slow"]
    with pytest.raises(UnsupportedModelError, match="--to hybrid"):
        vitrify.convert(source, to="onnx", allow=names)
    result = vitrify.convert(source, to="hybrid", allow=names)
    assert result.document.code.names == tuple(names)
    assert result.document.code.modules == {"slow_steps": "code/slow_steps.py"}
    told = catalog().load("format", "hybrid").describe(result.files, result.document.entry)
    assert [step["format"] for step in told["steps"]] == ["onnx", "skops", "onnx"]
    assert told["needs"] == names
    with result.session(allow=names) as session:
        expected = source.session(allow=names).predict(x)
        np.testing.assert_array_equal(session.predict(x)["label"], expected["label"])
