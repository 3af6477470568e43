"""The kinds of fault that real models showed, each on the smallest model that has it."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vitrify
from real.published import proof
from vitrify.checks.parity import Parity
from vitrify.formats.onnx import shape

ROWS = {"x": np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)}


def model(nodes, sizes, constants=(), properties=None):
    """Return a graph from x to y, both float32, in opset 15."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in ("x", "y")]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    helper.set_model_props(made, properties or {})
    return made


def packed(tmp_path, made):
    (path := tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    return vitrify.pack(path)


@pytest.mark.parametrize("unknown", ["?", -1])
def test_a_size_written_as_unknown_has_a_name_of_its_own(tmp_path, unknown):
    artifact = packed(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], ["N", unknown, unknown]))
    assert artifact.signature.input("x").shape == ("batch", "x_1", "x_2")
    (answer,) = artifact.session().run({"x": np.full((2, 3, 5), -1, np.float32)}).values()
    assert answer.shape == (2, 3, 5)


@pytest.mark.parametrize("target", ["onnx", "openvino"])
def test_a_model_s_own_properties_go_along(tmp_path, target):
    node = helper.make_node("Relu", ["x"], ["y"])
    artifact = packed(tmp_path, model([node], ["N", 6], properties={"vocabulary": "a b c"}))
    made = vitrify.convert(artifact, target, opset=17, samples=ROWS, checks=[Parity(rows=8)])
    assert any(b"a b c" in made.files.read(name) for name in made.files.names())


def narrow_sizes():
    """A size that is cast to int32 and back before it is used, and a slice that ends at 1e9, as tf2onnx writes them."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["narrow"], to=TensorProto.INT32),
        helper.make_node("Slice", ["narrow", "zero", "one", "zero"], ["rows"]),
        helper.make_node("Concat", ["rows", "six"], ["wanted"], axis=0),
        helper.make_node("Cast", ["wanted"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Expand", ["weight", "wide"], ["weights"]),
        helper.make_node("Slice", ["x", "begins", "ends", "axes"], ["all"]),
        helper.make_node("Mul", ["all", "weights"], ["y"]),
    ]
    whole = {"zero": [0], "one": [1], "begins": [0, 0], "ends": [10**9, 10**9], "axes": [0, 1]}
    constants = {name: np.array(value, np.int64) for name, value in whole.items()}
    constants |= {"six": np.array([6], np.int32), "weight": np.arange(6, dtype=np.float32)[np.newaxis]}
    return model(nodes, ["N", 6], constants)


@pytest.mark.parametrize("target", ["torch-export", "jax-export"])
def test_a_size_stays_a_size_through_a_narrow_integer(tmp_path, target):
    made = vitrify.convert(packed(tmp_path, narrow_sizes()), target, samples=ROWS, checks=[Parity(rows=40)])
    assert proof(made)["verdict"] == "clean"
    (answer,) = made.session().run({"x": np.ones((9, 6), np.float32)}).values()
    np.testing.assert_array_equal(answer, np.tile(np.arange(6, dtype=np.float32), (9, 1)))


def test_a_narrow_size_that_becomes_data_keeps_its_type(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["narrow"], to=TensorProto.INT32),
        helper.make_node("Cast", ["narrow"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["real"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["x", "sum"], ["y"]),
    ]
    for target in ("torch-export", "jax-export"):
        made = vitrify.convert(packed(tmp_path, model(nodes, ["N", 6])), target, samples=ROWS, checks=[Parity(rows=8)])
        (answer,) = made.session().run({"x": np.ones((9, 6), np.float32)}).values()
        np.testing.assert_array_equal(answer, np.full((9, 6), 15, np.float32))


def test_the_state_of_an_optimizer_stays_behind():
    pb = pytest.importorskip("tensorflow.core.protobuf.saved_model_pb2")
    from vitrify.formats._tensorflow.slots import without_slots

    saved = pb.SavedModel(saved_model_schema_version=1)
    nodes = saved.meta_graphs.add().object_graph_def.nodes
    nodes.add().children.add(node_id=1, local_name="optimizer")
    plain = saved.SerializeToString()
    assert without_slots(plain) is plain
    nodes.add().slot_variables.add(original_variable_node_id=0, slot_name="m", slot_variable_node_id=2)
    kept = pb.SavedModel.FromString(without_slots(saved.SerializeToString())).meta_graphs[0].object_graph_def.nodes
    assert [len(node.slot_variables) for node in kept] == [0, 0]
    assert kept[0].children[0].local_name == "optimizer"


def test_shapes_are_read_as_onnx_declares_them():
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 0, -1, "?", "", 3])
    assert shape(value) == ["N", 0, None, None, None, 3]
