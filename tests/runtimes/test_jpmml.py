"""The runtime of PMML documents: what it feeds the evaluator, and what it makes of its answer."""

from __future__ import annotations

import subprocess
import sys

import jpype
import numpy as np
import pytest
from samples.weights import PMML

import vitrify
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import MalformedError, MissingDependencyError, ModelError, UnsupportedModelError
from vitrify.core.signature import Field, Signature
from vitrify.formats.pmml import Pmml
from vitrify.runtimes import jpmml
from vitrify.runtimes.jpmml import Jpmml
from vitrify.testing.runtimes import RuntimeConformance

HEAD = '<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4"><Header/><DataDictionary>{}</DataDictionary>'
SCHEMA_OF = '<RegressionModel functionName="regression"><MiningSchema>{}</MiningSchema>'
SHOWN = (
    '<OutputField name="{0}_again" optype="categorical" dataType="{1}" feature="transformedValue">'
    '<FieldRef field="{0}"/></OutputField>'
)


def echo(**kinds):
    """Return a document that gives back what it is given, of each type."""
    fields = "".join(
        f'<DataField name="{name}" optype="categorical" dataType="{kind}"/>' for name, kind in kinds.items()
    )
    used = "".join(f'<MiningField name="{name}"/>' for name in kinds)
    shown = "".join(SHOWN.format(name, kind) for name, kind in kinds.items())
    model = f'{SCHEMA_OF.format(used)}<Output>{shown}</Output><RegressionTable intercept="0"/></RegressionModel>'
    return f"{HEAD.format(fields)}{model}</PMML>".encode()


def opened(content, inputs, entry=None):
    fields = tuple(Field(name=name, dtype=dtype, nullable=True) for name, dtype in inputs.items())
    document = Document(
        schema=SCHEMA,
        format="pmml",
        runtime="jpmml",
        entry=entry or {},
        signature=Signature(inputs=fields, container="dict"),
    )
    return Jpmml().wrap(content, document)


class TestJpmml(RuntimeConformance):
    runtime, format = Jpmml(), Pmml()

    def model(self):
        return PMML.encode()

    def example(self):
        return {"size": np.array([1.0, 2.0, 3.0]), "site": np.array(["b", "b", "http://a"], object)}


def test_a_document_of_its_own_needs_no_example(tmp_path):
    path = tmp_path / "price.pmml"
    path.write_text(PMML)
    artifact = vitrify.pack(path, "price")
    assert [str(field) for field in artifact.signature.inputs] == ["size: float64?[batch]", "site: string?[batch]"]
    given = vitrify.load("price").run({"size": np.array([2.0, np.nan]), "site": np.array(["b", None], object)})
    np.testing.assert_array_equal(given["predicted"], [3.5, np.nan])


def test_every_type_of_value_goes_in_and_comes_back_and_what_is_missing_stays_so():
    session = opened(
        echo(d="double", f="float", i="integer", b="boolean", s="string"),
        {"d": "float64", "f": "float32", "i": "int64", "b": "bool", "s": "string"},
    )
    inputs = {
        "d": np.array([0.1, np.nan, np.inf, -1e300]),
        "f": np.array([0.1, np.nan, -np.inf, 3], np.float32),
        "i": np.ma.MaskedArray([1, 2, -3, 2**31 - 1], [False, True, False, False]),
        "b": np.ma.MaskedArray([True, False, True, False], [False, False, True, False]),
        "s": np.array(["a", None, np.nan, " ü\t"], object),
    }
    given = session.run(inputs)
    for name in ("d", "f", "i", "b"):
        assert given[f"{name}_again"].dtype == inputs[name].dtype
        np.testing.assert_array_equal(given[f"{name}_again"], inputs[name])
        assert np.array_equal(np.ma.getmaskarray(given[f"{name}_again"]), np.ma.getmaskarray(inputs[name]))
    assert given["s_again"].tolist() == ["a", None, None, " ü\t"]


def test_none_can_be_another_text_than_what_is_missing():
    session = opened(echo(s="string"), {"s": "string"}, {"missing_text": {"none": "(none)"}})
    assert session.run({"s": np.array([None, np.nan], object)})["s_again"].tolist() == ["(none)", None]


def test_columns_of_a_matrix_are_fields_and_one_that_is_not_looked_at_has_none():
    matrix = Field(name="X", dtype="float64", shape=("batch", 3))
    answer = Field(name="both", dtype="float32", shape=("batch", 2))
    entry = {"inputs": {"X": ["a", None, "c"]}, "outputs": {"both": ["c_again", "a_again"]}}
    signature = Signature(inputs=(matrix,), outputs=(answer,))
    document = Document(schema=SCHEMA, format="pmml", runtime="jpmml", entry=entry, signature=signature)
    session = Jpmml().wrap(echo(a="double", c="double"), document)
    both = session.run({"X": np.array([[1.0, 2, 3]])})["both"]
    assert (both.tolist(), both.dtype) == ([[3.0, 1.0]], np.float32)


@pytest.mark.parametrize(
    "entry",
    [
        {"inputs": {"x": "nowhere"}},
        {"inputs": {"x": ["x", "y"]}},
        {"inputs": {"other": "x"}},
        {"outputs": {"prediction": "nowhere"}},
    ],
)
def test_names_that_do_not_fit_are_refused_before_any_row(entry):
    with pytest.raises(MalformedError, match="do not fit"):
        opened(echo(x="double"), {"x": "float64"}, entry)


def test_a_value_that_the_document_does_not_allow_is_refused_with_its_row():
    session = opened(PMML.encode(), {"size": "float64", "site": "string"})
    with pytest.raises(ModelError, match="row 1"):
        session.run({"size": np.array([1.0, -5.0]), "site": np.array(["b", "b"], object)})


def test_what_the_evaluator_does_not_know_is_refused_when_it_is_opened():
    content = (
        PMML.replace("RegressionModel", "BaselineModel")
        .replace('<RegressionTable intercept="1.5">', "")
        .replace('<NumericPredictor name="halved" coefficient="2"/></RegressionTable>', "")
    )
    with pytest.raises(UnsupportedModelError, match="JPMML cannot evaluate"):
        opened(content.encode(), {"size": "float64"})


def test_a_machine_without_java_is_told_what_to_install(monkeypatch):
    def nowhere(*_arguments, **_options):
        raise jpype.JVMNotFoundException("No JVM shared library file (libjvm.so) found")

    monkeypatch.setattr(jpype, "isJVMStarted", lambda: False)
    monkeypatch.setattr(jpype, "startJVM", nowhere)
    with pytest.raises(MissingDependencyError, match="Java 11"):
        jpmml._machine()


def test_it_says_nothing_beside_its_answer_and_ends_with_its_process(tmp_path):
    (tmp_path / "price.pmml").write_text(PMML)
    program = (
        "import vitrify.runtimes.jpmml as j, pathlib; m = pathlib.Path('price.pmml').read_bytes()\n"
        "print(len(j.Jpmml().signature(m).inputs))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True, timeout=300)
    assert (done.stdout.strip(), done.stderr) == (b"2", b"")


DEEP = """
import ast, json, sys
from contextlib import suppress
from vitrify.runtimes import jpmml
jpmml._machine()
import jpype
assert jpype.java.lang.System.nanoTime()
for source in ("x=" + "1+" * 30000 + "1", "a" + ".b" * 30000, "x=" + "-" * 60000 + "1"):
    with suppress(RecursionError, MemoryError, SyntaxError):
        ast.parse(source)
sys.setrecursionlimit(20_000)
assert json.loads("[" * 15_000 + "]" * 15_000)
print("alive")
"""


def test_beside_the_machine_python_may_go_as_deep_as_its_stack_is():
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == ["alive"], (done.returncode, done.stderr)
