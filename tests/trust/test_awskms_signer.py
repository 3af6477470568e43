"""A key at a key service: found by alias, id and ARN; what the service refuses is told as one of our errors."""

from __future__ import annotations

import pytest
from servers._process import HOST, free_port

from vitrify.core.errors import (
    AuthenticationError,
    ForgedError,
    ReferenceNotFoundError,
    UnavailableError,
    UsageError,
)
from vitrify.testing.signers import SignerConformance
from vitrify.trust import dsse
from vitrify.trust.keyring import Keyring
from vitrify.trust.keys import PrivateKey

pytestmark = pytest.mark.external


def open_key(name):
    return Keyring().signer(f"awskms:///{name}")


class TestKeyAtTheService(SignerConformance):
    @pytest.fixture(autouse=True)
    def _made(self, kms):
        self.name = kms.key()["KeyId"]

    def signer(self):
        return open_key(self.name)


def test_a_key_is_found_by_alias_id_and_arn(kms):
    key = kms.key()
    kms.client().create_alias(AliasName="alias/found", TargetKeyId=key["KeyId"])
    signers = [open_key(name) for name in ("alias/found", key["KeyId"], key["Arn"])]
    assert len({signer.keyid for signer in signers}) == 1
    assert Keyring().verifier("awskms:///alias/found") == signers[0].public
    envelope = dsse.sign(b"x", "t", signers[:1])
    assert dsse.verify(envelope, [signers[0].public]) == (signers[0].keyid,)
    assert dsse.verify(envelope, [PrivateKey.generate("ecdsa-p256").public]) == ()


def test_who_opened_an_alias_keeps_its_key(kms):
    first, second = kms.key(), kms.key()
    kms.client().create_alias(AliasName="alias/moves", TargetKeyId=first["KeyId"])
    signer = open_key("alias/moves")
    kms.client().update_alias(AliasName="alias/moves", TargetKeyId=second["KeyId"])
    signer.public.verify(b"x", signer.sign(b"x"))
    with pytest.raises(ForgedError):
        open_key("alias/moves").public.verify(b"x", signer.sign(b"x"))


def test_an_arn_says_its_region(kms, monkeypatch):
    arn = kms.key()["Arn"]
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert open_key(arn).algorithm == "ecdsa-p256"
    with pytest.raises(UsageError, match="region"):
        open_key("alias/any")


@pytest.mark.parametrize(("specification", "kind"), [("RSA_2048", "RSA"), ("ECC_NIST_P384", "secp384r1")])
def test_a_key_of_another_algorithm_is_refused(kms, specification, kind):
    with pytest.raises(UsageError, match=f"a key of {kind}"):
        open_key(kms.key(specification)["KeyId"])


def test_what_the_service_refuses_is_told(kms):
    with pytest.raises(ReferenceNotFoundError, match="alias/absent"):
        open_key("alias/absent")
    name = kms.key(use="KEY_AGREEMENT")["KeyId"]
    signer = open_key(name)
    with pytest.raises(UnavailableError, match=name):
        signer.sign(b"x")


def test_who_has_no_credentials_is_told(kms, monkeypatch, tmp_path):
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, str(tmp_path / "absent"))
    with pytest.raises(AuthenticationError, match="credentials"):
        open_key("alias/any")


def test_a_service_that_is_not_there_is_told(kms, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://{HOST}:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(UnavailableError, match="alias/any"):
        open_key("alias/any")


@pytest.mark.parametrize("rest", ["alias/release", "//host/alias/release", "///", "///a b", "///alias/é"])
def test_a_reference_that_names_no_key_is_refused(rest):
    with pytest.raises(UsageError, match="names no key"):
        Keyring().signer(f"awskms:{rest}")
