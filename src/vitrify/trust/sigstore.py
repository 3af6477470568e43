"""Signing by who somebody is: Sigstore's short-lived certificates, and no key to keep.

A token of an identity provider (of a build system, or of a person's account) is exchanged for a certificate that is
good for minutes, and the signature is noted in a public log. Whoever verifies names the identity and the provider that
vouched for it. The signature file is an OpenSSF model signature as :mod:`vitrify.trust.model_signing` writes it, with
the certificate in the key's place; both tools' readers take it. The protocol is the ``sigstore`` library's.

Signing needs the network. Verifying needs it to refresh the trust root, unless ``offline`` is said, or a configuration
of one's own instance is given.
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import (
    AuthenticationError,
    ForgedError,
    MalformedError,
    MissingDependencyError,
    UnavailableError,
    UsageError,
)
from vitrify.core.report import Finding, Report
from vitrify.core.strict import strict_json
from vitrify.trust._bundle import BUNDLE_TYPE, read_signed
from vitrify.trust._private_file import read_small, replace
from vitrify.trust._signed_files import artifact_statement, compare_artifact, compare_directory, directory_statement
from vitrify.trust.model_signing import MAX_SIGNATURE_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.core.digest import Digest
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust._bundle import Signed

_MAX_CONFIGURATION_BYTES = 4 * 1024 * 1024
_MAX_TOKEN_CHARACTERS = 64 * 1024


class Instance:
    """A Sigstore instance: the public one, or one's own.

    Attributes:
        configuration: File with a client trust configuration (``clienttrustconfig.v0.1``), or None for the public one.
        offline: Whether the trust root that the library brought or last fetched is used as it is.
    """

    def __init__(self, configuration: Path | str | None = None, *, offline: bool = False) -> None:
        """Take a configuration; nothing is read or fetched yet.

        Raises:
            MissingDependencyError: The library is not installed.
        """
        if importlib.util.find_spec("sigstore") is None:
            raise MissingDependencyError("sigstore is not installed", remedy="pip install 'vitrify[sigstore]'")
        self.configuration = Path(configuration) if configuration else None
        self.offline = offline

    def trust(self) -> Any:
        """Return the library's ``ClientTrustConfig``.

        Raises:
            MalformedError: The configuration is none.
            StoreError: It cannot be read.
            UnavailableError: The public one could not be fetched.
        """
        from sigstore.models import ClientTrustConfig

        if self.configuration:
            data = read_small(self.configuration, _MAX_CONFIGURATION_BYTES)
            strict_json(data, where=str(self.configuration))
            try:
                return ClientTrustConfig.from_json(data.decode())
            except Exception as error:  # the library raises its own errors and pydantic's
                msg = f"{self.configuration}: not a client trust configuration of Sigstore ({type(error).__name__})"
                raise MalformedError(msg) from error
        try:
            logging.getLogger("sigstore._internal.tuf").addFilter(_no_offline_warning)
            return ClientTrustConfig.production(offline=self.offline)
        except Exception as error:
            msg = f"the trust root of Sigstore could not be had: {error}"
            raise UnavailableError(
                msg, remedy="check the network, or use what was fetched last: offline=True"
            ) from error


def sign_directory(path: Path | str, token: str, signature: Path | str, *, instance: Instance | None = None) -> str:
    """Sign a directory's files as the identity in a token, into a detached file.

    Args:
        path: The directory; it holds no symbolic links.
        token: An OpenID Connect token, whose audience is ``sigstore``.
        signature: The file to write; what is there is replaced.
        instance: By default the public one.

    Returns:
        The identity that signed, as whoever verifies has to name it.

    Raises:
        AuthenticationError: The token is none, or expired, or the instance does not take it.
        UsageError: It is no directory, is empty, or holds what cannot be signed.
        UnavailableError: The instance cannot be reached.
        StoreError: Something cannot be read or written.
    """
    payload = directory_statement(Path(path), Path(signature))
    bundle, identity = _sign(payload, token, instance or Instance())
    replace(Path(signature), bundle)
    return identity


def sign_artifact(
    store: OciLayout, digest: Digest, token: str, *, name: str = "model", instance: Instance | None = None
) -> tuple[bytes, str]:
    """Return the signature of the directory that an artifact is exported to, and who signed.

    It raises what :func:`sign_directory` raises, and ReferenceNotFoundError where the store does not have it.
    """
    return _sign(artifact_statement(store, digest, name), token, instance or Instance())


def verify_directory(
    path: Path | str,
    signature: Path | str,
    *,
    signed_by: str,
    issuer: str,
    instance: Instance | None = None,
    unsigned: Collection[str] = (),
) -> Report:
    """Say whether a directory holds exactly the files that somebody signed.

    Args:
        path: The directory.
        signature: The detached file.
        signed_by: The identity in the certificate, whole: an e-mail address, or the URL of a workflow.
        issuer: The identity provider that vouched for it, as the certificate has it.
        instance: By default the public one.
        unsigned: Paths of files and folders that may be there although nobody signed them.

    Returns:
        As :func:`vitrify.trust.model_signing.verify_directory`; ``signers`` has the identity.

    Raises:
        MalformedError: The signature file is no bundle with a certificate.
        UsageError: No identity or no issuer is named, or it is no directory.
        UnavailableError: The trust root could not be fetched.
        StoreError: Something cannot be read.
    """
    signed, findings = _verified(Path(signature), signed_by, issuer, instance or Instance())
    details: dict[str, Any] = {"files": 0, "unsigned": []}
    if signed is not None:
        findings, details = compare_directory(Path(path), Path(signature), signed, unsigned)
    return Report.of("signature", findings, {"signers": [signed_by] if signed else [], **details})


def verify_artifact(
    store: OciLayout,
    digest: Digest,
    signature: Path | str,
    *,
    signed_by: str,
    issuer: str,
    instance: Instance | None = None,
) -> Report:
    """Say whether an artifact has exactly the files that somebody signed; as :func:`verify_directory`."""
    signed, findings = _verified(Path(signature), signed_by, issuer, instance or Instance())
    details: dict[str, Any] = {"files": 0, "unsigned": []}
    if signed is not None:
        findings, details = compare_artifact(store, digest, signed)
    signers = [signed_by] if signed else []
    return Report.of("signature", findings, {"artifact": str(digest), "signers": signers, **details})


def _sign(payload: bytes, token: str, instance: Instance) -> tuple[bytes, str]:
    from sigstore.dsse import Statement
    from sigstore.oidc import IdentityToken
    from sigstore.sign import SigningContext

    if not 0 < len(token) <= _MAX_TOKEN_CHARACTERS:
        msg = f"a token of {len(token)} characters"
        raise AuthenticationError(msg, remedy="get one from your identity provider, with the audience sigstore")
    try:
        identity = IdentityToken(token.strip())
    except Exception as error:  # the library raises its IdentityError and, for a damaged token, PyJWT's own
        msg = f"not a token that says who somebody is: {error}"
        raise AuthenticationError(
            msg, remedy="get one from your identity provider, with the audience sigstore"
        ) from error
    trust = instance.trust()
    try:
        with SigningContext.from_trust_config(trust).signer(identity) as signer:
            bundle = signer.sign_dsse(Statement(payload))
    except Exception as error:
        from sigstore.oidc import ExpiredIdentity

        if isinstance(error, ExpiredIdentity):
            raise AuthenticationError("the token has expired", remedy="get a new one, and sign at once") from error
        msg = f"Sigstore could not sign: {type(error).__name__}: {error}"
        raise UnavailableError(msg, remedy="check the network, the instance and who the token is for") from error
    return bundle.to_json().encode(), str(identity.identity)


def _verified(file: Path, signed_by: str, issuer: str, instance: Instance) -> tuple[Signed | None, list[Finding]]:
    if not signed_by or not issuer:
        msg = "a certificate is verified against an identity and the provider that vouched for it, and one is missing"
        raise UsageError(msg, remedy="--signed-by WHO --issuer URL")
    data = read_small(file, MAX_SIGNATURE_BYTES)
    try:
        payload_type, payload = verify(data, signed_by=signed_by, issuer=issuer, instance=instance, where=str(file))
    except ForgedError as error:
        remedy = "do not use the model"
        return None, [Finding(place=str(file), message=error.message, rule="forged-signature", remedy=remedy)]
    return read_signed(payload, payload_type, where=str(file)), []


def verify(data: bytes, *, signed_by: str, issuer: str, instance: Instance, where: str) -> tuple[str, bytes]:
    """Return the payload of a bundle that an identity signed, behind what it is.

    Raises:
        MalformedError: It is no bundle of version 0.3 with a certificate.
        ForgedError: The signature, the certificate or the log's entry does not hold, or another identity signed.
        UnavailableError: The trust root could not be fetched.
    """
    from sigstore.models import Bundle
    from sigstore.verify.policy import Identity
    from sigstore.verify.verifier import Verifier

    raw = strict_json(data, where=where)
    if not isinstance(raw, dict) or raw.get("mediaType") != BUNDLE_TYPE:
        msg = f"{where}: no Sigstore bundle (expected mediaType {BUNDLE_TYPE})"
        raise MalformedError(msg)
    try:
        bundle = Bundle.from_json(data)
    except Exception as error:  # the library's own errors, pydantic's and OpenSSL's
        msg = f"{where}: not a bundle that an identity signed ({type(error).__name__}: {str(error)[:200]})"
        raise MalformedError(msg, remedy="verify with a key, if a key signed it: --key KEY") from error
    trust = instance.trust()
    try:
        return Verifier(trusted_root=trust.trusted_root).verify_dsse(
            bundle, Identity(identity=signed_by, issuer=issuer)
        )
    except Exception as error:  # whatever stops the library from saying yes is a no
        msg = f"not signed by {signed_by} of {issuer}: {str(error)[:500]}"
        raise ForgedError(msg) from error


def _no_offline_warning(record: logging.LogRecord) -> bool:
    """Leave out the library's warning that offline is offline, which was asked for."""
    return "offline mode" not in record.getMessage()
