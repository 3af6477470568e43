"""Small ONNX graphs, written as PFA: what ONNX Runtime answers and what our engine answers, side by side."""

from __future__ import annotations

import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from vitrify.core.document import SCHEMA, Document
from vitrify.core.signature import Field, Signature
from vitrify.formats.pfa import PfaDocument
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.runtimes.pfa import PfaRuntime
from vitrify.transforms.convert._pfa.write import written

F32, F64, I64, BOOL = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL
ML = "ai.onnx.ml"

SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, 0.5, np.nan, np.inf, -np.inf, 1e30, -3.0, 7.0, 2.0])
"""Numbers on which engines differ."""


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


def whole(*numbers):
    return np.array(numbers, np.int64)
