"""The OCI image layout on disk: the default store.

``blobs/sha256/<hex>`` holds the content, ``index.json`` lists and names manifests, ``oci-layout`` says what the
directory is; any OCI tool reads it. ``.vitrify/`` beside them is ours alone: two locks, the stages, and the
verification cache.

A commit moves durable blobs to their places and then replaces ``index.json``, so that a crash at any moment
leaves the old index or the new one, and at worst a blob or a stage that garbage collection takes away.

Two locks, always taken in this order: ``keep.lock`` is shared by those who read what may become garbage, and
exclusive to the collector; ``index.lock`` is held, for milliseconds, by whoever adds or takes away.

Source: OCI image specification 1.1, ``image-layout.md``.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.errors import StoreError
from vitrify.stores._durable import locked, storing, sync
from vitrify.stores._index import PRIVATE, IndexFile, LayoutNames, check_name
from vitrify.stores._stage import DiskStage
from vitrify.stores._verified import Verified

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vitrify.stores._stage import Entry

_HEX = re.compile(r"[0-9a-f]{64}")


class OciLayout:
    """A store in an OCI image layout; see :class:`vitrify.core.protocols.Store`.

    The directory is made by the first write; until then it reads as empty. Any number of processes and threads
    may use it at once.

    Attributes:
        root: The layout's directory.
        names: The names that lead to manifests.
        index: ``index.json``.
        verified: What was already hashed.
    """

    def __init__(self, root: Path | None = None) -> None:
        """Take the layout's directory; without one, :func:`default_root`."""
        self.root = (root or default_root()).absolute()
        self.index = IndexFile(self.root)
        self.names = LayoutNames(self.index)
        self.verified = Verified(self.root / PRIVATE / "verified")
        self._blobs = self.root / "blobs" / "sha256"

    def __repr__(self) -> str:
        return f"OciLayout({str(self.root)!r})"

    @contextmanager
    def stage(self) -> Iterator[DiskStage]:
        """Return a new stage; leaving the block without a commit leaves nothing behind.

        Raises:
            StoreError: The store's directory cannot be made or written to.
            UsageError: The directory holds something that is no OCI layout.
        """
        self.index.create()
        with self._stage_directory() as directory:
            stage = DiskStage(directory, self._publish)
            try:
                yield stage
            finally:
                stage.close()

    def blob(self, digest: Digest) -> Path:
        """Return a local file whose content was verified against ``digest``.

        Raises:
            ReferenceNotFoundError: The store does not have it.
            CorruptError: The content is different.
        """
        path = self.place(digest)
        self.verified.check(path, digest)
        return path

    def place(self, digest: Digest) -> Path:
        """Return where a blob lies, or would lie; nothing is checked."""
        return self._blobs / digest.hex

    def digests(self) -> Iterator[Digest]:
        """Yield the digest of every blob, sorted."""
        with storing("list the store"):
            try:
                names = sorted(entry.name for entry in os.scandir(self._blobs))
            except FileNotFoundError:
                return
        yield from (Digest(name) for name in names if _HEX.fullmatch(name))

    def remove(self, digest: Digest) -> None:
        """Delete one blob; deleting what is not there is no error."""
        if self.place(digest).exists():
            with self.index.lock(), storing(f"delete blob {digest}"):
                self.place(digest).unlink(missing_ok=True)

    def forget(self, digest: Digest) -> None:
        """Take a manifest, with every name that it has, out of the index; its blobs become garbage."""
        with self.index.lock():
            self.index.write(self.index.read().without({str(digest)}))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Hold off garbage collection while the block opens an artifact; mapped files outlive the block."""
        with ExitStack() as stack:
            # Without the file, nobody has ever collected here: no store yet, or another tool's.
            with storing("lock the store"), contextlib.suppress(FileNotFoundError):
                stack.enter_context(locked(self.root / PRIVATE / "keep.lock", shared=True))
            yield

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Hold both locks: nobody reads under :meth:`kept`, nobody commits. Leftovers of the dead are deleted."""
        self.index.create()
        with ExitStack() as stack:
            with storing("lock the store"):
                stack.enter_context(locked(self.root / PRIVATE / "keep.lock"))
            stack.enter_context(self.index.lock())
            self.index.sweep()
            self._sweep_stages()
            yield

    def _sweep_stages(self) -> None:
        """Delete the stages of processes that died."""
        for lock in (self.root / PRIVATE).glob("stage-*.lock"):
            with contextlib.suppress(OSError), locked(lock, wait=False):
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)

    @contextmanager
    def _stage_directory(self) -> Iterator[Path]:
        """Make a directory beside a lock that is held for as long as its process lives, so that others know."""
        directory = self.root / PRIVATE / f"stage-{secrets.token_hex(8)}"
        lock = directory.with_suffix(".lock")
        with ExitStack() as stack:
            with storing("make a stage"):
                while not lock.exists():  # a collector may see and delete it before it is locked
                    lock.touch()
                    with contextlib.suppress(FileNotFoundError):
                        stack.enter_context(locked(lock))
                directory.mkdir()
            try:
                yield directory
            finally:
                shutil.rmtree(directory, ignore_errors=True)
                lock.unlink(missing_ok=True)

    def _publish(self, blobs: Mapping[Digest, Path], entries: Sequence[Entry]) -> None:
        """Move blobs to their places, then list manifests; see the module's text for why this is safe."""
        for _, name in entries:
            if name is not None:
                check_name(name)
        with self.index.lock():
            index = self.index.read()
            for entry, name in entries:
                index = index.listed(entry) if name is None else index.named(name, entry)
            with self.index.replaced(index), storing("move blobs to their places"):
                for digest, path in blobs.items():
                    self._settle(digest, path)
                sync(self._blobs)

    def _settle(self, digest: Digest, path: Path) -> None:
        """Move one blob to its place. What is there stays only if it is known to be good."""
        place = self.place(digest)
        if not self.verified.knows(place, digest):
            path.rename(place)
        else:
            sync(place)  # another tool may have written it, and not have done this


def default_root() -> Path:
    """Return ``$VITRIFY_HOME/store``, or ``vitrify/store`` in the user's data directory (XDG).

    Raises:
        StoreError: There is no home directory.
    """
    if home := os.environ.get("VITRIFY_HOME"):
        return Path(home).expanduser() / "store"
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    if data.is_absolute():  # the XDG base directory specification: a relative path must be ignored
        return data / "vitrify" / "store"
    try:
        return Path.home() / ".local" / "share" / "vitrify" / "store"
    except RuntimeError as error:
        raise StoreError("this user has no home directory", remedy="set VITRIFY_HOME to a directory") from error
