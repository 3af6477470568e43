"""The files of an encrypted artifact: by their own names, decrypted in memory when they are first read."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.document import DOCUMENT, Document
from vitrify.core.errors import DeniedError, ForgedError, ReferenceNotFoundError
from vitrify.core.manifest import Manifest
from vitrify.core.progress import track
from vitrify.stores import ArtifactFiles
from vitrify.trust.encryption.envelope import ENCRYPTED, SOURCE, SUFFIX, Envelope, Source
from vitrify.trust.encryption.keys import identities
from vitrify.trust.encryption.memory import Memory
from vitrify.trust.encryption.recipients import open_key
from vitrify.trust.encryption.stream import file_key, unseal

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.protocols import Store
    from vitrify.trust.encryption.recipients import Identity

_MAX_SOURCE = 64 * 1024 * 1024
_LARGE = 4 * 1024 * 1024
"""Bytes from which a file is decrypted together with the others of its size."""

_AGAIN = "get the artifact again from whoever encrypted it"


def is_encrypted(manifest: Manifest) -> bool:
    """Say from the manifest alone whether any file is encrypted."""
    return any(layer.media_type.endswith(ENCRYPTED) for layer in manifest.layers)


class SealedFiles(ArtifactFiles):
    """The files of an encrypted artifact; see :class:`vitrify.core.protocols.Files`.

    Names, hashing and the files that are not encrypted need no key. An encrypted file can be read once :meth:`unlock`
    was called; where the caller named an identity, the first read does it. One that only the environment names is not
    enough by itself: else whatever copies files would write them in the clear. What is decrypted is compared with the
    manifest of what was encrypted, digest by digest, before a parser sees a byte of it, and never lies on a disk.
    """

    def __init__(self, store: Store, manifest: Manifest, identity: str | Path | Identity | None = None) -> None:
        """Read nothing yet."""
        super().__init__(store, manifest)
        self._layers = ArtifactFiles(store, manifest)
        self._identity = identity
        self._lock = threading.RLock()
        self._decrypted: dict[str, Memory] = {}
        self._opened: tuple[bytes, Source, Manifest] | None = None
        self._read: tuple[Document, Envelope] | None = None

    @property
    def envelope(self) -> Envelope:
        """How they are encrypted, and for whom.

        Raises:
            MalformedError: The document says nothing of it, or something that cannot be.
        """
        return self._public()[1]

    @property
    def source(self) -> Source:
        """What was encrypted; it raises what :meth:`unlock` raises."""
        return self._unlocked(asked=True)[1]

    def names(self) -> tuple[str, ...]:
        """Return the paths as they were before encryption, sorted."""
        plain = (name for name in self._layers.names() if not name.endswith(SUFFIX))
        return tuple(sorted({*plain, *self.envelope.files} - {SOURCE}))

    def read(self, name: str) -> bytes:
        """Return one file's bytes; see :meth:`map`."""
        return bytes(self.map(name)) if self._is_sealed(name) else self._layers.read(name)

    def map(self, name: str) -> memoryview:
        """Return one file's bytes, read-only.

        Raises:
            DeniedError: It is encrypted, and nobody asked for its key, or no identity is a recipient.
            ForgedError: It is not what was encrypted.
            ReferenceNotFoundError: The artifact has no such file.
            CorruptError: Its layer is not what the manifest promises.
        """
        return self._memory(name).view if self._is_sealed(name) else self._layers.map(name)

    def path(self, name: str) -> Path:
        """Return a path that opens in this process only; it raises what :meth:`map` raises."""
        return self._memory(name).path if self._is_sealed(name) else self._layers.path(name)

    def verify(self) -> None:
        """Check the layers as they lie in the store, which needs no key."""
        self._layers.verify()

    def unlock(self) -> None:
        """Ask for the key, and check the envelope and everything else that is not itself encrypted.

        Raises:
            DeniedError: No identity was given, or none of them is a recipient.
            ForgedError: The envelope, a wrapped key, the document or a file that is not encrypted was changed.
        """
        self._unlocked(asked=True)

    def _is_sealed(self, name: str) -> bool:
        return name != DOCUMENT and name in self.envelope.files

    def _public(self) -> tuple[Document, Envelope]:
        with self._lock:
            if self._read is None:
                document = Document.from_json(self._layers.read(DOCUMENT), where=DOCUMENT)
                self._read = document, Envelope.read(document)
            return self._read

    def _unlocked(self, *, asked: bool = False) -> tuple[bytes, Source, Manifest]:
        with self._lock:
            if self._opened is None:
                if self._identity is None and not asked:
                    msg = "the artifact is encrypted, and its files are decrypted only to load it"
                    raise DeniedError(msg, remedy="to have them in the clear: vitrify protect decrypt")
                document, envelope = self._public()
                key = open_key(envelope.recipients, identities(self._identity))
                envelope.check(key)
                source = Source.from_json(self._source(key, envelope), where=SOURCE)
                manifest = Manifest.from_json(source.manifest.encode(), where="the encrypted manifest")
                self._compare(document, source, manifest)
                self._opened = key, source, manifest
            return self._opened

    def _source(self, key: bytes, envelope: Envelope) -> bytes:
        if envelope.files[SOURCE] > _MAX_SOURCE:
            msg = f"an encrypted manifest of {envelope.files[SOURCE]} bytes (at most {_MAX_SOURCE})"
            raise ForgedError(msg, remedy=_AGAIN)
        return bytes(self._open(SOURCE, key, envelope).view)

    def _compare(self, document: Document, source: Source, manifest: Manifest) -> None:
        """Hold what is not encrypted against what was encrypted: nothing beside the ciphertext may be another."""
        wrong = []
        if document.lineage != source.lineage(document.format):
            wrong.append("its lineage")
        before = Document.from_json(source.document.encode(), where="the encrypted document")
        if document.replace(lineage=before.lineage, encryption=before.encryption) != before:
            wrong.append(DOCUMENT)
        if manifest.files.keys() != set(self.names()):
            wrong.append("the list of its files")
        for name in set(self.names()) & manifest.files.keys():
            layer = self._files.get(name)
            if name != DOCUMENT and layer is not None and layer.digest != manifest.files[name].digest:
                wrong.append(name)
        if wrong:
            msg = f"not what was encrypted: {', '.join(sorted(wrong))}"
            raise ForgedError(msg, remedy=_AGAIN)

    def _memory(self, name: str) -> Memory:
        """Return a decrypted file; the first large one brings the other large ones, on all cores."""
        key, _, manifest = self._unlocked()
        envelope = self.envelope

        def made(path: str) -> Memory:
            found = self._open(path, key, envelope)
            if (digest := Digest.of(found.view)) != manifest.files[path].content:
                msg = f"{path}: decrypted to {digest}, and what was encrypted was {manifest.files[path].digest}"
                raise ForgedError(msg, remedy=_AGAIN)
            return found

        with self._lock:
            if name not in self._decrypted:
                missing = [path for path in envelope.files if path not in self._decrypted and path != SOURCE]
                large = [path for path in missing if envelope.files[path] >= _LARGE]
                wanted = large if name in large else [name]
                with ThreadPoolExecutor(os.cpu_count()) as pool, track("decrypting", len(wanted)) as bar:
                    for path, found in zip(wanted, pool.map(made, wanted), strict=True):
                        self._decrypted[path] = found
                        bar.advance()
            return self._decrypted[name]

    def _open(self, name: str, key: bytes, envelope: Envelope) -> Memory:
        try:
            sealed = self._layers.map(name + SUFFIX)
        except ReferenceNotFoundError as error:
            msg = f"{name}: the envelope lists it, and the artifact has no {name}{SUFFIX}"
            raise ForgedError(msg, remedy=_AGAIN) from error
        size = envelope.files[name]
        if size > sealed.nbytes:  # before so much memory is taken
            msg = f"{name}: the envelope says {size} bytes, and the encrypted file has {sealed.nbytes}"
            raise ForgedError(msg, remedy=_AGAIN)
        file = file_key(key, name)
        return Memory(size, lambda into: unseal(sealed, into, file, envelope.chunk, where=name))
