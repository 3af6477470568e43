"""Sequences: requests that belong together, for models that remember from one call to the next.

A client names the sequence in the request's parameters, as Triton's clients do: ``sequence_id``, a number or a text;
``sequence_start`` with the first request and ``sequence_end`` with the last. Every live sequence has a session of its
own behind a lane of its own, which keeps the order. Two clients' sequences are two, whatever they are called. What
names no sequence is answered by itself, without memory.

Source: https://github.com/triton-inference-server/server, ``docs/protocol/extension_sequence.md``.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from vitrify.core.errors import BusyError, ConflictError, SignatureError, UnavailableError, UsageError
from vitrify.core.protocols import Stateful
from vitrify.serve.models.figures import together
from vitrify.serve.values import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays, Session
    from vitrify.serve.lanes import Figures, Lane, Run
    from vitrify.serve.settings import SequenceSettings
    from vitrify.serve.values import Infer, Reply

_Key = tuple[str, str]
"""Of a sequence: the client's name, and its own."""

ID, START, END = "sequence_id", "sequence_start", "sequence_end"
_LONGEST_ID, _MOST_ID = 256, 2**64
_SHOWN = 100


class _Seat:
    """A session that remembers one sequence at a time, behind its lane.

    The session is opened by the first request, in the lane's thread, which may wait.
    """

    def __init__(self, open_session: Callable[[], Session], make_lane: Callable[[Run], Lane]) -> None:
        self._open = open_session
        self._session: Session | None = None
        self._ending = threading.Lock()
        self.fresh = True
        self.used = time.monotonic()
        self.lane = make_lane(self._answer)

    @property
    def idle(self) -> bool:
        """Whether nothing waits for it and nothing is run by it."""
        figures = self.lane.figures()
        return not figures.waiting and not figures.running

    def close(self, seconds: float) -> None:
        """Answer what waits, for at most so many seconds, and let go of the session."""
        self.lane.close(seconds)
        with self._ending:  # who ends the sequence and who closes all of them may come at the same time
            session, self._session = self._session, None
            if session is not None:
                session.close()

    def _answer(self, arrays: Arrays) -> Arrays:
        session = self._session
        if session is None:
            session = self._session = self._open()
        if self.fresh:
            assert isinstance(session, Stateful)
            session.reset()
            self.fresh = False
        return session.run(arrays)


class SequenceLane:
    """A lane for a model that remembers.

    Args:
        lane: Answers what belongs to no sequence.
        open_session: Opens one more session of the model.
        make_lane: Makes a lane that runs one request at a time, whole, in the order of their coming.
        settings: How many sequences may live, and how long.
    """

    def __init__(
        self,
        lane: Lane,
        open_session: Callable[[], Session],
        make_lane: Callable[[Run], Lane],
        settings: SequenceSettings,
    ) -> None:
        self._lane, self._open, self._make_lane, self._settings = lane, open_session, make_lane, settings
        self._lock = threading.Lock()
        self._seats: set[_Seat] = set()
        self._live: dict[_Key, _Seat] = {}
        self._free: list[_Seat] = []
        self._past: Figures = together(())
        self._closing = False

    def submit(self, request: Infer) -> Future[Reply]:
        """Take a request; see :meth:`vitrify.serve.lanes.Lane.submit`.

        Raises:
            SignatureError: A parameter is not what it should be.
            ConflictError: The sequence that it starts is live already.
            UsageError: The sequence that it goes on with is not live.
            BusyError: As many sequences live as may.
        """
        name = _name(request)
        if not name:
            return self._lane.submit(request)
        key = request.client, name
        start, end = _flag(request, START), _flag(request, END)
        with self._lock:
            if self._closing:
                raise UnavailableError("the model is being unloaded", remedy="start the sequence again")
            seat = self._begin(key) if start else self._going_on(key)
            seat.used = time.monotonic()
            try:
                future = seat.lane.submit(dataclasses.replace(request, priority=NORMAL))  # the order is the client's
            except BaseException:
                if start:
                    self._leave(key)
                raise
            if end:
                del self._live[key]
        future.add_done_callback(partial(self._done, seat, key, end=end))
        return future

    @property
    def live(self) -> int:
        """How many sequences live; those that are idle for too long do not."""
        with self._lock:
            self._forget_idle()
            return len(self._live)

    def figures(self) -> Figures:
        """Return what all its lanes have done."""
        with self._lock:
            seats = tuple(self._seats)
            return together([self._past, self._lane.figures(), *(seat.lane.figures() for seat in seats)])

    def close(self, seconds: float) -> None:
        """Take nothing more, answer what waits for at most so many seconds, and forget all sequences."""
        until = time.monotonic() + seconds
        with self._lock:
            self._closing = True
            seats = tuple(self._seats)
            self._live.clear()
        self._lane.close(seconds)
        for seat in seats:
            seat.close(max(0.0, until - time.monotonic()))

    # Under the lock.

    def _begin(self, key: _Key) -> _Seat:
        if key in self._live:
            self._forget_idle()
        if key in self._live:
            msg = f"sequence {key[1][:_SHOWN]!r} is live already, and was started again"
            raise ConflictError(msg, remedy="end it first, or give the new one another sequence_id")
        if not self._free and len(self._seats) >= self._settings.live:
            self._forget_idle()
        if self._free:
            seat = self._free.pop()
        elif len(self._seats) < self._settings.live:
            seat = _Seat(self._open, self._make_lane)
            self._seats.add(seat)
        else:
            msg = f"{len(self._seats)} sequences are live, as many as may be"
            raise BusyError(msg, remedy="end a sequence, or come again later")
        seat.fresh = True
        self._live[key] = seat
        return seat

    def _going_on(self, key: _Key) -> _Seat:
        self._forget_idle()
        seat = self._live.get(key)
        if seat is None:
            msg = f"sequence {key[1][:_SHOWN]!r} is not live: it was not started, or ended, idle too long, or lost"
            raise UsageError(msg, remedy="set sequence_start with its first request")
        return seat

    def _forget_idle(self) -> None:
        latest = time.monotonic() - self._settings.idle_seconds
        for key in [key for key, seat in self._live.items() if seat.used < latest and seat.idle]:
            self._leave(key)

    def _leave(self, key: _Key) -> None:
        self._put_back(self._live.pop(key))

    def _put_back(self, seat: _Seat) -> None:
        """Let another sequence have a seat; one with requests of the last one is of no use any more."""
        if seat.idle and not self._closing:
            self._free.append(seat)
        else:
            threading.Thread(target=self._discard, args=(seat,), name="ends a sequence", daemon=True).start()

    # Not under the lock.

    def _done(self, seat: _Seat, key: _Key, future: Future[Reply], *, end: bool) -> None:
        """Put the seat back after the last request; where the model's state was lost, there is no going on."""
        lost = not future.cancelled() and type(future.exception()) is UnavailableError
        with self._lock:
            if self._closing:
                return
            seat.used = time.monotonic()
            if end:
                self._put_back(seat)
            elif lost and self._live.get(key) is seat:
                del self._live[key]
                threading.Thread(target=self._discard, args=(seat,), name="ends a sequence", daemon=True).start()

    def _discard(self, seat: _Seat) -> None:
        seat.close(0.0)
        figures = dataclasses.replace(seat.lane.figures(), waiting=0, running=0, stuck=False)
        with self._lock:
            self._seats.discard(seat)
            self._past = together([self._past, figures])


def _name(request: Infer) -> str:
    """Return the name of a request's sequence; empty where it belongs to none."""
    value = request.parameters.get(ID)
    if value is None or value in (0, ""):  # no set: it may be a list
        if _flag(request, START) or _flag(request, END):
            msg = f"parameters.{START} and parameters.{END} go with a {ID} that is neither 0 nor empty"
            raise SignatureError(msg, remedy=f"set {ID}")
        return ""
    number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_ID
    if not number and not (isinstance(value, str) and len(value) <= _LONGEST_ID):
        msg = f"parameters.{ID}: expected a whole number, or a text of at most {_LONGEST_ID} characters"
        raise SignatureError(msg)
    return str(value)


def _flag(request: Infer, name: str) -> bool:
    value = request.parameters.get(name, False)
    if value is None or isinstance(value, bool):
        return bool(value)
    msg = f"parameters.{name}: found {str(value)[:_SHOWN]!r}, expected true or false"
    raise SignatureError(msg)
