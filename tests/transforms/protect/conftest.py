"""Models to protect, and a key."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vitrify.transforms.protect import ProtectKey


@pytest.fixture
def key():
    """Return a key that is the same in every run."""
    return ProtectKey(bytes(range(32)))


def rows(count=20):
    return {"x": np.random.default_rng(1).normal(size=(count, 8)).astype(np.float32)}


def network(width=32, dtype=np.float32):
    """Return a network of two layers with a branch, a function of its own, and notes and names that tell a story."""
    random = np.random.default_rng(0)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    first = (random.normal(size=(8, width)) * 0.3).astype(dtype)
    second = (random.normal(size=(width, 3)) * 0.3).astype(dtype)
    weights = [numpy_helper.from_array(first, "secret_first"), numpy_helper.from_array(second, "secret_second")]
    branch = {}
    for name, sign in (("then", 1.0), ("else", -1.0)):
        factor = helper.make_tensor(f"secret_{name}_factor", kind, [1], [sign * 0.5])
        node = helper.make_node("Mul", ["secret_wide", f"secret_{name}_factor"], [f"secret_{name}"], name="secret_mul")
        out = [helper.make_tensor_value_info(f"secret_{name}", kind, None)]
        branch[f"{name}_branch"] = helper.make_graph([node], f"secret_{name}_graph", [], out, [factor])
    zero = helper.make_tensor("secret_constant", kind, [1], [0.0])
    nodes = [
        helper.make_node("Cast", ["x"], ["secret_cast"], name="secret_c", to=kind),
        helper.make_node("MatMul", ["secret_cast", "secret_first"], ["secret_hidden"], name="secret_matmul"),
        helper.make_node("Gate", ["secret_hidden"], ["secret_active"], domain="secret.domain", secret_alpha=0.1),
        helper.make_node("MatMul", ["secret_active", "secret_second"], ["secret_wide"], doc_string="secret note"),
        helper.make_node("ReduceSum", ["secret_wide"], ["secret_sum"], keepdims=0),
        helper.make_node("Constant", [], ["secret_zero"], value=zero),
        helper.make_node("Squeeze", ["secret_zero"], ["secret_scalar"]),
        helper.make_node("Greater", ["secret_sum", "secret_scalar"], ["secret_condition"]),
        helper.make_node("If", ["secret_condition"], ["secret_chosen"], **branch),
        helper.make_node("Cast", ["secret_chosen"], ["y"], to=TensorProto.FLOAT),
    ]
    body = [helper.make_node("LeakyRelu", ["secret_in"], ["secret_out"], name="secret_leaky")]
    body[0].attribute.add(name="alpha", ref_attr_name="secret_alpha", type=1)
    gate = helper.make_function(
        "secret.domain", "Gate", ["secret_in"], ["secret_out"], body, [helper.make_opsetid("", 19)], ["secret_alpha"]
    )
    gate.doc_string = "secret idea"
    graph = helper.make_graph(
        nodes,
        "secret_graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        weights,
        value_info=[helper.make_tensor_value_info("secret_hidden", kind, ["batch", "secret_width"])],
    )
    graph.quantization_annotation.add(tensor_name="secret_hidden").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="secret_first"
    )
    imports = [helper.make_opsetid("", 19), helper.make_opsetid("secret.domain", 1)]
    model = helper.make_model(graph, functions=[gate], opset_imports=imports, ir_version=9, producer_name="secret_tool")
    model.doc_string, model.domain, model.model_version = "secret", "secret.company", 7
    helper.set_model_props(model, {"secret_author": "secret_me"})
    return model
