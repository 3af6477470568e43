from __future__ import annotations

import numpy as np
import pytest

import vitrify
from vitrify import stores
from vitrify.artifacts.artifact import list_artifacts
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import MANIFEST_TYPE
from vitrify.core.signature import Field, Signature
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture
def saved():
    return vitrify.save({"w": np.arange(6.0)}, "weights", description="six numbers")


def damage(artifact, name):
    path = artifact.files.path(name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def test_an_artifact_is_opened_by_name_digest_archive_and_directory(saved, store, tmp_path):
    stores.export(store, saved.digest, tmp_path / "w.vit")
    other = OciLayout(tmp_path / "other")
    for reference in ("weights", "weights:latest", str(saved.digest), str(store.root)):
        assert vitrify.open(reference).digest == saved.digest
    assert vitrify.open(str(tmp_path / "w.vit"), store=other).digest == saved.digest


def test_a_directory_with_several_artifacts_is_asked_for_by_name(saved, store):
    vitrify.save({"w": np.zeros(2)}, "more")
    with pytest.raises(UsageError, match="holds 2 named artifacts, not one: more:latest, weights:latest"):
        vitrify.open(str(store.root))


def test_a_damaged_file_is_named_before_any_parser_sees_it(saved):
    for name in saved.manifest.files:
        fresh = vitrify.save({"w": np.arange(6.0)}, "weights", description="six numbers")
        damage(fresh, name)
        with pytest.raises(CorruptError, match=name.replace(".", r"\.")):
            vitrify.open("weights")


def test_what_is_not_there_is_not_found(store):
    for reference in ("absent", f"sha256:{'0' * 64}"):
        with pytest.raises(ReferenceNotFoundError):
            vitrify.open(reference)


def test_every_named_artifact_is_listed(saved):
    second = vitrify.save({"w": np.zeros(2)}, "more:2")
    assert [(item.name, item.digest) for item in list_artifacts()] == [
        ("more:2", second.digest),
        ("weights:latest", saved.digest),
    ]


def test_a_document_of_a_newer_version_says_what_to_do(saved, store):
    document = saved.document.replace(schema=SCHEMA + 1)
    with store.stage() as stage:
        with stage.open("vitrify.json", "weight.config") as stream:
            stream.write(document.to_json())
        from vitrify.testing.stores import build

        digest = stage.commit(build, "future")
    with pytest.raises(UsageError, match="document version 2; this Vitrify reads up to 1"):
        _ = vitrify.open(str(digest)).document


def test_unknown_fields_of_a_document_survive_being_read_and_written():
    raw = b'{"format":"onnx","future":[1],"runtime":null,"schema":1,"signature":{"inputs":[],"new":{"a":1}}}'
    assert Document.from_json(raw, where="x").to_json() == raw
    with pytest.raises(MalformedError, match=r"\$\.schema"):
        Document.from_json(b'{"schema":"1","format":"onnx","runtime":null}', where="x")


def test_an_artifact_shows_itself_in_a_notebook_and_on_a_line(saved):
    assert str(saved) == f"weights:latest ({saved.digest.short})"
    page = saved._repr_html_()
    assert str(saved.digest) in page
    assert "<script" not in Signature(inputs=(Field(name="<script>", dtype="int64"),))._repr_html_()


def test_the_manifest_is_an_oci_manifest_of_a_model(saved):
    assert saved.manifest.media_type == MANIFEST_TYPE
    config = stores.files.read_document(saved.store, saved.manifest.config.content)
    assert b'"format":"safetensors"' in config
    assert b"six numbers" in config
