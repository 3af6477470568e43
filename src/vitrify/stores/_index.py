"""``index.json``: the entry points of an OCI image layout, and the names that stand in it.

What the index lists is kept; what it does not list and nothing listed leads to is garbage. Taking away or
moving an artifact's last name takes its entry out; an artifact that never had a name stays until it is
forgotten.

Source: OCI image specification 1.1, ``image-layout.md``, ``image-index.md`` and ``annotations.md``.
"""

from __future__ import annotations

import difflib
import re
import secrets
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import INDEX_TYPE, REF_NAME, Descriptor
from vitrify.core.wire import MAX_DOCUMENT_BYTES, Value
from vitrify.stores._durable import locked, make_directory, replacing, storing, write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


PRIVATE = ".vitrify"
"""Directory inside the layout for what is ours alone: locks, stages, the verification cache."""

LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_NAME = re.compile(r"[A-Za-z0-9]+(?:(?:[-._:@+/]|--)[A-Za-z0-9]+)*")
_MAX_NAME = 512


class Index(Value, frozen=True, kw_only=True):
    """The content of ``index.json``."""

    schema_version: int
    media_type: str | None = None
    manifests: tuple[Descriptor, ...]

    def __post_init__(self) -> None:
        """Check the one constant."""
        if self.schema_version != 2:  # noqa: PLR2004 (OCI's constant)
            msg = f"not an OCI image index: schemaVersion {self.schema_version}"
            raise ValueError(msg)

    def named(self, name: str, target: Descriptor) -> Index:
        """Return this index with a name given to ``target``, taken from what had it."""
        kept = [e for e in self.manifests if _name(e) != name and (_name(e) or e.digest != target.digest)]
        annotations = {**target.annotations, REF_NAME: name}
        return self.replace(manifests=(*kept, target.replace(annotations=annotations)))

    def listed(self, target: Descriptor) -> Index:
        """Return this index with an entry for ``target``, which needs no name."""
        known = any(entry.digest == target.digest for entry in self.manifests)
        return self if known else self.replace(manifests=(*self.manifests, target))

    def without_name(self, name: str) -> Index:
        """Return this index without a name."""
        return self.replace(manifests=tuple(e for e in self.manifests if _name(e) != name))

    def without(self, digests: set[str]) -> Index:
        """Return this index without any entry for these digests."""
        return self.replace(manifests=tuple(e for e in self.manifests if e.digest not in digests))

    def names(self) -> dict[str, Descriptor]:
        """Return every name and what it leads to, sorted."""
        pairs = ((_name(entry), unnamed(entry)) for entry in self.manifests)
        return dict(sorted((name, entry) for name, entry in pairs if name is not None))


class IndexFile:
    """``index.json`` on disk. It is read without a lock: it is only ever replaced as a whole."""

    def __init__(self, root: Path) -> None:
        """Touch nothing yet."""
        self.root = root
        self._path = root / "index.json"

    def read(self) -> Index:
        """Return its content; of a store that does not exist yet, an empty one.

        Raises:
            MalformedError: It is not an OCI image index.
        """
        data = read_bounded(self._path, MAX_DOCUMENT_BYTES)
        if data is None:
            return Index(schema_version=2, media_type=INDEX_TYPE, manifests=())
        return Index.from_json(data, where=str(self._path))

    def create(self) -> None:
        """Make the layout's directories and marker, if they are not there.

        Raises:
            UsageError: The directory holds something else.
            StoreError: It cannot be made.
        """
        marker = self.root / "oci-layout"
        lock = self.root / PRIVATE / "index.lock"
        if marker.is_file() and lock.is_file():
            return
        with storing(f"make the store {self.root}"):
            # The marker is looked for last: what others make meanwhile, they make after it.
            if self.root.is_dir() and (strange := _strangers(self.root)) and not marker.is_file():
                msg = f"{self.root} is no model store: it has no oci-layout file, but holds {', '.join(strange)}"
                raise UsageError(msg, remedy="name an empty directory, or one that does not exist yet")
            for part in ("blobs/sha256", PRIVATE):
                make_directory(self.root / part)
            for name in ("keep.lock", "index.lock"):
                (self.root / PRIVATE / name).touch()
            with locked(lock):
                if not marker.is_file():
                    with replacing(marker, self._temporary()) as descriptor:
                        write_all(descriptor, LAYOUT)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the one lock under which blobs and index entries are added and taken away."""
        self.create()
        with ExitStack() as stack:
            with storing("lock the store"):
                stack.enter_context(locked(self.root / PRIVATE / "index.lock"))
            yield

    @contextmanager
    def replaced(self, index: Index) -> Iterator[None]:
        """Write a new index, run the block, and put the index in its place. The lock must be held.

        So a disk that is full is found before the block has made anything visible.
        """
        with storing("write index.json"), replacing(self._path, self._temporary()) as descriptor:
            write_all(descriptor, index.to_json())
            yield

    def write(self, index: Index) -> None:
        """Put a new index in the old one's place. The lock must be held."""
        with self.replaced(index):
            pass

    def sweep(self) -> None:
        """Delete what writers that died have left. The lock must be held."""
        for leftover in (self.root / PRIVATE).glob("tmp-*"):
            leftover.unlink(missing_ok=True)

    def _temporary(self) -> Path:
        return self.root / PRIVATE / f"tmp-{secrets.token_hex(8)}"


class LayoutNames:
    """The names in ``index.json``; see :class:`vitrify.core.protocols.Names`."""

    def __init__(self, index: IndexFile) -> None:
        """Read nothing yet."""
        self._index = index

    def get(self, name: str) -> Descriptor:
        """Return what a name leads to.

        Raises:
            ReferenceNotFoundError: Nothing has this name; the remedy shows names like it.
        """
        names = self.all()
        if found := names.get(name):
            return found
        like = difflib.get_close_matches(name, names) or list(names)[:5]
        msg = f"nothing is called {name!r} in {self._index.root / 'index.json'}"
        remedy = (
            f"use a name that is there: {', '.join(like)}" if like else "save a model first: the store has no names"
        )
        raise ReferenceNotFoundError(msg, remedy=remedy)

    def set(self, name: str, target: Descriptor) -> None:
        """Give a name, taking it from what had it.

        Raises:
            UsageError: It is no name that other OCI tools accept.
            ReferenceNotFoundError: The store does not have the target.
        """
        check_name(name)
        with self._index.lock():
            if not (self._index.root / "blobs" / "sha256" / target.content.hex).is_file():
                msg = f"cannot give the name {name!r} to {target.digest}: it is not in this store"
                raise ReferenceNotFoundError(msg)
            self._index.write(self._index.read().named(name, target))

    def unset(self, name: str) -> None:
        """Take a name away; taking away what nobody has is no error."""
        if name in self.all():
            with self._index.lock():
                self._index.write(self._index.read().without_name(name))

    def all(self) -> dict[str, Descriptor]:
        """Return every name, sorted."""
        return self._index.read().names()


def check_name(name: str) -> None:
    """Accept what the OCI specification accepts as ``org.opencontainers.image.ref.name``.

    Raises:
        UsageError: It is something else.
    """
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        msg = f"not a name for an OCI layout: {name!r} (expected letters and digits, one of - . _ : @ + / between them)"
        raise UsageError(msg, remedy="for example: churn:latest, team/churn:1.2.0")


def unnamed(entry: Descriptor) -> Descriptor:
    """Return an index entry without its name."""
    return entry.replace(annotations={key: text for key, text in entry.annotations.items() if key != REF_NAME})


def read_bounded(path: Path, limit: int) -> bytes | None:
    """Return a whole small file, or None where there is none.

    Raises:
        MalformedError: It is larger than ``limit`` bytes.
        StoreError: It cannot be read.
    """
    with storing(f"read {path}"):
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            return None
        with stream:
            data = stream.read(limit + 1)
    if len(data) > limit:
        msg = f"{path}: more than {limit} bytes"
        raise MalformedError(msg)
    return data


def _name(entry: Descriptor) -> str | None:
    return entry.annotations.get(REF_NAME)


def _strangers(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir() if entry.name not in {PRIVATE, "blobs"})[:5]
