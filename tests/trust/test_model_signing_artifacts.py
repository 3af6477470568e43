"""An artifact is signed by the digests it has, and its export verifies anywhere."""

from __future__ import annotations

import shutil

import pytest
from trust._signed_model import KEY, OTHER, rules

from vitrify import stores
from vitrify.artifacts.artifact import Artifact
from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.package import directory
from vitrify.testing.stores import save
from vitrify.trust._signed_files import DOCUMENTS
from vitrify.trust.model_signing import sign_artifact, verify_artifact, verify_directory


def test_an_artifact_is_signed_without_hashing_and_its_export_verifies_anywhere(store, tmp_path, signature, they):
    digest = save(store, {"weights/w": b"1", "vitrify.json": b"{}"}, "churn:latest")
    signature.write_bytes(sign_artifact(store, digest, KEY, name="churn"))
    assert verify_artifact(store, digest, signature, KEY.public).passed
    directory.export(Artifact.of(store, digest, "churn:latest"), tmp_path / "out")
    they.verify(tmp_path / "out", signature)
    assert verify_directory(tmp_path / "out", signature, KEY.public).passed
    shutil.copy(signature, tmp_path / "out" / "model.sig")
    assert verify_directory(tmp_path / "out", tmp_path / "out" / "model.sig", KEY.public).passed
    other = save(store, {"weights/w": b"2", "vitrify.json": b"{}"}, "other:latest")
    assert ("changed-file", "weights/w") in rules(verify_artifact(store, other, signature, KEY.public))
    assert not verify_artifact(store, digest, signature, OTHER.public).passed


def commit(store, manifest):
    """Commit a manifest of one file ``w`` as it is."""
    with store.stage() as stage:
        with stage.open("w", "weight") as stream:
            stream.write(b"1")
        return stage.commit(lambda files: (manifest, store.blob(manifest.config.content).read_bytes()), None)


def test_an_artifact_with_the_same_files_and_another_manifest_is_another_one(store, signature):
    digest = save(store, {"w": b"1"}, "churn:latest")
    signature.write_bytes(sign_artifact(store, digest, KEY))
    same = stores.read_manifest(store, digest).replace(annotations={"description": "other"})
    other = commit(store, same)
    report = verify_artifact(store, other, signature, KEY.public)
    assert rules(report) == [("changed-file", ".modelpack/manifest.json")]
    assert (directory.MANIFEST, directory.CONFIG) == DOCUMENTS


def test_an_artifact_that_is_no_set_of_files_is_not_signed_as_one(store, signature):
    manifest = stores.read_manifest(store, save(store, {"w": b"1"}, "churn:latest"))
    bare = manifest.replace(layers=(manifest.layers[0].replace(annotations={}),))
    digest = commit(store, bare)
    with pytest.raises(UsageError, match="no path"):
        sign_artifact(store, digest, KEY)


def test_an_artifact_with_a_file_that_would_be_ignored_is_not_signed(store):
    digest = save(store, {"model.sig": b"1", "w": b"2"}, "churn:latest")
    with pytest.raises(UsageError, match=r"model\.sig"):
        sign_artifact(store, digest, KEY)
    with pytest.raises(ReferenceNotFoundError):
        sign_artifact(store, type(digest).of(b"else"), KEY)
