"""The budget: how many bytes of models are in memory at a time, by the size of their files.

Files are what can be known before a model is loaded; what a runtime makes of them is of the same order. A version that
replaces another one of the same name and version counts once: both are there for the moment of the change.

Whoever needs room waits for what is just being loaded, and for the requests that it was loaded for; then it may be let
go. What is in use for other reasons is not waited for: that may be forever, and a thread that loads would be held up.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vitrify.core.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Key = tuple[str, str]
"""Name and version."""
_LOOK = 0.01
"""Seconds: so often it is looked whether there is room, where somebody waits; nobody tells when a model is idle."""


class Budget:
    """Bytes that are given to versions; safe to use from several threads."""

    def __init__(
        self,
        limit: int,
        idle: Callable[[], Iterable[Key]],
        let_go: Callable[[Key], bool],
        awaited: Callable[[], bool] = lambda: False,
    ) -> None:
        """Keep who is asked for room.

        Args:
            limit: Bytes; 0 is without limit.
            idle: Returns the versions that nobody waits for, the least recently used first.
            let_go: Unloads one of them and returns True, or False where it is no longer idle. It must not ask this
                budget for anything.
            awaited: Says whether some version answers those just now that it was loaded for.
        """
        self._limit, self._idle, self._let_go, self._awaited = limit, idle, let_go, awaited
        self._held: dict[Key, int] = {}
        self._loading: set[Key] = set()
        self._changed = threading.Condition()

    @property
    def held(self) -> int:
        """Bytes that are given away."""
        return sum(list(self._held.values()))

    def take(self, key: Key, size: int) -> int:
        """Give a version its bytes, and let others go where there is no room; return what it held before.

        It counts as being loaded until :meth:`settle` is called, and others may wait for that.

        Raises:
            UsageError: It is larger than the whole budget.
            UnavailableError: The others are all in use.
        """
        with self._changed:
            before = self._held.get(key, 0)
            if self._limit and size > self._limit:
                msg = f"{key[0]!r} version {key[1]!r} has {size} bytes of files; all models may have {self._limit}"
                raise UsageError(msg, remedy="raise memory in the server's settings")
            while True:
                coming = bool(self._loading) or self._awaited()  # first: what ends meanwhile can be let go
                if self._make_room(key, size):
                    break
                if not coming:
                    msg = f"no room for {key[0]!r} version {key[1]!r} ({size} bytes): all other models are in use"
                    raise UnavailableError(msg, remedy="try again, or raise memory in the server's settings")
                self._changed.wait(_LOOK)
            self._held[key] = max(size, before)
            self._loading.add(key)
            return before

    def settle(self, key: Key, size: int) -> None:
        """Say what a version holds from now on; 0 takes it out."""
        with self._changed:
            self._loading.discard(key)
            if size:
                self._held[key] = size
            else:
                self._held.pop(key, None)
            self._changed.notify_all()

    def _make_room(self, key: Key, size: int) -> bool:
        """Let others go, as many as it takes; return whether there is room."""

        def missing() -> bool:
            others = sum(held for one, held in self._held.items() if one != key)
            return bool(self._limit) and others + size > self._limit

        if not missing():
            return True
        for other in self._idle():
            if other != key and other in self._held and self._let_go(other):
                del self._held[other]
                if not missing():
                    return True
        return False
