"""What the evaluator of ``onnx`` would answer otherwise than the graph means is refused, all of it at once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, defs, helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.runtimes._onnx_meaning import problems
from vitrify.runtimes.onnx_reference import evaluator


def graph(*nodes, opset, domains=(), functions=(), inputs=("x",), outputs=("y",)):
    takes, gives = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names] for names in (inputs, outputs)
    )
    sets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*domain) for domain in domains)]
    return helper.make_model(
        helper.make_graph(list(nodes), "g", takes, gives), opset_imports=sets, ir_version=10, functions=functions
    )


def run(model, **feeds):
    return evaluator(model).evaluate(["y"], {name: np.float32(value) for name, value in feeds.items()})[0]


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "opset"),
    [
        ("Softmax", "x", {}, 12),
        ("Softmax", "x", {"axis": 1}, 11),
        ("LogSoftmax", "x", {}, 12),
        ("Hardmax", "x", {}, 11),
        ("RoiAlign", "xyz", {}, 10),
        ("Elu", "x", {"consumed_inputs": [0]}, 1),
        ("Concat", "xy", {}, 1),
        ("GRU", "xyz", {"output_sequence": 1, "hidden_size": 2}, 3),
    ],
)
def test_an_operator_that_meant_something_else_is_refused(name, inputs, attributes, opset):
    model = graph(helper.make_node(name, list(inputs), ["y"], **attributes), opset=opset, inputs=inputs)
    (problem,) = problems(model)
    assert problem.place == name
    assert problem.message.startswith("is of version ")
    with pytest.raises(UnsupportedModelError, match=name):
        evaluator(model)


@pytest.mark.parametrize(
    ("name", "attributes", "opset"),
    [("Softmax", {}, 13), ("Flatten", {}, 9), ("Gemm", {}, 11), ("Transpose", {}, 1), ("Sigmoid", {}, 6)],
)
def test_an_operator_that_only_takes_more_types_now_is_evaluated(name, attributes, opset):
    inputs = "xyz" if name == "Gemm" else "x"
    assert not problems(graph(helper.make_node(name, list(inputs), ["y"], **attributes), opset=opset, inputs=inputs))


def test_an_axis_of_an_old_sum_says_where_the_second_array_starts():
    x, y = np.arange(9).reshape(3, 3), np.array([0, 10, 20])
    old = helper.make_node("Add", ["x", "b"], ["y"], axis=0, broadcast=1)
    assert run(graph(old, opset=6, inputs="xb"), x=x, b=y).tolist() == (x + y[:, None]).tolist()
    new = helper.make_node("Add", ["x", "b"], ["y"])
    assert run(graph(new, opset=7, inputs="xb"), x=x, b=y).tolist() == (x + y).tolist()


def test_old_slopes_are_those_of_channels_even_where_the_last_axis_has_as_many():
    x, slopes = -np.ones((1, 2, 2)), [2, 3]
    node = helper.make_node("PRelu", ["x", "b"], ["y"])
    assert run(graph(node, opset=6, inputs="xb"), x=x, b=slopes).tolist() == [[[-2, -2], [-3, -3]]]
    assert run(graph(node, opset=7, inputs="xb"), x=x, b=slopes).tolist() == [[[-2, -3], [-2, -3]]]
    assert run(graph(node, opset=6, inputs="xb"), x=x, b=[4]).tolist() == [[[-4, -4], [-4, -4]]]


def test_everything_that_is_not_there_is_listed_at_once_wherever_it_stands():
    inside = helper.make_graph(
        [helper.make_node("Foo", ["x"], ["z"], domain="my.ops")],
        "branch",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "branch", [], list(inside.output))
    nodes = [
        helper.make_node("If", ["c"], ["a"], then_branch=inside, else_branch=other),
        helper.make_node("Own", ["a"], ["b"], domain="local"),
        helper.make_node("Relu", ["b"], ["d"], alpha=1.0),
        helper.make_node("RMSNormalization", ["d", "d"], ["y"]),
    ]
    scatter = helper.make_node("Scatter", ["p", "p", "p"], ["q"])
    own = helper.make_function("local", "Own", ["p"], ["q"], [scatter], [helper.make_opsetid("", 9)])
    found = problems(graph(*nodes, opset=20, domains=[("my.ops", 1), ("local", 1)], functions=[own]))
    assert [(one.place, one.message.partition(" of onnx")[0]) for one in found] == [
        ("RMSNormalization", "is not in operator set 20"),
        ("Relu", "has no attribute 'alpha'"),
        ("Scatter", "is not in the evaluator"),
        ("my.ops.Foo", "is no operator of the standard"),
    ]


def test_an_operator_set_that_the_package_does_not_know_is_refused():
    newest = defs.onnx_opset_version()
    assert not problems(graph(helper.make_node("Relu", ["x"], ["y"]), opset=newest))
    (problem,) = problems(graph(helper.make_node("Relu", ["x"], ["y"]), opset=newest + 1))
    assert f"up to {newest}" in problem.message


def test_a_domain_without_a_version_is_refused():
    model = graph(helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml"), opset=20)
    assert [one.message for one in problems(model)] == ["is not in operator set 0"]
