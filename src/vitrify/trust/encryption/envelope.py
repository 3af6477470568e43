"""The envelope: how an artifact's files are encrypted, for whom, and what proves that nobody changed that.

It is public, in ``vitrify.json`` under ``encryption``. Its MAC is made with a key derived from the artifact's own, so
that whoever opens the artifact finds out whether the envelope is the one that was made with it; the MAC also
binds the key, which AES-GCM alone does not: two recipients cannot be given keys that open the same bytes differently.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from vitrify.core.digest import Digest
from vitrify.core.errors import ForgedError, MalformedError, UsageError
from vitrify.core.manifest import check_filepath
from vitrify.core.plan import Plan
from vitrify.core.wire import Value, to_builtins
from vitrify.trust.encryption.recipients import Stanza
from vitrify.trust.encryption.stream import CHUNK, MAX_CHUNK, MIN_CHUNK, file_key

if TYPE_CHECKING:
    from vitrify.core.document import Document

ALGORITHM = "AES-256-GCM-STREAM"
ENCRYPTED = "+encrypted"
"""At the end of a layer's media type, as ocicrypt has it."""

SUFFIX = ".encrypted"
"""At the end of a file's path: a reader that does not know of encryption finds no file, not wrong bytes."""

SOURCE = "vitrify-source.json"
"""The file, always encrypted, that holds the manifest of what was encrypted."""

VERSION = 1
_MAX_FILES = 100_000
_MAX_RECIPIENTS = 64
"""Each costs whoever opens the artifact a trial."""


class Source(Value, frozen=True, kw_only=True):
    """What was encrypted: the exact text of its manifest, its configuration and its document."""

    manifest: str
    config: str
    document: str

    def lineage(self, format_: str) -> dict[str, Any]:
        """Return the lineage of what is encrypted: the digest of this manifest, and no step."""
        plan = Plan(source=format_, target=format_)
        return {"source": str(Digest.of(self.manifest.encode())), "plan": to_builtins(plan)}


class Envelope(Value, frozen=True, kw_only=True):
    """How files are encrypted.

    Attributes:
        version: Of this form.
        algorithm: How each file is encrypted; see :mod:`.stream`.
        chunk: Bytes of plaintext in a chunk.
        files: Encrypted files: path to size, both as before encryption.
        recipients: The artifact's key, wrapped for each.
        mac: HMAC-SHA256 over all this, in hex.
    """

    version: int
    algorithm: str
    chunk: int
    files: dict[str, int]
    recipients: tuple[Stanza, ...]
    mac: str = ""

    def __post_init__(self) -> None:
        """Refuse what no honest envelope says."""
        for path in self.files:
            check_filepath(path)
        if not MIN_CHUNK <= self.chunk <= MAX_CHUNK or min(self.files.values(), default=0) < 0:
            msg = f"chunks of {self.chunk} bytes (expected {MIN_CHUNK} to {MAX_CHUNK}), or a file of negative size"
            raise MalformedError(msg)
        if not 0 < len(self.recipients) <= _MAX_RECIPIENTS or len(self.files) > _MAX_FILES or SOURCE not in self.files:
            msg = f"{len(self.recipients)} recipients (expected 1 to {_MAX_RECIPIENTS}), {len(self.files)} files"
            raise MalformedError(msg)

    @classmethod
    def of(cls, data_key: bytes, files: dict[str, int], recipients: tuple[Stanza, ...], chunk: int = CHUNK) -> Envelope:
        """Return an envelope with its MAC."""
        bare = cls(version=VERSION, algorithm=ALGORITHM, chunk=chunk, files=files, recipients=recipients)
        return bare.replace(mac=bare._mac(data_key))

    @classmethod
    def read(cls, document: Document) -> Envelope:
        """Return the envelope of a document.

        Raises:
            MalformedError: There is none, or it is not of this form.
            UsageError: A newer Vitrify wrote it.
        """
        if document.encryption is None:
            msg = "the artifact has encrypted layers, and its document does not say how they are encrypted"
            raise MalformedError(msg)
        version, algorithm = (document.encryption.get(key) for key in ("version", "algorithm"))
        if isinstance(version, int) and (version > VERSION or algorithm != ALGORITHM):
            msg = f"this artifact is encrypted by {algorithm!r}, version {version}; this Vitrify knows {ALGORITHM} 1"
            raise UsageError(msg, remedy="pip install --upgrade vitrify")
        return cls.from_builtins(document.encryption, where="vitrify.json: encryption")

    def check(self, data_key: bytes) -> None:
        """Return if this is the envelope that was made with this key.

        Raises:
            ForgedError: It is not.
        """
        if not hmac.compare_digest(self.mac.encode(), self._mac(data_key).encode()):
            msg = "the artifact's envelope (its files, sizes or recipients) is not the one that was made with its key"
            raise ForgedError(msg, remedy="get the artifact again from whoever encrypted it")

    def _mac(self, data_key: bytes) -> str:
        key = file_key(data_key, "\0envelope")  # no path of a file has a zero byte
        return hmac.new(key, self.replace(mac="").to_json(), "sha256").hexdigest()
