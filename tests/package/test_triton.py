"""Triton's model repository: read by Triton's own messages; graphs as its backends find them, sealed artifacts else."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from served_models import ROWS, outputs, seal, signature, times

import vitrify
from vitrify import package
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.signature import Field, Signature
from vitrify.package._served import version_number
from vitrify.stores.oci_layout import OciLayout

model_config = pytest.importorskip("tritonclient.grpc.model_config_pb2")
GOLDEN = ({"X": ROWS}, outputs(2))


def config_of(folder, name):
    return text_format.Parse((folder / name / "config.pbtxt").read_text(), model_config.ModelConfig())


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Return a store with two versions of one graph, and a third with other outputs."""
    store = OciLayout(tmp_path_factory.mktemp("graphs"))
    seal(store, "times:1", times(2), signature(), GOLDEN)
    seal(store, "times:2.0.1", times(3), signature(), ({"X": ROWS}, outputs(3)))
    less = Signature(inputs=signature().inputs, outputs=signature().outputs[:1], container="dict")
    seal(store, "times:3", times(2), less, ({"X": ROWS}, {"Y": outputs(2)["Y"]}))
    return store


@pytest.fixture
def times_1(graphs):
    return vitrify.open("times:1", store=graphs)


def test_a_graph_goes_to_the_backend_that_runs_it(times_1, tmp_path):
    package.export(times_1, tmp_path / "out", "triton")
    told = config_of(tmp_path / "out", "times")
    assert (told.name, told.backend, told.max_batch_size) == ("times", "onnxruntime", 32)
    assert told.HasField("dynamic_batching")
    (x,), (y, label) = told.input, told.output
    assert (x.name, x.data_type, list(x.dims)) == ("X", model_config.TYPE_FP32, [4])
    assert (y.name, list(y.dims), y.HasField("reshape")) == ("Y", [4], False)
    assert (label.data_type, list(label.dims), label.HasField("reshape")) == (model_config.TYPE_INT64, [1], True)
    assert told.parameters["vitrify.digest.1"].string_value == str(times_1.digest)
    assert [(one.count, one.kind) for one in told.instance_group] == [(1, model_config.ModelInstanceGroup.KIND_CPU)]


def test_the_file_is_the_graph_that_the_configuration_describes(times_1, tmp_path):
    package.export(times_1, tmp_path / "out", "triton")
    told = config_of(tmp_path / "out", "times")
    graph = onnx.load(tmp_path / "out" / "times" / "1" / told.default_model_filename).graph
    assert [one.name for one in graph.input] == [one.name for one in told.input]
    assert {one.name for one in graph.output} >= {one.name for one in told.output}


def test_several_artifacts_are_several_versions(graphs, times_1, tmp_path):
    other = vitrify.open("times:2.0.1", store=graphs)
    package.export(times_1, tmp_path / "out", "triton", also=[other])
    assert {one.name for one in (tmp_path / "out" / "times").iterdir() if one.is_dir()} == {"1", "2000001"}
    told = config_of(tmp_path / "out", "times")
    assert told.version_policy.HasField("all")
    assert told.parameters["vitrify.digest.2000001"].string_value == str(other.digest)


def test_versions_that_differ_in_what_they_give_are_refused(graphs, times_1, tmp_path):
    with pytest.raises(UnsupportedModelError, match="differ"):
        package.export(times_1, tmp_path / "out", "triton", also=[vitrify.open("times:3", store=graphs)])
    assert not (tmp_path / "out").exists()


def test_two_artifacts_of_one_version_are_refused(times_1, tmp_path):
    with pytest.raises(UsageError, match="version 1"):
        package.export(times_1, tmp_path / "out", "triton", also=[times_1])


def test_one_row_a_batch_is_no_batching(times_1, tmp_path):
    package.export(times_1, tmp_path / "out", "triton", rows=1)
    told = config_of(tmp_path / "out", "times")
    assert (told.max_batch_size, told.HasField("dynamic_batching")) == (0, False)
    assert list(told.input[0].dims) == [-1, 4]
    assert list(told.output[1].dims) == [-1]


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_a_first_size_that_may_change_and_is_not_the_batch_s_is_no_batching(times_1, tmp_path, backend):
    loose = signature().replace(inputs=(Field(name="X", dtype="float32", shape=("length", 4)),))
    times_1.__dict__["document"] = times_1.document.replace(signature=loose)
    package.export(times_1, tmp_path / "out", "triton", backend=backend)
    told = config_of(tmp_path / "out", "times")
    assert (told.max_batch_size, list(told.input[0].dims)) == (0, [-1, 4])


def test_what_triton_has_no_backend_for_is_opened_by_vitrify(churn, tmp_path):
    package.export(churn, tmp_path / "out", "triton", allow=["acme.Scale"])
    told = config_of(tmp_path / "out", "team-churn")
    assert (told.backend, told.max_batch_size) == ("python", 32)
    assert json.loads(told.parameters["vitrify.allow"].string_value) == ["acme.Scale"]
    assert {one.name: one.data_type for one in told.input} == {
        "age": model_config.TYPE_INT64,
        "income": model_config.TYPE_FP64,
    }
    label = next(one for one in told.output if one.name == "label")
    assert (label.data_type, list(label.dims)) == (model_config.TYPE_STRING, [1])
    inside = tmp_path / "out" / "team-churn" / "1002000"
    compile((inside / "model.py").read_text(), "model.py", "exec")
    assert vitrify.open(str(inside / "artifact")).digest == churn.digest


def test_a_classifier_s_labels_are_in_the_order_of_its_columns(churn, tmp_path):
    package.export(churn, tmp_path / "out", "triton")
    told = config_of(tmp_path / "out", "team-churn")
    chances = next(one for one in told.output if one.name == "probability")
    assert list(chances.dims) == [2]
    text = (tmp_path / "out" / "team-churn" / chances.label_filename).read_text()
    assert text.splitlines() == list(churn.signature.output("probability").classes)


def test_the_python_backend_can_be_asked_for(times_1, tmp_path):
    package.export(times_1, tmp_path / "out", "triton", backend="python")
    assert config_of(tmp_path / "out", "times").backend == "python"


@pytest.mark.parametrize("entry", [{"casts": {"L": "bool"}}, {"labels": {"L": list("abcd")}}, {"missing_text": "?"}])
def test_a_graph_whose_answers_are_not_those_of_the_signature_is_opened_by_vitrify(times_1, tmp_path, entry):
    document = times_1.document.replace(entry={**times_1.document.entry, **entry})
    times_1.__dict__["document"] = document
    package.export(times_1, tmp_path / "out", "triton")
    assert config_of(tmp_path / "out", "times").backend == "python"


def test_a_graph_keeps_its_names_and_says_which_of_the_signature_s_they_are(times_1, tmp_path):
    renamed = signature().replace(inputs=(Field(name="rows", dtype="float32", shape=("batch", 4)),))
    entry = {"file": "model.onnx", "inputs": {"rows": "X"}, "outputs": {"Y": "Y", "L": "L"}}
    times_1.__dict__["document"] = times_1.document.replace(entry=entry, signature=renamed)
    package.export(times_1, tmp_path / "out", "triton")
    told = config_of(tmp_path / "out", "times")
    assert told.input[0].name == "X"
    assert json.loads(told.parameters["vitrify.names"].string_value) == {"rows": "X"}


def test_the_same_artifact_gives_the_same_bytes(churn, tmp_path, tree):
    for name in ("a", "b"):
        package.export(churn, tmp_path / name, "triton")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize("options", [{"backend": "tensorrt"}, {"rows": 0}])
def test_an_option_that_means_nothing_is_refused(times_1, tmp_path, options):
    with pytest.raises(UsageError, match="expected one of auto, python"):
        package.export(times_1, tmp_path / "out", "triton", **options)


@pytest.mark.parametrize(
    ("tag", "number"),
    [
        ("7", 7),
        ("v7", 7),
        ("0", 1),
        ("1.2.3", 1002003),
        ("v10.0.999", 10000999),
        ("latest", 1),
        ("1.2", 1),
        ("1.2.3-rc.1", 1),
        ("1.2000.3", 1),
        ("9" * 40, 1),
    ],
)
def test_a_tag_is_a_number(times_1, tag, number):
    assert version_number(replace(times_1, name=f"times:{tag}")) == number


def test_releases_are_in_their_order():
    tags = ["0.0.1", "0.1.0", "1.0.0", "1.0.10", "1.9.0", "1.10.0", "2.0.0"]
    numbers = [version_number(_named(tag)) for tag in tags]
    assert numbers == sorted(set(numbers))


def _named(tag):
    class Named:
        name = f"times:{tag}"

    return Named()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_and_openvino_go_to_their_backends(tmp_path):
    torch, openvino = pytest.importorskip("torch"), pytest.importorskip("openvino")
    store = OciLayout(tmp_path / "store")
    rows = torch.arange(8, dtype=torch.float32).reshape(2, 4)
    script = vitrify.save(torch.jit.script(torch.nn.Linear(4, 3).eval()), "script", example=rows, store=store)
    seal(store, "times", times(2), signature(), GOLDEN)
    converted = vitrify.convert("times", "openvino", name="vino", store=store)
    package.export(script, tmp_path / "out", "triton", also=[converted])
    told = config_of(tmp_path / "out", "script")
    assert (told.backend, told.platform, told.input[0].name) == ("pytorch", "pytorch_libtorch", "INPUT__0")
    assert [one.name for one in told.output] == ["OUTPUT__0"]
    loaded = torch.jit.load(tmp_path / "out" / "script" / "1" / told.default_model_filename)
    assert np.array_equal(loaded(rows).detach(), script.session().predict(rows)["output"])
    told = config_of(tmp_path / "out", "vino")
    assert told.backend == "openvino"
    model = openvino.Core().read_model(tmp_path / "out" / "vino" / "1" / told.default_model_filename)
    assert {one.get_any_name() for one in model.inputs} == {one.name for one in told.input}
    assert {one.get_any_name() for one in model.outputs} >= {one.name for one in told.output}
