"""Reading an OCI archive that may have been made to do harm.

Nothing is extracted: members are listed, bounded and looked up by name, and their bytes are read in place.
"""

from __future__ import annotations

import os
import tarfile
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Self

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError
from vitrify.core.manifest import check_filepath
from vitrify.core.wire import MAX_DOCUMENT_BYTES
from vitrify.stores._durable import storing
from vitrify.stores._index import Index
from vitrify.stores._verified import corrupt
from vitrify.stores.files import MAX_MANIFEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_MEMBERS = 100_000
_MAX_EXTENSION = 64 * 1024
_PLAIN = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE})
_EXTENSIONS = frozenset({tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME})
_AGAIN = "get the archive again from where it came, or export it again"
_NOT_TAR = "give an OCI archive: an uncompressed tar (decompress a .tar.gz first)"


class Archive:
    """The members of an open archive, by name."""

    def __init__(self, path: Path, tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo]) -> None:
        """Take what :func:`opened` has checked."""
        self._path = path
        self._tar = tar
        self._members = members

    def index(self) -> Index:
        """Return the content of ``index.json``.

        Raises:
            MalformedError: There is none, or it is no OCI image index.
        """
        if "oci-layout" not in self._members or "index.json" not in self._members:
            msg = f"{self._path}: no OCI archive (expected the members oci-layout and index.json)"
            raise MalformedError(msg, remedy="give a file that vitrify export or another OCI tool has written")
        return Index.from_json(self._small("index.json", MAX_DOCUMENT_BYTES), where=f"{self._path}: index.json")

    def document(self, digest: Digest) -> bytes:
        """Return the checked bytes of a manifest or an index.

        Raises:
            ReferenceNotFoundError: It is not in the archive.
            CorruptError: Its bytes are not what the digest promises.
        """
        name = _blob(digest)
        if name not in self._members:
            msg = f"{self._path}: no {name}"
            raise ReferenceNotFoundError(msg, remedy=_AGAIN)
        data = self._small(name, MAX_MANIFEST_BYTES)
        if (found := Digest.of(data)) != digest:
            raise corrupt(digest, found, place=f"{self._path}: {name}")
        return data

    @contextmanager
    def blob(self, digest: Digest, label: str) -> Iterator[IO[bytes]]:
        """Yield a stream of a blob's bytes; they are not checked here.

        Raises:
            CorruptError: It is not in the archive.
        """
        name = _blob(digest)
        if name not in self._members:
            msg = f"{self._path}: {label}: {name} is missing"
            raise CorruptError(msg, remedy=_AGAIN)
        with self._stream(name) as stream:
            yield stream

    def _small(self, name: str, limit: int) -> bytes:
        if (size := self._members[name].size) > limit:
            msg = f"{self._path}: {name} has {size} bytes, more than the limit of {limit}"
            raise MalformedError(msg)
        with storing(f"read {self._path}"), self._stream(name) as stream:
            return stream.read()

    def _stream(self, name: str) -> IO[bytes]:
        stream = self._tar.extractfile(self._members[name])
        if stream is None:
            msg = f"{self._path}: {name} is a directory"
            raise MalformedError(msg)
        return stream


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an archive and check its list of members.

    Raises:
        ReferenceNotFoundError: There is no such file.
        MalformedError: It is no tar, or has a member that could do harm; the message names it.
    """
    if not path.is_file():
        msg = f"no file {path}"
        raise ReferenceNotFoundError(msg, remedy="give the path of an archive that vitrify export has written")
    with ExitStack() as stack:
        try:
            with storing(f"read {path}"):
                stream = stack.enter_context(path.open("rb"))
                tar = stack.enter_context(tarfile.open(fileobj=stream, mode="r:", tarinfo=_Member))
                members = _listed(tar, os.fstat(stream.fileno()).st_size)
        except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
            msg = f"{path}: not a tar archive ({error})"
            raise MalformedError(msg, remedy=_NOT_TAR) from error
        except MalformedError as error:
            msg = f"{path}: {error.message}"
            raise MalformedError(msg, remedy=error.remedy) from error
        yield Archive(path, tar, members)


class _Member(tarfile.TarInfo):
    """A header that is refused before ``tarfile`` acts on it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read one header block."""
        header = super().frombuf(buf, encoding, errors)
        if header.type not in _PLAIN | _EXTENSIONS:
            msg = f"the member {header.name!r} is no plain file (a link, a device, or sparse: type {header.type!r})"
            raise MalformedError(msg)
        if header.size < 0 or (header.type in _EXTENSIONS and header.size > _MAX_EXTENSION):
            msg = f"the member {header.name!r} claims a size of {header.size} bytes"
            raise MalformedError(msg)
        return header


def _listed(tar: tarfile.TarFile, size: int) -> dict[str, tarfile.TarInfo]:
    members: dict[str, tarfile.TarInfo] = {}
    for count, member in enumerate(tar, 1):
        name = member.name.removeprefix("./").rstrip("/")
        if member.isdir() and name in {"", "."}:
            continue
        check_filepath(name)
        if count > _MAX_MEMBERS:
            msg = f"more than {_MAX_MEMBERS} members"
            raise MalformedError(msg)
        if member.issparse() or member.size < 0 or member.offset_data + member.size > size:
            msg = f"the member {name!r} claims {member.size} bytes, more than the archive has for it"
            raise MalformedError(msg)
        if name in members:
            msg = f"the member {name!r} stands twice"
            raise MalformedError(msg)
        members[name] = member
    return members


def _blob(digest: Digest) -> str:
    return f"blobs/sha256/{digest.hex}"
