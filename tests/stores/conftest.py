"""Statements to attach, documents that another tool could have written, and a small registry."""

import json

import pytest
from stores._bad_manners import FILES
from stores._small_registry import small_registry

from vitrify.core.attestation import PARITY, STATEMENT_TYPE, Attestation, Subject
from vitrify.core.digest import Digest
from vitrify.core.manifest import Descriptor
from vitrify.stores import OciLayout, attach, pull, push
from vitrify.testing.stores import save


@pytest.fixture
def statement():
    """Return a function that makes a statement about a digest."""

    def make(digest, verdict="clean"):
        subject = Subject(name="churn", digest={"sha256": digest.hex})
        return Attestation(
            type_=STATEMENT_TYPE, subject=(subject,), predicate_type=PARITY, predicate={"verdict": verdict}
        ).to_json()

    return make


@pytest.fixture
def foreign():
    """Return a function that puts blobs into a store and lists the last of them, as another tool would."""

    def put(store, *documents, media_type):
        with store.stage() as stage:
            digests = [stage.add(data if isinstance(data, bytes) else json.dumps(data).encode()) for data in documents]
            size = stage.blobs()[digests[-1]].stat().st_size
            entry = Descriptor(media_type=media_type, digest=str(digests[-1]), size=size)
            stage.publish([(entry, None)])
        return digests

    return put


@pytest.fixture
def described():
    """Return a function that makes the raw OCI descriptor of some bytes."""
    return lambda data: {"mediaType": "a/b", "digest": str(Digest.of(data)), "size": len(data)}


@pytest.fixture
def small():
    with small_registry() as server:
        yield server


@pytest.fixture
def hosted(store, small, statement):
    """Save an artifact, push it to the small registry as churn:1, and return its digest."""
    digest = save(store, FILES, "churn:latest")
    attach(store, digest, statement(digest))
    push(store, digest, f"oci://{small.host}/churn:1")
    small.log.clear()
    return digest


@pytest.fixture
def other(tmp_path):
    return OciLayout(tmp_path / "other")


@pytest.fixture
def refused(small, other, hosted):
    """Return a function that demands an error of a pull, and that nothing of it stays."""

    def check(kind, match=None, reference="churn:1"):
        with pytest.raises(kind, match=match) as caught:
            pull(other, f"oci://{small.host}/{reference}")
        assert type(caught.value) is kind
        assert list(other.digests()) == []
        assert other.index.read().manifests == ()
        return caught.value

    return check
