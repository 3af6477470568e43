"""Small models for tests of the server: real ONNX graphs, sealed without the trial in a clean process.

That trial is tested elsewhere and takes longer than all tests of a server's room together.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from vitrify.artifacts.artifact import Artifact
from vitrify.artifacts.golden import dump
from vitrify.artifacts.seal import _manifest
from vitrify.core import reference
from vitrify.core.document import DOCUMENT, GOLDEN, SCHEMA, Code, Document
from vitrify.core.signature import Field, Signature

ROWS = np.arange(40, dtype=np.float32).reshape(10, 4)


def times(factor, *, weights=0):
    """Return a graph that multiplies ``X`` into ``Y`` and says in ``L`` which column is largest.

    ``weights`` more floats are held, and read, to make it large.
    """
    held = [numpy_helper.from_array(np.array(factor, np.float32), "factor")]
    nodes = [
        helper.make_node("Mul", ["X", "factor"], ["Y"]),
        helper.make_node("ArgMax", ["Y"], ["L"], axis=1, keepdims=0),
    ]
    if weights:
        held.append(numpy_helper.from_array(np.full(weights, factor, np.float32), "weights"))
        nodes[0] = helper.make_node("Mul", ["X", "top"], ["Y"])
        nodes.insert(0, helper.make_node("ReduceMax", ["weights"], ["top"], keepdims=0))
    graph = helper.make_graph(
        nodes,
        "times",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", 4])],
        [
            helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("L", TensorProto.INT64, ["batch"]),
        ],
        held,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def signature():
    return Signature(
        inputs=(Field(name="X", dtype="float32", shape=("batch", 4)),),
        outputs=(Field(name="Y", dtype="float32", shape=("batch", 4)), Field(name="L", dtype="int64")),
        container="dict",
    )


def outputs(factor, rows=ROWS):
    product = rows * np.float32(factor)
    return {"Y": product, "L": product.argmax(axis=1)}


def seal(store, name, model, signature, golden=({}, {}), *, kind="onnx", runtime="onnxruntime", entry=None, code=None):
    """Seal a model's bytes, or a dict of files, as ``name``."""
    files = {"model.onnx": model.SerializeToString()} if kind == "onnx" else model
    document = Document(
        schema=SCHEMA,
        format=kind,
        runtime=runtime,
        entry={"file": "model.onnx"} if entry is None else entry,
        signature=signature,
        golden=len(next(iter(golden[0].values()), ())),
        code=code or Code(),
    )
    name = reference.name(name)
    with store.stage() as stage:
        for path, content in files.items():
            with stage.open(path, "weight") as stream:
                stream.write(content)
        if golden[0]:
            with stage.open(GOLDEN, "dataset") as stream:
                stream.write(dump(*golden))
        with stage.open(DOCUMENT, "weight.config") as stream:
            stream.write(document.to_json())
        digest = stage.commit(lambda layers: _manifest(document, layers, ""), name)
    return Artifact.of(store, digest, name)


def multiplier(store, name, factor, *, promised=None, weights=0):
    """Seal a model that multiplies; its golden samples promise what ``promised`` gives, by default the truth."""
    golden = ({"X": ROWS}, outputs(factor if promised is None else promised))
    return seal(store, name, times(factor, weights=weights), signature(), golden)
