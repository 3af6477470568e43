"""Keras' two formats: what honest files say, and what becomes of their malicious twins. Nothing is ever built."""

from __future__ import annotations

import base64
import copy
import io
import json
import marshal
import os
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import keras_files

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError, VitrifyError
from vitrify.formats._keras.drawing import draw
from vitrify.formats._keras.facts import describe
from vitrify.formats._keras.hazards import hazards
from vitrify.formats._keras.saved import Saved
from vitrify.formats.keras import Keras
from vitrify.formats.keras_h5 import KerasH5
from vitrify.inspection.identify import files_at, identify
from vitrify.reading.files import HeldFiles

CODE = base64.b64encode(marshal.dumps((lambda x: x).__code__)).decode()
HONEST = [name for name in keras_files.SAMPLES if name.startswith("keras")]


@pytest.fixture
def sample(tmp_path):
    def make(name):
        (one,) = identify(files_at(keras_files.SAMPLES[name](tmp_path)))
        assert one.row.name == name.partition("/")[0]
        return one

    return make


def rules(findings):
    return [(one.rule, one.subject) for one in findings]


def in_config(config):
    return rules(hazards(config, where="model"))


def packed(members, **options):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return HeldFiles({"model.keras": memoryview(stream.getvalue())})


def members_of(name="sequential.keras"):
    with zipfile.ZipFile(io.BytesIO(keras_files.written()[name])) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


@pytest.mark.parametrize("name", HONEST)
def test_honest_files_are_known_and_clean(sample, name):
    one = sample(name)
    assert list(one.format.hazards(one.files, one.entry)) == []
    assert list(one.format.parts(one.files, one.entry)) == []
    said = one.format.describe(one.files, one.entry)
    json.dumps(said)
    assert (said["code"], said["needs"]) == (False, ["keras"])


def test_describing_says_what_keras_said_when_it_saved(sample):
    one = sample("keras/functional")
    said = one.format.describe(one.files, one.entry)
    assert said["versions"]["keras"].startswith("3.")
    assert (said["class"], said["parameters"], said["precision"]) == ("Functional", 34, {"float32": 34})
    assert said["inputs"] == [
        {"name": "image", "type": "float32", "shape": [None, 8, 8, 1]},
        {"name": "number", "type": "float32", "shape": [None, 3]},
    ]
    assert [one["name"] for one in said["outputs"]] == ["score", "class"]
    assert said["operators"] == {
        **dict.fromkeys(("Add", "BatchNormalization", "Concatenate", "Conv2D", "Dense"), 1),
        **dict.fromkeys(("GlobalAveragePooling2D", "Relu", "Softmax"), 1),
        "InputLayer": 2,
    }
    assert said["layers"][1]["config"]["kernel_regularizer"] == "L2"
    training = said["training"]
    assert training["optimizer"] == "AdamW"
    assert training["loss"] == {"score": "Huber", "class": "categorical_crossentropy"}


def test_describing_an_older_file_says_the_same_things(sample):
    one = sample("keras-h5/keras-2")
    said = one.format.describe(one.files, one.entry)
    assert (said["producer"], said["backend"], said["parameters"]) == ("Keras 2.12.0", "tensorflow", 15)
    assert said["inputs"] == [{"name": "input_1", "type": "float32", "shape": [None, 4]}]
    assert said["training"]["loss"] == "MeanSquaredError"


@pytest.mark.parametrize("name", ["keras/functional", "keras-h5/functional"])
def test_a_functional_model_is_drawn_with_the_shapes_between_its_layers(sample, name):
    one = sample(name)
    graph = one.format.graph(one.files, one.entry)
    assert (graph.inputs, graph.outputs) == (("image", "number"), ("score", "class"))
    by_name = {node.name: node for node in graph.nodes}
    assert by_name["score"].inputs == by_name["class"].inputs
    (joined,) = by_name["score"].inputs
    assert by_name[joined].operator == "Concatenate"
    assert graph.tensors["conv2d"].shape == (None, 6, 6, 2)
    assert graph.tensors["image"].shape == (None, 8, 8, 1)


def test_a_model_inside_a_model_is_a_graph_inside_a_node(sample):
    one = sample("keras/nested")
    graph = one.format.graph(one.files, one.entry)
    first, second = [node for node in graph.nodes if node.operator == "Sequential"]
    assert (first.outputs, second.outputs) == (("inner",), ("inner:1:0",))
    assert [node.operator for node in first.graphs["model"].nodes] == ["Dense", "LayerNormalization"]


def test_an_older_model_and_a_chain_are_drawn_too(sample):
    one = sample("keras-h5/keras-2")
    both = one.format.graph(one.files, one.entry).nodes[-1]
    assert (both.operator, both.inputs) == ("Concatenate", ("dense", "input_1"))
    chain = Keras().graph(packed(members_of()), {})
    assert [node.operator for node in chain.nodes] == ["Dense", "Dropout", "Dense"]
    assert [node.inputs for node in chain.nodes[1:]] == [node.outputs for node in chain.nodes[:-1]]


def test_weights_alone_are_described_and_have_no_graph(sample):
    one = sample("keras-h5/weights")
    assert one.format.describe(one.files, one.entry)["parameters"] == 23
    with pytest.raises(UnsupportedModelError, match="only weights"):
        one.format.graph(one.files, one.entry)


def layer(name, /, **config):
    return {"module": "keras.layers", "class_name": name, "config": config, "registered_name": None}


def function(name, module="builtins", registered=None):
    return {"class_name": "function", "config": name, "module": module, "registered_name": registered or name}


HOSTILE = {
    "a lambda of Keras 3": (
        layer("Lambda", function={"class_name": "__lambda__", "config": {"code": CODE, "defaults": None}}),
        "lambda-code",
        "Lambda",
    ),
    "a lambda anywhere": ({"a": [{"class_name": "__lambda__", "config": {"value": CODE}}]}, "lambda-code", "Lambda"),
    "a lambda of Keras 2": (
        {"class_name": "Lambda", "config": {"function": [CODE, None, None], "function_type": "lambda"}},
        "lambda-code",
        "Lambda",
    ),
    "a lambda for a shape": (
        {"class_name": "Lambda", "config": {"function": "keras.ops.abs", "output_shape": [CODE, None, None]}},
        "lambda-code",
        "Lambda",
    ),
    "a lambda of Keras 1": (
        {"class_name": "Lambda", "config": {"function": [CODE], "name": "lambda_1"}},
        "lambda-code",
        "Lambda",
    ),
    "a function by name": (
        {"class_name": "Lambda", "config": {"function": "system", "function_type": "function", "module": "os"}},
        "untrusted-global",
        "os.system",
    ),
    "a function in a Lambda": (layer("Lambda", function=function("system", "os")), "untrusted-global", "os.system"),
    "a class": ({"module": "os", "class_name": "system", "config": {}}, "untrusted-global", "os.system"),
    "a class that is no layer": (
        {"module": "keras.utils", "class_name": "get_file", "config": {}},
        "untrusted-global",
        "keras.utils.get_file",
    ),
    "the end of safe mode": (
        layer("Lambda", function=function("enable_unsafe_deserialization", "keras.config")),
        "untrusted-global",
        "keras.config.enable_unsafe_deserialization",
    ),
    "a module of Keras that is no interface": (
        {"module": "keras.src.utils.io_utils", "class_name": "print_msg", "config": {}},
        "untrusted-global",
        "keras.src.utils.io_utils.print_msg",
    ),
    "a registered class": (
        {"module": "mine", "class_name": "Mine", "config": {}, "registered_name": "pack>Mine"},
        "untrusted-global",
        "pack>Mine",
    ),
    "a registered class under the name of Keras' own": (
        {"module": "keras.layers", "class_name": "Dense", "config": {}, "registered_name": "pack>Dense"},
        "untrusted-global",
        "pack>Dense",
    ),
    "a class of older files": ({"class_name": "Custom>Mine", "config": {}}, "untrusted-global", "Custom>Mine"),
    "an activation": (layer("Dense", activation="os.system"), "untrusted-global", "os.system"),
    "an activation inside a layer": (layer("LSTM", recurrent_activation="exec"), "untrusted-global", "exec"),
    "an initializer": (layer("Dense", kernel_initializer="eval"), "untrusted-global", "eval"),
    "a loss": ({"loss": {"out": "subprocess.call"}}, "untrusted-global", "subprocess.call"),
    "a metric": ({"metrics": [["mae", "posix.system"]]}, "untrusted-global", "posix.system"),
    "a specification": (
        {"class_name": "__typespec__", "spec_name": "Popen", "module": "subprocess", "config": []},
        "untrusted-global",
        "subprocess.Popen",
    ),
    "an operator of TensorFlow": (
        {"class_name": "TFOpLambda", "config": {"function": "io.write_file"}},
        "untrusted-global",
        "tensorflow.io.write_file",
    ),
    "a class without a name": ({"class_name": ["os", "system"], "config": {}}, "untrusted-global", "?"),
    "a vocabulary in a file": (layer("StringLookup", vocabulary="/etc/passwd"), "path", "/etc/passwd"),
    "a relative vocabulary": (layer("TextVectorization", vocabulary="words.txt"), "path", "words.txt"),
    "an address": (layer("Dense", source="file:///etc/passwd"), "path", "file:///etc/passwd"),
    "a path upwards": (layer("Dense", source="a/../../b"), "path", "a/../../b"),
    "a SavedModel": (layer("TFSMLayer", filepath="model"), "path", "model"),
    "a pickled module": (layer("TorchModuleWrapper", module="gASV"), "pickled-module", "TorchModuleWrapper"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_runs_code_or_reads_files_is_found_wherever_it_stands(name):
    value, rule, subject = HOSTILE[name]
    assert (rule, subject) in in_config(value)
    deep = {"config": {"layers": [{"class_name": "Sequential", "config": {"layers": [{"x": [value]}]}}]}}
    (place, *_) = [one.place for one in hazards(deep, where="model") if one.rule == rule]
    assert place.startswith("model: $.config.layers[0].config.layers[0].x[0]")


@pytest.mark.parametrize(
    "honest",
    [
        layer("Lambda", function=function("relu", "keras.activations")),
        layer("Lambda", function=function("log1p", registered="function")),
        layer("Dense", activation="relu", name="/os.system", kernel_initializer="glorot_uniform"),
        layer("StringLookup", vocabulary=["/etc/passwd", "os.system", "file:///x", {"a": "b"}]),
        {"loss": {"a": "mse", "b": function("mean_squared_error")}, "metrics": [["accuracy", "MAE"]]},
        {"class_name": "__numpy__", "config": {"value": [1], "dtype": "float32"}},
        {"class_name": "Activation", "config": {"activation": "softmax"}},
    ],
)
def test_words_that_only_look_so_are_no_findings(honest):
    assert in_config(honest) == []


@pytest.mark.parametrize("name", ["a lambda of Keras 3", "a function by name", "a vocabulary in a file"])
def test_the_twin_of_an_honest_file_is_found_in_both_formats(tmp_path, name):
    value, rule, subject = HOSTILE[name]
    members = members_of()
    config = json.loads(members["config.json"])
    config["config"]["layers"].append(value)
    twin = packed({**members, "config.json": json.dumps(config)})
    assert Keras().detect(twin)
    assert rules(Keras().hazards(twin, {})) == [(rule, subject)]
    assert Keras().describe(twin, {})["code"] == (rule != "path")
    older = copy.deepcopy(keras_files.KERAS_2)
    older["config"]["layers"].append(value)
    path = keras_files.keras_2(tmp_path, config=older)
    assert rules(KerasH5().hazards(files_at(path), {})) == [(rule, subject)]


def test_how_a_model_was_compiled_is_looked_at_too(tmp_path):
    path = keras_files.keras_2(tmp_path, training={"loss": "os.system", "optimizer_config": {"class_name": "Evil"}})
    assert set(rules(KerasH5().hazards(files_at(path), {}))) == {
        ("untrusted-global", "os.system"),
        ("untrusted-global", "Evil"),
    }


def weights(fill, **options):
    stream = io.BytesIO()
    with h5py.File(stream, "w", **options) as file:
        file.create_group("layers")
        fill(file)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("fill", "rule"),
    [
        (lambda file: file.update(x=h5py.ExternalLink("other.h5", "/x")), "external-link"),
        (lambda file: file.update(x=h5py.SoftLink("/layers")), "soft-link"),
        (lambda file: file.create_dataset("x", (4,), "i4", external=[("raw", 0, 16)]), "external-data"),
        (lambda file: file.create_dataset("x", (2**40,), "f4", chunks=(9,)), "shape-bomb"),
    ],
)
def test_weights_that_lead_elsewhere_are_found_in_both_formats(fill, rule):
    def update(file):
        fill(_Names(file))

    data = weights(update)
    assert [one.rule for one in Keras().hazards(packed({**members_of(), "model.weights.h5": data}), {})] == [rule]
    alone = HeldFiles({"x.weights.h5": memoryview(data)})
    assert KerasH5().detect(alone)
    assert [one.rule for one in KerasH5().hazards(alone, {})] == [rule]


class _Names:
    """A group whose names can be set in an expression."""

    def __init__(self, group):
        self.create_dataset = group.create_dataset
        self.group = group

    def update(self, **links):
        for name, link in links.items():
            self.group[name] = link


def test_what_lies_in_assets_is_handed_on_but_for_text():
    members = {
        **members_of("text.keras"),
        "assets/x/vocabulary.bin": b"\x80\x04N.",
        "assets/protocol0.txt": b"cos\nsystem\n.",
    }
    handed_on = [place for place, _ in Keras().parts(packed(members), {})]
    assert handed_on == ["model.keras: assets/x/vocabulary.bin", "model.keras: assets/protocol0.txt"]


def test_a_configuration_that_inflates_to_too_much_is_a_limit():
    bomb = packed({**members_of(), "config.json": b" " * 20_000_000 + b"{}"}, compression=zipfile.ZIP_DEFLATED)
    for ask in (Keras().describe, lambda files, entry: list(Keras().hazards(files, entry))):
        with pytest.raises(LimitExceededError, match="unpacks to"):
            ask(bomb, {})


@pytest.mark.parametrize("config", ["[1]", '{"a": 1, "a": 2}', '{"a": "\\ud800"}', "{", "null"])
def test_a_configuration_that_is_none_is_refused(config):
    with pytest.raises(MalformedError):
        Keras().describe(packed({**members_of(), "config.json": config}), {})


def test_nesting_too_deep_and_findings_without_end_are_limits(tmp_path):
    deep = "[" * 5000 + "]" * 5000
    with pytest.raises(LimitExceededError, match=r"too deep|levels deep"):
        Keras().describe(packed({**members_of(), "config.json": f'{{"a": {deep}}}'}), {})
    with pytest.raises(LimitExceededError, match="findings"):
        list(hazards([{"class_name": "Evil"}] * 5000, where="model"))


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["os.system", "relu", "", "/x", "Dense"])
)
keys = st.sampled_from(
    [
        *("class_name", "config", "module", "registered_name", "layers", "name", "function", "function_type"),
        *(
            "inbound_nodes",
            "input_layers",
            "output_layers",
            "keras_history",
            "shape",
            "batch_shape",
            "activation",
            "loss",
        ),
    ]
)
classes = st.sampled_from(
    ["Functional", "Sequential", "InputLayer", "Lambda", "function", "__keras_tensor__", "TypeSpec"]
)
trees = st.recursive(
    scalars | classes,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=40,
)


@given(st.dictionaries(keys, trees, max_size=6))
def test_any_configuration_is_looked_at_without_a_crash(config):
    for ask in (
        partial(lambda: list(hazards(config, where="model"))),
        partial(lambda: json.dumps(describe(Saved("model", config, config)))),
        partial(lambda: draw(config).to_json()),
    ):
        try:
            ask()
        except VitrifyError:
            continue


def paths(value, path=()):
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(part, (*path, key))


@given(st.data())
def test_an_honest_configuration_with_any_part_changed_is_looked_at_without_a_crash(data):
    name = data.draw(st.sampled_from(["functional.keras", "nested.keras", "text.keras"]))
    config = json.loads(members_of(name)["config.json"])
    *most, last = data.draw(st.sampled_from([path for path in paths(config) if path]))
    part = config
    for key in most:
        part = part[key]
    part[last] = data.draw(trees)
    list(hazards(config, where="model"))
    json.dumps(describe(Saved("model", config, None)))
    draw(config).to_json()


@pytest.mark.slow
def test_the_table_of_names_is_that_of_the_installed_keras():
    here = Path(__file__).parent
    script = "from formats import keras_names as t; assert t.TABLE.read_text() == t.table()"
    made = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(here.parent), "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, f"python -m formats.keras_names, in tests/\n{made.stderr[-2000:]}"
