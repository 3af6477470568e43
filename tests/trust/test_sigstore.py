"""Signing by identity, against an instance of our own that runs in this process; the public one is never asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from trust._instance import Instance as Services
from trust._signed_model import rules

from vitrify import stores
from vitrify.core.errors import (
    AuthenticationError,
    ForgedError,
    MalformedError,
    MissingDependencyError,
    StoreError,
    UnavailableError,
    UsageError,
)
from vitrify.testing.stores import save
from vitrify.trust.keys import PrivateKey
from vitrify.trust.model_signing import sign_directory as sign_with_a_key
from vitrify.trust.model_signing import verify_directory as verify_with_a_key
from vitrify.trust.sigstore import Instance, sign_artifact, sign_directory, verify, verify_artifact, verify_directory

pytest.importorskip("sigstore")
jwt = pytest.importorskip("jwt")
WHO = {"signed_by": "ada@example.org", "issuer": "https://accounts.example.org"}


@pytest.fixture(scope="module")
def services():
    services = Services()
    yield services
    services.close()


@pytest.fixture
def configuration(services, tmp_path):
    services.lie = lambda entry: entry
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(services.configuration()))
    return path


@pytest.fixture
def instance(configuration):
    return Instance(configuration)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w").write_bytes(b"1")
    return folder


def token(sub="ada@example.org", *, minutes=10, **changes):
    now = datetime.now(UTC)
    times = {"iat": now - timedelta(hours=1), "exp": now + timedelta(minutes=minutes)}
    claims = {"iss": WHO["issuer"], "sub": sub, "aud": "sigstore", **times, **changes}
    return jwt.encode(claims, "a secret of the provider's, long enough", algorithm="HS256")


def test_a_directory_is_signed_and_verified_by_identity(model, signature, instance):
    assert sign_directory(model, token(), signature, instance=instance) == "ada@example.org"
    report = verify_directory(model, signature, **WHO, instance=instance)
    assert report.passed
    assert report.details == {"signers": ["ada@example.org"], "files": 1, "unsigned": []}


def test_the_openssf_tool_and_we_read_each_other_here_too(model, signature, instance, configuration):
    tool = pytest.importorskip("model_signing")
    sign_directory(model, token(), signature, instance=instance)
    settings = {"identity": WHO["signed_by"], "oidc_issuer": WHO["issuer"], "trust_config": configuration}
    theirs = tool.verifying.Config().use_sigstore_verifier(**settings)
    theirs.verify(model, signature)
    tool.signing.Config().use_sigstore_signer(identity_token=token(), trust_config=configuration).sign(model, signature)
    assert verify_directory(model, signature, **WHO, instance=instance).passed


@pytest.mark.parametrize(
    "who",
    [
        {**WHO, "signed_by": "eve@example.org"},
        {**WHO, "signed_by": "ADA@example.org"},
        {**WHO, "signed_by": "ada"},
        {**WHO, "issuer": "https://accounts.example.org/"},
        {**WHO, "issuer": "https://other.example.org"},
    ],
)
def test_another_identity_is_another_one(model, signature, instance, who):
    sign_directory(model, token(), signature, instance=instance)
    report = verify_directory(model, signature, **who, instance=instance)
    assert rules(report) == [("forged-signature", str(signature))]
    assert report.details["signers"] == []


def test_an_identity_vouches_for_these_files_alone(model, signature, instance):
    sign_directory(model, token(), signature, instance=instance)
    (model / "w").write_bytes(b"2")
    (model / "extra").write_bytes(b"")
    report = verify_directory(model, signature, **WHO, instance=instance)
    assert rules(report) == [("extra-file", "extra"), ("changed-file", "w")]


def test_another_instance_vouches_for_nothing_here(model, signature, instance, tmp_path):
    other = Services()
    try:
        (tmp_path / "other.json").write_text(json.dumps(other.configuration()))
        sign_directory(model, token(), signature, instance=Instance(tmp_path / "other.json"))
    finally:
        other.close()
    assert rules(verify_directory(model, signature, **WHO, instance=instance)) == [("forged-signature", str(signature))]


PARTS = {
    "signature": lambda raw: raw["dsseEnvelope"]["signatures"][0],
    "payload": lambda raw: raw["dsseEnvelope"],
    "certificate": lambda raw: raw["verificationMaterial"]["certificate"],
    "promise": lambda raw: raw["verificationMaterial"]["tlogEntries"][0]["inclusionPromise"],
    "body": lambda raw: raw["verificationMaterial"]["tlogEntries"][0],
    "root": lambda raw: raw["verificationMaterial"]["tlogEntries"][0]["inclusionProof"],
}
FIELDS = {
    "signature": "sig",
    "payload": "payload",
    "certificate": "rawBytes",
    "promise": "signedEntryTimestamp",
    "body": "canonicalizedBody",
    "root": "rootHash",
}


@pytest.mark.parametrize("part", PARTS)
def test_no_part_of_the_bundle_can_be_that_of_another(model, signature, instance, part):
    sign_directory(model, token(), signature, instance=instance)
    mine = json.loads(signature.read_text())
    (model / "w").write_bytes(b"2")
    sign_directory(model, token("eve@example.org"), signature, instance=instance)
    raw = json.loads(signature.read_text())
    PARTS[part](raw)[FIELDS[part]] = PARTS[part](mine)[FIELDS[part]]
    with pytest.raises(ForgedError, match=r"not signed by eve@example\.org"):
        verify(
            json.dumps(raw).encode(),
            signed_by="eve@example.org",
            issuer=WHO["issuer"],
            instance=instance,
            where="bundle",
        )


def test_a_log_that_lies_is_not_believed(model, signature, instance, services):
    services.lie = lambda entry: {**entry, "integratedTime": entry["integratedTime"] + 86_400}
    sign_directory(model, token(), signature, instance=instance)
    assert rules(verify_directory(model, signature, **WHO, instance=instance)) == [("forged-signature", str(signature))]


def test_what_is_no_bundle_with_a_certificate_is_malformed(model, signature, instance):
    sign_with_a_key(model, PrivateKey.generate("ecdsa-p256"), signature)
    for data in (signature.read_bytes(), b"{}", b"", b"[]", b'{"mediaType":1,"mediaType":2}', b"[" * 900):
        signature.write_bytes(data)
        with pytest.raises(MalformedError):
            verify_directory(model, signature, **WHO, instance=instance)


def test_a_key_does_not_verify_what_an_identity_signed(model, signature, instance):
    sign_directory(model, token(), signature, instance=instance)
    with pytest.raises(UsageError, match="certificate") as caught:
        verify_with_a_key(model, signature, PrivateKey.generate("ecdsa-p256").public)
    assert "--signed-by" in caught.value.remedy


@pytest.mark.parametrize(
    "bad", ["", "x", "a.b.c", token(minutes=-30), token(aud="other"), jwt.encode({}, "x" * 32), "x" * 70_000]
)
def test_a_token_that_says_nothing_signs_nothing(model, signature, instance, bad):
    with pytest.raises(AuthenticationError):
        sign_directory(model, bad, signature, instance=instance)
    assert not signature.exists()


def test_an_instance_that_is_not_there_is_unavailable(model, signature, services, tmp_path):
    raw = services.configuration()
    for kind in ("caUrls", "rekorTlogUrls"):
        raw["signingConfig"][kind][0]["url"] = "http://127.0.0.1:9"
    (tmp_path / "gone.json").write_text(json.dumps(raw))
    with pytest.raises(UnavailableError, match="could not sign"):
        sign_directory(model, token(), signature, instance=Instance(tmp_path / "gone.json"))
    assert not signature.exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"mediaType": 1}', '{"a":1,"a":2}'])
def test_a_configuration_that_is_none_is_malformed(model, signature, tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(MalformedError, match=r"bad\.json"):
        sign_directory(model, token(), signature, instance=Instance(tmp_path / "bad.json"))
    with pytest.raises(StoreError):
        Instance(tmp_path / "absent.json").trust()


def test_whom_to_expect_has_to_be_said(model, signature, instance):
    for who in ({**WHO, "signed_by": ""}, {**WHO, "issuer": ""}):
        with pytest.raises(UsageError, match="one is missing"):
            verify_directory(model, signature, **who, instance=instance)


def test_an_artifact_is_signed_by_identity_for_other_tools(store, signature, instance):
    digest = save(store, {"w": b"1"}, "churn:latest")
    data, who = sign_artifact(store, digest, token(), name="churn", instance=instance)
    signature.write_bytes(data)
    assert who == "ada@example.org"
    assert verify_artifact(store, digest, signature, **WHO, instance=instance).passed
    other = save(store, {"w": b"2"}, "other:latest")
    assert ("changed-file", "w") in rules(verify_artifact(store, other, signature, **WHO, instance=instance))
    assert stores.referrers(store, digest) == ()


def test_the_trust_root_that_the_library_brought_is_used_offline(model, signature, instance, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    sign_directory(model, token(), signature, instance=instance)
    report = verify_directory(model, signature, **WHO, instance=Instance(offline=True))
    assert rules(report) == [("forged-signature", str(signature))]  # the public instance knows nothing of ours


def test_without_the_library_the_install_command_is_said(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError) as caught:
        Instance()
    assert caught.value.remedy == "pip install 'vitrify[sigstore]'"
