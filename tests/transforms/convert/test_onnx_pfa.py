"""From ONNX to PFA: each operator gives a row what ONNX Runtime gives it, and whole models are proven."""

from __future__ import annotations

import json

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import vitrify
from vitrify.checks.parity import Parity
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.signature import Field, Signature
from vitrify.formats.pfa import PfaDocument
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.runtimes.pfa import PfaRuntime
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert._pfa.write import written

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(colour=RNG.choice(["red", "green", "blue"], 60))
F32, F64, I64, BOOL = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL
ML = "ai.onnx.ml"


@pytest.fixture
def from_onnx(monkeypatch):
    save = vitrify.save

    def chain(model, name, **options):
        return vitrify.convert(save(model, name, **options), to="onnx", name=name, checks=())

    monkeypatch.setattr(vitrify, "save", chain)


class TestOnnxToPfa(TransformConformance):
    name = "onnx-to-pfa"

    @pytest.fixture(autouse=True)
    def through_onnx(self, from_onnx, monkeypatch):
        convert = vitrify.convert
        monkeypatch.setattr(
            vitrify, "convert", lambda *given, **more: convert(*given, **{"checks": [Parity(rows=300)], **more})
        )

    def model(self):
        return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)

    def example(self):
        return X

    def impossible(self):
        return KNeighborsClassifier(3).fit(X, Y)


def columns():
    return make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), (StandardScaler(), ["a", "b"]))


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3), torch.nn.Softmax(-1)
    ).eval()


MODELS = {
    "text": lambda: (make_pipeline(columns(), LogisticRegression()).fit(FRAME, np.where(Y, "yes", "no")), FRAME),
    "forest": lambda: (RandomForestClassifier(6, random_state=0).fit(X, THREE), X),
    "boosted": lambda: (GradientBoostingClassifier(n_estimators=4).fit(X, THREE), X),
    "xgboost": lambda: (xgb.XGBClassifier(n_estimators=4, n_jobs=1).fit(X, THREE), X),
    "lightgbm": lambda: (lgb.LGBMRegressor(n_estimators=4, verbose=-1, min_child_samples=3).fit(X, X[:, 0]), X),
    "network": lambda: (net(), torch.tensor(X, dtype=torch.float32)),
    "clusters": lambda: (KMeans(3, n_init=1, random_state=0).fit(X), X),
    "bayes": lambda: (GaussianNB().fit(X, THREE), X),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "text" else pytest.mark.slow) for name in MODELS]
)
def test_each_kind_of_model_is_proven_by_parity(name):
    model, example = MODELS[name]()
    saved = vitrify.save(model, name, example=example)
    result = vitrify.convert(saved, to="pfa", checks=[Parity(rows=300)])
    assert (result.document.format, result.document.runtime) == ("pfa", "pfa")


# Operators


def graph(nodes, inputs, outputs, constants=()):
    value = helper.make_tensor_value_info
    made = helper.make_graph(
        nodes,
        "graph",
        [value(name, kind, ["n", *sizes]) for name, kind, sizes in inputs],
        [value(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 5)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def fields(arrays):
    names = {"O": "string"}
    return tuple(
        Field(
            name=name, dtype=names.get(one.dtype.kind, one.dtype.name), shape=("batch", *one.shape[1:]), nullable=True
        )
        for name, one in arrays.items()
    )


def both(model, arrays):
    """Return what ONNX Runtime and our engine answer."""
    made = written(model)
    content = json.loads(json.dumps(made.content, allow_nan=False))
    signature = Signature(inputs=fields(arrays), outputs=())
    source = Document(schema=SCHEMA, format="onnx", runtime="onnxruntime", entry={}, signature=signature)
    entry = {"inputs": made.inputs, "outputs": made.outputs}
    ours = PfaRuntime().wrap(PfaDocument(content), source.replace(entry=entry)).run(arrays)
    return OnnxRuntime().wrap(model, source).run(arrays), ours


def assert_same(model, arrays, ulps=0, largest_term=0.0):
    """Compare answers; where terms cancel, what is lost is measured by the largest of them."""
    expected, given = both(model, arrays)
    assert list(expected) == list(given)
    for name, want in expected.items():
        have = given[name]
        assert (have.shape, have.dtype) == (want.shape, want.dtype), name
        if want.dtype.kind == "f":
            eps = np.finfo(want.dtype).eps
            np.testing.assert_allclose(have, want, rtol=ulps * eps, atol=max(ulps * eps * largest_term, 2e-7))
        else:
            assert have.tolist() == want.tolist()


SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, 0.5, np.nan, np.inf, -np.inf, 1e30, -3.0, 7.0, 2.0])


def one(kind, dtype=F32, gives=None, ulps=0, constants=(), **attributes):
    """Return a case: one operator on special numbers."""
    domain = attributes.pop("domain", "")
    names = ["x", *dict(constants)]
    node = helper.make_node(kind, names, ["y"], domain=domain, **attributes)
    return pytest.param(([node], [("x", dtype, [4])], [("y", gives or dtype)], constants), ulps, id=f"{kind}-{dtype}")


ELEMENTWISE = [
    *(
        one(kind, dtype)
        for kind in ("Neg", "Abs", "Floor", "Ceil", "Round", "Relu", "Reciprocal")
        for dtype in (F32, F64)
    ),
    *(one(kind, ulps=4) for kind in ("Exp", "Sqrt", "Tanh", "Sigmoid", "Erf", "Log", "Sin")),
    *(one(kind, F64, ulps=4) for kind in ("Exp", "Sqrt", "Log", "Tanh")),
    *(one(kind, gives=BOOL) for kind in ("IsNaN", "IsInf")),
    one("Sign"),
    one("IsInf", gives=BOOL, detect_negative=0),
    one("LeakyRelu", alpha=0.1),
    *(
        one(kind, dtype, constants={"c": np.array([2, -1.5, 0.3, 7], np.float32 if dtype == F32 else np.float64)})
        for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min")
        for dtype in (F32, F64)
    ),
    *(
        one(kind, gives=BOOL, constants={"c": np.array([[1.5]], np.float32)})
        for kind in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    ),
    one("Pow", constants={"c": np.array(2, np.float32)}),
    one("Pow", F64, ulps=4, constants={"c": np.array(0.5)}),
    one("Mod", F64, fmod=1, constants={"c": np.array(2.0)}),
    one("Clip", constants={"a": np.array(-1, np.float32), "b": np.array(2, np.float32)}),
    one("Cast", gives=BOOL, to=BOOL),
    one("Cast", gives=F64, to=F64),
    one("Cast", F64, gives=F32, to=F32),
    one("Gelu", ulps=4),
    one("Softplus", ulps=4),
    one("HardSigmoid", ulps=1),
    one("Elu", ulps=4),
]


@pytest.mark.parametrize(("case", "ulps"), ELEMENTWISE)
def test_an_operator_of_each_element_does_what_onnx_runtime_does(case, ulps):
    model = graph(*case)
    kind = {F32: np.float32, F64: np.float64}[model.graph.input[0].type.tensor_type.elem_type]
    with np.errstate(all="ignore"):
        values = SPECIAL.reshape(3, 4).astype(kind)
    if model.graph.node[0].op_type in {"Gelu", "Softplus", "Elu", "Sin", "HardSigmoid"}:
        values = np.where(np.isfinite(values) & (np.abs(values) < 1e3), values, kind(0.25))
    assert_same(model, {"x": values}, ulps, largest_term=1.0 if model.graph.node[0].op_type == "Gelu" else 0.0)


def layout(kind, constants=(), shape=(2, 3), outputs=1, **attributes):
    names = [f"y{at}" for at in range(outputs)]
    node = helper.make_node(kind, ["x", *dict(constants)], names, **attributes)
    case = ([node], [("x", F32, list(shape))], [(name, F32) for name in names], constants)
    return pytest.param(case, id=f"{kind}-{shape}")


def whole(*numbers):
    return np.array(numbers, np.int64)


LAYOUT = [
    layout("Transpose", perm=[0, 2, 1]),
    layout("Reshape", {"s": whole(0, 6)}),
    layout("Reshape", {"s": whole(-1, 3, 2)}),
    layout("Flatten", axis=1),
    layout("Unsqueeze", {"a": whole(1)}),
    layout("Squeeze", {"a": whole(2)}, shape=(3, 1)),
    layout("Slice", {"b": whole(1), "e": whole(3), "a": whole(2)}),
    layout("Slice", {"b": whole(-1), "e": whole(-4), "a": whole(2), "t": whole(-1)}),
    layout("Split", {"s": whole(1, 2)}, outputs=2, axis=2),
    layout("Gather", {"i": whole(2, 0, -1)}, axis=2),
    layout("Gather", {"i": np.array(1)}, axis=1),
    layout("Tile", {"r": whole(1, 2, 1)}),
    layout("Expand", {"s": whole(1, 2, 3)}, shape=(1, 3)),
    layout("Pad", {"p": whole(0, 0, 1, 0, 1, 0), "v": np.array(7, np.float32)}),
    layout("ReduceSum", {"a": whole(1)}, keepdims=0),
    layout("ReduceSum", {"a": whole(1, 2)}),
    layout("ReduceMax", {"a": whole(2)}, keepdims=0),
    layout("ReduceMin", {"a": whole(-1)}),
    layout("ReduceProd", {"a": whole(-1)}),
    layout("CumSum", {"a": np.array(1)}),
    layout("CumSum", {"a": np.array(2)}),
    layout("MatMul", {"w": np.eye(3, 2, dtype=np.float32)}),
    layout("MatMul", {"w": np.array([1, 0, 2], np.float32)}),
]


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_shares_along_any_axis_are_onnx_runtime_s(kind, axis):
    node = helper.make_node(kind, ["x"], ["y"], axis=axis)
    x = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    assert_same(graph([node], [("x", F32, [2, 3])], [("y", F32)]), {"x": x}, ulps=8)


@pytest.mark.parametrize("axis", [1, -1])
def test_a_layer_is_normalised_as_onnx_runtime_does(axis):
    shape = [2, 3][axis % 3 - 1 :]
    constants = {"s": RNG.normal(size=shape).astype(np.float32), "b": RNG.normal(size=shape).astype(np.float32)}
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"], axis=axis)
    x = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    assert_same(graph([node], [("x", F32, [2, 3])], [("y", F32)], constants), {"x": x}, ulps=8, largest_term=2.0)


@pytest.mark.parametrize("case", LAYOUT)
def test_an_operator_that_moves_or_joins_elements_does_what_onnx_runtime_does(case):
    sizes = case[1][0][2]
    count = int(np.prod(sizes))
    values = np.arange(3.0 * count, dtype=np.float32).reshape(3, *sizes)
    assert_same(graph(*case), {"x": values})


def test_several_rows_are_joined_chosen_and_compared():
    nodes = [
        helper.make_node("Concat", ["x", "y"], ["c"], axis=1),
        helper.make_node("Greater", ["x", "y"], ["g"]),
        helper.make_node("Where", ["g", "x", "y"], ["w"]),
        helper.make_node("Sum", ["x", "y", "k"], ["s"]),
        helper.make_node("ArgMax", ["c"], ["m"], axis=1, keepdims=0),
        helper.make_node("TopK", ["c", "two"], ["v", "i"], axis=1),
        helper.make_node("GatherElements", ["c", "i"], ["p"], axis=1),
        helper.make_node("MatMul", ["a", "b"], ["ab"]),
        helper.make_node("Unsqueeze", ["x", "one"], ["a"]),
        helper.make_node("Unsqueeze", ["y", "last"], ["b"]),
        helper.make_node("Softmax", ["c"], ["soft"], axis=1),
    ]
    order = [0, 1, 2, 3, 4, 5, 6, 8, 9, 7, 10]
    outputs = [
        ("c", F32),
        ("w", F32),
        ("s", F32),
        ("m", I64),
        ("v", F32),
        ("i", I64),
        ("p", F32),
        ("ab", F32),
        ("soft", F32),
    ]
    constants = {"k": np.array([[5.0, 1, 2]], np.float32), "two": whole(2), "one": whole(1), "last": whole(2)}
    model = graph([nodes[at] for at in order], [("x", F32, [3]), ("y", F32, [3])], outputs, constants)
    x, y = RNG.normal(size=(2, 5, 3)).astype(np.float32)
    assert_same(model, {"x": x, "y": y}, ulps=4, largest_term=np.abs(x * y).max())


def test_what_is_made_by_the_number_of_rows_is_a_constant_of_each_row():
    nodes = [
        helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
        helper.make_node("Concat", ["rows", "two"], ["shape"], axis=0),
        helper.make_node("Expand", ["k", "shape"], ["wide"]),
        helper.make_node("Concat", ["x", "wide"], ["y"], axis=1),
        helper.make_node("Identity", ["wide"], ["z"]),
    ]
    constants = {"two": whole(2), "k": np.array([[4.0, 5.0]], np.float32)}
    model = graph(nodes, [("x", F32, [1])], [("y", F32), ("z", F32)], constants)
    assert_same(model, {"x": np.arange(3.0, dtype=np.float32).reshape(3, 1)})


def test_text_is_compared_joined_and_encoded():
    nodes = [
        helper.make_node("Equal", ["t", "red"], ["e"]),
        helper.make_node("StringConcat", ["t", "red"], ["j"]),
        helper.make_node("LabelEncoder", ["t"], ["n"], domain=ML, keys_strings=["red", "ünï"], values_int64s=[3, 4]),
        helper.make_node("LabelEncoder", ["n"], ["b"], domain=ML, keys_int64s=[3], values_strings=["back"]),
        helper.make_node("StringNormalizer", ["v"], ["u"], case_change_action="UPPER"),
    ]
    outputs = [("e", BOOL), ("j", TensorProto.STRING), ("n", I64), ("b", TensorProto.STRING)]
    constants = {"red": np.array(["red"], object)}
    model = graph(nodes[:4], [("t", TensorProto.STRING, [2])], outputs, constants)
    words = np.array([["red", "ünï"], ["", "blue"]], object)
    assert_same(model, {"t": words})


@pytest.mark.parametrize("keys", [[0.0, 1.5, np.nan], [1.5, np.inf]])
def test_numbers_are_encoded_missing_ones_too(keys):
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain=ML, keys_floats=keys, values_floats=[1.0, 2.0, 3.0][: len(keys)]
    )
    model = graph([node], [("x", F32, [4])], [("y", F32)])
    assert_same(model, {"x": SPECIAL.reshape(3, 4).astype(np.float32)})


def test_places_that_the_data_decides_are_looked_up():
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["y"]),
        helper.make_node("Gather", ["list", "i"], ["z"]),
        helper.make_node("OneHot", ["i", "depth", "values"], ["h"]),
    ]
    constants = {
        "table": np.arange(6, dtype=np.float32).reshape(3, 2),
        "list": np.array(["a", "b", "c"], object),
        "depth": np.array(3, np.int64),
        "values": np.array([0, 1], np.float32),
    }
    outputs = [("y", F32), ("z", TensorProto.STRING), ("h", F32)]
    for sizes in ([], [2]):
        model = graph(nodes, [("i", I64, sizes)], outputs, constants)
        assert_same(model, {"i": np.array([0, -1, 2, 1], np.int64).reshape(-1, *sizes)})


# Trees


def stump(mode, missing, split=1.5, members=None):
    attributes = {
        "nodes_splits": numpy_helper.from_array(np.array([split, 0.0], np.float32)),
        "nodes_modes": numpy_helper.from_array(np.array([mode, 0], np.uint8)),
        "nodes_featureids": [0, 1],
        "nodes_missing_value_tracks_true": [missing, 0],
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "tree_roots": [0],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.array([1.0, 2.0, 4.0], np.float32)),
        "n_targets": 2,
    }
    if members is not None:
        attributes["membership_values"] = numpy_helper.from_array(np.array([*members, np.nan], np.float32))
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain=ML, **attributes)
    return graph([node], [("x", F32, [2])], [("y", F32)])


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("mode", range(6))
def test_a_tree_s_node_goes_the_same_way_missing_or_not(mode, missing):
    first = np.array([1.5, np.nextafter(np.float32(1.5), np.float32(2)), 1.0, np.nan, 2.0, -5.0, 1e30], np.float32)
    rows = np.stack([np.repeat(first, 2), np.tile([-1.0, 1.0], len(first))], 1).astype(np.float32)
    assert_same(stump(mode, missing), {"x": rows})


def test_a_node_asks_whether_a_value_is_in_a_set():
    rows = np.array([[1, 0], [2, -1], [3, 1], [7, 1], [-1, 1]], np.float32)
    assert_same(stump(6, 0, members=(1.0, 3.0)), {"x": rows})


def random_forest(rng, trees, depth, targets):
    """Return a graph of complete trees with random features, modes and ways for what is missing."""
    inner, leaves = 2**depth - 1, 2**depth
    count, children = trees * inner, np.arange(inner)
    is_leaf = np.tile(children >= 2 ** (depth - 1) - 1, trees)
    start, first = (np.repeat(np.arange(trees) * size, inner) for size in (inner, leaves))
    left = np.tile(2 * children + 1, trees)
    left = np.where(is_leaf, left - inner + first, left + start)
    own = (
        np.repeat(np.arange(trees) % targets, leaves)
        if rng.random() < 0.5
        else rng.integers(0, targets, trees * leaves)
    )
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=ML,
        nodes_splits=numpy_helper.from_array(rng.integers(-2, 3, count).astype(np.float32)),
        nodes_modes=numpy_helper.from_array(np.full(count, rng.integers(0, 4), np.uint8)),
        nodes_featureids=rng.integers(0, 3, count).tolist(),
        nodes_missing_value_tracks_true=rng.integers(0, 2, count).tolist(),
        nodes_truenodeids=left.tolist(),
        nodes_trueleafs=is_leaf.astype(int).tolist(),
        nodes_falsenodeids=(left + 1).tolist(),
        nodes_falseleafs=is_leaf.astype(int).tolist(),
        tree_roots=(np.arange(trees) * inner).tolist(),
        leaf_targetids=own.tolist(),
        leaf_weights=numpy_helper.from_array(rng.integers(-8, 9, trees * leaves).astype(np.float32)),
        n_targets=targets,
    )
    return graph([node], [("x", F32, [3])], [("y", F32)])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), trees=st.integers(1, 5), depth=st.integers(1, 4), targets=st.integers(1, 3))
def test_forests_of_any_shape_answer_alike(seed, trees, depth, targets):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (25, 3)).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = np.nan
    assert_same(random_forest(rng, trees, depth, targets), {"x": x})


# What is refused


@pytest.mark.parametrize(
    ("nodes", "constants", "words"),
    [
        ([helper.make_node("ReduceSum", ["x", "a"], ["y"])], {"a": whole(0)}, "several rows"),
        ([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], {}, "one row to another"),
        ([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], {}, "one row to another"),
        ([helper.make_node("Reshape", ["x", "s"], ["y"])], {"s": whole(-1)}, "one row to another"),
        ([helper.make_node("Add", ["x", "c"], ["y"])], {"c": np.ones((5, 4), np.float32)}, "constant"),
        ([helper.make_node("MatMul", ["c", "x"], ["y"])], {"c": np.ones((2, 3), np.float32)}, "constant"),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)], {}, "float16"),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT8)], {}, "int8"),
    ],
)
def test_a_graph_that_mixes_rows_or_has_no_type_there_is_refused(nodes, constants, words):
    with pytest.raises(UnsupportedModelError, match=words):
        written(graph(nodes, [("x", F32, [4])], [("y", F32)], constants))


def test_every_operator_that_is_not_known_is_listed_at_once():
    nodes = [
        helper.make_node("NonMaxSuppression", ["x", "x"], ["a"]),
        helper.make_node("Det", ["x"], ["b"]),
    ]
    with pytest.raises(UnsupportedModelError) as caught:
        written(graph(nodes, [("x", F32, [4, 4])], [("a", I64), ("b", F32)]))
    assert [one.place for one in caught.value.problems] == ["Det", "NonMaxSuppression"]


def test_inputs_that_are_no_rows_are_listed_at_once():
    value = helper.make_tensor_value_info
    inputs = [value("fixed", F32, [1, 3]), value("loose", F32, ["n", "m"]), value("half", TensorProto.FLOAT16, ["n"])]
    node = helper.make_node("Identity", ["loose"], ["y"])
    made = helper.make_graph([node], "g", inputs, [value("y", F32, None)])
    with pytest.raises(UnsupportedModelError) as caught:
        written(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    assert [one.place for one in caught.value.problems] == ["fixed", "loose", "half"]


def test_names_that_avro_does_not_allow_are_changed_and_told_apart():
    nodes = [helper.make_node("Add", ["a b", "a.b"], ["1:0"])]
    made = written(graph(nodes, [("a b", F32, []), ("a.b", F32, [])], [("1:0", F32)]))
    assert made.inputs == {"a b": "a_b", "a.b": "a_b_2"}
    assert made.outputs == {"1:0": "_1_0"}


def test_only_what_the_answer_needs_is_written():
    nodes = [helper.make_node("Mul", ["x", "c"], ["unused"]), helper.make_node("Neg", ["x"], ["y"])]
    content = written(graph(nodes, [("x", F32, [4])], [("y", F32)], {"c": np.ones((1, 4), np.float32)})).content
    assert "cells" not in content
    assert len(content["action"]) == 3


def test_a_constant_that_is_not_finite_is_computed_for_json_has_none():
    constants = {"c": np.array([[np.inf, -np.inf, np.nan, 1]], np.float32)}
    model = graph([helper.make_node("Add", ["x", "c"], ["y"])], [("x", F32, [4])], [("y", F32)], constants)
    assert_same(model, {"x": np.ones((2, 4), np.float32)})
