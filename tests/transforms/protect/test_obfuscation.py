"""Names that say nothing: nothing of the old ones is left, the model predicts the same, and the key leads back."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser
from transforms.protect.conftest import network, rows

import vitrify
from vitrify.core.attestation import PARITY
from vitrify.core.errors import CheckFailedError, DeniedError, UnsupportedModelError, UsageError
from vitrify.core.plan import Step
from vitrify.formats.onnx import Onnx
from vitrify.testing.directory import DirectorySink
from vitrify.transforms.planner import plan, reachable
from vitrify.transforms.protect import ProtectKey, mapping, obfuscate
from vitrify.transforms.protect._names import RULES, Names, Renaming, unknown_fields
from vitrify.transforms.protect.obfuscation import NAME, ObfuscateOnnx


def read(artifact):
    return Onnx().read(artifact.files, artifact.document.entry, None)


def renamed(model, key, kept=("x", "y")):
    result = onnx.ModelProto()
    result.CopyFrom(model)
    names = Names(key.derive("names"), {"value": kept, "size": ("batch",)})
    Renaming(names, result).apply(result)
    return result, names


def test_nothing_of_the_old_names_is_left_and_every_prediction_is_the_same(store, key):
    source = vitrify.save(network(), "m", example=rows())
    assert b"secret" in source.files.read("model.onnx")
    result = obfuscate("m", key)
    assert result.name == "m-obfuscated:latest"
    assert b"secret" not in result.files.read("model.onnx")
    assert b"secret" not in result.files.read("vitrify.json")
    expected, got = source.session().predict(rows(50)), result.session().predict(rows(50))
    assert expected["y"].tobytes() == got["y"].tobytes()


def test_the_proof_and_where_it_came_from_are_kept_and_the_key_is_not(store, key):
    source = vitrify.save(network(), "m", example=rows())
    result = obfuscate("m", key)
    (proof,) = [item.predicate for item in result.attestations if item.predicate_type == PARITY]
    assert proof["source"] == str(source.digest)
    assert proof["reports"][-1]["verdict"] == "clean"
    assert result.document.lineage["plan"]["steps"][0]["options"] == {"key": key.id, "inputs": False}
    everything = b"".join(store.blob(digest).read_bytes() for digest in store.digests())
    assert key.secret not in everything
    assert key.secret.hex().encode() not in everything


def test_the_ends_keep_their_names_and_the_sizes_that_they_show(store, key):
    vitrify.save(network(), "m", example=rows())
    model = read(obfuscate("m", key))
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["x", "y"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    onnx.checker.check_model(model, full_check=True)


def test_the_ends_are_renamed_when_asked_for_and_the_signature_is_not(store, key):
    source = vitrify.save(network(), "m", example=rows())
    result = obfuscate("m", key, inputs=True)
    model = read(result)
    assert {value.name for value in (*model.graph.input, *model.graph.output)}.isdisjoint({"x", "y"})
    assert result.signature == source.signature
    assert np.array_equal(result.session().predict(rows())["y"], source.session().predict(rows())["y"])
    again = obfuscate(result, key, name="again", inputs=True)
    assert np.array_equal(again.session().predict(rows())["y"], source.session().predict(rows())["y"])


def test_the_same_key_gives_the_same_artifact_and_another_key_another(store, key):
    vitrify.save(network(), "m", example=rows())
    first, second = obfuscate("m", key, name="a"), obfuscate("m", key, name="b")
    other = obfuscate("m", ProtectKey(bytes(32)), name="c")
    assert first.digest == second.digest
    assert first.manifest.files["model.onnx"].digest != other.manifest.files["model.onnx"].digest


def test_whoever_has_the_key_names_everything_again(store, key):
    vitrify.save(network(), "m", example=rows())
    model, names = read(obfuscate("m", key)), mapping("m", key)
    by_new = names["value"]
    assert {by_new.get(tensor.name) for tensor in model.graph.initializer} == {"secret_first", "secret_second"}
    assert "secret_matmul" in {names["node"].get(node.name) for node in model.graph.node}
    assert names["domain"][model.functions[0].domain] == "secret.domain"
    assert names["function"][model.functions[0].name] == "Gate"
    assert set(names["attribute"].values()) == {"secret_alpha"}
    assert set(names["size"].values()) == {"secret_width"}


def test_what_belonged_together_still_does(key):
    model, names = renamed(network(), key)
    graph = model.graph
    annotation = graph.quantization_annotation[0]
    hidden = next(node for node in graph.node if node.op_type == "MatMul").output[0]
    assert annotation.tensor_name == hidden == graph.value_info[0].name
    assert annotation.quant_parameter_tensor_names[0].value == graph.initializer[0].name
    assert annotation.quant_parameter_tensor_names[0].key == "SCALE_TENSOR"
    call = graph.node[2]
    function = model.functions[0]
    assert (call.domain, call.op_type) == (function.domain, function.name)
    assert call.attribute[0].name == function.attribute[0] == function.node[0].attribute[0].ref_attr_name
    assert function.node[0].attribute[0].name == "alpha"
    assert function.node[0].input[0] == function.input[0]
    branch = next(node for node in graph.node if node.op_type == "If").attribute[0].g
    assert branch.node[0].input[0] == names.new("value", "secret_wide")
    assert {entry.domain for entry in model.opset_import} == {"", function.domain}


def test_training_sparse_and_sharded_parts_are_renamed_too(key):
    model = network()
    values = helper.make_tensor("secret_sparse", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("secret_indices", TensorProto.INT64, [1], [2])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [5]))
    training = model.training_info.add()
    training.algorithm.CopyFrom(model.graph)
    training.update_binding.add(key="secret_first", value="secret_updated")
    model.configuration.add(name="secret_machine", num_devices=2)
    on = model.graph.node[1].device_configurations.add(configuration_id="secret_machine")
    spec = on.sharding_spec.add(tensor_name="secret_first", device=[0])
    spec.sharded_dim.add(axis=0).simple_sharding.add(dim_param="secret_width")
    model.graph.node[1].metadata_props.add(key="secret", value="secret")
    model.graph.input[0].type.denotation = "secret"
    result, names = renamed(model, key)
    assert b"secret" not in result.SerializeToString()
    assert result.graph.sparse_initializer[0].values.name == names.new("value", "secret_sparse")
    assert result.graph.sparse_initializer[0].indices.name == ""
    assert result.training_info[0].update_binding[0].key == result.graph.initializer[0].name
    on = result.graph.node[1].device_configurations[0]
    assert on.configuration_id == result.configuration[0].name
    assert on.sharding_spec[0].tensor_name == result.graph.initializer[0].name


def test_a_domain_that_holds_operators_too_keeps_its_place(key):
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 19, "mixed" : 1]>
        g (float[2] x) => (float[2] y) { h = mixed.Mine (x)
            y = mixed.Theirs (h) }
        <domain: "mixed", opset_import: ["" : 19]> Mine (a) => (b) { b = Neg (a) }
    """)
    result, _ = renamed(model, key)
    mine, theirs = result.graph.node
    assert theirs.domain == "mixed"
    assert theirs.op_type == "Theirs"
    assert mine.domain == result.functions[0].domain != "mixed"
    assert {entry.domain for entry in result.opset_import} == {"", "mixed", mine.domain}


def test_labels_and_other_data_stay(key):
    labels = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=[0, 1], values_strings=["no", "yes"]
    )
    ends = [helper.make_tensor_value_info(name, kind, [2]) for name, kind in (("x", 7), ("y", 8))]
    graph = helper.make_graph([labels], "g", ends[:1], ends[1:])
    text = helper.make_tensor("secret_text", TensorProto.STRING, [1], [b"a label"])
    graph.node.append(helper.make_node("Constant", [], ["secret_labels"], value=text))
    model, _ = renamed(helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 4)]), key)
    assert model.graph.node[0] == labels
    assert model.graph.node[1].attribute[0].t.string_data == [b"a label"]
    assert b"secret" not in model.SerializeToString()


def test_a_text_that_may_be_a_name_is_listed_not_guessed(store, key):
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 19, "acme" : 1]>
        g (float[2] x) => (float[2] y) {
            h = Neg (x)
            y = acme.Look <at = "h"> (h)
        }
    """)
    found = ObfuscateOnnx().problems(subject_of(model), step(key))
    assert [(one.place, one.message.split("'")[1]) for one in found] == [("Look", "at")]
    assert all(one.remedy for one in found)


def subject_of(model):
    from vitrify.core.document import SCHEMA, Document
    from vitrify.core.protocols import Subject

    class Files:
        def names(self):
            return ("model.onnx",)

        def read(self, name):
            return model.SerializeToString()

        def map(self, name):
            return memoryview(self.read(name))

    return Subject(Files(), Document(schema=SCHEMA, format="onnx", runtime=None, entry={"file": "model.onnx"}), {})


def step(key):
    return Step(transform=NAME, source="onnx", target="onnx", fidelity="exact", options={"key": key.id})


def test_the_table_has_every_text_that_onnx_has():
    """A text that a later ONNX adds fails here, and is refused where somebody runs that version."""
    assert not list(unknown_fields(onnx.ModelProto()))
    known = {descriptor.name for descriptor in every(onnx.ModelProto.DESCRIPTOR)}
    assert set(RULES) == known


def every(descriptor, seen=None):
    seen = {} if seen is None else seen
    if descriptor.full_name not in seen:
        seen[descriptor.full_name] = descriptor
        for field in descriptor.fields:
            if field.message_type is not None:
                every(field.message_type, seen)
    return seen.values()


def test_a_text_that_is_not_in_the_table_is_a_reason_to_refuse(key, monkeypatch):
    monkeypatch.setitem(RULES, "GraphProto", {"doc_string": "drop", "metadata_props": "drop"})
    found = ObfuscateOnnx().problems(subject_of(network()), step(key))
    assert [one.place for one in found] == ["GraphProto.name"]


@given(st.lists(st.text(max_size=20), unique=True, max_size=30), st.binary(min_size=32, max_size=32))
def test_different_names_stay_different_and_never_become_one_that_stays(old, secret):
    kept = old[: len(old) // 2]
    names = Names(secret, {"value": kept})
    new = [names.new("value", name) for name in old]
    assert len(set(new)) == len(old)
    assert all(names.new("value", name) == name for name in kept)
    assert names.known().get("value", {}) == {
        names.new("value", name): name for name in old if name and name not in kept
    }


def test_a_name_that_a_model_has_already_is_not_given_twice(key):
    secret = key.derive("names")
    made = Names(secret, {}).new("value", "a")
    names = Names(secret, {"value": [made]})
    assert names.new("value", "a") != made
    assert names.new("value", made) == made


def test_other_formats_and_encrypted_sources_and_missing_keys_are_refused(store, key, tmp_path):
    from vitrify.artifacts.encrypt import encrypt
    from vitrify.trust.encryption import Passphrase

    vitrify.save({"a": np.ones(3, np.float32)}, "w")
    with pytest.raises(UnsupportedModelError, match="safetensors"):
        obfuscate("w", key)
    source = vitrify.save(network(), "m", example=rows())
    encrypt("m", [Passphrase("correct horse battery", work=4)])
    with pytest.raises(DeniedError):
        obfuscate("m-encrypted", key)
    with pytest.raises(UsageError, match="not at hand"):
        ObfuscateOnnx().apply(source.subject(), step(key), DirectorySink(tmp_path))


def test_a_check_that_fails_leaves_no_artifact(store, key):
    from vitrify.core.report import Finding, Report

    class No:
        def run(self, subject, reference):
            return Report.of("no", [Finding(place="here", message="no")])

    vitrify.save(network(), "m", example=rows())
    with pytest.raises(CheckFailedError):
        obfuscate("m", key, checks=[No()])
    assert list(store.names.all()) == ["m:latest"]


def test_a_conversion_never_passes_a_step_of_protection():
    asked = plan("onnx", "onnx", options={"opset": 17}).steps
    assert [step.transform for step in asked] == ["onnx-opset"]
    for source in ("onnx", "skops", "safetensors"):
        for road in reachable(source, fidelity="lossy").values():
            assert not [step for step in road.steps if step.transform.startswith("protect")]
