"""Garbage collection takes what nothing leads to, and nothing else."""

import json

import pytest

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError
from vitrify.core.manifest import INDEX_TYPE
from vitrify.stores import attach, attestations, collect, fsck, referrers
from vitrify.testing.stores import contents, damage, save


def test_an_artifact_that_lost_its_name_goes_and_what_it_shares_stays(store):
    kept = save(store, {"shared": b"shared", "w": b"1"}, "kept:1")
    gone = save(store, {"shared": b"shared", "w": b"2"}, "gone:1")
    store.names.unset("gone:1")
    done = collect(store)
    assert contents(store, kept) == {"shared": b"shared", "w": b"1"}
    assert str(gone) in done.removed
    assert str(Digest.of(b"2")) in done.removed
    assert str(Digest.of(b"shared")) not in done.removed
    assert done.kept == len(list(store.digests())) == 4
    assert fsck(store).passed


def test_an_artifact_whose_name_moved_goes(store):
    old = save(store, {"w": b"1"}, "churn:latest")
    new = save(store, {"w": b"2"}, "churn:latest")
    assert str(old) in collect(store).removed
    assert contents(store, new) == {"w": b"2"}


def test_an_artifact_with_another_name_stays(store):
    digest = save(store, {"w": b"1"}, "churn:1")
    store.names.set("churn:2", store.names.get("churn:1"))
    store.names.unset("churn:1")
    assert collect(store).removed == ()
    assert contents(store, digest) == {"w": b"1"}


def test_an_artifact_that_never_had_a_name_stays_until_it_is_forgotten(store):
    digest = save(store, {"w": b"1"})
    assert collect(store).removed == ()
    store.forget(digest)
    assert len(collect(store).removed) == 3


def test_a_dry_run_says_the_same_and_does_nothing(store):
    save(store, {"w": b"1"}, "churn:latest")
    store.names.unset("churn:latest")
    before = list(store.digests())
    trial = collect(store, dry_run=True)
    assert list(store.digests()) == before
    assert trial.bytes == sum(store.place(digest).stat().st_size for digest in before)
    assert collect(store) == trial
    assert list(store.digests()) == []


def test_attestations_live_as_long_as_what_they_are_about(store, statement):
    digest = save(store, {"w": b"1"}, "churn:latest")
    about = attach(store, digest, statement(digest))
    about_that = attach(store, about, statement(about))
    assert collect(store).removed == ()
    assert len(attestations(store, digest)) == len(attestations(store, about)) == 1
    store.names.unset("churn:latest")
    assert {str(digest), str(about), str(about_that)} <= set(collect(store).removed)
    assert list(store.digests()) == []
    assert referrers(store, digest) == ()
    assert store.index.read().manifests == ()


def test_what_another_tool_listed_keeps_all_that_it_leads_to(store, foreign, described):
    layer, config = b"layer", b"config"
    manifest = {"schemaVersion": 2, "config": described(config), "layers": [described(layer)]}
    data = json.dumps(manifest).encode()
    absent = described(b"the manifest of a platform that was not copied")
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [described(data), absent]}
    foreign(store, layer, config, data, index, media_type=INDEX_TYPE)
    foreign(store, b"binary", media_type="application/octet-stream")
    foreign(store, layer, {"future": {"parts": [described(layer)]}}, media_type="application/vnd.future+json")
    with store.stage() as stage:
        orphan = stage.add(b"orphan")
        stage.publish([])
    assert collect(store).removed == (str(orphan),)
    assert len(list(store.digests())) == 6


@pytest.mark.parametrize("how", ["flip", "missing"])
def test_nothing_is_collected_while_nobody_knows_what_an_artifact_needs(store, how):
    digest = save(store, {"w": b"1"}, "churn:latest")
    save(store, {"w": b"2"}, "other:latest")
    store.names.unset("other:latest")
    if how == "flip":
        damage(store.place(digest), how)
    else:
        store.place(digest).unlink()
    before = list(store.digests())
    with pytest.raises(CorruptError, match="churn:latest") as caught:
        collect(store)
    assert "vitrify rm churn:latest" in caught.value.remedy
    assert list(store.digests()) == before
    store.forget(digest)
    collect(store)
    assert list(store.digests()) == []


def test_files_that_are_no_blobs_are_left_alone(store):
    save(store, {"w": b"1"}, "churn:latest")
    stranger = store.root / "blobs" / "sha256" / "notes.txt"
    stranger.write_text("mine")
    collect(store)
    assert stranger.read_text() == "mine"
