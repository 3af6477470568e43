"""OpenVINO IR: what is said about a model is what OpenVINO says; what reaches out of it is found."""

import json
import re
import subprocess
import sys

import pytest
from samples import graph_files

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats.openvino import OpenVino
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles

FORMAT = OpenVino()
READ = """
import json, sys
import openvino
model = openvino.Core().read_model(sys.argv[1])
def ports(listed):
    return [[one.get_any_name(), one.get_element_type().get_type_name(), str(one.partial_shape)] for one in listed]
kinds = [one.get_type_name() for one in model.get_ops()]
constants = [list(one.get_data().shape) for one in model.get_ops() if one.get_type_name() == "Constant"]
listed = {"inputs": ports(model.inputs), "outputs": ports(model.outputs)}
print(json.dumps({**listed, "kinds": kinds, "constants": constants}))
"""
TYPES = {"float32": "f32", "bool": "boolean"}
LAYER = '<layer id="{0}" name="{1}" type="{2}" version="{3}">{4}</layer>'


def written():
    return graph_files.written(graph_files.OPENVINO)


def net(*layers, top='name="n" version="11"', more=""):
    return f"<net {top}><layers>{''.join(layers)}</layers><edges/>{more}</net>".encode()


def held(xml, weights=None):
    files = {"model.xml": memoryview(xml)} | ({} if weights is None else {"model.bin": memoryview(weights)})
    return HeldFiles(files)


def rules(files):
    return {(one.rule, one.subject) for one in FORMAT.hazards(files, {})}


def test_inputs_outputs_and_layers_are_those_of_openvino(tmp_path):
    path = graph_files.openvino(tmp_path)
    done = subprocess.run([sys.executable, "-c", READ, path / "model.xml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    found = FORMAT.describe(files_at(path), {})
    for kind in ("inputs", "outputs"):
        ours = [
            [
                one["name"],
                TYPES[one["type"]],
                f"[{','.join('?' if size is None else str(size) for size in one['shape'])}]",
            ]
            for one in found[kind]
        ]
        assert ours == theirs[kind]
    # Its own list has the layers of the main graph only.
    known = {name.lower() for name in found["operators"]}
    assert {name.lower() for name in theirs["kinds"]} - {"constant"} <= known
    assert [one["shape"] for one in found["tensors"]][: len(theirs["constants"])] == theirs["constants"]
    assert found["bytes"] == len(written()["model.bin"]) == found["weights_file"]["bytes"]
    assert found["versions"]["ir"] == 11
    assert list(FORMAT.hazards(files_at(path), {})) == []


def test_the_graph_has_both_branches_inside():
    drawn = FORMAT.graph(held(written()["model.xml"], written()["model.bin"]), {})
    (branch,) = (node for node in drawn.nodes if node.operator == "If")
    assert set(branch.graphs) == {"then_body", "else_body"}
    assert drawn.inputs == ("x", "c")
    produced = {name for node in drawn.nodes for name in node.outputs} | set(drawn.inputs)
    weights = {name for name, tensor in drawn.tensors.items() if tensor.weight}
    assert {name for node in drawn.nodes for name in node.inputs} <= produced | weights


def test_a_graph_alone_says_that_its_weights_are_missing():
    found = FORMAT.describe(held(written()["model.xml"]), {"file": "model.xml"})
    assert found["needs"] == ["the weights, model.bin"]
    assert found["weights_file"] == {"name": "model.bin", "bytes": None}


def test_constants_past_the_end_of_the_weights_are_found():
    files = held(written()["model.xml"], written()["model.bin"][:10])
    assert {rule for rule, _ in rules(files)} == {"out-of-bounds"}


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("opset1", set()),
        ("opset16", set()),
        ("", set()),
        ("extension", {("custom-operator", "extension.Op")}),
        ("opset1; evil", {("custom-operator", "opset1; evil.Op")}),
        ("acme", {("custom-operator", "acme.Op")}),
    ],
)
def test_operators_of_extension_libraries_are_found(version, found):
    assert rules(held(net(LAYER.format(0, "a", "Op", version, "")))) == found


def test_quantisation_is_told():
    layers = LAYER.format(0, "a", "FakeQuantize", "opset1", '<data levels="256"/>')
    told = '<rt_info><nncf><quantization><preset value="mixed"/></quantization></nncf></rt_info>'
    found = FORMAT.describe(held(net(layers, more=told)), {})
    assert found["quantisation"] == {
        "operators": {"FakeQuantize": 1},
        "nncf": {"quantization": {"preset": "mixed"}},
    }


CONST = '<data element_type="f32" shape="{}" offset="{}" size="{}"/>'


@pytest.mark.parametrize(
    "content",
    [
        net(LAYER.format("x", "a", "Op", "opset1", "")),
        net(LAYER.format("9" * 30, "a", "Op", "opset1", "")),
        net(LAYER.format(0, "a", "Op", "opset1", ""), LAYER.format(0, "b", "Op", "opset1", "")),
        net(LAYER.format(0, "a", "Const", "opset1", CONST.format("2", -4, 8))),
        net(LAYER.format(0, "a", "Const", "opset1", CONST.format("-2", 0, 8))),
        net(LAYER.format(0, "a", "Const", "opset1", CONST.format(",".join("1" * 65), 0, 8))),
        b"<!DOCTYPE net><net version='11'/>",
        b"<other/>",
        b"<net",
    ],
)
def test_what_cannot_be_is_refused(content):
    with pytest.raises(MalformedError, match=re.escape("model.xml")):
        FORMAT.describe(held(content), {})


def test_graphs_nest_only_so_deep():
    inner = ""
    for _ in range(20):
        inner = LAYER.format(0, "a", "Loop", "opset5", f"<body><layers>{inner}</layers><edges/></body>")
    with pytest.raises(LimitExceededError, match="deeper"):
        FORMAT.describe(held(net(inner)), {})


@pytest.mark.parametrize(
    ("files", "is_model"),
    [
        ({"m.xml": net()}, True),
        ({"m.xml": net(), "m.bin": b""}, True),
        ({"m.xml": b"<?xml version='1.0'?>\n<!-- by someone -->\n" + net()}, True),
        ({"m.xml": b"<!DOCTYPE net []>" + net()}, True),
        ({"m.xml": net(), "n.xml": net()}, False),
        ({"m.xml": net(), "notes.txt": b""}, False),
        ({"m.xml": b"<PMML version='4.4'/>"}, False),
        ({"m.xml": b"<net/>"}, True),
        ({"m.bin": b"\0\1"}, False),
        ({}, False),
    ],
)
def test_it_is_known_by_its_first_element(files, is_model):
    assert FORMAT.detect(HeldFiles({name: memoryview(content) for name, content in files.items()})) == is_model
