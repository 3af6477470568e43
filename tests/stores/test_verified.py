"""Opening again costs no hashing, and never trusts what may have changed."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError
from vitrify.stores import ArtifactFiles, OciLayout, collect, fsck, read_manifest
from vitrify.stores._verified import Verified
from vitrify.testing.stores import contents, damage, save

SETTLED = 0.15
"""Seconds after which a file's change is older than a tick of its file system's clock."""

FILES = {f"part-{number}": bytes([number]) * 1000 for number in range(4)}


@pytest.fixture
def hashed(monkeypatch):
    """Return the list of files that were hashed."""
    seen = []
    real = Digest.of_file.__func__
    monkeypatch.setattr(Digest, "of_file", classmethod(lambda cls, path: (seen.append(path), real(cls, path))[1]))
    return seen


def open_all(root, digest):
    store = OciLayout(root)
    files = ArtifactFiles(store, read_manifest(store, digest))
    return [files.map(name) for name in files.names()]


def test_an_artifact_that_did_not_change_is_hashed_once(store, hashed):
    digest = save(store, FILES, "churn:latest")
    time.sleep(SETTLED)
    hashed.clear()
    open_all(store.root, digest)
    assert len(hashed) == len(FILES) + 1
    hashed.clear()
    open_all(store.root, digest)
    assert hashed == []


def test_what_changed_only_just_now_is_not_remembered(store, hashed):
    digest = save(store, FILES, "churn:latest")
    place = store.place(digest)
    place.chmod(0o644)
    place.chmod(0o444)
    store.blob(digest)
    assert not store.verified.knows(place, digest)


@pytest.mark.parametrize("restore", ["nothing", "times"])
def test_a_change_is_seen_even_if_size_and_times_are_put_back(store, restore):
    digest = save(store, FILES, "churn:latest")
    time.sleep(SETTLED)
    store.blob(digest)
    place = store.place(digest)
    assert store.verified.knows(place, digest)
    before = place.stat()
    damage(place, "flip")
    if restore == "times":
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        place.chmod(0o444)
    with pytest.raises(CorruptError):
        store.blob(digest)


def test_a_blob_that_is_known_to_be_good_is_not_replaced(store):
    digest = save(store, FILES, "churn:latest")
    time.sleep(SETTLED)
    open_all(store.root, digest)
    before = {blob: store.place(blob).stat().st_ino for blob in store.digests()}
    save(store, FILES, "churn:latest")
    after = {blob: store.place(blob).stat().st_ino for blob in store.digests()}
    known = {blob for blob in before if store.verified.knows(store.place(blob), blob)}
    assert len(known) == len(FILES) + 1
    assert all(before[blob] == after[blob] for blob in known)


@given(st.binary(max_size=400))
def test_a_torn_or_foreign_cache_is_only_slower(store, garbage):
    digest = save(store, FILES, "churn:latest")
    (store.root / ".vitrify" / "verified").write_bytes(garbage)
    assert contents(store, digest) == FILES


def test_a_torn_line_does_not_spoil_the_next(store, tmp_path):
    digest = save(store, FILES)
    time.sleep(SETTLED)
    path = tmp_path / "cache"
    cache = Verified(path)
    cache.check(store.place(digest), digest)
    path.write_bytes(path.read_bytes()[:50] + path.read_bytes())
    assert not Verified(path).knows(store.place(digest), digest)
    Verified(path).check(store.place(digest), digest)
    assert Verified(path).knows(store.place(digest), digest)


def test_a_cache_that_cannot_be_written_is_only_slower(store):
    digest = save(store, FILES, "churn:latest")
    (store.root / ".vitrify" / "verified").unlink(missing_ok=True)
    (store.root / ".vitrify" / "verified").mkdir()
    time.sleep(SETTLED)
    assert contents(store, digest) == FILES
    assert fsck(store).passed


def test_collecting_forgets_what_is_gone(store):
    for number in range(3):
        save(store, {"w": bytes([number])}, "churn:latest")
    time.sleep(SETTLED)
    assert fsck(store).passed
    path = store.root / ".vitrify" / "verified"
    before = len(path.read_bytes().splitlines())
    collect(store)
    assert len(path.read_bytes().splitlines()) == before - 6
    kept = list(store.digests())
    assert all(store.verified.knows(store.place(blob), blob) for blob in kept)
