"""Attestations lie beside their subject, found from it, once each."""

import pytest

from vitrify.core.attestation import ATTESTATION_TYPE, PARITY
from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import EMPTY_TYPE
from vitrify.stores import OciLayout, attach, attestations, read_manifest, referrers
from vitrify.testing.stores import damage, save


@pytest.fixture
def artifact(store):
    return save(store, {"w": b"1"}, "churn:latest")


def test_what_was_attached_is_found_in_order(store, artifact, statement):
    statements = [statement(artifact, verdict) for verdict in ("clean", "found")]
    digests = [attach(store, artifact, data) for data in statements]
    fresh = OciLayout(store.root)
    assert attestations(fresh, artifact) == tuple(statements)
    assert [entry.content for entry in referrers(fresh, artifact)] == digests
    assert list(fresh.names.all()) == ["churn:latest"]


def test_attaching_twice_or_by_descriptor_changes_nothing(store, artifact, statement):
    first = attach(store, artifact, statement(artifact))
    before = (store.root / "index.json").read_bytes()
    assert attach(store, artifact, statement(artifact)) == first
    assert attach(store, store.names.get("churn:latest"), statement(artifact)) == first
    assert (store.root / "index.json").read_bytes() == before


def test_the_manifest_is_that_of_an_oci_artifact_without_configuration(store, artifact, statement):
    manifest = read_manifest(store, attach(store, artifact, statement(artifact)))
    assert manifest.artifact_type == ATTESTATION_TYPE
    assert (manifest.config.media_type, manifest.config.size) == (EMPTY_TYPE, 2)
    assert store.blob(manifest.config.content).read_bytes() == b"{}"
    assert manifest.subject.content == artifact
    assert manifest.subject.size == store.blob(artifact).stat().st_size
    (layer,) = manifest.layers
    assert layer.media_type == ATTESTATION_TYPE
    assert layer.annotations == {"in-toto.io/predicate-type": PARITY}


def test_one_artifact_does_not_have_the_attestations_of_another(store, artifact, statement):
    other = save(store, {"w": b"2"}, "other:latest")
    attach(store, other, statement(other))
    assert attestations(store, artifact) == ()


def test_a_statement_about_something_else_is_refused(store, artifact, statement):
    with pytest.raises(UsageError, match=artifact.hex):
        attach(store, artifact, statement(Digest.of(b"else")))
    assert referrers(store, artifact) == ()


def test_what_is_no_statement_is_refused(store, artifact):
    with pytest.raises(MalformedError, match="attestation"):
        attach(store, artifact, b"{}")


def test_a_subject_that_is_not_there_is_an_error(store, artifact, statement):
    absent = Digest.of(b"absent")
    with pytest.raises(ReferenceNotFoundError, match=absent.hex):
        attach(store, absent, statement(absent))


def test_a_damaged_attestation_is_an_error_and_not_an_absent_one(store, artifact, statement):
    digest = attach(store, artifact, statement(artifact))
    layer = read_manifest(store, digest).layers[0]
    damage(store.place(layer.content), "flip")
    with pytest.raises(CorruptError):
        attestations(store, artifact)
    damage(store.place(digest), "flip")
    with pytest.raises(CorruptError):
        referrers(store, artifact)
