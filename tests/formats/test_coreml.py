from __future__ import annotations

import json

import pytest
from samples import protobufs as made
from wire import message

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats.coreml import CoreMl
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles

DESCRIPTION = (2, message((1, message((1, "x")))))


def model(*kinds, version=4):
    return message((1, version), DESCRIPTION, *kinds)


def held(data):
    return HeldFiles({"m.mlmodel": memoryview(data)})


def look(data):
    assert CoreMl().detect(held(data))
    return list(CoreMl().hazards(held(data), {"file": "m.mlmodel"}))


def rules(found):
    return [(finding.rule, finding.subject) for finding in found]


def program(name, offset=64, nested=False):
    """Return a program with one constant in a file of weights."""
    tensor = message((1, 11), (2, 1), (3, message((1, message((1, 4))))))
    value = message((2, message((1, tensor))), (5, message((1, name), (2, offset))))
    operation = message((1, "const"), (5, message((1, "val"), (2, value))))
    if nested:
        operation = message((1, "cond"), (4, message((3, operation))))
    function = message((2, "CoreML5"), (3, message((1, "CoreML5"), (2, message((3, operation))))))
    return model((502, message((1, 1), (2, message((1, "main"), (2, function))))))


def test_a_package_says_what_is_in_it(tmp_path):
    files = files_at(made.SAMPLES["coreml/mlpackage"](tmp_path))
    assert CoreMl().detect(files)
    assert list(CoreMl().hazards(files, {})) == []
    described = json.loads(json.dumps(CoreMl().describe(files, {})))
    assert described["producer"] == "coremltools 7.0"
    assert described["kind"] == "mlProgram"
    assert described["inputs"] == [{"name": "input_2", "type": "float32", "shape": [1, 43844, 1]}]
    assert described["operators"]["conv"] == 32
    assert described["precision"] == {"float32": 36010}
    drawn = CoreMl().graph(files, {})
    assert drawn.outputs == ("Identity", "Identity_1", "Identity_2")
    assert len(drawn.nodes) == sum(described["operators"].values()) - described["operators"]["const"]


@pytest.mark.slow
def test_a_network_says_what_its_builder_put_in(tmp_path):
    path = made.SAMPLES["coreml/mlmodel"](tmp_path)
    files, entry = files_at(path), {"file": path.name}
    assert list(CoreMl().hazards(files, entry)) == []
    described = json.loads(json.dumps(CoreMl().describe(files, entry)))
    assert (described["license"], described["author"]) == ("MIT", "somebody")
    assert described["metadata"] == {"key": "value"}
    assert described["operators"] == {"activation": 1, "innerProduct": 2}
    assert [one["name"] for one in described["tensors"]] == ["first.weights", "first.bias", "second.weights"]
    assert described["parameters"] == 1600 + 200 + 400
    drawn = CoreMl().graph(files, entry)
    first = drawn.nodes[0]
    assert (first.name, first.inputs, first.outputs) == ("first", ("x",), ("h",))
    labelled = held(made.network(labels=True).spec.SerializeToString())
    assert CoreMl().describe(labelled, {"file": "m.mlmodel"})["classes"] == ["cat", "dog"]


@pytest.mark.slow
def test_the_models_of_a_pipeline_are_inside_its_nodes(tmp_path):
    path = made.SAMPLES["coreml/pipeline"](tmp_path)
    files, entry = files_at(path), {"file": path.name}
    assert list(CoreMl().hazards(files, entry)) == []
    assert CoreMl().describe(files, entry)["models"] == ["scaler", "neuralNetwork"]
    scale, predict = CoreMl().graph(files, entry).nodes
    assert (scale.operator, scale.name) == ("scaler", "scale")
    assert len(predict.graphs["model"].nodes) == 3


@pytest.mark.parametrize("wrap", [False, True])
def test_classes_that_an_app_brings_are_found_wherever_they_stand(wrap):
    custom = model((555, message((10, "Evil"))))
    layer = message((1, "l"), (500, message((10, "EvilLayer"))))
    inner = message((1, "b"), (605, message((1, message((1, layer))))))
    network = model((500, message((1, inner if wrap else layer))))
    if wrap:
        custom, network = (model((202, message((1, one), (2, "n")))) for one in (custom, network))
    assert rules(look(custom)) == [("custom-operator", "Evil")]
    assert rules(look(network)) == [("custom-operator", "EvilLayer")]
    needs = CoreMl().describe(held(network), {"file": "m.mlmodel"})["needs"]
    assert needs == ["Core ML", "the class 'EvilLayer', linked into the app"]


def test_a_model_that_lies_elsewhere_is_found():
    linked = message((1, message((1, message((1, "other.mlmodelc"))), (2, message((1, "../up"))))))
    assert rules(look(model((556, linked)))) == [("linked-model", "../up/other.mlmodelc")]


def test_what_is_two_things_at_once_is_malformed():
    layer = message((1, "l"), (100, b""), (500, message((10, "Evil"))))
    for data in (model((500, message((1, layer)))), model((555, message((10, "E"))), (500, b""))):
        with pytest.raises(MalformedError, match="at once"):
            look(data)


def test_what_is_not_known_is_not_checked():
    (found,) = look(model((3000, message((1, "secret")))))
    assert (found.rule, found.verdict) == ("unknown-model", "not checked")
    (found,) = look(model((500, message((1, message((1, "l"), (99_999, b"")))))))
    assert (found.rule, found.verdict) == ("unknown-layer", "not checked")


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "@model_path/../x", "weights.bin", "@model_path//etc/x", "@model_path/c:x"]
)
def test_weights_outside_the_package_are_found(path, nested):
    assert rules(look(program(path, nested=nested))) == [("weights-path", path)]


def test_weights_that_are_not_there_are_not_checked():
    (found,) = look(program("@model_path/w.bin"))
    assert (found.rule, found.verdict) == ("weights-missing", "not checked")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        bytes(64),
        (0xDEADBEEF).to_bytes(4, "little") + (2).to_bytes(4, "little") + (16).to_bytes(8, "little") + b"\xff" * 8,
        (0xDEADBEEF).to_bytes(4, "little") + (2).to_bytes(4, "little") + (8).to_bytes(8, "little") + bytes(8),
    ],
)
def test_weights_that_leave_their_file_are_found(header):
    files = HeldFiles({"m.mlmodel": memoryview(program("@model_path/w.bin")), "w.bin": memoryview(bytes(64) + header)})
    assert rules(CoreMl().hazards(files, {"file": "m.mlmodel"})) == [("weights-range", "val")]


def package(**items):
    manifest = {"fileFormatVersion": "1.0.0", "rootModelIdentifier": "a", "itemInfoEntries": items}
    data = {"Manifest.json": json.dumps(manifest).encode(), "Data/m.mlmodel": model((900, b""))}
    return HeldFiles({name: memoryview(content) for name, content in data.items()})


def test_items_of_a_manifest_that_lie_elsewhere_are_found():
    honest = {"a": {"path": "m.mlmodel"}}
    assert list(CoreMl().hazards(package(**honest), {})) == []
    found = CoreMl().hazards(package(**honest, b={"path": "../../x"}), {})
    assert rules(found) == [("package-path", "../../x")]


@pytest.mark.parametrize(
    "items", [{}, {"a": {}}, {"a": {"path": "absent"}}, {"a": {"path": 3}}, {"a": {"path": "../m"}}]
)
def test_a_manifest_without_its_model_is_malformed(items):
    with pytest.raises(MalformedError, match="names"):
        CoreMl().describe(package(**items), {})


def test_links_in_a_package_are_found(tmp_path):
    path = made.SAMPLES["coreml/mlpackage"](tmp_path)
    weights = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    weights.rename(tmp_path / "secret")
    weights.symlink_to(tmp_path / "secret")
    assert {finding.rule for finding in CoreMl().hazards(files_at(path), {})} == {"linked-file", "weights-missing"}


def test_what_is_nested_too_deep_is_a_limit():
    pipeline, network = model((900, b"")), b""
    for _ in range(150):
        pipeline = model((202, message((1, pipeline))))
        network = message((1, message((605, message((1, network))))))
    for data in (pipeline, model((500, network))):
        with pytest.raises(LimitExceededError, match="deep"):
            look(data)


def test_more_models_or_inputs_than_an_honest_one_has_are_a_limit():
    with pytest.raises(LimitExceededError, match="models"):
        look(model((202, message((1, b"")) * 1001)))
    with pytest.raises(LimitExceededError, match="input"):
        CoreMl().describe(held(message((1, 4), (2, message((1, b"")) * 10_001), (900, b""))), {"file": "m.mlmodel"})


@pytest.mark.parametrize("data", [b"", b"hello", model(), message(DESCRIPTION), message((1, 4), (900, b""))])
def test_what_is_no_model_is_not_detected_and_malformed(data):
    assert not CoreMl().detect(held(data))
    with pytest.raises(MalformedError):
        CoreMl().describe(held(data), {"file": "m.mlmodel"})
