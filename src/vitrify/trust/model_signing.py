"""OpenSSF Model Signing: one detached file that signs a directory of model files, for every tool that knows it.

The file is a Sigstore bundle (JSON) with a DSSE envelope around an in-toto statement, which lists every file with its
SHA-256. The only subject's digest is the SHA-256 of the files' digests, one after the other in the order of the list.
Version 1.0 is signed with a key by ECDSA over P-256 here, which is what the OpenSSF tool ``model_signing`` (1.1.1)
verifies; it knows no Ed25519.

This verifier accepts less than that tool, because a signature has to mean one thing. Refused are: symbolic links, of
which two readers see different files; files that the signature ignores, other than git's own and the signature file
(they are in the directory and nobody signed them); names twice; a list that does not hash to its subject; a name of an
object's field twice; the experimental format of version 0.2; shards; hashes other than SHA-256.

Sources: https://github.com/ossf/model-signing-spec; https://github.com/sigstore/model-transparency (1.1.1), whose
behaviour the tests compare with.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.attestation import ATTESTATION_TYPE
from vitrify.core.errors import UsageError
from vitrify.core.report import Finding, Report
from vitrify.trust import dsse
from vitrify.trust._bundle import Bundle, hint, read, read_signed
from vitrify.trust._private_file import read_small, replace
from vitrify.trust._signed_files import (
    SIGNATURE_FILE,
    artifact_statement,
    compare_artifact,
    compare_directory,
    directory_statement,
)
from vitrify.trust.keys import PublicKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from vitrify.core.digest import Digest
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust._bundle import Signed
    from vitrify.trust.keys import Signer

__all__ = ["SIGNATURE_FILE", "sign_artifact", "sign_directory", "verify_artifact", "verify_directory"]

MAX_SIGNATURE_BYTES = 64 * 1024 * 1024


def sign_directory(path: Path | str, signer: Signer, signature: Path | str) -> None:
    """Sign the files of a directory, all but git's own and the signature file itself, into a detached file.

    Args:
        path: The directory; it holds no symbolic links.
        signer: An ECDSA P-256 key.
        signature: The file to write, inside or outside of the directory; what is there is replaced.

    Raises:
        UsageError: It is no directory, is empty, or holds what cannot be signed; or the key is no P-256 one.
        LimitExceededError: More files, or deeper folders, than are read.
        StoreError: Something cannot be read or written.
    """
    _require_p256(signer)
    replace(Path(signature), _sign(directory_statement(Path(path), Path(signature)), signer))


def sign_artifact(store: OciLayout, digest: Digest, signer: Signer, *, name: str = "model") -> bytes:
    """Return the signature of the directory that an artifact is exported to; no file is hashed again.

    The directory (``vitrify export --as directory``) holds the files by their paths and the artifact's manifest.

    Args:
        store: Where the artifact lies.
        digest: The artifact's.
        signer: An ECDSA P-256 key.
        name: What the model is called in the signature; it binds nothing.

    Raises:
        ReferenceNotFoundError: The store does not have it.
        UsageError: The key is no P-256 one, or a file has no path, or lies where git's own would.
    """
    _require_p256(signer)
    return _sign(artifact_statement(store, digest, name), signer)


def verify_directory(
    path: Path | str, signature: Path | str, keys: PublicKey | Iterable[PublicKey], *, unsigned: Collection[str] = ()
) -> Report:
    """Say whether a directory holds exactly the files that one of these keys signed.

    Args:
        path: The directory.
        signature: The detached file.
        keys: Whose signature counts.
        unsigned: Paths of files and folders that may be there although nobody signed them.

    Returns:
        ``clean``, or a finding for a signature that does not hold and for each file that is extra, missing, changed,
        unsigned or odd. ``details`` has ``signers``, the number of ``files``, and what is there ``unsigned``.

    Raises:
        StoreError: Something cannot be read.
        MalformedError: The signature file is none, or could be read in two ways.
        UsageError: There is no key or no directory; or an identity signed it, and no key.
        LimitExceededError: More files, or deeper folders, than are read.
    """
    signed, signers, findings = _verified(Path(signature), keys)
    details = {"files": 0, "unsigned": []}
    if signed is not None:
        findings, details = compare_directory(Path(path), Path(signature), signed, unsigned)
    return Report.of("signature", findings, {"signers": signers, **details})


def verify_artifact(
    store: OciLayout, digest: Digest, signature: Path | str, keys: PublicKey | Iterable[PublicKey]
) -> Report:
    """Say whether an artifact has exactly the files that one of these keys signed; as :func:`verify_directory`."""
    signed, signers, findings = _verified(Path(signature), keys)
    details = {"files": 0, "unsigned": []}
    if signed is not None:
        findings, details = compare_artifact(store, digest, signed)
    return Report.of("signature", findings, {"artifact": str(digest), "signers": signers, **details})


def _sign(payload: bytes, signer: Signer) -> bytes:
    return Bundle.of(dsse.sign(payload, ATTESTATION_TYPE, [signer]), signer.public).to_json()


def _verified(file: Path, keys: PublicKey | Iterable[PublicKey]) -> tuple[Signed | None, list[str], list[Finding]]:
    """Return what was signed if a key signed it, by whom, and what is wrong with the signature."""
    known = (keys,) if isinstance(keys, PublicKey) else tuple(keys)
    if not known:
        raise UsageError("no key to verify with", remedy="name a public key: --key KEY")
    bundle = read(read_small(file, MAX_SIGNATURE_BYTES), where=str(file))
    claimed = bundle.hint
    counted = tuple(key for key in known if claimed in {None, hint(key)})
    if signers := dsse.verify(bundle.dsse_envelope, counted):
        envelope = bundle.dsse_envelope
        return read_signed(envelope.content, envelope.payload_type, where=str(file)), list(signers), []
    given = ", ".join(sorted(key.keyid for key in known))
    names = "does not hold" if counted else f"names another key ({str(claimed)[:100]})"
    message = f"the signature {names}; given: {given}"
    return None, [], [Finding(place=str(file), message=message, rule="forged-signature", remedy="do not use the model")]


def _require_p256(signer: Signer) -> None:
    if signer.algorithm != "ecdsa-p256":
        msg = f"OpenSSF model signatures are by ECDSA P-256, and this key is {signer.algorithm}: no other tool reads it"
        raise UsageError(msg, remedy="make a key: vitrify keys generate NAME --algorithm ecdsa-p256")
