"""SavedModel: what honest ones say, and what hostile ones are caught at: recipes 93 and 94, and more."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from samples import protobufs as made
from wire import message

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats._tensorflow import paths
from vitrify.formats.graph_def import GraphDef
from vitrify.formats.saved_model import SavedModel
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles

FAST = ["saved-model/basic-pitch", "saved-model/file"]
SLOW = ["saved-model/keras", "saved-model/assets", "saved-model/old"]


def attribute(name, *value):
    return 5, message((1, name), (2, message(*value)))


def node(name, operator, *inputs, attributes=()):
    return message((1, name), (2, operator), *((3, one) for one in inputs), *attributes)


def const(name, text):
    return node(name, "Const", attributes=[attribute("value", (8, message((1, 7), (8, text))))])


def call(name, function, *inputs, operator="StatefulPartitionedCall"):
    return node(name, operator, *inputs, attributes=[attribute("f", (10, message((1, function))))])


def function(name, arguments, *nodes):
    signature = message((1, name), *((2, message((1, one))) for one in arguments))
    return message((1, signature), *((3, one) for one in nodes))


def graph(*nodes, functions=()):
    return message(*((1, one) for one in nodes), (2, message(*((1, one) for one in functions))))


def saved(*nodes, functions=(), filename="", assets=(), objects=()):
    """Return a saved model's main file."""
    meta = [(1, message((4, "serve"), (5, "2.21.0"))), (2, graph(*nodes, functions=functions))]
    if filename:
        meta.append((3, message((1, f"{filename}:0"))))
    meta += [(6, message((1, message((1, f"{tensor}:0"))), (2, file))) for tensor, file in assets]
    if objects:
        users = [message((1, kind), (3, text)) for kind, text in objects]
        meta.append((7, message(*((1, message((4, user))) for user in users))))
    return message((1, 1), (2, message(*meta)))


def held(data, **more):
    views = {"saved_model.pb": memoryview(data), **{name: memoryview(value) for name, value in more.items()}}
    return HeldFiles(views)


def hazards(*args, more=(), **options):
    return list(SavedModel().hazards(held(saved(*args, **options), **dict(more)), {}))


def rules(found):
    return [(finding.rule, finding.subject) for finding in found]


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)])
def test_honest_models_are_clean_and_say_what_is_in_them(name, tmp_path):
    path = made.SAMPLES[name](tmp_path)
    files, entry = files_at(path), {"file": path.name} if path.is_file() else {}
    assert SavedModel().detect(files)
    assert list(SavedModel().hazards(files, entry)) == []
    described = json.loads(json.dumps(SavedModel().describe(files, entry)))
    assert described["inputs"]
    assert described["outputs"]
    assert described["needs"] == ["tensorflow"]
    drawn = SavedModel().graph(files, entry)
    assert {node.operator for node in drawn.nodes} <= set(described["operators"])


def test_what_a_saved_model_says(tmp_path):
    path = made.SAMPLES["saved-model/basic-pitch"](tmp_path)
    described = SavedModel().describe(files_at(path), {})
    assert described["producer"] == "TensorFlow 2.4.1"
    assert (described["library"], described["class"]) == ("keras", "Functional")
    assert described["inputs"] == [
        {"name": "input_2", "type": "float32", "shape": [None, 43844, 1], "tensor": "serving_default_input_2:0"}
    ]
    assert {one["name"] for one in described["outputs"]} == {"contour", "note", "onset"}
    assert described["operators"]["Conv2D"] == 160
    assert described["functions"] == 104
    assert described["parameters"] == 50441
    drawn = SavedModel().graph(files_at(path), {})
    assert drawn.inputs == ("serving_default_input_2",)
    assert any(node.graphs for node in drawn.nodes)


@pytest.mark.slow
def test_variables_are_those_that_tensorflow_lists(tmp_path):
    path = made.SAMPLES["saved-model/keras"](tmp_path)
    described = SavedModel().describe(files_at(path), {})
    tf = made.tensorflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = dict(tf.train.list_variables(str(path / "variables" / "variables")))
    assert {one["name"]: one["shape"] for one in described["tensors"]}.items() <= theirs.items()
    assert set(theirs) - {one["name"] for one in described["tensors"]} <= {"_CHECKPOINTABLE_OBJECT_GRAPH"}


@pytest.mark.parametrize(
    ("operator", "rule"),
    [
        ("PyFunc", "python-operator"),
        ("EagerPyFunc", "python-operator"),
        ("PyFuncStateless", "python-operator"),
        ("ReadFile", "file-operator"),
        ("WriteFile", "file-operator"),
        ("MatchingFiles", "file-operator"),
        ("TFRecordDataset", "file-operator"),
        ("SaveV2", "file-operator"),
        ("RestoreV2", "file-operator"),
        ("MergeV2Checkpoints", "file-operator"),
        ("ImmutableConst", "file-operator"),
        ("InitializeTableFromTextFileV2", "file-operator"),
        ("RpcClient", "network-operator"),
        ("DataServiceDatasetV4", "network-operator"),
        ("XlaCustomCallV2", "native-operator"),
        ("AcmeOp", "custom-operator"),
        ("Acme>Op", "custom-operator"),
        ("", "custom-operator"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_operators_that_reach_out_are_found_wherever_they_stand(operator, rule, deep):
    made_node = node("evil", operator, "a", "b")
    found = hazards(functions=[function("unused", ["x"], made_node)]) if deep else hazards(made_node)
    assert rules(found) == [(rule, operator)]
    assert {finding.verdict for finding in found} == {"found"}


def test_operators_that_only_reach_out_with_an_attribute_are_found_with_it():
    assert hazards(node("p", "PrintV2", attributes=[attribute("output_stream", (2, "stderr"))])) == []
    found = hazards(node("p", "PrintV2", attributes=[attribute("output_stream", (2, "file:///tmp/x"))]))
    assert rules(found) == [("file-operator", "PrintV2")]
    assert hazards(node("d", "DebugIdentity")) == []
    urls = attribute("debug_urls", (1, message((2, "grpc://host:1"))))
    assert rules(hazards(node("d", "DebugIdentity", attributes=[urls]))) == [("file-operator", "DebugIdentity")]


def test_programs_of_other_formats_are_not_checked():
    (found,) = hazards(node("x", "XlaCallModule"))
    assert (found.rule, found.verdict) == ("opaque-operator", "not checked")


def saver(path="file", joined="_temp/part", name="file:0"):
    """Return the save function that TensorFlow writes, and its call."""
    nodes = [
        const("suffix", joined),
        node("join", "StringJoin", path, "suffix:output:0"),
        node("shard", "ShardedFilename", "join:output:0"),
        node("save", "SaveV2", "shard:filename:0"),
        node("pack", "Pack", "shard:filename:0", "^save"),
        node("merge", "MergeV2Checkpoints", "pack:output:0", path),
    ]
    return function("saver", ["file", "other"], *nodes), call("saving", "saver", name, "file")


def test_a_saver_that_writes_where_it_is_told_to_is_honest():
    save, calling = saver()
    assert hazards(node("file", "Placeholder"), calling, functions=[save], filename="file") == []


@pytest.mark.parametrize(
    ("nodes", "options"),
    [
        ([node("file", "Placeholder")], {"path": "fixed:output:0"}),
        ([node("file", "Placeholder")], {"joined": "/../../x"}),
        ([const("file", "/etc/x")], {}),
        ([const("default", "/etc/x"), node("file", "PlaceholderWithDefault", "default")], {}),
        ([node("file", "Placeholder"), const("other", "/etc/x")], {"name": "other"}),
        ([node("file", "Placeholder"), node("other", "Placeholder")], {"name": "other"}),
        ([node("file", "Placeholder"), const("evil", "/x"), call("twice", "saver", "evil", "evil")], {}),
        ([node("file", "Placeholder"), call("loop", "saver", "file", operator="While")], {}),
    ],
)
def test_a_saver_that_writes_anywhere_else_is_found(nodes, options):
    save, calling = saver(**options)
    save += message((3, const("fixed", "/etc/x")))
    found = hazards(*nodes, calling, functions=[save], filename="file")
    assert ("file-operator", "SaveV2") in rules(found)


def table(*nodes, path="path", assets=(("asset", "words.txt"),), **more):
    filling = function("fill", ["handle", "path"], node("init", "InitializeTableFromTextFileV2", "handle", path))
    files = {"assets/words.txt": b"a"} | more
    return hazards(
        *nodes,
        call("go", "fill", "t", "read"),
        functions=[filling, *more.pop("functions", ())],
        assets=assets,
        more=files,
    )


def test_ways_back_that_are_longer_than_an_honest_one_are_a_limit(monkeypatch):
    monkeypatch.setattr(paths, "_MAX_STEPS", 1000)
    save, calling = saver()
    many = [call(f"call{index}", "saver", "file", "file") for index in range(1001)]
    with pytest.raises(LimitExceededError, match="longer"):
        hazards(node("file", "Placeholder"), calling, *many, functions=[save], filename="file")
    chain = [node(f"i{index}", "Identity", f"i{index - 1}" if index else "file") for index in range(900)]
    savers = [node(f"s{index}", "SaveV2", "i899") for index in range(900)]
    assert hazards(node("file", "Placeholder"), *chain, *savers, filename="file") == []


HONEST_TABLE = [
    node("asset", "Placeholder"),
    node("kept", "VarHandleOp"),
    node("set", "AssignVariableOp", "kept", "asset"),
    node("read", "ReadVariableOp", "kept", "^set"),
]


def test_a_table_that_is_filled_from_an_asset_is_honest():
    assert table(*HONEST_TABLE) == []
    assert table(node("read", "Placeholder"), assets=[("read", "words.txt")]) == []


@pytest.mark.parametrize(
    "more",
    [
        [const("evil", "/etc/x"), node("again", "AssignVariableOp", "kept", "evil")],
        [call("hidden", "other", "kept")],
        [node("alias", "VarHandleOp", attributes=[attribute("shared_name", (2, "kept"))])],
    ],
)
def test_a_table_whose_path_could_be_another_is_found(more):
    assert ("file-operator", "InitializeTableFromTextFileV2") in rules(table(*HONEST_TABLE, *more))


def test_a_table_that_is_filled_from_a_constant_is_found():
    assert ("file-operator", "InitializeTableFromTextFileV2") in rules(table(const("read", "/etc/passwd")))


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../x", "c:\\x", "..\\x"])
def test_an_asset_outside_the_model_is_found(name):
    assert rules(hazards(node("a", "Placeholder"), assets=[("a", name)])) == [("asset-path", name)]


def test_an_asset_that_is_not_there_is_not_checked():
    (found,) = hazards(node("a", "Placeholder"), assets=[("a", "x")], more={"other": b"x"})
    assert (found.rule, found.verdict) == ("asset-missing", "not checked")


def test_links_in_the_directory_are_found(tmp_path):
    path = made.SAMPLES["saved-model/basic-pitch"](tmp_path)
    data = next((path / "variables").glob("*.data*"))
    data.rename(tmp_path / "secret")
    data.symlink_to(tmp_path / "secret")
    found = {finding.rule: finding for finding in SavedModel().hazards(files_at(path), {})}
    assert found["linked-file"].subject == f"variables/{data.name}"
    assert "checkpoint-data-missing" in found


def test_variables_that_leave_their_file_are_found(tmp_path):
    path = made.SAMPLES["saved-model/basic-pitch"](tmp_path)
    data = next((path / "variables").glob("*.data*"))
    data.write_bytes(data.read_bytes()[:1000])
    assert {finding.rule for finding in SavedModel().hazards(files_at(path), {})} == {"checkpoint-range"}


@pytest.mark.parametrize("class_name", ["Lambda", "keras.layers>Lambda"])
def test_code_in_keras_metadata_is_found(class_name):
    config = json.dumps({"class_name": "Functional", "config": {"layers": [{"class_name": class_name}]}})
    assert rules(hazards(node("a", "NoOp"), objects=[("_tf_keras_network", config)])) == [
        ("keras-lambda", "keras.layers.Lambda")
    ]
    plain = message((1, message((4, "_tf_keras_layer"), (5, config))))
    found = hazards(node("a", "NoOp"), more={"keras_metadata.pb": plain})
    assert rules(found) == [("keras-lambda", "keras.layers.Lambda")]
    (broken,) = hazards(node("a", "NoOp"), objects=[("_tf_keras_layer", "{")])
    assert broken.verdict == "not checked"


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04", message((1, 1)), message((1, 1), (2, b"\xff"))])
def test_what_is_no_saved_model_is_not_detected_and_malformed(data):
    assert not SavedModel().detect(held(data))
    for look in (SavedModel().describe, SavedModel().graph, lambda *args: list(SavedModel().hazards(*args))):
        with pytest.raises(MalformedError):
            look(held(data), {})


def test_functions_that_call_themselves_are_drawn_once():
    functions = [function("f", ["x"], call("again", "f", "x"))]
    drawn = SavedModel().graph(held(saved(call("start", "f", "x"), functions=functions)), {})
    (start,) = drawn.nodes
    assert start.graphs["f"].nodes[0].graphs == {}


@pytest.mark.slow
def test_a_frozen_graph_says_what_is_in_it(tmp_path):
    path = made.SAMPLES["graph-def/frozen"](tmp_path)
    files, entry = files_at(path), {"file": path.name}
    assert GraphDef().detect(files)
    assert not SavedModel().detect(files)
    assert list(GraphDef().hazards(files, entry)) == []
    described = json.loads(json.dumps(GraphDef().describe(files, entry)))
    assert described["inputs"] == [{"name": "x", "type": "float32", "shape": [None, 3]}]
    assert [one["name"] for one in described["outputs"]] == ["y"]
    assert described["tensors"] == [{"name": "weight", "type": "float32", "shape": [3, 500], "bytes": 6000}]
    assert [one.operator for one in GraphDef().graph(files, entry).nodes] == ["Placeholder", "Const", "MatMul", "Relu"]


def test_operators_of_a_graph_that_reach_out_are_found():
    files = HeldFiles({"g.pb": memoryview(graph(node("evil", "WriteFile", "a", "b")))})
    assert GraphDef().detect(files)
    assert rules(GraphDef().hazards(files, {"file": "g.pb"})) == [("file-operator", "WriteFile")]


def test_the_table_of_operators_is_read_from_beside_the_code():
    from vitrify.formats._tensorflow import operators

    assert Path(operators.__file__).with_name("operators.txt").exists()
    assert operators.known("MatMul")
    assert not operators.known("")
