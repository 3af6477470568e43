"""HTTP to the one server that was named, for the client.

A token goes there and nowhere else: no redirect is followed, and plain HTTP is spoken to this machine only, unless that
is asked for. What failed is tried again only where that cannot do a thing twice.
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

from vitrify.core.errors import AuthenticationError, UnavailableError, UsageError
from vitrify.core.wire import MAX_DOCUMENT_BYTES
from vitrify.registry.api.errors import error_from

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

TRIES = 5
BYTES = "application/octet-stream"
_CONNECT_SECONDS, _READ_SECONDS = 15.0, 120.0
"""The first is also what one piece of a body may take to be sent."""
_LONGEST_PAUSE = 5.0
_LONGEST_ASKED = 30.0
"""Seconds of a server's Retry-After that are waited."""
_BLOCK = 256 * 1024
_MOST_ERROR = 1024 * 1024
_BUSY = 503
_MOVED, _REFUSED = 300, 400
"""The first statuses of redirects, and of errors."""
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_INSECURE = "VITRIFY_INSECURE_HTTP"


class Connection:
    """Asks a server. Threads may share it; connections are kept.

    Args:
        url: Of the server, with the path under which a proxy has it.
        token: ``vit_...``; None where the server lets anybody read.
        insecure: Whether plain HTTP may go to another machine; by default whether ``$VITRIFY_INSECURE_HTTP`` is 1.

    Raises:
        UsageError: The URL is none of a server's, or is plain HTTP to another machine.
    """

    def __init__(self, url: str, token: str | None, *, insecure: bool | None = None) -> None:
        """Connect to nothing yet."""
        allowed = os.environ.get(_INSECURE) == "1" if insecure is None else insecure
        self.url = url
        self._prefix, self._pool = _opened(url, insecure=allowed)
        self.headers = {"Accept": "application/json", "User-Agent": "vitrify"}
        if token:
            self.headers["Authorization"] = f"Bearer {_checked(token)}"
        self._json = {**self.headers, "Content-Type": "application/json"}

    def json(self, method: str, path: str, body: bytes | None, *, again: bool = False) -> bytes:
        """Return the body of an answer to JSON, or to nothing; see :meth:`request`."""
        headers = self.headers if body is None else self._json
        return self.body(self.request(method, path, body, headers, again=again))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        again: bool = False,
        tries: int = TRIES,
    ) -> BaseHTTPResponse:
        """Return an answer that is no error, its body unread.

        Args:
            method: An HTTP method.
            path: With its query, without what stands before all paths.
            body: Bytes, or an iterator of them, which cannot be sent twice.
            headers: All of them; by default ``headers``.
            again: Whether a request that changes something may be sent twice all the same.
            tries: How often at most.

        Raises:
            VitrifyError: As the server says.
            UnavailableError: It does not answer.
        """
        safe = again or method in _IDEMPOTENT
        for attempt in range(1, tries + 1):
            try:
                response = self._pool.urlopen(
                    method,
                    self._prefix + path,
                    body=body,
                    headers=headers or self.headers,
                    retries=False,
                    redirect=False,
                    preload_content=False,
                    decode_content=False,
                )
            except HTTPError as error:
                never_sent = isinstance(error, NewConnectionError | ConnectTimeoutError)
                if attempt == tries or isinstance(error, SSLError) or not (safe or never_sent):
                    raise unreachable(self.url, error) from error
                pause(attempt)
                continue
            if response.status == _BUSY and safe and attempt < tries:
                response.drain_conn()
                response.release_conn()
                pause(attempt, response.headers.get("Retry-After"))
                continue
            if response.status >= _MOVED:
                self._refuse(response)
            return response
        raise AssertionError

    def body(self, response: BaseHTTPResponse, most: int = MAX_DOCUMENT_BYTES) -> bytes:
        """Return the body of an answer, and give its connection back.

        Raises:
            UnavailableError: It is longer than ``most``, or breaks off.
        """
        data = self._read(response, most + 1)
        if len(data) > most:
            response.close()
            msg = f"{self.url} answers with more than {most} bytes"
            raise UnavailableError(msg, remedy="check the URL")
        response.release_conn()
        return data

    def close(self) -> None:
        """Let go of connections."""
        self._pool.close()

    def _refuse(self, response: BaseHTTPResponse) -> NoReturn:
        if response.status < _REFUSED:
            response.close()
            msg = f"{self.url} answers that it is elsewhere; a token is not sent after it"
            raise UsageError(msg, remedy="name the URL that it leads to, if that is the registry")
        data = self._read(response, _MOST_ERROR)
        if len(data) < _MOST_ERROR:
            response.release_conn()
        else:
            response.close()
        raise error_from(response.status, data, self.url)

    def _read(self, response: BaseHTTPResponse, most: int) -> bytes:
        try:
            return response.read(most)
        except HTTPError as error:
            response.close()
            raise unreachable(self.url, error) from error


def pause(attempt: int, asked: str | None = None) -> None:
    """Wait before trying again: longer each time, and never all clients at once."""
    seconds = min(0.05 * 2**attempt, _LONGEST_PAUSE)
    if asked is not None and asked.isascii() and asked.isdigit():
        seconds = max(seconds, min(float(asked), _LONGEST_ASKED))
    time.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311 (no secret)


def unreachable(url: str, error: HTTPError) -> UnavailableError:
    """Return the error of a server that does not answer."""
    reason = str(error.__cause__ or error)[:500]
    if isinstance(error, SSLError):
        return UnavailableError(f"{url}: TLS failed: {reason}", remedy="check its certificate; SSL_CERT_FILE names CAs")
    return UnavailableError(f"{url} does not answer: {reason}", remedy="check the URL and that the server runs")


def _opened(url: str, *, insecure: bool) -> tuple[str, urllib3.HTTPConnectionPool]:
    """Return the path before all paths, and the pool of connections."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.hostname
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment or "@" in parts.netloc:
        msg = "not the URL of a registry's server (expected https://host[:port][/path], without a user and a password)"
        raise UsageError(msg, remedy="for example: https://models.example.org; the token goes into VITRIFY_TOKEN")
    timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
    prefix = parts.path.rstrip("/")
    if parts.scheme == "https":
        return prefix, urllib3.HTTPSConnectionPool(
            host, port, timeout=timeout, maxsize=16, blocksize=_BLOCK, cert_reqs="CERT_REQUIRED"
        )
    if host not in _LOOPBACK and not insecure:
        msg = f"plain HTTP to {host} would send the token in the clear"
        raise UsageError(msg, remedy=f"use https://; in a network that you trust set {_INSECURE}=1")
    return prefix, urllib3.HTTPConnectionPool(host, port, timeout=timeout, maxsize=16, blocksize=_BLOCK)


def _checked(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        msg = "the token has characters that no token has"
        raise AuthenticationError(msg, remedy="set VITRIFY_TOKEN to what vitrify registry token create printed")
    return token
