"""Statements to attach, and documents that another tool could have written."""

import json

import pytest

from vitrify.core.attestation import PARITY, STATEMENT_TYPE, Attestation, Subject
from vitrify.core.digest import Digest
from vitrify.core.manifest import Descriptor


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
