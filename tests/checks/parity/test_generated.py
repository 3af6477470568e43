from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

import vitrify
from vitrify.checks.parity import Parity
from vitrify.checks.parity.generated import generated
from vitrify.core.signature import Field, Signature


def signature(*fields):
    return Signature(inputs=fields, container="dict")


def test_real_numbers_and_bytes_are_made_in_the_shape_that_is_declared():
    made = generated(
        signature(
            Field(name="picture", dtype="uint8", shape=("batch", 3, "height", "width")),
            Field(name="state", dtype="float32", shape=(2, 1)),
        )
    )
    assert made["picture"].shape == (16, 3, 8, 8)
    assert made["picture"].dtype == np.uint8
    assert made["state"].shape == (2, 1)


def test_what_has_a_vocabulary_is_not_guessed():
    assert generated(signature(Field(name="ids", dtype="int64"), Field(name="x", dtype="float32"))) == {}
    assert generated(signature(Field(name="text", dtype="string"))) == {}


def test_a_packed_graph_without_samples_is_compared_on_generated_rows_and_the_report_says_so(tmp_path):
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    subject = vitrify.pack(tmp_path / "m.onnx").subject()
    assert subject.golden == {}
    report = Parity(rows=100).run(subject, replace(subject))
    assert report.passed
    assert report.details["samples"] == "generated"
