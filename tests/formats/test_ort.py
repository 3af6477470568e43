"""ORT: what is said about a model is what ONNX Runtime's own reader of the file says."""

import onnxruntime
import pytest
from samples import graph_files

from vitrify.core.errors import MalformedError
from vitrify.formats import _facts
from vitrify.formats.ort import Ort
from vitrify.reading.files import HeldFiles

FORMAT = Ort()
ENTRY = {"file": "model.ort"}


def held(content):
    return HeldFiles({"model.ort": memoryview(content)})


def test_inputs_and_outputs_are_those_of_a_session():
    session = onnxruntime.InferenceSession(graph_files.ort(), providers=["CPUExecutionProvider"])
    found = FORMAT.describe(held(graph_files.ort()), ENTRY)
    for ours, theirs in (
        *zip(found["inputs"], session.get_inputs(), strict=True),
        *zip(found["outputs"], session.get_outputs(), strict=True),
    ):
        kind = _facts.element(theirs.type.removeprefix("tensor(").removesuffix(")"))
        assert (ours["name"], ours["type"], ours["shape"]) == (theirs.name, kind, theirs.shape)
    assert found["metadata"] == session.get_modelmeta().custom_metadata_map == {"author": "someone"}
    assert found["producer"] == session.get_modelmeta().producer_name


def test_weights_versions_and_operators_are_told():
    found = FORMAT.describe(held(graph_files.ort()), ENTRY)
    assert found["tensors"] == [{"name": "W", "type": "float32", "shape": [4, 3], "bytes": 48}]
    assert found["operators"] == {"Abs": 1, "If": 1, "MatMul": 1, "Neg": 1, "Relu": 1}
    assert found["versions"]["ai.onnx"] == 17


def test_the_graph_has_both_branches_inside():
    drawn = FORMAT.graph(held(graph_files.ort()), ENTRY)
    assert [node.operator for node in drawn.nodes] == ["MatMul", "Relu", "If"]
    assert drawn.tensors["W"].weight
    branches = drawn.nodes[2].graphs
    assert {name: [node.operator for node in graph.nodes] for name, graph in branches.items()} == {
        "then_branch": ["Neg"],
        "else_branch": ["Abs"],
    }


def test_an_honest_model_is_clean():
    assert list(FORMAT.hazards(held(graph_files.ort()), ENTRY)) == []


def test_operators_of_other_libraries_are_found():
    content = graph_files.ort().replace(b"\4\0\0\0Relu", b"\4\0\0\0Evil")
    found = [(one.rule, one.subject) for one in FORMAT.hazards(held(content), ENTRY)]
    assert found == [("custom-operator", "Evil")]


def test_bytes_that_nothing_leads_to_are_found():
    found = [one.rule for one in FORMAT.hazards(held(graph_files.ort() + b"payload"), ENTRY)]
    assert found == ["hidden-bytes"]


def test_every_truncation_is_refused():
    content = graph_files.ort()
    for size in range(0, len(content) - 200, 37):
        with pytest.raises(MalformedError):
            FORMAT.describe(held(content[:size]), ENTRY)
