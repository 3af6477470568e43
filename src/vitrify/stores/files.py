"""The files of an artifact, and its manifest: nothing is handed out before its digest was checked."""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError
from vitrify.core.manifest import Manifest
from vitrify.core.progress import track
from vitrify.stores._durable import storing
from vitrify.stores._index import read_bounded
from vitrify.stores._verified import corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vitrify.core.manifest import Descriptor
    from vitrify.core.protocols import Store

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""What every OCI registry must take (OCI distribution specification 1.1, "Pushing Manifests")."""


def read_manifest(store: Store, digest: Digest) -> Manifest:
    """Return a manifest whose bytes were checked.

    Raises:
        ReferenceNotFoundError: The store does not have it.
        CorruptError: Its bytes are not what the digest promises.
        MalformedError: The bytes are no OCI image manifest, or more than ``MAX_MANIFEST_BYTES``.
    """
    return Manifest.from_json(read_document(store, digest), where=f"manifest {digest}")


def read_document(store: Store, digest: Digest, *, limit: int = MAX_MANIFEST_BYTES) -> bytes:
    """Return the checked bytes of a small blob; it raises what :func:`read_manifest` raises."""
    path = store.blob(digest)
    data = read_bounded(path, limit)
    if data is None:
        msg = f"blob {digest} was removed while it was opened"
        raise ReferenceNotFoundError(msg, remedy="open the artifact again by its name")
    if (found := Digest.of(data)) != digest:
        raise corrupt(digest, found, place=str(path))
    return data


class BlobFiles:
    """Files that lie in blobs; see :class:`vitrify.core.protocols.Files`."""

    def __init__(self, blob: Callable[[Digest], Path], files: Mapping[str, Descriptor]) -> None:
        """Take a function that returns the checked place of a blob, and a descriptor a path."""
        self._blob = blob
        self._files = dict(sorted(files.items()))
        self._whole = False

    def names(self) -> tuple[str, ...]:
        """Return the paths inside the artifact, sorted."""
        return tuple(self._files)

    def read(self, name: str) -> bytes:
        """Return one file's bytes; the very bytes that are returned are hashed.

        Raises:
            ReferenceNotFoundError: The artifact has no such file.
            CorruptError: The content is not what the manifest promises; the message names the file.
        """
        digest = self._descriptor(name).content
        path = self._checked(name)
        with storing(f"read {name}"):
            data = path.read_bytes()
        if (found := Digest.of(data)) != digest:
            raise corrupt(digest, found, place=f"file {name} ({path})")
        return data

    def map(self, name: str) -> memoryview:
        """Return one file's bytes, read-only and memory-mapped; raises what :meth:`read` raises."""
        with storing(f"map {name}"), self.path(name).open("rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))

    def path(self, name: str) -> Path:
        """Return where one file lies; raises what :meth:`read` raises."""
        self._descriptor(name)
        self.verify()
        return self._checked(name)

    def verify(self) -> None:
        """Check all files together, on all cores; the first :meth:`map` or :meth:`path` does it.

        Raises:
            CorruptError: The content of a file is not what the manifest promises; the message names the file.
        """
        if self._whole:
            return
        if len(self._files) == 1:
            self._checked(next(iter(self._files)))
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool, track("verifying", len(self._files)) as bar:
                for _ in pool.map(self._checked, self._files):
                    bar.advance()
        self._whole = True

    def _descriptor(self, name: str) -> Descriptor:
        try:
            return self._files[name]
        except KeyError:
            msg = f"no file {name!r} in this artifact (it has: {', '.join(self._files)})"
            raise ReferenceNotFoundError(msg) from None

    def _checked(self, name: str) -> Path:
        descriptor = self._files[name]
        try:
            path = self._blob(descriptor.content)
            size = path.stat().st_size
        except (CorruptError, ReferenceNotFoundError) as error:
            msg = f"file {name}: {error.message}"
            raise CorruptError(msg, remedy=error.remedy) from error
        except FileNotFoundError as error:
            msg = f"file {name}: blob {descriptor.digest} was removed while it was opened"
            raise CorruptError(msg, remedy="open the artifact again by its name") from error
        if size != descriptor.size:
            msg = f"file {name}: the manifest promises {descriptor.size} bytes, the blob has {size}"
            raise MalformedError(msg)
        return path


class ArtifactFiles(BlobFiles):
    """The files of a manifest in any store."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        """Read nothing yet."""
        super().__init__(store.blob, manifest.files)
