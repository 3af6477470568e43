"""The recipe of a hybrid: what is written is recognised, described and scanned; what does not fit is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import MalformedError
from vitrify.core.signature import Field, Signature
from vitrify.core.wire import to_builtins
from vitrify.formats._hybrid import recipe as recipes
from vitrify.formats.hybrid import Hybrid
from vitrify.inspection.identify import files_at, identify_one
from vitrify.inspection.scan import scan_files
from vitrify.reading.files import HeldFiles
from vitrify.testing.formats import FileConformance


def graph(by):
    value = helper.make_tensor("by", TensorProto.DOUBLE, [], [by])
    ports = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["batch", 2]) for name in ("X", "transformed")]
    node = helper.make_node("Mul", ["X", "by"], ["transformed"])
    proto = helper.make_graph([node], "scale", ports[:1], ports[1:], [value])
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(model.SerializeToString())


def document(**changes):
    ports = [Field(name=name, dtype="float64", shape=("batch", 2)) for name in ("X", "transformed")]
    signature = Signature(inputs=tuple(ports[:1]), outputs=tuple(ports[1:]))
    entry = {"file": "model.onnx", "inputs": {"X": "X"}, "outputs": {"transformed": "transformed"}}
    given = {"schema": SCHEMA, "format": "onnx", "runtime": "onnxruntime", "entry": entry, "signature": signature}
    return Document(**{**given, **changes})


def recipe(**changes):
    steps = [
        recipes.Stage(
            name=f"scale {index}",
            feeds={"X": recipes.Source(slot="X" if index == 0 else "value_1")},
            gives={"transformed": f"value_{index + 1}"},
            document=document(),
            files=("model.onnx",),
        )
        for index in range(2)
    ]
    pieces = tuple(recipes.Source(slot=slot, columns=(0,)) for slot in ("value_1", "value_2"))
    steps.append(recipes.Stage(name="join", gives={"joined": "value_3"}, joined=pieces))
    given = {"version": 1, "steps": tuple(steps), "outputs": {"transformed": recipes.Source(slot="value_3")}}
    return recipes.Recipe(**{**given, **changes})


def write(folder, made=None):
    (folder / "model").mkdir()
    for index, by in enumerate((2.0, 3.0)):
        (folder / "model" / "steps" / str(index)).mkdir(parents=True)
        (folder / "model" / recipes.path(index, "model.onnx")).write_bytes(graph(by))
    (folder / "model" / recipes.FILE).write_text(json.dumps(to_builtins(made or recipe())))
    return folder / "model"


class TestHybridFiles(FileConformance):
    format = Hybrid()
    samples = {"two graphs and a join": write}


def test_a_folder_of_it_is_a_hybrid_and_not_the_graphs_in_it(tmp_path):
    found = identify_one(files_at(write(tmp_path)), where="model")
    assert found.row.name == "hybrid"
    assert [step["format"] for step in found.format.describe(found.files, {})["steps"]] == ["onnx", "onnx", "join"]


def test_every_part_is_scanned_as_what_it_is(tmp_path):
    folder = write(tmp_path)
    assert scan_files(files_at(folder)).verdict != "found"
    (folder / recipes.path(1, "model.onnx")).write_bytes(b"\x80\x04cos\nsystem\n(S'id'\ntR.")
    report = scan_files(files_at(folder))
    assert any("system" in str(finding) for finding in report.findings)


def test_names_that_a_part_needs_are_told(tmp_path):
    steps = recipe().steps
    needing = document().replace(code=document().code.replace(names=("acme.Step",)))
    made = recipe(steps=(steps[0].replace(document=needing), *steps[1:]))
    (finding,) = Hybrid().hazards(files_at(write(tmp_path, made)), {})
    assert finding.subject == "acme.Step"


FIRST, SECOND, JOIN = recipe().steps
BROKEN = {
    "another version": (recipe(version=2), "version 2"),
    "no steps": (recipe(steps=()), "0 steps"),
    "a slot filled twice": (recipe(steps=(FIRST, FIRST)), "second time"),
    "an output from nowhere": (recipe(outputs={"y": recipes.Source(slot="z")}), "no step fills"),
    "neither model nor join": (recipe(steps=(FIRST, JOIN.replace(joined=()))), "neither"),
    "a model without a signature": (recipe(steps=(FIRST.replace(document=document(signature=None)),)), "signature"),
    "a hybrid in a hybrid": (recipe(steps=(FIRST.replace(document=document(format="hybrid")),)), "inside"),
    "a path out of the folder": (recipe(steps=(FIRST.replace(files=("../1/model.onnx",)), SECOND, JOIN)), "outside"),
    "a file that is not there": (recipe(steps=(FIRST.replace(files=("gone.onnx",)), SECOND, JOIN)), "gone.onnx"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_recipe_that_does_not_fit_is_refused(name, tmp_path):
    made, message = BROKEN[name]
    with pytest.raises(MalformedError, match=message):
        recipes.read(files_at(write(tmp_path, made)))


def test_a_folder_without_a_recipe_is_none():
    assert not Hybrid().detect(HeldFiles({"model.onnx": memoryview(graph(1.0))}))
    with pytest.raises(MalformedError, match=r"hybrid\.json"):
        Hybrid().describe(HeldFiles({"a": memoryview(b""), "b": memoryview(b"")}), {})


def test_the_sample_computes_what_it_says(tmp_path):
    from vitrify.core.protocols import Allow
    from vitrify.runtimes.hybrid import Hybrid as Runtime

    whole = document(format="hybrid", runtime="hybrid", entry={})
    with Runtime().open(files_at(write(tmp_path)), whole, Allow()) as session:
        given = session.run({"X": np.array([[1.0, 5.0], [2.0, 6.0]])})
    np.testing.assert_array_equal(given["transformed"], [[2.0, 6.0], [4.0, 12.0]])
