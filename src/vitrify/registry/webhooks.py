"""Telling others: each event to each webhook that wants it, signed, at least once, never to a private address.

The body is the event as JSON. ``Vitrify-Signature`` is ``v1=`` and the hex HMAC-SHA256, under the webhook's secret, of
``Vitrify-Timestamp`` (seconds since 1970), a dot, and the body: whoever checks both cannot be sent an old event again.
``Vitrify-Delivery`` stays the same when an event is sent twice.

The host's addresses are looked up once, checked, and the connection is made to the very address that was checked, so
that a name which changes its mind between the two gains nothing. Redirects are not followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import urllib3
from sqlalchemy import select, update

from vitrify.core.errors import UnavailableError, UsageError, VitrifyError
from vitrify.core.hosts import bracketed
from vitrify.core.wire import to_builtins
from vitrify.registry.database.schema import deliveries, events, webhooks
from vitrify.registry.events import to_event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Row

    from vitrify.registry.database import Database

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_BATCH = 20
_ATTEMPTS = 10
_FIRST, _LONGEST = 2_000_000, 3_600_000_000
"""Microseconds to the second attempt, doubled for each after it, and the longest pause."""
_CLAIM = 60_000_000
"""Microseconds for which whoever sends has an event to himself; a sender that dies holds it up no longer."""
_TIMEOUT = urllib3.Timeout(connect=5, read=10, total=15)
_MAX_ANSWER = 64 * 1024
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_OK = range(200, 300)


@dataclass(frozen=True)
class Target:
    """Where a webhook's URL leads."""

    scheme: str
    host: str
    port: int
    path: str


def target_of(url: str) -> Target:
    """Take a URL apart.

    Raises:
        UsageError: It is no URL of a web server, or has a user, a password or a fragment.
    """
    try:
        parts = urlsplit(url)
        usual = {"http": 80, "https": 443}.get(parts.scheme, 0)
        port = usual and (parts.port or usual)
        host = parts.hostname or ""
        host.encode("idna")
    except (ValueError, UnicodeError):
        parts, port, host = urlsplit(""), 0, ""
    if not port or not host or parts.username is not None or parts.fragment or any(c.isspace() for c in url):
        msg = f"not the URL of a webhook: {url[:200]!r}"
        raise UsageError(msg, remedy="for example: https://hooks.example.com/models (without user, password, fragment)")
    return Target(parts.scheme, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


@dataclass
class Sender:
    """Sends what waits, until it is stopped.

    Attributes:
        database: Where deliveries wait.
        allowed: Private networks that may be sent to, and whose hosts need no TLS.
    """

    database: Database
    allowed: tuple[Network, ...] = ()
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, pause: float = 1.0) -> None:
        """Send whatever waits, again and again; a database that is away is tried again."""
        while not self._stop.is_set():
            sent = 0
            with contextlib.suppress(UnavailableError):
                sent = self.send()
            if not sent:
                self._stop.wait(pause)

    def stop(self) -> None:
        """Let :meth:`run` end after what it is sending."""
        self._stop.set()

    def send(self) -> int:
        """Send what is due now; return how many were tried."""
        due = self._claim()
        for row in due:
            self._note(row, *self._attempt(row))
        return len(due)

    def _claim(self) -> list[Row[Any]]:
        """Take what is due, so that no other server sends it meanwhile."""
        now = _now()
        due = (deliveries.c.state == "waiting") & (deliveries.c.next <= now)
        with self.database.read() as connection:
            if connection.execute(select(deliveries.c.id).where(due).limit(1)).first() is None:
                return []
        with self.database.write() as connection:
            query = (
                select(deliveries.c.id, deliveries.c.attempts, webhooks.c.url, webhooks.c.secret, *events.c)
                .select_from(deliveries.join(webhooks).join(events, events.c.seq == deliveries.c.event))
                .where(due)
                .order_by(deliveries.c.id)
                .limit(_BATCH)
            )
            rows = list(connection.execute(query))
            claimed = update(deliveries).where(deliveries.c.id.in_([row.id for row in rows]))
            connection.execute(claimed, {"next": now + _CLAIM})
        return rows

    def _attempt(self, row: Row[Any]) -> tuple[int | None, str]:
        """Send one event; return the status, and what went wrong."""
        body = msgspec.json.encode(to_builtins(to_event(row[4:])))
        headers = {"Content-Type": "application/json", "Vitrify-Delivery": str(row.id), "Vitrify-Event": row.kind}
        try:
            target = target_of(row.url)
            address = _address(target, self.allowed)
            status = _post(target, address, body, headers | signature(row.secret, int(time.time()), body))
        except VitrifyError as error:
            return None, error.message
        return status, "" if status in _OK else f"it answered {status}"

    def _note(self, row: Row[Any], status: int | None, error: str) -> None:
        attempts = row.attempts + 1
        state = "sent" if not error else "failed" if attempts >= _ATTEMPTS else "waiting"
        following = _now() + min(_FIRST * 2 ** (attempts - 1), _LONGEST)
        columns = {"attempts": attempts, "state": state, "status": status, "error": error[:500], "next": following}
        with self.database.write() as connection:
            connection.execute(update(deliveries).where(deliveries.c.id == row.id), columns)


def signature(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a body."""
    said = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Vitrify-Timestamp": str(timestamp), "Vitrify-Signature": f"v1={said}"}


def is_public(address: Address) -> bool:
    """Say whether an address is one of the open internet, whatever it is wrapped in."""
    if isinstance(address, ipaddress.IPv6Address):
        inner: Iterable[Address | None] = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
        if address in _NAT64:
            inner = (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
        if any(one is not None and not is_public(one) for one in inner):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _address(target: Target, allowed: tuple[Network, ...]) -> str:
    """Return the address to connect to.

    Raises:
        UnavailableError: The name is not known, or one of its addresses is private and not allowed.
    """
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        msg = f"{target.host} is not known: {error.strerror or error}"
        raise UnavailableError(msg) from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    permitted = all(any(address in network for network in allowed) for address in addresses)
    if not permitted and (target.scheme != "https" or not all(map(is_public, addresses))):
        msg = f"{target.host} is a private address, or without TLS, and not allowed"
        raise UnavailableError(msg, remedy="allow its network: vitrify registry serve --webhook-network 10.0.0.0/8")
    return str(addresses[0])


def _post(target: Target, address: str, body: bytes, headers: dict[str, str]) -> int:
    """Send to the very address that was checked, under the name that the certificate has to be for.

    Raises:
        UnavailableError: Nobody answered in time, or with another certificate.
    """
    named = {**headers, "Host": f"{bracketed(target.host)}:{target.port}", "User-Agent": "vitrify-webhook"}
    common: dict[str, Any] = {"port": target.port, "timeout": _TIMEOUT, "retries": False}
    pool: urllib3.HTTPConnectionPool
    if target.scheme == "https":
        pool = urllib3.HTTPSConnectionPool(
            address, **common, server_hostname=target.host, assert_hostname=target.host, cert_reqs="CERT_REQUIRED"
        )
    else:
        pool = urllib3.HTTPConnectionPool(address, **common)
    try:
        with pool:
            answer = pool.request("POST", target.path, body=body, headers=named, redirect=False, preload_content=False)
            answer.read(_MAX_ANSWER)
            answer.close()
    except (urllib3.exceptions.HTTPError, OSError) as error:
        msg = f"{target.host} did not answer: {type(error).__name__}"
        raise UnavailableError(msg) from error
    return answer.status


def _now() -> int:
    return time.time_ns() // 1000
