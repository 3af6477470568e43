"""Clients: who asks, and how much each may ask.

A token is known by its SHA-256 alone. A client that has none is known by the name in its certificate, which the plane
has checked; one that has a token must show it, whatever its certificate says. Each client has a bucket of requests,
filled at its rate, and a number of requests that it may have open at a time. Where no client is configured, everybody
may ask, and is who its certificate says, or nobody.

The native plane has the same table (``native/src/client.rs``).
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vitrify.core.errors import AuthenticationError, BusyError, DeniedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vitrify.serve.settings import ClientSettings

_MOST_HEADER = 4096


class _Client:
    """One client, and what it may still ask."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.burst = settings.burst or max(1, math.ceil(settings.rate))
        self.left = float(self.burst)
        self.filled = time.monotonic()
        self.open = 0

    def take(self) -> None:
        one = self.settings
        if one.concurrent and self.open >= one.concurrent:
            msg = f"client {one.name!r} has {self.open} requests open, as many as it may"
            raise BusyError(msg, remedy="wait for an answer before the next request")
        self.pay()
        self.open += 1

    def pay(self) -> None:
        """Take one request from the bucket."""
        one = self.settings
        if one.rate:
            now = time.monotonic()
            self.left = min(self.burst, self.left + (now - self.filled) * one.rate)
            self.filled = now
            if self.left < 1:
                wait = (1 - self.left) / one.rate
                msg = f"client {one.name!r} asks more than {one.rate:g} times a second"
                raise BusyError(msg, retry_after=wait, remedy=f"wait {wait:.3f} s before the next request")
            self.left -= 1


class Clients:
    """Tells clients apart and counts what they ask. It may be used from any thread.

    Args:
        clients: All there are; none lets everybody in.
        trusting: Whether everybody may also change what is served where there are no clients: only where nobody but
            this machine can ask.
    """

    def __init__(self, clients: tuple[ClientSettings, ...] = (), *, trusting: bool = True) -> None:
        """Take the table."""
        self._trusting = trusting
        self._lock = threading.Lock()
        self._all: list[_Client] = []
        self._watchers: list[Callable[[tuple[ClientSettings, ...]], None]] = []
        self.replace(clients)

    def replace(self, clients: tuple[ClientSettings, ...]) -> None:
        """Take another table; what a client has open, and what it has used of its rate, goes on."""
        with self._lock:
            before = {one.settings.name: one for one in self._all}
            self._all = [_kept(before.get(one.name), one) for one in clients]
            self._known = {one.settings.token_sha256.lower(): one for one in self._all if one.settings.token_sha256}
            self._certified = {one.settings.name: one for one in self._all if not one.settings.token_sha256}
            self._named = {one.settings.name: one for one in self._all}
            watchers = tuple(self._watchers)
        for told in watchers:
            told(clients)

    def watch(self, told: Callable[[tuple[ClientSettings, ...]], None]) -> None:
        """Tell somebody of the table, now and whenever it is replaced."""
        with self._lock:
            self._watchers.append(told)
            clients = tuple(one.settings for one in self._all)
        told(clients)

    @contextmanager
    def enter(self, authorization: str, certified: str = "") -> Iterator[str]:
        """Let a request in while the block runs; yields the client's name.

        Args:
            authorization: The header's value; empty for none.
            certified: The name in its certificate, which was checked; empty for none.

        Raises:
            AuthenticationError: There is no token, or nobody's.
            BusyError: The client asks too often, or too much at a time.
        """
        client = self._find(authorization, certified)
        if client is None:
            yield certified
            return
        with self._lock:
            client.take()
        try:
            yield client.settings.name
        finally:
            with self._lock:
                client.open -= 1

    def charge(self, client: str) -> None:
        """Count one more request of a call that was let in: of a stream, each message after the first.

        Args:
            client: By its name; one that is no longer in the table is not counted.

        Raises:
            BusyError: The client asks too often.
        """
        with self._lock:
            known = self._named.get(client)
            if known is not None:
                known.pay()

    def is_admin(self, client: str) -> bool:
        """Whether a client, by its name, may change what is served."""
        with self._lock:
            known = [one.settings for one in self._all]
        return any(one.admin for one in known if one.name == client) if known else self._trusting

    def require_admin(self, client: str) -> None:
        """Refuse a client that may not change what is served.

        Raises:
            DeniedError: It may not.
        """
        if not self.is_admin(client):
            msg = f"client {client!r} may not change what is served"
            raise DeniedError(msg, remedy="ask with the token of a client that has admin = true")

    def _find(self, authorization: str, certified: str) -> _Client | None:
        if not self._all:
            return None
        if not authorization and (found := self._certified.get(certified)) is not None:
            return found
        scheme, _, token = authorization.partition(" ")
        if len(authorization) > _MOST_HEADER or scheme.lower() != "bearer" or not token.strip():
            msg = "nobody says who is asking: this server takes a token"
            raise AuthenticationError(msg, remedy="send it as Authorization: Bearer TOKEN")
        # The key is a hash: how long the look-up takes says nothing about the tokens that are known.
        found = self._known.get(hashlib.sha256(token.strip().encode()).hexdigest())
        if found is None:
            msg = "the token is nobody's"
            raise AuthenticationError(msg, remedy="ask whoever runs this server for a token")
        return found


def _kept(before: _Client | None, settings: ClientSettings) -> _Client:
    if before is None:
        return _Client(settings)
    client = _Client(settings)
    client.open, client.left, client.filled = before.open, min(before.left, client.burst), before.filled
    return client
