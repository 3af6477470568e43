"""What all estimators share on their way to ONNX: labels, types, names, options and refusals."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from sklearn import (
    base,
    compose,
    ensemble,
    gaussian_process,
    linear_model,
    multioutput,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.feature_extraction import text

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.plan import Step
from vitrify.transforms.convert.sklearn_onnx import SklearnToOnnx

ROWS = 120


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
    facts = {prop.key: prop.value for prop in pair.proto.metadata_props}
    assert facts["vitrify.source_class"] == "Pipeline"
    assert facts["vitrify.precision"] == "source"


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
    return np.array([[cell * 2 for cell in row] for row in np.asarray(values)])


class ByHand(base.ClassifierMixin, base.BaseEstimator):
    """Python through and through."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.array([self.classes_[row.sum() > 0] for row in np.asarray(X)])


def test_every_unsupported_step_is_listed_at_once_with_its_place(table, labels, problems):
    columns = compose.ColumnTransformer(
        [
            ("bad", preprocessing.FunctionTransformer(double), ["age"]),
            ("good", preprocessing.StandardScaler(), ["income"]),
            ("lost", preprocessing.FunctionTransformer(double), ["narrow"]),
            ("words", text.TfidfVectorizer(strip_accents="unicode", analyzer="char"), "text"),
        ],
        sparse_threshold=0,
    )
    model = pipeline.Pipeline([("columns", columns), ("hand", ByHand())]).fit(table, labels)
    found = problems(model, table)
    assert [finding.place for finding in found] == [
        "pipeline.steps[0] 'columns'.transformers[0] 'bad' (FunctionTransformer)",
        "pipeline.steps[0] 'columns'.transformers[2] 'lost' (FunctionTransformer)",
        "pipeline.steps[0] 'columns'.transformers[3] 'words' (TfidfVectorizer)",
        "pipeline.steps[1] 'hand' (ByHand)",
    ]
    assert all(finding.remedy for finding in found)
    assert "strip_accents" in found[2].message


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
    "a class written in Python": pipeline.make_pipeline(
        preprocessing.FunctionTransformer(double), linear_model.Ridge()
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_refused_with_a_remedy(name, x, real, problems):
    (finding,) = problems(REFUSED[name].fit(x, real), x)
    assert finding.message
    assert finding.remedy
