"""The registry on a server: the same requests over HTTP, the same answers and the same errors."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import msgspec

from vitrify.core.nesting import shallow
from vitrify.core.wire import to_builtins
from vitrify.registry.api.locating import segment
from vitrify.registry.connection import Connection
from vitrify.registry.downloading import Download
from vitrify.registry.requests import OPERATIONS
from vitrify.registry.uploading import send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from urllib3.response import BaseHTTPResponse

    from vitrify.core.digest import Digest
    from vitrify.core.wire import Value
    from vitrify.registry.requests import Operation, Request


class RemoteBackend:
    """Carries requests out on a server; see :class:`vitrify.registry.backend.Backend`. Threads may share it.

    Args:
        url: Of the server, with the path under which a proxy has it.
        token: ``vit_...``; None where the server lets anybody read.
        insecure_http: Whether plain HTTP may go to another machine; by default whether ``$VITRIFY_INSECURE_HTTP`` is 1.

    Raises:
        UsageError: The URL is none of a server's, or is plain HTTP to another machine.
    """

    def __init__(self, url: str, token: str | None = None, *, insecure_http: bool | None = None) -> None:
        """Connect to nothing yet."""
        self.url = url
        self._connection = Connection(url, token, insecure=insecure_http)

    def __repr__(self) -> str:
        return f"RemoteBackend({self.url!r})"

    def do(self, request: Request) -> Value:
        """Carry one request out.

        Raises:
            VitrifyError: As the server says; nothing was changed.
            UnavailableError: It does not answer. Whether a request that changes something was carried out may then be
                unknown; it is not sent twice.
        """
        operation = OPERATIONS[type(request)]
        path, body = _placed(operation, request)
        data = self._connection.json(operation.method, path, body)
        return _decoded(operation.answer, data, f"{self.url}: {type(request).__name__}")

    def upload(self, digest: Digest, path: Path) -> None:
        """Send a file's bytes; the server checks them against the digest. A broken connection is resumed.

        Raises:
            CorruptError: They are not what the digest promises.
            UnavailableError: The server does not answer for long; what arrived is kept for a week.
        """
        send(self._connection, digest, path)

    def read(self, digest: Digest, start: int = 0) -> Iterator[bytes | memoryview]:
        """Yield content from a byte on; a broken connection is resumed.

        Content of up to 64 MiB that is read from its start is checked before its last piece is yielded; who reads more
        checks it, as it says in :class:`vitrify.registry.backend.Backend`.

        Raises:
            ReferenceNotFoundError: It is not there.
            CorruptError: It is not what the digest promises.
            UnavailableError: The server does not answer for long.
        """
        return iter(Download(self._fetch, digest, start, self.url))

    def close(self) -> None:
        """Let go of connections."""
        self._connection.close()

    def _fetch(self, digest: Digest, start: int) -> BaseHTTPResponse:
        """Return an answer with content from a byte on, its body unread."""
        headers = {**self._connection.headers, "Range": f"bytes={start}-"} if start else None
        return self._connection.request("GET", f"/v1/content/{digest}", None, headers)


@cache
def _decoder(kind: type[Value]) -> msgspec.json.Decoder[Value]:
    return msgspec.json.Decoder(kind)


def _decoded(kind: type[Value], data: bytes, where: str) -> Value:
    """Read an answer; what a newer server says beside it is left out, as a database here would not say it."""
    try:
        return _decoder(kind).decode(shallow(data))
    except (msgspec.DecodeError, RecursionError):
        return kind.from_json(data, where=where)  # which says what is wrong with it


def _placed(operation: Operation, request: Request) -> tuple[str, bytes | None]:
    """Return the path of a request, with its query, and its body."""
    raw = to_builtins(request)
    path = operation.path
    if "{" in path:
        parts = path.split("/")
        path = "/".join(segment(str(raw.pop(part[1:-1]))) if part.startswith("{") else part for part in parts)
    if operation.method not in {"GET", "DELETE"}:
        return path, msgspec.json.encode(raw)
    return (f"{path}?{urlencode(raw, quote_via=quote)}" if raw else path), None
