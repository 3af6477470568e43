"""The JSON of an OpenSSF model signature: Sigstore bundle, DSSE envelope, in-toto statement.

Sources: Sigstore bundle 0.3 (``protobuf-specs/protos/sigstore_bundle.proto``); model signing predicate 1.0
(https://github.com/ossf/model-signing-spec).
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.attestation import ATTESTATION_TYPE, STATEMENT_TYPE, Subject
from vitrify.core.envelope import Envelope
from vitrify.core.errors import MalformedError, UsageError
from vitrify.core.manifest import check_filepath
from vitrify.core.strict import strict_json
from vitrify.core.wire import Value
from vitrify.trust._directory import MAX_FILES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from vitrify.trust.keys import PublicKey

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"

_HEX = re.compile(r"[0-9a-f]{64}")
_MAX_PATH = 4096
_MAX_IGNORED = 10_000


class Resource(Value, frozen=True, kw_only=True):
    """One signed file: its path, ``sha256``, and the digest in hex."""

    name: str
    algorithm: str
    digest: str

    def __post_init__(self) -> None:
        """Refuse a path that leaves its directory, and other digests."""
        if self.algorithm != "sha256" or not _HEX.fullmatch(self.digest):
            msg = f"{self.name[:200]!r} with a digest by {self.algorithm[:50]!r} (expected sha256, 64 hex digits)"
            raise MalformedError(msg)
        if len(self.name) > _MAX_PATH:
            msg = f"a path of {len(self.name)} characters"
            raise MalformedError(msg)
        check_filepath(self.name)


class Serialization(Value, frozen=True, kw_only=True):
    """How files became resources."""

    method: str
    hash_type: str = msgspec.field(name="hash_type")
    allow_symlinks: bool = msgspec.field(name="allow_symlinks")
    ignore_paths: tuple[str, ...] = msgspec.field(name="ignore_paths", default=())

    def __post_init__(self) -> None:
        """Refuse what this version does not verify."""
        if self.method != "files" or self.hash_type != "sha256":
            msg = f"method {self.method[:50]!r}, hash {self.hash_type[:50]!r} (expected 'files' and 'sha256')"
            raise MalformedError(msg)
        if len(self.ignore_paths) > _MAX_IGNORED or any(len(path) > _MAX_PATH for path in self.ignore_paths):
            msg = f"{len(self.ignore_paths)} ignored paths, or one too long"
            raise MalformedError(msg)


class Predicate(Value, frozen=True, kw_only=True):
    """The predicate; verifiers of version 1.0 ignore fields that it does not have."""

    serialization: Serialization
    resources: tuple[Resource, ...]

    def __post_init__(self) -> None:
        """Refuse an empty list, one path twice, and a path that is signed and ignored at once."""
        if not 1 <= len(self.resources) <= MAX_FILES:
            msg = f"{len(self.resources)} signed files (expected 1 to {MAX_FILES})"
            raise MalformedError(msg)
        if len({resource.name for resource in self.resources}) != len(self.resources):
            msg = "one path twice among the signed files"
            raise MalformedError(msg)
        if both := [resource.name for resource in self.resources if below(resource.name, self.ignored)]:
            msg = f"files that are signed and ignored at once: {', '.join(both[:3])[:200]}"
            raise MalformedError(msg)

    @property
    def ignored(self) -> frozenset[str]:
        """The paths that the signer left out, each with all that is below it."""
        return frozenset(str(PurePosixPath(path)) for path in self.serialization.ignore_paths)


class Signed(Value, frozen=True, kw_only=True):
    """The in-toto statement."""

    type_: str = msgspec.field(name="_type")
    subject: tuple[Subject, ...]
    predicate_type: str
    predicate: Predicate

    def __post_init__(self) -> None:
        """Refuse other statements, and a list that does not hash to its subject."""
        if (self.type_, self.predicate_type) != (STATEMENT_TYPE, PREDICATE_TYPE):
            found = f"a statement {self.type_[:100]!r} with a predicate {self.predicate_type[:100]!r}"
            msg = f"{found} (expected {STATEMENT_TYPE} with {PREDICATE_TYPE})"
            raise MalformedError(msg)
        digests = [subject.digest.get("sha256") for subject in self.subject]
        if digests != [(expected := root_digest(self.predicate.resources))]:
            msg = f"the signed files hash to {expected}, and the subject says {digests[:3]}"
            raise MalformedError(msg)

    @property
    def files(self) -> dict[str, str]:
        """The signed digests by path."""
        return {resource.name: resource.digest for resource in self.predicate.resources}


class Bundle(Value, frozen=True, kw_only=True):
    """The signature file."""

    media_type: str
    verification_material: dict[str, Any]
    dsse_envelope: Envelope

    @classmethod
    def of(cls, envelope: Envelope, key: PublicKey) -> Bundle:
        """Return the file of an envelope that one key signed."""
        # The OpenSSF tool leaves the key id of the envelope empty and names the key in the material.
        signatures = tuple(signature.replace(keyid="") for signature in envelope.signatures)
        material = {"publicKey": {"hint": hint(key)}, "tlogEntries": []}
        return cls(
            media_type=BUNDLE_TYPE,
            verification_material=material,
            dsse_envelope=envelope.replace(signatures=signatures),
        )

    @property
    def hint(self) -> str | None:
        """Which key it names, as :func:`hint` does; None where it names none, as in files of version 1.0.0."""
        claimed = self.verification_material["publicKey"].get("hint")
        return claimed if isinstance(claimed, str) and claimed else None


def read(data: bytes, *, where: str) -> Bundle:
    """Parse a signature file that is signed with a key.

    Raises:
        MalformedError: It is no bundle of version 0.3 with one signature around a DSSE envelope.
        UsageError: An identity signed it, and no key.
    """
    bundle = Bundle.from_builtins(strict_json(data, where=where), where=where)
    material = bundle.verification_material
    if bundle.media_type != BUNDLE_TYPE or len(bundle.dsse_envelope.signatures) != 1:
        count = len(bundle.dsse_envelope.signatures)
        msg = f"{where}: {bundle.media_type[:100]!r} with {count} signatures (expected {BUNDLE_TYPE} with one)"
        raise MalformedError(msg)
    if {"certificate", "x509CertificateChain"} & material.keys():
        msg = f"{where}: signed with a certificate, which a key does not verify"
        raise UsageError(msg, remedy="verify who is named in it: vitrify verify --signed-by WHO --issuer URL")
    if not isinstance(material.get("publicKey"), dict):
        msg = f"{where}: it does not say what it is verified with (expected a public key)"
        raise MalformedError(msg)
    return bundle


def read_signed(payload: bytes, payload_type: str, *, where: str) -> Signed:
    """Parse what was signed.

    Raises:
        MalformedError: It is no model signature of version 1.0, contradicts itself, or could be read in two ways.
    """
    if payload_type != ATTESTATION_TYPE:
        msg = f"{where}: an envelope around {payload_type[:100]!r} (expected {ATTESTATION_TYPE})"
        raise MalformedError(msg)
    place = f"{where}: payload"
    return Signed.from_builtins(strict_json(payload, where=place), where=place)


def statement(name: str, resources: tuple[Resource, ...], ignored: Iterable[str]) -> Signed:
    """Return the statement over these files."""
    serialization = Serialization(method="files", hash_type="sha256", allow_symlinks=False, ignore_paths=tuple(ignored))
    return Signed(
        type_=STATEMENT_TYPE,
        subject=(Subject(name=name, digest={"sha256": root_digest(resources)}),),
        predicate_type=PREDICATE_TYPE,
        predicate=Predicate(serialization=serialization, resources=resources),
    )


def hint(key: PublicKey) -> str:
    """Return how the OpenSSF tool names a key: the SHA-256, in hex, of its PEM."""
    return hashlib.sha256(key.pem).hexdigest()


def root_digest(resources: Iterable[Resource]) -> str:
    """Return the SHA-256, in hex, of the resources' digests one after the other."""
    return hashlib.sha256(b"".join(bytes.fromhex(resource.digest) for resource in resources)).hexdigest()


def below(path: str, folders: Collection[str]) -> bool:
    """Say whether a path is one of these, or lies below one."""
    parts = path.split("/")
    return "." in folders or any("/".join(parts[:end]) in folders for end in range(1, len(parts) + 1))
