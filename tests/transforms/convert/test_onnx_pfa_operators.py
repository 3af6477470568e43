"""From ONNX to PFA: each operator gives a row what ONNX Runtime gives it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from transforms.convert.pfa_graphs import BOOL, F32, F64, I64, ML, SPECIAL, assert_same, graph, whole

RNG = np.random.default_rng(0)


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
