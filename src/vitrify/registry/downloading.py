"""Content coming from a server: in pieces, checked, and asked for again from where a connection broke."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from urllib3.exceptions import HTTPError

from vitrify.core.errors import CorruptError, UnavailableError
from vitrify.stores._verified import corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from urllib3.response import BaseHTTPResponse

    from vitrify.core.digest import Digest

_PIECE = 1024 * 1024
_TRIES = 8
_CHECKED = 64 * 1024 * 1024
"""Bytes of what is checked here: documents, which are parsed from memory. What is larger goes to a file, and whoever
writes it hashes it; twice would halve the speed."""


class Download:
    """One content on its way.

    Args:
        fetch: Asks for the content from a byte on, and returns the answer with its body unread.
        digest: Of the content.
        start: The first byte that is wanted.
        where: The server, for messages.
    """

    def __init__(
        self, fetch: Callable[[Digest, int], BaseHTTPResponse], digest: Digest, start: int, where: str
    ) -> None:
        """Ask, so that what is not there is said now and not at the first piece."""
        self._fetch, self._digest, self._where = fetch, digest, where
        self._at = start
        self._response = fetch(digest, start)
        self._end = start + self._length()
        self._hash = hashlib.sha256() if start == 0 and self._end <= _CHECKED else None

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Yield the pieces."""
        failures = 0
        try:
            while self._at < self._end:
                try:
                    piece = self._response.read(min(_PIECE, self._end - self._at))
                    if not piece:
                        raise _broken(self._where)
                except (HTTPError, UnavailableError) as error:
                    failures += 1
                    if failures >= _TRIES:
                        raise _broken(self._where) from error
                    self._again(failures)
                    continue
                failures = 0
                self._at += len(piece)
                if self._hash is not None:
                    self._hash.update(piece)
                    if self._at == self._end and self._hash.hexdigest() != self._digest.hex:
                        found = type(self._digest)(self._hash.hexdigest())
                        raise corrupt(self._digest, found, place=self._where)
                yield piece
        finally:
            if self._at == self._end:
                self._response.release_conn()
            else:
                self._response.close()

    def _again(self, failures: int) -> None:
        self._response.close()
        time.sleep(min(0.05 * 2**failures, 5.0))
        self._response = self._fetch(self._digest, self._at)
        if self._at and self._response.status != 206:  # noqa: PLR2004 (Partial Content)
            msg = f"{self._where} sends {self._digest.short} from its start again"
            raise UnavailableError(msg, remedy="try again; if it stays so, a proxy takes away Range")
        if self._at + self._length() != self._end:
            msg = f"{self._where}: {self._digest} has another length than before"
            raise CorruptError(msg, remedy="ask who runs the registry")

    def _length(self) -> int:
        said = self._response.headers.get("Content-Length", "")
        if not said.isdigit():
            self._response.close()
            msg = f"{self._where} does not say how long {self._digest.short} is"
            raise UnavailableError(msg, remedy="check the URL")
        return int(said)


def _broken(where: str) -> UnavailableError:
    return UnavailableError(f"{where}: the connection broke again and again", remedy="try again later")
