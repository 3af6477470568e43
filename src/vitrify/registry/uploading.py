"""Content going to a server: small in one request, large in an upload that goes on where a connection broke."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vitrify.core.errors import ConflictError, CorruptError, ReferenceNotFoundError, UnavailableError
from vitrify.core.wire import Value
from vitrify.registry.connection import BYTES, TRIES, pause
from vitrify.stores._durable import storing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vitrify.core.digest import Digest
    from vitrify.registry.connection import Connection

SMALL = 8 * 1024 * 1024
"""Content of so many bytes goes in one request."""
_PART = 512 * 1024 * 1024
"""Bytes of one request of an upload."""
_PIECE = 256 * 1024
_STARTS = 3


class _State(Value, frozen=True, kw_only=True):
    """What :class:`vitrify.registry.api.uploads.UploadState` says, without the server's libraries."""

    id: str
    offset: int


def send(connection: Connection, digest: Digest, path: Path) -> None:
    """Send a file's bytes; the server checks them against the digest.

    Raises:
        CorruptError: They are not what the digest promises.
        UnavailableError: The server does not answer for long; what arrived is kept for a week.
    """
    with storing(f"read {path.name}"):
        size = path.stat().st_size
        small = path.read_bytes() if size <= SMALL else None
    if small is not None:
        headers = {**connection.headers, "Content-Type": BYTES}
        connection.body(connection.request("PUT", f"/v1/content/{digest}", small, headers))
        return
    asked = msgspec.json.encode({"digest": str(digest), "size": size})
    for _ in range(_STARTS):
        data = connection.json("POST", "/v1/uploads", asked, again=True)
        state = _State.from_json(data, where=f"{connection.url}: the upload")
        if not state.id or _Sending(connection, state.id, path, size).run():
            return
    msg = f"{connection.url} forgets uploads before they are finished"
    raise UnavailableError(msg, remedy="ask who runs the registry; try again later")


class _Sending:
    """One upload."""

    def __init__(self, connection: Connection, id_: str, path: Path, size: int) -> None:
        self._connection = connection
        self._place = f"/v1/uploads/{id_}" if id_.isalnum() else "/v1/uploads/unknown"
        self._path, self._size = path, size

    def run(self) -> bool:
        """Send all, from where it is after each break; return False where the server does not know it any more."""
        offset = failures = 0
        try:
            while True:
                try:
                    if offset == self._size:
                        self._commit()
                        return True
                    offset, failures = self._append(offset), 0
                except (UnavailableError, ConflictError):  # a conflict: what was sent before is still being written
                    failures += 1
                    if failures >= TRIES * 2:
                        raise
                    pause(failures)
                    found = self._found(offset)
                    failures = 0 if found > offset else failures
                    offset = found
        except ReferenceNotFoundError:
            return False

    def _append(self, offset: int) -> int:
        length = min(self._size - offset, _PART)
        headers = {
            **self._connection.headers,
            "Content-Type": BYTES,
            "Content-Length": str(length),
            "Upload-Offset": str(offset),
        }
        pieces = _part(self._path, offset, length)
        data = self._connection.body(self._connection.request("PATCH", self._place, pieces, headers, tries=1))
        return _State.from_json(data, where=f"{self._connection.url}: the upload").offset

    def _commit(self) -> None:
        self._connection.body(self._connection.request("PUT", self._place, b"", tries=1))

    def _found(self, offset: int) -> int:
        """Return how much has arrived; ``offset`` where the server does not answer now."""
        try:
            response = self._connection.request("HEAD", self._place)
        except UnavailableError:
            return offset
        response.release_conn()
        said = response.headers.get("Upload-Offset", "")
        if not said.isascii() or not said.isdigit() or int(said) > self._size:
            msg = f"{self._connection.url} says that {said[:20]!r} of {self._size} bytes have arrived"
            raise UnavailableError(msg, remedy="check the URL")
        return int(said)


def _part(path: Path, offset: int, length: int) -> Iterator[bytes]:
    """Yield a part of a file, exactly."""
    with storing(f"read {path.name}"), path.open("rb", buffering=0) as stream:
        stream.seek(offset)
        while length:
            piece = stream.read(min(_PIECE, length))
            if not piece:
                msg = f"{path.name} became shorter while it was sent"
                raise CorruptError(msg, remedy="verify the store: vitrify verify")
            length -= len(piece)
            yield piece
