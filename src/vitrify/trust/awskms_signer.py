"""A signer at Amazon's key service: ``awskms:///alias/release``, as cosign writes it.

The account, the region and another endpoint are found as ``boto3`` finds them: the environment, the profile, the
machine's role.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import (
    AuthenticationError,
    DeniedError,
    ReferenceNotFoundError,
    UnavailableError,
    UsageError,
    VitrifyError,
)
from vitrify.trust._pkcs8 import pem
from vitrify.trust.keys import PublicKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vitrify.trust.keys import Algorithm

_REFERENCE = re.compile(r"///([A-Za-z0-9:/_-]{1,2048})")
_ARN = re.compile(r"arn:[a-z-]+:kms:([a-z0-9-]+):")
_WHO = (AuthenticationError, "see who you are: aws sts get-caller-identity")
_ERRORS: dict[str, tuple[type[VitrifyError], str]] = {  # the service's codes, and the library's errors
    "AccessDeniedException": (DeniedError, "kms:GetPublicKey and kms:Sign must be allowed"),
    "ExpiredTokenException": _WHO,
    "InvalidSignatureException": _WHO,
    "UnrecognizedClientException": _WHO,
    "NoCredentialsError": (AuthenticationError, "set AWS_PROFILE, or the variables that boto3 reads"),
    "NoRegionError": (UsageError, "set AWS_DEFAULT_REGION, or give the key's ARN"),
    "NotFoundException": (ReferenceNotFoundError, "check its name, account and region: aws kms list-aliases"),
}
_ELSE = (UnavailableError, "check the network, and how the key is: aws kms describe-key")


class KmsSource:
    """See :class:`vitrify.trust.keyring.SignerSource`."""

    def open(self, rest: str, passphrase: Callable[[], str] | None) -> KmsSigner:
        """Ask the service for a public key.

        Raises:
            UsageError: It is no name of a key, the key is of another algorithm, or there is no region.
            ReferenceNotFoundError: The service has no such key.
            AuthenticationError: There are no credentials, or they do not count.
            DeniedError: They may not use the key.
            UnavailableError: The service cannot be reached, or has the key disabled.
        """
        del passphrase  # boto3 knows who is asking
        if not (found := _REFERENCE.fullmatch(rest)):
            msg = f"awskms:{rest[:200]} names no key (expected awskms:/// and an id, alias/NAME or ARN)"
            raise UsageError(msg, remedy="awskms:///alias/release; another endpoint: set AWS_ENDPOINT_URL_KMS")
        import boto3

        name = found[1]
        arn = _ARN.match(name)
        with _told(name):
            client = boto3.client("kms", region_name=arn[1] if arn else None)
            answer = client.get_public_key(KeyId=name)
        public = PublicKey.load(pem(answer["PublicKey"], "PUBLIC KEY"))
        if public.algorithm != "ecdsa-p256":
            msg = f"{name} is {public.algorithm}, which is not taken from this service (expected ecdsa-p256)"
            raise UsageError(msg, remedy="make a key with the specification ECC_NIST_P256, to sign and verify")
        return KmsSigner(client, answer["KeyId"], public)  # an alias may lead to another key soon


class KmsSigner:
    """A key that the service keeps; see :class:`vitrify.trust.keys.Signer`."""

    def __init__(self, client: Any, name: str, public: PublicKey) -> None:
        """Keep whom to ask."""
        self._client = client
        self._name = name
        self.public = public
        self.keyid = public.keyid
        self.algorithm: Algorithm = public.algorithm

    def sign(self, data: bytes) -> bytes:
        """Return the signature over data, of which the service is told the digest; it raises what opening raises."""
        digest = hashlib.sha256(data).digest()
        with _told(self._name):
            answer = self._client.sign(
                KeyId=self._name, Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256"
            )
        signature: bytes = answer["Signature"]
        return signature


@contextmanager
def _told(name: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        code = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
        kind, remedy = _ERRORS.get(code, _ELSE)
        msg = f"{name} at the key service: {error}"
        raise kind(msg, remedy=remedy) from error
