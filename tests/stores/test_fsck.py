"""Checking a whole store finds what is damaged and names the file that it belongs to."""

import time

import pytest

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError
from vitrify.stores import OciLayout, attach, fsck, read_manifest, rehash
from vitrify.testing.stores import damage, save


def test_a_good_store_is_clean_and_counted(store, statement):
    digest = save(store, {"w": b"1"}, "churn:latest")
    attach(store, digest, statement(digest))
    report = fsck(store)
    assert report.verdict == "clean"
    assert report.details["blobs"] == len(list(store.digests())) == 6
    assert report.details["bytes"] == sum(store.place(blob).stat().st_size for blob in store.digests())


def test_an_absent_store_is_clean_and_not_made(tmp_path):
    assert fsck(OciLayout(tmp_path / "absent")).passed
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("how", ["flip", "truncate", "empty"])
def test_a_damaged_file_is_named_with_its_artifact_whatever_is_remembered(store, how, monkeypatch):
    save(store, {"model/w": b"weights"}, "churn:latest")
    time.sleep(0.15)
    assert fsck(store).passed
    damage(store.place(Digest.of(b"weights")), how)
    monkeypatch.setattr(store.verified, "knows", lambda *_: True)
    (finding,) = fsck(store).findings
    assert finding.place == "churn:latest: file model/w"
    assert Digest.of(b"weights").hex in finding.message
    assert finding.remedy


@pytest.mark.parametrize("files", [{"model/w": b"weights"}, {"model/w": b"weights", "v": b"2"}])
def test_one_artifact_is_hashed_again_whatever_is_remembered(store, files, monkeypatch):
    manifest = read_manifest(store, save(store, files, "churn:latest"))
    monkeypatch.setattr(store.verified, "knows", lambda *_: True)
    rehash(store, manifest)
    damage(store.place(Digest.of(b"weights")), "flip")
    with pytest.raises(CorruptError, match="model/w"):
        rehash(store, manifest)


def test_a_missing_file_is_named(store):
    save(store, {"model/w": b"weights"}, "churn:latest")
    store.place(Digest.of(b"weights")).unlink()
    (finding,) = fsck(store).findings
    assert finding.place == "churn:latest: file model/w"
    assert "missing" in finding.message


def test_a_damaged_manifest_and_a_damaged_orphan_are_named(store):
    digest = save(store, {"w": b"1"}, "churn:latest")
    with store.stage() as stage:
        orphan = stage.add(b"orphan")
        stage.publish([])
    damage(store.place(digest), "flip")
    damage(store.place(orphan), "flip")
    places = [finding.place for finding in fsck(store).findings]
    assert places == ["churn:latest", f"blobs/sha256/{orphan.hex}"]
