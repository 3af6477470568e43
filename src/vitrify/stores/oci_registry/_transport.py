"""HTTP to one registry, which may be hostile: where a request may go, what goes with it, and how an answer is bounded.

Credentials go to the registry's own host, and to the token server that it names; never along with a redirect. No
encrypted connection leads to an open one. A registry on the public internet cannot send us to a private address.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from vitrify.core.errors import LimitExceededError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from urllib.parse import SplitResult

    from urllib3 import BaseHTTPResponse, PoolManager

_HOPS = 5
_CONNECT, _READ = 10.0, 60.0
"""Seconds to connect, and between two pieces of an answer."""

_TRIES = 3
_BUSY = (429, 500, 502, 503, 504)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE = frozenset({"GET", "HEAD"})
_CONNECTIONS = 8
_URL_CHARACTERS = 8192
_TELL = "tell whoever runs the registry; nothing was sent there"
_AGAIN = "see whether the host is right and can be reached, then run it again"


@dataclass(frozen=True)
class Origin:
    """A host as it is connected to: requests with the same origin may carry the same credentials."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str, *, where: str) -> Origin:
        """Return the origin of an absolute URL.

        Raises:
            MalformedError: It is no URL of http or https, or hides credentials.
        """
        parts = _split(url, where)
        return cls(parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme])


class Transport:
    """Requests to one registry and to where it sends us.

    Attributes:
        host: The registry's host and port, as in a reference.
        base: Its URL, without a slash at its end.
    """

    def __init__(self, host: str, *, plain_http: bool = False) -> None:
        """Connect to nothing yet; without encryption only to this machine, or where ``plain_http`` asks for it."""
        self.host = host
        self.base = f"{'http' if plain_http or is_loopback(host) else 'https'}://{host}"
        self.origin = Origin.of(self.base, where=host)

    def url(self, location: str, base: str | None = None) -> str:
        """Return the absolute URL of a ``Location`` that an answer gave.

        Raises:
            MalformedError: It is none that may be followed.
        """
        if len(location) > _URL_CHARACTERS:
            msg = f"{self.host} sends us to a location of {len(location)} characters"
            raise LimitExceededError(msg, remedy=_TELL)
        try:
            url = urljoin(base or self.base, location)
        except ValueError as error:
            msg = f"{self.host} sends us to a location that is none ({error})"
            raise MalformedError(msg, remedy=_TELL) from error
        found = Origin.of(url, where=self.host)
        if self.origin.scheme == "https" and found.scheme != "https":
            msg = f"{self.host} sends us from an encrypted connection to an open one: {_shown(url)}"
            raise MalformedError(msg, remedy=_TELL)
        return url

    def is_own(self, url: str) -> bool:
        """Say whether a URL leads to the registry itself, so that credentials may go along."""
        return Origin.of(url, where=self.host) == self.origin

    @contextmanager
    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        body: Iterable[bytes] | bytes | None = None,
        secret: Mapping[str, str] | None = None,
    ) -> Iterator[BaseHTTPResponse]:
        """Yield an answer whose body was not read yet.

        Args:
            method: GET and HEAD are tried again where the host is busy, and follow redirects; others do neither.
            url: Absolute.
            headers: What goes along wherever the request is sent.
            body: Its length must stand in the headers.
            secret: Headers that go to this origin only.

        Raises:
            UnavailableError: No answer, or a redirect too many.
            MalformedError: A redirect to where nobody may be sent.
        """
        sender = Origin.of(url, where=self.host)
        for _ in range(_HOPS):
            own = dict(secret or {}) if Origin.of(url, where=self.host) == sender else {}
            answer = self._ask(method, url, {**headers, **own}, body)
            try:
                location = answer.headers.get("Location")
                if method not in _SAFE or answer.status not in _REDIRECTS or not location:
                    with _reading(self.host):
                        yield answer
                    return
            finally:
                _drop(answer)
            url = self.url(location, url)
        msg = f"{self.host} sends us on more than {_HOPS} times"
        raise UnavailableError(msg, remedy=_AGAIN)

    def _ask(
        self, method: str, url: str, headers: dict[str, str], body: Iterable[bytes] | bytes | None
    ) -> BaseHTTPResponse:
        from urllib3 import Retry
        from urllib3.exceptions import HTTPError
        from urllib3.util import Timeout

        pools = self._own if self.is_own(url) else self._others
        tries = _TRIES if method in _SAFE else 0
        retries = Retry(
            total=tries,
            redirect=0,
            status_forcelist=_BUSY,
            backoff_factor=0.2,
            raise_on_status=False,
            respect_retry_after_header=False,  # a stranger does not say how long we sleep
        )
        try:
            return pools.request(
                method,
                url,
                headers=headers,
                body=body,
                redirect=False,
                preload_content=False,
                decode_content=False,
                retries=retries if tries else False,
                timeout=Timeout(connect=_CONNECT, read=_READ),
            )
        except (HTTPError, OSError) as error:
            raise _unreachable(self.host, error) from error

    @cached_property
    def _own(self) -> PoolManager:
        return _pools(guarded=False)

    @cached_property
    def _others(self) -> PoolManager:
        """Where the registry sends us. One inside a private network may send us to its neighbours."""
        return _pools(guarded=is_public(self.origin.host))


def read_bounded(answer: BaseHTTPResponse, limit: int, *, where: str) -> bytes:
    """Return a whole small body.

    Raises:
        LimitExceededError: It is larger than ``limit`` bytes.
    """
    data = bytearray()
    while len(data) <= limit and (piece := answer.read(min(limit + 1 - len(data), 1024 * 1024))):
        data += piece
    if len(data) > limit:
        msg = f"{where}: more than {limit} bytes"
        raise LimitExceededError(msg)
    return bytes(data)


def is_loopback(host: str) -> bool:
    """Say whether ``host[:port]`` is this machine."""
    name = (urlsplit(f"//{host}").hostname or "").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_public(name: str) -> bool:
    """Say whether a host's every address is on the public internet; one without an address cannot send us anywhere."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return True
    return all(_is_global(address) for address in found)


def _is_global(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_global


def _split(url: str, where: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and parts.hostname and parts.username is None
        good = good and parts.port != 0 and url.isprintable() and not set(url) & {"\\", " "}
    except ValueError:
        good = False
    if not good:
        msg = f"{where} sends us to {_shown(url)}, which is no address of http or https"
        raise MalformedError(msg, remedy=_TELL)
    return parts


def _shown(url: str) -> str:
    """Return a URL for a message: without what stands behind it, which may be a signature that opens the content."""
    return repr(url.partition("?")[0][:200])


def _pools(*, guarded: bool) -> PoolManager:
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
    from urllib3.connection import HTTPConnection, HTTPSConnection

    pools = PoolManager(num_pools=_CONNECTIONS, maxsize=_CONNECTIONS)
    if not guarded:
        return pools

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _guarded(super()._new_conn())

    class Encrypted(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _guarded(super()._new_conn())

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = Encrypted

    pools.pool_classes_by_scheme = {"http": PlainPool, "https": EncryptedPool}
    return pools


def _guarded(connection: socket.socket) -> socket.socket:
    """Return a connection to a public address, before a byte was sent over it.

    The address is that of the connection and not one that was looked up before: a name may lead to two.
    """
    address = str(connection.getpeername()[0])
    if _is_global(address):
        return connection
    connection.close()
    msg = f"the registry sends us to the private address {address}"
    raise MalformedError(msg, remedy=_TELL)


def _drop(answer: BaseHTTPResponse) -> None:
    """Give a connection back if its answer was read to the end, else close it: the rest may be endless."""
    connection: Any = answer
    if getattr(connection, "length_remaining", None) == 0 or connection.closed:
        answer.drain_conn()  # of nothing; but without it the connection is not ready for the next request
        answer.release_conn()
    else:
        answer.close()


@contextmanager
def _reading(host: str) -> Iterator[None]:
    from urllib3.exceptions import HTTPError

    try:
        yield
    except HTTPError as error:
        raise _unreachable(host, error) from error


def _unreachable(host: str, error: Exception) -> UnavailableError:
    reason = getattr(error, "reason", None) or error
    hint = _AGAIN
    if "CERTIFICATE_VERIFY_FAILED" in str(reason):
        hint = "set SSL_CERT_FILE to a file with the certificate of the authority that this registry trusts"
    elif "SSL" in type(reason).__name__:
        hint = "if the registry speaks plain HTTP on a network that is trusted, add --plain-http"
    return UnavailableError(f"no answer from {host}: {plain(str(reason))}", remedy=hint)


def plain(text: str, limit: int = 300) -> str:
    """Return a stranger's text as one line that a terminal does not act on."""
    kept = "".join(character if character.isprintable() else " " for character in text[: limit * 4])
    return " ".join(kept.split())[:limit]
