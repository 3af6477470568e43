"""Signing artifacts: a signature is about one digest, by one key, and says what it says."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from vitrify import stores
from vitrify.artifacts import open_artifact
from vitrify.core.attestation import ATTESTATION_TYPE, SCAN, Attestation
from vitrify.core.digest import Digest
from vitrify.core.envelope import ENVELOPE_TYPE, Envelope
from vitrify.core.errors import ForgedError, MalformedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import MANIFEST_TYPE, Descriptor, Manifest
from vitrify.testing.stores import save
from vitrify.trust import dsse
from vitrify.trust.evidence import Evidence, evidence_of, gather
from vitrify.trust.keys import PrivateKey
from vitrify.trust.signing import SIGNATURE, attest, sign, verify
from vitrify.trust.statement import statement

KEY, OTHER = PrivateKey.generate("ed25519"), PrivateKey.generate("ecdsa-p256")


@pytest.fixture
def digest(store):
    return save(store, {"w": b"1"}, "churn:latest")


def put(store, digest, data):
    """Lay bytes beside a digest as another tool may: nothing is checked."""
    manifest = stores.read_manifest(store, attest(store, digest, "urn:x:template", {"n": Digest.of(data).hex}))

    def build(files):
        layer = files[0].replace(media_type=ENVELOPE_TYPE)
        return manifest.replace(layers=(layer,)), b"{}"

    with store.stage() as stage:
        with stage.open("x", "doc") as stream:
            stream.write(data)
        return stage.commit(build, None)


def envelope(said, signer=KEY, payload_type=ATTESTATION_TYPE):
    data = said.to_json() if isinstance(said, Attestation) else json.dumps(said).encode()
    return dsse.sign(data, payload_type, [signer])


def test_a_signature_is_kept_beside_the_artifact_and_verifies(store, digest):
    when = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
    at = sign(store, digest, KEY, claims={"reviewed": "yes"}, now=when)
    (layer,) = stores.read_manifest(store, at).layers
    assert (layer.media_type, layer.annotations) == (ENVELOPE_TYPE, {"in-toto.io/predicate-type": SIGNATURE})
    assert stores.read_manifest(store, at).artifact_type == ATTESTATION_TYPE
    report = verify(store, digest, [OTHER.public, KEY.public])
    assert report.passed
    assert report.details == {"artifact": str(digest), "signers": [KEY.keyid], "statements": 1}
    (evidence,) = gather(store, digest, [KEY.public])
    assert evidence.signers == (KEY.keyid,)
    assert evidence.attestation.predicate["claims"] == {"reviewed": "yes"}
    assert evidence.attestation.predicate["signedAt"] == "2026-12-01T08:00:00Z"
    assert evidence.attestation.predicate["producer"].startswith("vitrify ")


def test_signing_the_same_again_changes_nothing(store, digest):
    when = datetime(2026, 12, 1, tzinfo=UTC)
    assert sign(store, digest, KEY, now=when) == sign(store, digest, KEY, now=when)
    assert len(stores.referrers(store, digest)) == 1


def test_an_unsigned_artifact_and_another_key_are_found(store, digest):
    report = verify(store, digest, [KEY.public])
    assert [finding.rule for finding in report.findings] == ["unsigned"]
    sign(store, digest, OTHER)
    report = verify(store, digest, [KEY.public])
    assert [finding.rule for finding in report.findings] == ["unsigned"]
    assert KEY.keyid in report.findings[0].message


def test_two_keys_sign_one_artifact(store, digest):
    for key in (KEY, OTHER):
        sign(store, digest, key)
    signers = sorted([KEY.keyid, OTHER.keyid])
    assert verify(store, digest, [KEY.public, OTHER.public]).details["signers"] == signers


def test_a_signed_statement_is_no_signature_on_the_artifact(store, digest):
    attest(store, digest, SCAN, {"verdict": "found"}, KEY)
    assert not verify(store, digest, [KEY.public]).passed
    (evidence,) = gather(store, digest, [KEY.public])
    assert evidence == Evidence(statement(digest, SCAN, {"verdict": "found"}), (KEY.keyid,))


def test_a_statement_without_a_signer_is_evidence_by_nobody(store, digest):
    attest(store, digest, SCAN, {"verdict": "clean"})
    assert gather(store, digest, [KEY.public]) == (Evidence(statement(digest, SCAN, {"verdict": "clean"})),)


def test_an_unsigned_signature_is_none(store, digest):
    attest(store, digest, SIGNATURE, {"claims": {}})
    assert not verify(store, digest, [KEY.public]).passed


def test_the_signature_of_another_artifact_proves_nothing_here(store, digest):
    other = save(store, {"w": b"2"}, "other:latest")
    sign(store, other, KEY)
    (data,) = stores.attestations(store, other)
    with pytest.raises(UsageError, match="not about"):
        stores.attach(store, digest, data)
    put(store, digest, data)
    assert stores.attestations(store, digest)[1:] == (data,)
    assert [one.attestation.predicate_type for one in gather(store, digest, [KEY.public])] == ["urn:x:template"]
    assert not verify(store, digest, [KEY.public]).passed


def test_a_digest_of_another_algorithm_is_no_subject(store, digest):
    said = statement(digest, SIGNATURE, {}).replace(
        subject=(statement(digest, SIGNATURE, {}).subject[0].replace(digest={"sha512": digest.hex}),)
    )
    put(store, digest, envelope(said).to_json())
    assert not verify(store, digest, [KEY.public]).passed


def test_a_forged_signature_stops_the_evidence_and_is_a_finding(store, digest):
    good = envelope(statement(digest, SIGNATURE, {"claims": {}}), OTHER)
    forged = good.replace(signatures=(good.signatures[0].replace(keyid=KEY.keyid),))
    stores.attach(store, digest, forged.to_json())
    sign(store, digest, KEY)
    with pytest.raises(ForgedError, match=KEY.keyid):
        gather(store, digest, [KEY.public])
    report = verify(store, digest, [KEY.public])
    assert [(finding.rule, finding.place) for finding in report.findings] == [
        ("forged-signature", "attestation 1 of 2")
    ]
    assert report.details["signers"] == [KEY.keyid]


@pytest.mark.parametrize(
    "said",
    [
        {"predicateType": SIGNATURE, "subject": [], "predicate": {}},
        {"_type": "https://example.org/Statement/v9", "predicateType": SIGNATURE, "subject": [], "predicate": {}},
        {"_type": "https://in-toto.io/Statement/v1"},
        [],
    ],
)
def test_a_signed_statement_of_another_kind_is_malformed(said):
    with pytest.raises(MalformedError):
        evidence_of(envelope(said).to_json(), [KEY.public])


def test_a_signed_statement_with_a_name_twice_is_malformed(store, digest):
    whole = statement(digest, SIGNATURE, {}).to_json()
    data = dsse.sign(whole.replace(b'{"_type"', b'{"subject":[],"_type"', 1), ATTESTATION_TYPE, [KEY]).to_json()
    with pytest.raises(MalformedError, match="'subject' stands twice"):
        evidence_of(data, [KEY.public])
    put(store, digest, data)
    report = verify(store, digest, [KEY.public])
    assert "malformed-attestation" in [finding.rule for finding in report.findings]


def test_an_envelope_around_something_else_is_no_evidence():
    data = envelope(statement(Digest.of(b""), SIGNATURE, {}), payload_type="application/json").to_json()
    with pytest.raises(MalformedError, match="application/json"):
        evidence_of(data, [KEY.public])


def test_a_statement_of_version_0_1_is_read(digest):
    said = statement(digest, SCAN, {}).replace(type_="https://in-toto.io/Statement/v0.1")
    assert evidence_of(envelope(said).to_json(), [KEY.public]).signers == (KEY.keyid,)


def test_an_artifact_shows_what_is_said_signed_or_not(store):
    import numpy as np
    from sklearn.linear_model import LinearRegression

    import vitrify

    X = np.arange(6.0).reshape(3, 2)
    saved = vitrify.save(LinearRegression().fit(X, X[:, 0]), "line", example=X)
    before = len(saved.attestations)
    sign(store, saved.digest, KEY)
    attest(store, saved.digest, "urn:acme:review:v1", {"ok": True})
    kinds = [one.predicate_type for one in open_artifact("line").attestations]
    assert kinds[before:] == [SIGNATURE, "urn:acme:review:v1"]


def test_signatures_travel_with_an_exported_artifact(store, digest, tmp_path):
    sign(store, digest, KEY)
    stores.export(store, digest, tmp_path / "churn.vit")
    there = stores.OciLayout(tmp_path / "there")
    assert stores.import_(there, tmp_path / "churn.vit") == digest
    assert verify(there, digest, [KEY.public]).passed


def test_a_manifest_that_is_no_model_is_signed_as_well(store, digest):
    image = Manifest(
        schema_version=2,
        media_type=MANIFEST_TYPE,
        config=Descriptor(media_type="application/vnd.oci.empty.v1+json", digest=str(Digest.of(b"{}")), size=2),
        layers=(),
    )
    with store.stage() as stage:
        other = stage.commit(lambda files: (image, b"{}"), "image:1")
    sign(store, other, KEY)
    assert verify(store, other, [KEY.public]).passed


def test_what_is_not_there_is_not_signed(store, digest):
    for act in (lambda: sign(store, Digest.of(b"x"), KEY), lambda: verify(store, Digest.of(b"x"), [KEY.public])):
        with pytest.raises(ReferenceNotFoundError):
            act()
    with pytest.raises(UsageError, match="no key"):
        verify(store, digest, [])


@pytest.mark.parametrize("claims", [{str(n): "x" for n in range(101)}, {"x": "y" * 4096}])
def test_claims_are_bounded(store, digest, claims):
    with pytest.raises(UsageError, match="claims"):
        sign(store, digest, KEY, claims=claims)
    with pytest.raises(UsageError, match="without a zone"):
        sign(store, digest, KEY, now=datetime(2026, 1, 1))  # noqa: DTZ001 (that is what is refused)
    assert stores.referrers(store, digest) == ()


@pytest.mark.parametrize("predicate_type", ["", "review", "urn:x y", "urn:x\n"])
def test_a_predicate_type_is_a_uri(store, digest, predicate_type):
    with pytest.raises(UsageError, match="predicate type"):
        attest(store, digest, predicate_type, {})


def test_a_predicate_is_json(store, digest):
    with pytest.raises(MalformedError, match="no JSON"):
        attest(store, digest, "urn:x:y", {"x": object()})


def test_the_envelope_in_the_store_is_what_was_signed(store, digest):
    sign(store, digest, KEY)
    (data,) = stores.attestations(store, digest)
    read = Envelope.read(data, where="attestation")
    assert [signature.keyid for signature in read.signatures] == [KEY.keyid]
    assert json.loads(read.content)["subject"][0]["digest"] == {"sha256": digest.hex}
