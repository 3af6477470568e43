"""Hugging Face, MLflow, ModelPack and Orbax: what they tell, and what a twin of each that would hurt is found by."""

from __future__ import annotations

import json

import pytest
from samples import directories

from vitrify.core.catalog import catalog
from vitrify.core.errors import MalformedError
from vitrify.inspection.identify import files_at
from vitrify.inspection.scan import scan


def look(path, name):
    return catalog().row("format", name).look().describe(files_at(path), {})


def edited(path, change):
    """Change a JSON file in place."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def found(path):
    return {(one.rule, one.subject) for one in scan(path).findings}


def test_a_repository_tells_its_architecture_weights_and_licence(tmp_path):
    shown = look(directories.llama(tmp_path), "hugging-face")
    assert (shown["class"], shown["model_type"], shown["license"]) == ("LlamaForCausalLM", "llama", "apache-2.0")
    assert shown["versions"] == {"transformers": "5.1.0"}
    assert shown["classes"] == ["no", "yes"]
    assert (shown["parameters"], shown["precision"]) == (32, {"float32": 32})
    assert shown["tokenizer"]["chat_template"]
    assert "max_length" not in shown["tokenizer"]
    assert not shown["code"]


@pytest.mark.parametrize(
    ("value", "shown"), [(True, "True"), ("One", "One"), ({"a": 1}, "{'a': 1}"), (["A", 2], "A, 2")]
)
def test_a_configuration_whose_architectures_are_no_list_of_text_is_told_as_it_is(value, shown, tmp_path):
    path = directories.llama(tmp_path)
    edited(path / "config.json", lambda config: config.update(architectures=value))
    assert look(path, "hugging-face")["class"] == shown


def test_a_cache_is_the_repository_that_it_holds(tmp_path):
    assert look(directories.cached(tmp_path), "hugging-face")["class"] == "LlamaForCausalLM"


def test_sharded_weights_are_told_as_one_model(tmp_path):
    assert look(directories.sharded(tmp_path), "hugging-face")["parameters"] == 8


def test_shards_that_disagree_with_their_index_are_found(tmp_path):
    path = directories.sharded(tmp_path)
    edited(path / "model.safetensors.index.json", lambda value: value["weight_map"].update(layer1="../../x"))
    assert ("malformed", "safetensors") in found(path)


HOSTILE = {
    "code of the model": ("config.json", lambda v: v.update(auto_map={"AutoModel": "modeling_x.X"}), "python-code"),
    "code elsewhere": ("config.json", lambda v: v.update(sub={"auto_map": {"AutoModel": "a/b--m.X"}}), "python-code"),
    "a tokenizer's code": (
        "tokenizer_config.json",
        lambda v: v.update(auto_map={"AutoTokenizer": ["t.T", None]}),
        "python-code",
    ),
    "a template": ("tokenizer_config.json", lambda v: v.update(chat_template="{{ x.__class__ }}"), "template"),
    "a named template": (
        "tokenizer_config.json",
        lambda v: v.update(chat_template=[{"name": "a", "template": "{{ x.__class__ }}"}]),
        "template",
    ),
    "a part of the tokenizer": (
        "tokenizer.json",
        lambda v: v.update(post_processor={"type": "Sequence", "processors": [{"type": "Python"}]}),
        "unknown-type",
    ),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_what_a_configuration_asks_for_is_found(how, tmp_path):
    path = directories.llama(tmp_path)
    name, change, rule = HOSTILE[how]
    edited(path / name, change)
    assert rule in {rule for rule, _ in found(path)}


def test_a_template_in_a_file_of_its_own_is_found(tmp_path):
    path = directories.llama(tmp_path)
    (path / "chat_template.jinja").write_text("{{ lipsum.__globals__ }}")
    assert ("template", "__globals__") in found(path)


def test_modules_of_others_are_found(tmp_path):
    path = directories.llama(tmp_path)
    (path / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Transformer"}]))
    assert not found(path)
    (path / "modules.json").write_text(json.dumps([{"type": "evil.Module"}]))
    assert ("python-code", "evil.Module") in found(path)


def test_an_adapter_whose_base_lies_outside_is_found(tmp_path):
    path = directories.adapter(tmp_path)
    edited(path / "adapter_config.json", lambda value: value.update(base_model_name_or_path="../../base"))
    assert ("path", "../../base") in found(path)


def test_an_mlflow_model_tells_flavours_signature_and_needs(tmp_path):
    shown = look(directories.mlflow(tmp_path), "mlflow-model")
    assert shown["library"] == "lightgbm"
    assert shown["versions"]["mlflow"] == "3.1.0"
    assert [one["name"] for one in shown["inputs"]] == ["size of it", "b"]
    assert shown["outputs"] == [{"name": "0", "type": "float64", "shape": [None]}]
    assert shown["needs"] == ["mlflow==3.1.0", "lightgbm==4.7.0"]


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("loader_module: mlflow.lightgbm", "loader_module: evil.loader", ("python-code", "evil.loader")),
        ("loader_module: mlflow.lightgbm", "loader_module: mlflowx", ("python-code", "mlflowx")),
        ("    code: null", "    code: code", ("python-code", "code")),
        ("    data: model.lgb", "    data: ../../other", ("path", "../../other")),
        ("    data: model.lgb", "    data: /etc/passwd", ("path", "/etc/passwd")),
        ("    data: model.lgb", "    data: &x model.lgb", ("malformed", "mlflow-model")),
    ],
)
def test_what_an_mlmodel_would_load_is_found(before, after, rule, tmp_path):
    path = directories.mlflow(tmp_path)
    (path / "MLmodel").write_text(directories.MLMODEL.replace(before, after, 1))
    assert rule in found(path)


def test_a_modelpack_layout_tells_its_files_and_licence(tmp_path):
    shown = look(directories.modelpack(tmp_path), "modelpack")
    assert (shown["name"], shown["license"], shown["producer"]) == ("tiny", "MIT", "me")
    assert [one["path"] for one in shown["artifacts"][0]["files"]] == ["model.safetensors", "README.md"]
    assert shown["artifacts"][0]["names"] == ["latest"]


def test_a_kit_is_told_packed_and_unpacked(tmp_path):
    assert look(directories.kitops(tmp_path), "modelpack")["license"] == "Apache-2.0"
    shown = look(directories.kit(tmp_path), "modelpack")
    assert (shown["name"], shown["files"]) == ("tiny", ["./model.safetensors", "README.md"])


@pytest.mark.parametrize("path", ["../../.ssh/authorized_keys", "/etc/passwd", "a\\..\\b", "C:x"])
def test_a_layer_that_would_be_written_outside_is_found(path, tmp_path):
    assert ("path", path) in found(directories.modelpack(tmp_path, path))


def test_a_blob_of_other_bytes_or_size_is_found(tmp_path):
    home = directories.modelpack(tmp_path)
    for blob in (home / "blobs" / "sha256").iterdir():
        if blob.read_bytes() == directories.CARD.encode():
            blob.write_bytes(blob.read_bytes().replace(b"tiny", b"evil"))
            assert "digest" in {rule for rule, _ in found(home)}
            blob.write_bytes(b"short")
            assert "digest" in {rule for rule, _ in found(home)}
            blob.unlink()
            assert "missing-file" in {rule for rule, _ in found(home)}


def test_a_descriptor_that_is_none_is_refused(tmp_path):
    home = directories.modelpack(tmp_path)
    edited(home / "index.json", lambda value: value["manifests"][0].update(digest="sha256:../../../../etc/passwd"))
    with pytest.raises(MalformedError, match="descriptor"):
        look(home, "modelpack")


def test_a_checkpoint_tells_its_arrays(tmp_path):
    shown = look(directories.orbax(use_ocdbt=False)(tmp_path), "orbax")
    arrays = {one["name"]: (one["type"], one["shape"]) for one in shown["tensors"]}
    assert arrays["params.kernel"] == ("<f4", [4, 3])
    assert shown["storage"] == ["zarr2"]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda value: value.update(filters=[{"id": "pickle"}]), ("codec", "pickle")),
        (lambda value: value.update(compressor={"id": "evil"}), ("codec", "evil")),
        (lambda value: value.update(dtype="|O"), ("object-array", "params.kernel/.zarray")),
    ],
)
def test_an_array_of_more_than_numbers_is_found(change, rule, tmp_path):
    path = directories.orbax(use_ocdbt=False)(tmp_path)
    edited(path / "params.kernel" / ".zarray", change)
    assert rule in found(path)
