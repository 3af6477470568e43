"""The runtime of PFA: what a row is made of, and what comes back."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import vitrify
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.core.protocols import Stateful
from vitrify.core.signature import Field, Signature
from vitrify.formats.pfa import Pfa, PfaDocument
from vitrify.runtimes.pfa import PfaRuntime
from vitrify.testing.runtimes import RuntimeConformance

X = np.random.default_rng(0).normal(size=(20, 3))
DOUBLES = {"type": "array", "items": "double"}


def record(name, /, **fields):
    return {"type": "record", "name": name, "fields": [{"name": key, "type": one} for key, one in fields.items()]}


def part(name):
    return {"attr": "input", "path": [{"string": name}]}


def document(action, given="double", gives="double", **more):
    return PfaDocument({"input": given, "output": gives, "action": action, **more})


def session(model, *fields, outputs=(), entry=None):
    signature = Signature(inputs=fields, outputs=outputs)
    written = Document(schema=SCHEMA, format="pfa", runtime="pfa", entry=entry or {}, signature=signature)
    return PfaRuntime().wrap(model, written)


def field(name, dtype, *sizes, nullable=False):
    return Field(name=name, dtype=dtype, shape=("batch", *sizes), nullable=nullable)


class TestPfa(RuntimeConformance):
    runtime, format = PfaRuntime(), Pfa()

    def model(self):
        square = {"params": [{"x": "double"}], "ret": "double", "do": {"*": ["x", "x"]}}
        answer = {"squares": {"a.map": [part("X"), square]}, "first": {"attr": part("X"), "path": [0]}}
        gives = record("Answer", squares=DOUBLES, first="double")
        return document({"new": answer, "type": gives}, record("Row", X=DOUBLES), gives)

    def example(self):
        return X


class TestPfaOnAFrame(RuntimeConformance):
    runtime, format = PfaRuntime(), Pfa()

    def model(self):
        name = {"s.concat": [part("colour"), {"string": "!"}]}
        answer = {"name": name, "more": {"+": [part("n"), 1]}, "big": {">": [part("x"), 0]}}
        gives = record("Answer", name="string", more="long", big="boolean")
        return document({"new": answer, "type": gives}, record("Row", colour="string", n="long", x="double"), gives)

    def example(self):
        return pd.DataFrame({"colour": ["red", "ünï", ""], "n": [1, 2**60, -3], "x": [0.5, -1.0, 2.0]})


def test_a_file_of_its_own_needs_no_example(tmp_path):
    path = tmp_path / "engine.pfa"
    path.write_text(json.dumps(dict(TestPfa().model().content)))
    artifact = vitrify.pack(path, "engine")
    assert [str(one) for one in artifact.signature.inputs] == ["X: float64?[batch, X_1]"]
    assert [one.name for one in artifact.signature.outputs] == ["squares", "first"]
    answers = vitrify.load("engine").run({"X": X})
    np.testing.assert_array_equal(answers["squares"], X * X)
    np.testing.assert_array_equal(answers["first"], X[:, 0])


def test_a_live_document_is_saved_and_loaded():
    saved = vitrify.save(TestPfa().model(), "squares", example=X)
    assert saved.document.format == "pfa"
    np.testing.assert_array_equal(vitrify.load("squares").run({"X": X})["squares"], X * X)


def test_what_is_no_record_is_one_input_and_one_output():
    asked = session(document({"+": ["input", 1]}), field("input", "float64"))
    assert asked.run({"input": np.array([1.0, np.nan])})["output"].tolist()[0] == 2.0


def test_what_is_missing_goes_in_and_comes_out_as_null():
    maybe = ["null", "int"]
    tried = {"ifnotnull": {"v": "input"}, "then": {"*": ["v", 2]}, "else": None}
    asked = session(document(tried, maybe, maybe), field("input", "int32", nullable=True))
    found = asked.run({"input": np.ma.MaskedArray(np.array([1, 2, 3], np.int32), [False, True, False])})["output"]
    assert found.tolist() == [2, None, 6]
    texts = session(document("input", ["null", "string"], ["null", "string"]), field("input", "string", nullable=True))
    assert texts.run({"input": np.array(["a", None], object)})["output"].tolist() == ["a", None]


def test_matrices_in_rows_go_in_and_come_out_as_arrays_in_arrays():
    matrix = {"type": "array", "items": DOUBLES}
    asked = session(document({"la.transpose": "input"}, matrix, matrix), field("input", "float64", 2, 3))
    rows = np.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_array_equal(asked.run({"input": rows})["output"], rows.transpose(0, 2, 1))


def test_a_document_that_remembers_can_be_told_to_forget():
    count = {"cell": "n", "to": {"params": [{"n": "int"}], "ret": "int", "do": {"+": ["n", 1]}}}
    asked = session(document(count, gives="int", cells={"n": {"type": "int", "init": 0}}), field("input", "float64"))
    assert isinstance(asked, Stateful)
    rows = {"input": np.zeros(2)}
    assert asked.run(rows)["output"].tolist() == [1, 2]
    assert asked.run(rows)["output"].tolist() == [3, 4]
    asked.reset()
    assert asked.run(rows)["output"].tolist() == [1, 2]
    assert not isinstance(session(document("input"), field("input", "float64")), Stateful)


def test_an_error_of_the_document_is_the_model_s():
    asked = session(document({"error": "not for this row", "code": -3}), field("input", "float64"))
    with pytest.raises(ModelError, match="not for this row"):
        asked.run({"input": np.zeros(1)})


def test_rows_whose_answers_are_not_all_as_long_are_refused():
    action = {"a.filter": ["input", {"params": [{"x": "double"}], "ret": "boolean", "do": {">": ["x", 0]}}]}
    asked = session(document(action, DOUBLES, DOUBLES), field("input", "float64", 3))
    with pytest.raises(ModelError, match="not all as long"):
        asked.run({"input": np.array([[1.0, -1.0, 2.0], [1.0, 1.0, 1.0]])})


def test_fields_that_no_array_can_be_are_listed_at_once():
    given = record("Row", a={"type": "map", "values": "double"}, b=["int", "string"], c="double")
    with pytest.raises(UnsupportedModelError) as caught:
        PfaRuntime().signature(document(0.0, given))
    assert [one.place for one in caught.value.problems] == ["input.a", "input.b"]
