"""Pinning: which versions answer one request of an ensemble, chosen once and kept until it is answered.

Without it a request whose model is replaced between two of its steps would be answered by both versions.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from vitrify.core.errors import ReferenceNotFoundError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.serve.models import Served
    from vitrify.serve.models.repository import Entry
    from vitrify.serve.models.version import Loaded
    from vitrify.serve.values import Infer

_TRIES = 5
"""A version that is let go just when it is chosen is chosen anew, so many times at most."""


class Pin:
    """One version, for as long as steps of one request need it; only the thread of their event loop may use it.

    Args:
        entry: Which version.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.loaded: Loaded | None = None
        self._users, self._digest = 0, ""

    def join(self) -> bool:
        """Keep what answers open for one step more; return whether anything answers, or will."""
        self._users += 1
        return self.take() is not None or self.entry.lazy

    def leave(self) -> None:
        """Let it go, with the last step that needs it."""
        self._users -= 1
        if not self._users:
            self._release()

    def take(self) -> Loaded | None:
        """Return what answers; None where nothing does yet, or it was let go to make room.

        Raises:
            UnavailableError: It is another one than before.
        """
        if self.loaded is not None and self.loaded.closed:
            self._release()
        if self.loaded is None and (found := self.entry.loaded) is not None and found.hold():
            self.loaded = found
            digest = self._digest = self._digest or found.served.digest
            if digest != found.served.digest:
                msg = f"model {found.served.name!r} was replaced while the request was being answered"
                raise UnavailableError(msg, remedy="ask again")
        return self.loaded

    @property
    def served(self) -> Served:
        """What it is."""
        return self.loaded.served if self.loaded is not None else self.entry.served

    def _release(self) -> None:
        if (loaded := self.loaded) is not None:
            self.loaded = None
            loaded.release()


class Pins:
    """The versions of one request, and of the ensembles that it asks in turn.

    Args:
        choose: Returns the version that answers a request.
    """

    def __init__(self, choose: Callable[[Infer], Entry]) -> None:
        self._choose = choose
        self._pins: dict[tuple[str, str], Pin] = {}

    def pin(self, request: Infer) -> Pin:
        """Return the version that a model answers with, which is always the same.

        Raises:
            ReferenceNotFoundError: There is none.
        """
        key = (request.model, request.version)
        pin = self._pins.get(key)
        if pin is None:
            pin = self._pins[key] = Pin(self._choose(request))
        return pin

    def hold(self, request: Infer) -> Pin:
        """Return the same, joined: it stays open until it is left.

        Raises:
            ReferenceNotFoundError: There is none.
        """
        for _ in range(_TRIES):
            pin = self.pin(request)
            if pin.join():
                break
            del self._pins[request.model, request.version]  # what has taken its place is found next time
        return pin

    def digest(self, request: Infer) -> str:
        """Return the digest of the version that answers; empty where none is known."""
        try:
            return self.pin(request).served.digest
        except ReferenceNotFoundError:
            return ""


_current: ContextVar[Pins | None] = ContextVar("vitrify_pins", default=None)


def pins(choose: Callable[[Infer], Entry]) -> Pins:
    """Return those of the request that is being answered, in whose task this is called, or in one that it started."""
    found = _current.get()
    if found is None:
        found = Pins(choose)
        _current.set(found)
    return found
