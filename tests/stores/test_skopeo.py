"""Other OCI tools read what we write, and we read what they write: driven with the real skopeo."""

import json
import shutil
import subprocess

import pytest

from vitrify.stores import OciLayout, attach, export, fsck, import_, open_store
from vitrify.testing.stores import contents, save

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(shutil.which("skopeo") is None, reason="skopeo is not on the path"),
]

FILES = {"model/weights.bin": b"weights" * 1000, "vitrify.json": b"{}", "again.json": b"{}"}
NAMES = ["churn:latest", "team/churn:1.2.0", "a.b-c_d/e:v1.0-rc_1"]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def artifact(store, name, statement):
    digest = save(store, FILES, name)
    attach(store, digest, statement(digest))
    save(store, {"w": b"another"}, "another:latest")
    return digest


def skopeo(*arguments):
    done = subprocess.run(["skopeo", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_inspect_gives_our_manifest_byte_for_byte(store, artifact, name):
    assert skopeo("inspect", "--raw", f"oci:{store.root}:{name}").encode() == store.blob(artifact).read_bytes()


def test_the_configuration_is_readable(store, artifact, name):
    config = json.loads(skopeo("inspect", "--config", "--raw", f"oci:{store.root}:{name}"))
    assert set(config) == {"descriptor", "config", "modelfs"}


def test_a_copy_of_the_layout_is_the_same_artifact(store, artifact, name, tmp_path):
    skopeo("copy", f"oci:{store.root}:{name}", f"oci:{tmp_path / 'copy'}:{name}")
    copy = open_store(tmp_path / "copy")
    assert copy.names.get(name).content == artifact
    assert contents(copy, artifact) == FILES
    assert fsck(copy).passed


def test_a_copy_into_our_store_takes_its_place_beside_what_is_there(store, artifact, name, tmp_path):
    ours = OciLayout(tmp_path / "ours")
    save(ours, {"w": b"1"}, "there:latest")
    skopeo("copy", f"oci:{store.root}:{name}", f"oci:{ours.root}:{name}")
    assert set(ours.names.all()) == {"there:latest", name}
    assert contents(ours, artifact) == FILES


def test_an_export_is_an_archive_for_others(store, artifact, name, tmp_path):
    export(store, artifact, tmp_path / "churn.tar")
    skopeo("copy", f"oci-archive:{tmp_path / 'churn.tar'}:{name}", f"oci:{tmp_path / 'copy'}:{name}")
    assert contents(open_store(tmp_path / "copy"), artifact) == FILES


def test_an_archive_of_others_is_imported(store, artifact, name, tmp_path):
    skopeo("copy", f"oci:{store.root}:{name}", f"oci-archive:{tmp_path / 'theirs.tar'}:{name}")
    ours = OciLayout(tmp_path / "ours")
    assert import_(ours, tmp_path / "theirs.tar") == artifact
    assert ours.names.get(name).content == artifact
    assert contents(ours, artifact) == FILES
