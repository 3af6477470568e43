"""Hugging Face repositories: what its own libraries load, and the cache that they leave on a machine."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vitrify
from vitrify import package
from vitrify.core.errors import (
    CheckFailedError,
    CorruptError,
    MalformedError,
    ReferenceNotFoundError,
    UnsupportedModelError,
    UsageError,
)
from vitrify.package import _hugging_face_card, hugging_face
from vitrify.package._hugging_face_card import Card
from vitrify.package._origin import origin
from vitrify.reading.files import HeldFiles

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = """---
license: apache-2.0
tags:
  - tabular
  - "a: b"
base_model: org/base
metrics: [accuracy]
datasets: {not: a list}
---
# A title

> [!NOTE]
> skip

The first paragraph,
of two lines.

More.
"""


def tensors():
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return len(header).to_bytes(8, "little") + header + np.float32([1, 2]).tobytes()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return a cache as huggingface_hub leaves it, with one repository of one snapshot."""
    home = tmp_path / "hf"
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    folder = home / "hub" / "models--org--name"
    snapshot = folder / "snapshots" / COMMIT
    for made in (snapshot, folder / "blobs", folder / "refs"):
        made.mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "refs" / "v1.0").write_text(COMMIT)
    for name, data in {"model.safetensors": tensors(), "README.md": CARD.encode()}.items():
        blob = folder / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (snapshot / name).symlink_to(f"../../blobs/{blob.name}")
    return folder


@pytest.mark.parametrize(
    "reference", ["hf://org/name", "hf://org/name@main", "hf://org/name@v1.0", f"hf://org/name@{COMMIT}"]
)
def test_a_reference_is_found_in_the_cache(cache, reference):
    assert hugging_face.resolve(reference) == cache / "snapshots" / COMMIT


@pytest.mark.external
def test_the_library_itself_finds_the_same_snapshot(cache):
    hub = pytest.importorskip("huggingface_hub")
    theirs = hub.snapshot_download("org/name", local_files_only=True, cache_dir=cache.parent, revision="v1.0")
    assert str(hugging_face.resolve("hf://org/name@v1.0")) == theirs


def test_the_cache_may_lie_elsewhere(cache, monkeypatch):
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("HF_HUB_CACHE", str(cache.parent))
    assert hugging_face.resolve("hf://org/name").is_dir()
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with pytest.raises(ReferenceNotFoundError, match="no revision"):
        hugging_face.resolve("hf://org/name")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "hf://",
            "hf://org",
            "hf://org/name@",
            "hf://../name",
            "hf://org/../x",
            "hf://org/a/b",
            "hf://org/name@../../x",
        ),
        *("hf://org/name@/etc", "hf:///name", "hf://org--x/name", "hf://org/name\n", "hf://org/name@a//b", "hf://-o/x"),
        *("hf://org/" + "n" * 200, "hf://o\u0131rg/name"),
    ],
)
def test_what_is_no_reference_is_never_looked_for(cache, text):
    if text == "hf://org":  # a repository of nobody, as the first ones of the Hub are called
        with pytest.raises(ReferenceNotFoundError):
            hugging_face.resolve(text)
        return
    with pytest.raises((UsageError, ReferenceNotFoundError)):
        hugging_face.resolve(text)


@given(st.text(max_size=40))
def test_no_text_leads_out_of_the_cache(text):
    try:
        hugging_face.resolve(f"hf://{text}")
    except (UsageError, ReferenceNotFoundError):
        return
    pytest.fail("there is no such repository")


def test_what_the_cache_does_not_have_is_said_with_the_command_to_get_it(cache):
    with pytest.raises(ReferenceNotFoundError) as caught:
        hugging_face.resolve(f"hf://org/name@{'f' * 40}")
    assert "hf download org/name --revision" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "../../..", "x" * 1000, COMMIT.upper()])
def test_a_ref_that_is_no_commit_is_refused(cache, text):
    (cache / "refs" / "main").write_text(text)
    with pytest.raises(MalformedError, match="40 hex digits"):
        hugging_face.resolve("hf://org/name")


def test_a_cached_repository_is_taken_with_its_card(cache):
    artifact = package.import_("hf://org/name@v1.0", "theirs")
    assert artifact.document.format == "safetensors"
    assert artifact.files.read(artifact.files.names()[0])
    known = origin(artifact)
    assert (known["source"], known["commit"]) == ("hf://org/name@v1.0", COMMIT)
    assert known["card"] == {
        "license": "apache-2.0", "tags": ["tabular", "a: b"], "base_model": ["org/base"], "metrics": ["accuracy"]
    }  # fmt: skip


def test_a_link_out_of_the_cache_is_not_followed(cache):
    place = cache / "snapshots" / COMMIT / "model.safetensors"
    place.unlink()
    place.symlink_to("/etc/hostname")
    with pytest.raises(CheckFailedError, match="link"):
        package.import_("hf://org/name", "theirs")


def test_a_link_to_the_blobs_of_another_repository_is_not_followed(cache):
    other = cache.parent / "models--org--other" / "blobs" / ("a" * 64)
    other.parent.mkdir(parents=True)
    other.write_bytes(tensors())
    place = cache / "snapshots" / COMMIT / "model.safetensors"
    place.unlink()
    place.symlink_to(other)
    with pytest.raises(CheckFailedError, match="link"):
        package.import_("hf://org/name", "theirs")


def test_a_repository_of_several_models_is_not_guessed_at(cache):
    for name in ("a.safetensors", "b.safetensors"):
        (cache / "snapshots" / COMMIT / name).write_bytes(tensors())
    with pytest.raises(UnsupportedModelError, match="3 models"):
        package.import_("hf://org/name", "theirs")


def test_an_export_has_a_card_and_comes_back_with_the_same_digest(churn, tmp_path):
    card = Card(license="apache-2.0", tags=("tabular", "no"), metrics=("accuracy",))
    package.export(churn, tmp_path / "out", "hugging-face", card=card)
    text = (tmp_path / "out" / "README.md").read_text()
    assert 'library_name: "sklearn"' in text
    assert f"`{churn.digest}`" in text
    assert "Who \\*leaves\\* \\| soon" in text
    assert "| input | age | int64 | batch |" in text
    assert package.import_(tmp_path / "out", "back").digest == churn.digest


@pytest.mark.external
def test_the_library_itself_reads_the_card(churn, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    card = Card(license="apache-2.0", tags=("no", "1.10"), base_model=("org/base",), language=("en",))
    package.export(churn, tmp_path / "out", "hugging-face", card=card)
    data = hub.ModelCard.load(tmp_path / "out" / "README.md").data
    assert (data.license, data.library_name, data.language) == ("apache-2.0", "sklearn", ["en"])
    assert data.tags == ["no", "1.10", "vitrify"]
    assert data.base_model == ["org/base"]


def test_a_card_that_was_imported_is_written_again(cache, tmp_path):
    artifact = package.import_("hf://org/name", "theirs")
    package.export(artifact, tmp_path / "out", "hugging-face")
    text = (tmp_path / "out" / "README.md").read_text()
    assert 'license: "apache-2.0"' in text
    assert "The first paragraph, of two lines." in text


def test_an_export_that_was_changed_is_not_the_same_model(churn, tmp_path):
    package.export(churn, tmp_path / "out", "hugging-face")
    (tmp_path / "out" / "model.skops").write_bytes(b"other")
    with pytest.raises(CorruptError) as caught:
        package.import_(tmp_path / "out", "back")
    assert ".modelpack" in caught.value.remedy


@given(st.binary(max_size=300))
def test_any_bytes_are_a_card_of_some_kind(data):
    found = _hugging_face_card.read(HeldFiles({"README.md": memoryview(b"---\n" + data)}))
    assert len(found.description) <= 500


@pytest.mark.parametrize(
    "head",
    [
        "license: [1, 2]\ntags: {a: b}",
        "a: &x [*x]",
        "license: '../../etc/passwd'\ntags: 3",
        "- a list",
        "license: " + "x" * 5000,
    ],
)
def test_a_card_of_wrong_types_is_no_reason_to_refuse_the_model(head):
    data = f"---\n{head}\n---\ntext".encode()
    found = _hugging_face_card.read(HeldFiles({"README.md": memoryview(data)}))
    assert found.card == Card()
    assert found.description == "text"


@pytest.mark.parametrize("license_", ["a\nb: c", "../x", "x" * 200, "a b"])
def test_a_license_that_is_no_identifier_is_refused(license_):
    with pytest.raises(UsageError, match="not a license"):
        Card(license=license_)


@pytest.mark.slow
def test_transformers_loads_what_was_exported(tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    model = transformers.BertModel(config).eval()
    model.save_pretrained(tmp_path / "in")
    artifact = package.import_(tmp_path / "in", "bert")
    assert artifact.document.format == "hugging-face"
    package.export(artifact, tmp_path / "out", "hugging-face")
    loaded = transformers.AutoModel.from_pretrained(tmp_path / "out", local_files_only=True)
    rows = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.equal(loaded(rows).last_hidden_state, model(rows).last_hidden_state)
    assert 'library_name: "transformers"' in (tmp_path / "out" / "README.md").read_text()
    assert vitrify.open("bert").digest == package.import_(tmp_path / "out", "back").digest
