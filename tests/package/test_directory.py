from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pytest

import vitrify
from vitrify import package
from vitrify.core.errors import CheckFailedError, CorruptError, MalformedError, UnsupportedModelError, UsageError
from vitrify.package import directory


@pytest.fixture
def exported(churn, tmp_path):
    package.export(churn, tmp_path / "out", "directory")
    return tmp_path / "out"


def test_the_files_lie_under_their_own_paths(churn, exported, tree):
    files = tree(exported)
    for name in churn.files.names():
        assert files[name] == churn.files.read(name)
    assert files.keys() == {*churn.files.names(), directory.MANIFEST, directory.CONFIG}


def test_the_manifest_hashes_to_the_digest(churn, exported):
    data = (exported / directory.MANIFEST).read_bytes()
    assert hashlib.sha256(data).hexdigest() == churn.digest.hex


def test_an_import_gives_the_same_digest_and_predictions(churn, exported, store, frame):
    back = package.import_(exported, "back")
    assert back.digest == churn.digest
    assert back.store.root == store.root
    label = vitrify.load("back").predict(frame)["label"]
    assert (label == churn.session().predict(frame)["label"]).all()


def test_an_import_twice_changes_nothing(exported, store):
    first = package.import_(exported, "back")
    blobs = set(store.digests())
    assert package.import_(exported, "again").digest == first.digest
    assert set(store.digests()) == blobs


def _change(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["model.skops", "vitrify.json", "golden.npz", directory.CONFIG])
def test_a_changed_file_is_found_and_nothing_is_committed(exported, store, name):
    _change(exported / name)
    with pytest.raises(CorruptError, match=name):
        package.import_(exported, "back")
    assert not list(store.digests())


@pytest.mark.parametrize("name", ["model.skops", directory.CONFIG])
def test_a_missing_file_is_found(exported, name):
    (exported / name).unlink()
    with pytest.raises(CorruptError, match="missing"):
        package.import_(exported)


def test_a_renamed_file_is_found(exported):
    (exported / "model.skops").rename(exported / "other.skops")
    with pytest.raises(CorruptError, match="missing"):
        package.import_(exported)


def test_an_added_file_is_found(exported):
    (exported / "extra.py").write_text("import os")
    with pytest.raises(CorruptError, match=r"does not know.*extra\.py"):
        package.import_(exported)


def test_a_card_and_a_signature_may_lie_beside(churn, exported):
    (exported / "README.md").write_text("# mine")
    (exported / "model.sig").write_text("{}")
    assert package.import_(exported).digest == churn.digest


def test_a_link_out_is_found(exported):
    (exported / "model.skops").unlink()
    (exported / "model.skops").symlink_to("/etc/hostname")
    with pytest.raises(CheckFailedError, match="link"):
        package.import_(exported)


@pytest.mark.parametrize("path", ["../../out", "/abs", "a\\b"])
def test_a_manifest_with_a_path_that_leads_out_is_refused(exported, path):
    place = exported / directory.MANIFEST
    manifest = json.loads(place.read_bytes())
    manifest["layers"][0]["annotations"]["org.cncf.model.filepath"] = path
    place.write_text(json.dumps(manifest))
    with pytest.raises(MalformedError, match="safe relative path"):
        package.import_(exported)


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"layers": 1}'])
def test_a_manifest_that_is_none_is_refused(exported, text):
    (exported / directory.MANIFEST).write_text(text)
    with pytest.raises(MalformedError):
        package.import_(exported)


def test_a_layer_without_a_path_cannot_be_exported(churn, tmp_path):
    layers = (churn.manifest.layers[0].replace(annotations={}), *churn.manifest.layers[1:])
    nameless = vitrify.Artifact(
        churn.digest, churn.name, churn.manifest.replace(layers=layers), churn.files, churn.store
    )
    with pytest.raises(UnsupportedModelError, match="without a path"):
        package.export(nameless, tmp_path / "x", "directory")
    assert not (tmp_path / "x").exists()


def test_an_unknown_layout_is_said(churn, tmp_path):
    with pytest.raises(UsageError, match="kitops"):
        package.export(churn, tmp_path / "x", "zip")


@pytest.mark.external
def test_the_openssf_tool_signs_the_directory_and_verifies_it(churn, exported, tmp_path):
    pytest.importorskip("model_signing")
    from vitrify.trust.keys import PrivateKey

    key = PrivateKey.generate("ecdsa-p256")
    key.save(tmp_path / "key.pem", unencrypted=True)
    (tmp_path / "key.pub").write_bytes(key.public.pem)

    def they(*words):
        command = [sys.executable, "-m", "model_signing", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    inside = exported / "model.sig"
    done = they("sign", "key", exported, "--signature", inside, "--private_key", tmp_path / "key.pem")
    assert done.returncode == 0, done.stderr
    check = ("verify", "key", exported, "--signature", inside, "--public_key", tmp_path / "key.pub")
    assert they(*check).returncode == 0
    assert package.import_(exported).digest == churn.digest
    _change(exported / "model.skops")
    assert they(*check).returncode != 0
