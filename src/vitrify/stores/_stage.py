"""A stage: files on their way into the store, hashed and made durable while they are written."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, UsageError
from vitrify.core.manifest import FILEPATH, MANIFEST_TYPE, SUBJECT, Descriptor, check_filepath, layer_type
from vitrify.stores._durable import seal, storing
from vitrify.stores._stream import hashed_stream
from vitrify.stores.files import MAX_MANIFEST_BYTES, BlobFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vitrify.core.manifest import FileKind, Manifest

    Entry = tuple[Descriptor, str | None]
    Publish = Callable[[Mapping[Digest, Path], Sequence[Entry]], None]

_SYNCERS = 8
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


@dataclass(frozen=True)
class _File:
    """One written file; it may still be on its way to its digest and to the disk."""

    path: Path
    kind: FileKind
    size: int
    digest: Future[Digest]
    durable: Future[None]


class DiskStage:
    """A stage in a directory of the store; see :class:`vitrify.core.protocols.Stage`.

    Hashing and fsync run in threads of their own: beside the writing, and beside the work that the caller does
    between writing and committing. Several files may be open at once, in several threads.
    """

    def __init__(self, directory: Path, publish: Publish) -> None:
        """Write to ``directory``; ``publish`` moves what was staged to its place and lists it."""
        self._directory = directory
        self._publish = publish
        self._files: dict[str, _File] = {}
        self._blobs: dict[Digest, Path] = {}
        self._taken: set[str] = set()
        self._lock = threading.Lock()
        self._hashers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="vitrify-hash")
        self._syncers = ThreadPoolExecutor(_SYNCERS, thread_name_prefix="vitrify-fsync")

    @contextmanager
    def open(self, name: str, kind: FileKind) -> Iterator[BinaryIO]:
        """Write one file as a stream; it is hashed while it is written.

        Raises:
            StoreError: The disk would not take it.
            UsageError: The name is taken.
            MalformedError: The name is no safe relative path.
        """
        with self._new(name) as path, hashed_stream(path, self._hashers, self._syncers) as stream:
            yield stream.buffered
            size, digest, durable = stream.finish()
            self._files[name] = _File(path, kind, size, _done(digest), durable)

    @contextmanager
    def path(self, name: str, kind: FileKind) -> Iterator[Path]:
        """Yield a path for a library that writes files itself; it is hashed when the block ends.

        Its last part is the name's, so that a library that looks at endings finds the one it wants.

        Raises:
            StoreError: The disk would not take it.
            UsageError: The name is taken, or the block wrote no regular file.
            MalformedError: The name is no safe relative path.
        """
        with self._new(name) as path:
            try:
                yield path
            except OSError as error:
                if error.errno not in _DISK_ERRORS:
                    raise
                with storing(f"write {name}"):
                    raise
            if not path.exists() or not stat.S_ISREG(path.lstat().st_mode):
                msg = f"no regular file was written for {name!r}"
                raise UsageError(msg, remedy="write to exactly the path that the block was given")
            durable = self._syncers.submit(_sync_file, path)
            digest = self._hashers.submit(Digest.of_file, path)
            self._files[name] = _File(path, kind, path.stat().st_size, digest, durable)

    def files(self) -> BlobFiles:
        """Return what was written so far."""
        described = {layer.annotations[FILEPATH]: layer for layer in self.descriptors()}
        places = {layer.content: self._files[name].path for name, layer in described.items()}
        return BlobFiles(places.__getitem__, described)

    def descriptors(self) -> tuple[Descriptor, ...]:
        """Return the descriptors of the files, in the order of their paths, when all are hashed."""
        with storing("read the staged files"):
            return tuple(
                Descriptor(
                    media_type=layer_type(file.kind),
                    digest=str(file.digest.result()),
                    size=file.size,
                    annotations={FILEPATH: name},
                )
                for name, file in sorted(self._files.items())
            )

    def commit(self, build: Callable[[tuple[Descriptor, ...]], tuple[Manifest, bytes]], name: str | None) -> Digest:
        """Make it durable and visible, all or nothing; see :class:`vitrify.core.protocols.Stage`.

        Raises:
            StoreError: The disk would not take it, or an fsync failed; the store is as it was.
            UsageError: The name is not valid, or the manifest lists what was not staged.
        """
        manifest, config = build(self.descriptors())
        self.add(config)
        needed = {item.content for item in manifest.referenced()}
        if absent := needed - self.blobs().keys():
            listed = ", ".join(map(str, sorted(absent)))
            msg = f"the manifest refers to content that was not written to this stage: {listed}"
            raise UsageError(msg)
        data = manifest.to_json()
        if len(data) > MAX_MANIFEST_BYTES:
            msg = f"a manifest of {len(data)} bytes, more than the {MAX_MANIFEST_BYTES} that registries take"
            raise MalformedError(msg, remedy="put the model's files together into fewer ones")
        digest = self.add(data)
        entry = Descriptor(
            media_type=MANIFEST_TYPE,
            digest=str(digest),
            size=len(data),
            artifact_type=manifest.artifact_type,
            annotations={SUBJECT: manifest.subject.digest} if manifest.subject else {},
        )
        blobs = self.blobs()
        self._publish({blob: blobs[blob] for blob in (*needed, digest)}, [(entry, name)])
        return digest

    def publish(self, entries: Sequence[Entry]) -> None:
        """Move everything staged to its place, then list these manifests, each with a name or without."""
        self._publish(self.blobs(), entries)

    def add(self, data: bytes) -> Digest:
        """Stage a blob that is no file of the artifact: a configuration or a manifest."""
        digest = Digest.of(data)
        if digest not in self._blobs:
            path = self._directory / digest.hex
            with storing("write to the store"):
                path.write_bytes(data)
                _sync_file(path)
            self._blobs[digest] = path
        return digest

    def blobs(self) -> dict[Digest, Path]:
        """Return where everything staged lies, once all of it is hashed and durable.

        Raises:
            StoreError: An fsync failed.
        """
        with storing("write to the store"):
            for file in self._files.values():
                file.durable.result()
            return {**{file.digest.result(): file.path for file in self._files.values()}, **self._blobs}

    def close(self) -> None:
        """Wait for the threads."""
        self._hashers.shutdown()
        self._syncers.shutdown()

    @contextmanager
    def _new(self, name: str) -> Iterator[Path]:
        """Take a name and yield a place for it; if the block raises, give the name back and delete the file."""
        check_filepath(name)
        folded = name.casefold()
        with self._lock:
            if folded in self._taken:
                msg = f"a file {name!r} was already written to this stage"
                raise UsageError(msg)
            self._taken.add(folded)
        directory = self._directory / f"file-{secrets.token_hex(8)}"
        try:
            with storing(f"write {name}"):
                directory.mkdir()
            yield directory / name.rpartition("/")[2]
        except BaseException:
            self._taken.discard(folded)
            shutil.rmtree(directory, ignore_errors=True)
            raise


def _done(digest: Digest) -> Future[Digest]:
    future: Future[Digest] = Future()
    future.set_result(digest)
    return future


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        seal(descriptor)
    finally:
        os.close(descriptor)
