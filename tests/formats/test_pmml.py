from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.weights import PMML

from vitrify.core.errors import MalformedError, UnsupportedModelError, UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Allow
from vitrify.formats.pmml import Pmml
from vitrify.reading.files import HeldFiles
from vitrify.testing.directory import DirectorySink
from vitrify.testing.formats import FormatConformance

FORMAT = Pmml()
ENTRY = {"file": "m"}


def held(text):
    return HeldFiles({"m": memoryview(text.encode())})


def rules(text):
    return {(one.rule, one.subject) for one in FORMAT.hazards(held(text), ENTRY)}


def test_it_tells_what_the_document_says():
    shown = FORMAT.describe(held(PMML), ENTRY)
    assert (shown["producer"], shown["versions"], shown["class"]) == ("by hand 1", {"pmml": "4.4"}, "RegressionModel")
    assert [(one["name"], one["type"]) for one in shown["inputs"]] == [("size", "float64"), ("site", "string")]
    assert [one["name"] for one in shown["targets"]] == ["price"]
    assert [one["name"] for one in shown["outputs"]] == ["predicted"]
    assert shown["fields"]["site"]["values"] == ["http://a", "b"]
    assert shown["operators"] == {"/": 1, "half": 1}
    assert shown["functions"] == ["regression"]


def test_values_that_are_addresses_and_own_functions_are_not_found():
    assert FORMAT.detect(held(PMML))
    assert rules(PMML) == set()


EXTENSION = '<Extension name="x" value="{}"/><RegressionModel '


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ('function="/"', 'function="java.lang.Runtime.exec"', ("unknown-function", "java.lang.Runtime.exec")),
        (
            "<RegressionModel ",
            EXTENSION.format("com.example.jpmml.Shell"),
            ("code-reference", "com.example.jpmml.Shell"),
        ),
        ("<RegressionModel ", EXTENSION.format("x-java:run"), ("code-reference", "x-java:run")),
        ("<RegressionModel ", EXTENSION.format("file:///etc/passwd"), ("external-address", "file:///etc/passwd")),
        ("<RegressionModel ", '<x href="http://a.b/c"/><RegressionModel ', ("external-address", "http://a.b/c")),
    ],
)
def test_what_an_evaluator_may_be_talked_into_is_found(before, after, rule):
    assert rules(PMML.replace(before, after, 1)) == {rule}


def test_a_document_type_is_refused():
    text = PMML.replace("?>", '?><!DOCTYPE PMML [<!ENTITY a SYSTEM "file:///etc/passwd">]>', 1)
    assert FORMAT.detect(held(text))
    with pytest.raises(MalformedError, match="document type"):
        list(FORMAT.hazards(held(text), ENTRY))


@pytest.mark.parametrize("text", ["<a/>", '<PMML xmlns="http://other"/>', "{}", "", "<"])
def test_other_files_are_not_detected(text):
    assert not FORMAT.detect(held(text))


@given(st.integers(0, len(PMML)), st.text("<>/='\" aPML&;", max_size=20))
def test_no_text_makes_it_do_anything_but_describe_or_refuse(cut, text):
    for look in (FORMAT.describe, lambda *given: list(FORMAT.hazards(*given))):
        try:
            look(held(PMML[:cut] + text), ENTRY)
        except VitrifyError:
            continue


class TestPmml(FormatConformance):
    format = Pmml()

    def model(self):
        return PMML.encode()

    def same(self, left, right):
        return left.strip() == right.strip()


class TestPmmlWithCode(TestPmml):
    def model(self):
        return PMML.replace("<RegressionModel ", EXTENSION.format("com.example.jpmml.Shell"), 1).encode()


def test_code_is_handed_out_only_where_it_was_allowed_by_name():
    text = PMML.replace('function="/"', 'function="com.example.Own"')
    with pytest.raises(UntrustedCodeError) as caught:
        FORMAT.read(held(text), ENTRY, Allow())
    assert caught.value.names == ("com.example.Own",)
    assert FORMAT.read(held(text), ENTRY, Allow.of(["com.example.Own"])) == text.encode()


@pytest.mark.parametrize(("model", "error"), [(object(), UnsupportedModelError), (b"<a/>", MalformedError)])
def test_only_a_document_is_written(model, error, tmp_path):
    with pytest.raises(error):
        FORMAT.write(model, DirectorySink(tmp_path), None)
