from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

import vitrify
from vitrify.checks.structure import Structure
from vitrify.core.catalog import catalog
from vitrify.core.errors import MalformedError
from vitrify.testing.checks import CheckConformance


def subject(tmp_path, name="y", width=3):
    x, y = (helper.make_tensor_value_info(port, onnx.TensorProto.FLOAT, ["n", width]) for port in ("x", name))
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], [name])], "g", [x], [y])
    path = tmp_path / f"{name}{width}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return vitrify.pack(path).subject()


class TestStructure(CheckConformance):
    name = "structure"

    @pytest.fixture(autouse=True)
    def _subjects(self, tmp_path):
        self.right, self.wrong = subject(tmp_path), subject(tmp_path, name="z", width=4)

    def check(self):
        return catalog().load("check", "structure")

    def clean(self):
        return self.right, None

    def faulty(self):
        return replace(self.wrong, document=self.wrong.document.replace(signature=self.right.document.signature)), None

    def unanswerable(self):
        return replace(self.right, document=self.right.document.replace(signature=None)), None


def test_every_port_that_is_not_as_the_signature_says_is_found(tmp_path):
    right, wrong = subject(tmp_path), subject(tmp_path, name="z", width=4)
    mixed = replace(
        wrong, document=wrong.document.replace(signature=right.document.signature, entry={"file": "model.onnx"})
    )
    report = Structure().run(mixed, None)
    assert [finding.place for finding in report.findings] == ["input 'x'", "output 'y'"]
    assert "(it has: z)" in report.findings[1].message


def test_the_ports_names_are_those_that_the_converter_kept(tmp_path):
    one = subject(tmp_path)
    signature = one.document.signature
    renamed = signature.replace(outputs=tuple(field.replace(name="prediction") for field in signature.outputs))
    document = one.document.replace(signature=renamed, entry={**one.document.entry, "outputs": {"prediction": "y"}})
    assert Structure().run(replace(one, document=document), None).passed
    lost = replace(one, document=document.replace(entry={**document.entry, "outputs": {}, "inputs": {"x": "x"}}))
    assert not Structure().run(lost, None).passed


def test_what_is_not_of_its_format_is_refused(tmp_path):
    one = subject(tmp_path)

    class Cut:
        def names(self):
            return ("model.onnx",)

        def map(self, name):
            return memoryview(b"\x08\x08\x12")

        def read(self, name):
            return b"\x08\x08\x12"

    with pytest.raises(MalformedError):
        Structure().run(replace(one, files=Cut()), None)


def test_what_it_saw_is_in_the_report(tmp_path):
    details = Structure().run(subject(tmp_path), None).details
    assert details["operators"] == {"Tanh": 1}
    assert details["inputs"][0]["shape"] == ["n", 3]
    assert np.all([port["type"] == "float32" for port in details["outputs"]])
