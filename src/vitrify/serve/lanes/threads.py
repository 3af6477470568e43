"""The lane in Python: threads that take batches from a queue and run the model.

It says what is right; the native plane's lane does the same with fewer Python objects. One lock guards everything but
the model's run and the delivery of answers. A sweeper thread answers requests whose deadline has passed and sees models
that hang, also while every other thread is busy.

Whoever takes a ticket out of the table of live ones, under the lock, and nobody else, settles its future: so each
request is answered exactly once, whether by a batch, a deadline, a hang, a cancellation or the end.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from vitrify.core.errors import BusyError, ExpiredError, LimitExceededError, ModelError, UnavailableError, VitrifyError
from vitrify.serve.lanes._batch import Joiner, rejoin, size
from vitrify.serve.lanes._calling import bare, call
from vitrify.serve.lanes._deadlines import Deadlines
from vitrify.serve.lanes._patience import Patience
from vitrify.serve.lanes._queue import Queue, Ticket
from vitrify.serve.lanes._tally import Tally
from vitrify.serve.lanes.owed import Owed
from vitrify.serve.values import Done, Part, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Figures, LaneSpec, Run, Watch
    from vitrify.serve.lanes._calling import Outcome
    from vitrify.serve.lanes._queue import Piece
    from vitrify.serve.values import Infer

_LOG = logging.getLogger(__name__)
_LONGEST_SLEEP = 3600.0
_JOIN = 1.0
"""Seconds for threads that have nothing to do but to end."""

Settled = list[tuple["Future[Reply]", "Reply | VitrifyError"]]
"""Answers that are to be delivered once the lock is free."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Pieces that are being run.

    Attributes:
        pieces: In the order of their rows.
        started: By ``time.monotonic()``.
        stuck: Whether it has run for too long.
    """

    pieces: Sequence[Piece]
    started: float
    stuck: bool = False

    def tickets(self) -> list[Ticket]:
        """Return the requests that it has pieces of, each once."""
        return list({piece.ticket.number: piece.ticket for piece in self.pieces}.values())


class ThreadLane:
    """A lane with ``instances`` threads; see :class:`vitrify.serve.lanes.Lane`.

    A request is answered with :class:`ExpiredError` at its deadline even where its batch is being run just then; the
    answer that comes later is thrown away. Where a batch of several requests fails, each is run once more by itself,
    so that one bad request harms no other.

    Args:
        spec: What it has to know of the model version.
        run: Runs one batch.
        watch: Sees every batch that was answered; None for nobody.

    Raises:
        UsageError: ``pad`` cannot be meant.
    """

    def __init__(self, spec: LaneSpec, run: Run, watch: Watch | None = None) -> None:
        self._spec, self._run, self._watch = spec, run, watch
        batching = spec.batching
        inputs, outputs = ([port.field for port in side] for side in (spec.inputs, spec.outputs))
        self._joiner = Joiner(inputs, outputs, batching.pad)
        self._lock = threading.Lock()
        self._work, self._more, self._sweep, self._idle = (threading.Condition(self._lock) for _ in range(4))
        self._queue = Queue(batching.rows)
        self._patience = Patience(batching.delay_us / 1e6)
        self._tally = Tally()
        self._live: dict[int, Ticket] = {}
        self._batches: list[_Batch] = []
        self._deadlines = Deadlines(self._live)
        self._wake = math.inf
        self._number = self._running = 0
        self._gathering = self._closing = self._closed = False
        self._name = f"{spec.model} {spec.version}"
        targets = [self._work_on] * batching.instances + [self._sweep_on]
        self._threads = [threading.Thread(target=target, name=f"lane {self._name}", daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def submit(self, request: Infer) -> Future[Reply]:
        """Take a request; see :meth:`vitrify.serve.lanes.Lane.submit`.

        Raises:
            BusyError: The queue is full; ``retry_after`` is when it should be empty, at the pace of the latest batches.
            LimitExceededError: The inputs alone are more bytes than may wait.
            UnavailableError: The lane is closed, or the model hangs.
        """
        now = time.monotonic()
        ticket = self._ticket(request, now)
        settled: Settled = []
        with self._lock:
            try:
                self._admit(ticket.bytes)
            except VitrifyError as error:
                self._tally.failed(type(error).__name__)
                raise
            self._tally.admitted()
            self._number += 1
            ticket.number = self._number
            self._live[ticket.number] = ticket
            if ticket.deadline > now:
                self._enqueue(ticket, now)
            else:
                settled = self._expire(ticket)
        ticket.future.add_done_callback(partial(_left, weakref.ref(self), ticket.number))
        _deliver(settled)
        return ticket.future

    def sweep(self) -> None:
        """Answer what is late now, in the thread of whoever waits for it: the sweeper may wake up later."""
        with self._lock:
            settled = self._late(time.monotonic())
        _deliver(settled)

    def figures(self) -> Figures:
        """Return what it has done."""
        with self._lock:
            stuck = any(batch.stuck for batch in self._batches)
            return self._tally.figures(waiting=self._queue.tickets, running=self._running, stuck=stuck)

    def close(self, seconds: float) -> None:
        """Take nothing more, run what waits, and return when that is done; after ``seconds`` the rest fails.

        A model that hangs keeps its thread until it returns: a thread cannot be ended.
        """
        end = time.monotonic() + seconds
        with self._lock:
            self._closing = True
            self._work.notify_all()
            self._more.notify_all()
            self._idle.wait_for(lambda: not self._live and not self._batches, min(max(seconds, 0.0), _LONGEST_SLEEP))
            error = UnavailableError(f"{self._spec.model} was unloaded before its turn", remedy="ask again")
            settled = [one for ticket in tuple(self._live.values()) for one in self._fail(ticket, error)]
            self._closed = True
            self._work.notify_all()
            self._sweep.notify_all()
            hanging = bool(self._batches)
        _deliver(settled)
        end = max(end, time.monotonic() + (0.0 if hanging else _JOIN))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(min(max(end - time.monotonic(), 0.0), _LONGEST_SLEEP))

    def _ticket(self, request: Infer, now: float) -> Ticket:
        """Return a ticket without a number. Not under the lock."""
        joiner, batching = self._joiner, self._spec.batching
        deadline = request.deadline if request.deadline < math.inf else now + batching.seconds
        rows = joiner.rows(request.inputs)
        ticket = Ticket(request, Owed(self), now, deadline, rows, size(request.inputs))
        if rows and batching.rows > 1:
            ticket.key = joiner.key(request.inputs)
            ticket.sizes = joiner.padding.sizes(request.inputs)
        return ticket

    # What follows is called under the lock, unless it says otherwise.

    def _admit(self, held: int) -> None:
        """Refuse a request for which there is no room."""
        batching, name = self._spec.batching, self._spec.model
        if self._closing:
            msg = f"{name} {self._spec.version} is being unloaded"
            raise UnavailableError(msg, remedy="ask again: another version may answer")
        if sum(batch.stuck for batch in self._batches) >= batching.instances:
            msg = f"{name} hangs: it has been running for more than {batching.run_seconds:g} s"
            raise UnavailableError(msg, remedy="load it again, in a process of its own")
        if held > batching.queue_bytes:
            msg = f"the inputs are {held} bytes; the queue of {name} holds {batching.queue_bytes}"
            raise LimitExceededError(msg, remedy="ask with fewer rows at a time")
        waiting = self._queue.tickets
        if waiting >= batching.queue or self._queue.bytes + held > batching.queue_bytes:
            after = self._tally.retry_after(waiting, batching.instances)
            msg = f"{waiting} requests of {self._queue.bytes} bytes wait for {name}, as many as may"
            raise BusyError(msg, retry_after=after, remedy="ask again later")

    def _enqueue(self, ticket: Ticket, now: float) -> None:
        self._queue.push(ticket)
        self._patience.arrived(now)
        self._deadlines.push(ticket.deadline, ticket.number)
        self._rouse(ticket.deadline)
        if not self._gathering:
            self._work.notify()
        elif self._queue.due():
            self._more.notify()

    def _rouse(self, when: float) -> None:
        """See to it that the sweeper looks at a time."""
        if when < self._wake:
            self._wake = when
            self._sweep.notify()

    def _forget(self, ticket: Ticket) -> bool:
        """Take a ticket out of the lane, so that the caller settles it; false where its future was cancelled."""
        del self._live[ticket.number]
        self._queue.drop(ticket)
        if self._closing and not self._live:
            self._idle.notify_all()
        if ticket.started or ticket.future.set_running_or_notify_cancel():
            return True
        self._tally.failed("CancelledError")
        return False

    def _fail(self, ticket: Ticket, error: VitrifyError) -> Settled:
        if ticket.number not in self._live or not self._forget(ticket):
            return []
        self._tally.failed(type(error).__name__)
        return [(ticket.future, error)]

    def _expire(self, ticket: Ticket) -> Settled:
        waited = time.monotonic() - ticket.admitted
        where = "was being run" if ticket.started else "waited in the queue"
        msg = f"the deadline passed after {waited:.3f} s, while the request {where}"
        return self._fail(ticket, ExpiredError(msg, remedy="give it more time, or come when there is less load"))

    # The workers.

    def _work_on(self) -> None:
        """Run batches until the lane is closed and nothing waits. Not under the lock."""
        while self._work_once():
            pass

    def _work_once(self) -> bool:
        """Run one batch; its arrays live no longer than this call. Not under the lock."""
        settled: Settled = []
        with self._lock:
            while not self._queue.tickets or self._gathering:
                if self._closing and not self._queue.tickets:
                    return False
                self._work.wait()
            self._gather()
            pieces = self._start(self._queue.take(), settled)
            if self._queue.tickets or self._closing:
                self._work.notify()
        _deliver(settled)
        if pieces:
            self._answer(pieces)
        return True

    def _gather(self) -> None:
        """Wait for more rows, where that has lately brought some and nobody else is kept waiting."""
        patience, now = self._patience, time.monotonic()
        if self._closing or not patience.pays() or self._queue.due():
            patience.start(now)
            return
        rows = self._queue.rows
        until = patience.until(now, self._queue.deadline())
        self._gathering = True
        while not self._closing and not self._queue.due() and now < until:
            before = self._number
            came = self._more.wait(min(until - now, patience.pause))
            if not came and self._number == before:
                break
            now = time.monotonic()
        self._gathering = False
        patience.learn(brought=self._queue.rows > rows)

    def _start(self, pieces: Sequence[Piece], settled: Settled) -> list[Piece]:
        """Return the pieces that are to be run: of nobody who is late or has left."""
        now, due = time.monotonic(), []
        for piece in pieces:
            ticket = piece.ticket
            if ticket.number not in self._live:
                continue
            if ticket.deadline <= now:
                settled += self._expire(ticket)
            elif ticket.started:
                due.append(piece)
            elif ticket.future.set_running_or_notify_cancel():
                ticket.started = now
                self._tally.queued(now - ticket.admitted)
                due.append(piece)
            else:
                ticket.started = now
                self._forget(ticket)
                self._tally.failed("CancelledError")
        return due

    def _answer(self, pieces: Sequence[Piece]) -> None:
        """Run a batch and answer its requests; where it fails, each by itself. Not under the lock."""
        error = self._attempt(pieces)
        if error is None:
            return
        tickets = _Batch(pieces, 0.0).tickets()
        if len(tickets) == 1 or not isinstance(error, ModelError):
            self._refuse(tickets, error)
            return
        for ticket in tickets:
            own = [piece for piece in pieces if piece.ticket is ticket]
            if error := self._attempt(own):
                self._refuse([ticket], error)

    def _refuse(self, tickets: Sequence[Ticket], error: VitrifyError) -> None:
        """Fail requests. Not under the lock."""
        with self._lock:
            settled = [one for ticket in tickets for one in self._fail(ticket, error)]
        _deliver(settled)

    def _attempt(self, pieces: Sequence[Piece]) -> VitrifyError | None:
        """Run a batch and answer its requests, or return why that did not work. Not under the lock."""
        batch = _Batch(pieces, time.monotonic())
        with self._lock:
            if not any(ticket.number in self._live for ticket in batch.tickets()):
                return None
            self._enter(batch)
        outcome = call(self._run, self._joiner, pieces, self._name)
        seconds = time.monotonic() - batch.started
        split: list[Ticket] = []
        with self._lock:
            self._leave(batch, seconds)
            settled = [] if outcome.error else self._settle(pieces, outcome.parts, split)
        _deliver(settled)
        for ticket in split:
            self._rejoin(ticket)
        if self._watch is not None and outcome.error is None and not batch.stuck:
            self._show(self._watch, batch, outcome, seconds)
        return outcome.error

    def _enter(self, batch: _Batch) -> None:
        self._batches.append(batch)
        for piece in batch.pieces:
            self._running += not piece.ticket.running
            piece.ticket.running += 1
        self._rouse(batch.started + self._spec.batching.run_seconds)

    def _leave(self, batch: _Batch, seconds: float) -> None:
        self._batches.remove(batch)
        for piece in batch.pieces:
            piece.ticket.running -= 1
            self._running -= not piece.ticket.running
        self._tally.ran(sum(piece.rows for piece in batch.pieces), len(batch.tickets()), seconds)
        self._patience.end()
        if self._closing and not self._batches:
            self._idle.notify_all()

    def _settle(self, pieces: Sequence[Piece], parts: Sequence[Arrays | ModelError], split: list[Ticket]) -> Settled:
        """Keep the outputs of pieces, and return the answers that are whole now.

        Args:
            pieces: Of one batch.
            parts: The outputs of each, or why it has none.
            split: Where requests go whose last piece this was: putting them together again takes too long to be done
                under the lock.
        """
        settled: Settled = []
        for piece, part in zip(pieces, parts, strict=True):
            ticket = piece.ticket
            if ticket.number not in self._live:
                continue
            if isinstance(part, ModelError):
                settled += self._fail(ticket, part)
            elif piece.whole:
                self._forget(ticket)
                settled.append(self._reply(ticket, part))
            else:
                ticket.parts[piece.start] = part
                ticket.answered += piece.rows
                if ticket.answered == ticket.length:
                    self._forget(ticket)
                    split.append(ticket)
        return settled

    def _reply(self, ticket: Ticket, outputs: Arrays) -> tuple[Future[Reply], Reply]:
        now, spec = time.monotonic(), self._spec
        self._tally.answered(now - ticket.admitted)
        waited, computed = ticket.started - ticket.admitted, now - ticket.started
        named = (spec.model, spec.version, outputs, ticket.request.id, spec.digest)
        return ticket.future, Reply(*named, waited=waited, computed=computed)

    def _rejoin(self, ticket: Ticket) -> None:
        """Answer a request that was run in pieces. Not under the lock."""
        try:
            outputs = rejoin([ticket.parts[start] for start in sorted(ticket.parts)])
        except ModelError as error:
            with self._lock:
                self._tally.failed(type(error).__name__)
            _deliver([(ticket.future, bare(error))])
        else:
            with self._lock:
                answer = self._reply(ticket, outputs)
            _deliver([answer])

    def _show(self, watch: Watch, batch: _Batch, outcome: Outcome, seconds: float) -> None:
        """Let the watcher see a batch; what it raises harms nobody. Not under the lock."""
        asked = [(piece.ticket, piece.rows) for piece in batch.pieces]
        parts = tuple(
            Part(ticket.request.id, ticket.request.client, rows, ticket.started - ticket.admitted)
            for ticket, rows in asked
        )
        spec = self._spec
        try:
            watch(Done(spec.model, spec.version, spec.digest, outcome.inputs, outcome.outputs, lambda: parts, seconds))
        except Exception:  # noqa: BLE001 (somebody else's code: the lane goes on)
            _LOG.exception("what watches %s raised", self._name)

    # The sweeper.

    def _sweep_on(self) -> None:
        """Settle what is late, until the lane is closed. Not under the lock."""
        while self._sweep_once():
            pass

    def _sweep_once(self) -> bool:
        """Settle what is late now, else sleep until something may be. Not under the lock."""
        with self._lock:
            if self._closed:
                return False
            settled = self._late(time.monotonic())
            if not settled:
                self._wake = min(self._next(), time.monotonic() + _LONGEST_SLEEP)
                self._sweep.wait(max(self._wake - time.monotonic(), 0.0))
        _deliver(settled)
        return True

    def _late(self, now: float) -> Settled:
        settled = [one for number in self._deadlines.late(now) for one in self._expire(self._live[number])]
        longest = self._spec.batching.run_seconds
        for batch in self._batches:
            if not batch.stuck and batch.started + longest <= now:
                batch.stuck = True
                msg = f"the model has been running for {now - batch.started:.1f} s, more than the {longest:g} s it may"
                error = UnavailableError(msg, remedy="ask again; if it goes on, load the model in a process of its own")
                settled += [one for ticket in batch.tickets() for one in self._fail(ticket, error)]
        return settled

    def _next(self) -> float:
        hangs = (batch.started + self._spec.batching.run_seconds for batch in self._batches if not batch.stuck)
        return min([self._deadlines.next(), *hangs])

    def _drop(self, number: int) -> None:
        """Forget a request whose future was cancelled. Not under the lock."""
        with self._lock:
            if ticket := self._live.get(number):
                self._forget(ticket)


def _left(lane: weakref.ref[ThreadLane], number: int, future: Future[Reply]) -> None:
    """Tell the lane of a cancelled future; the future itself does not keep the lane in memory."""
    if future.cancelled() and (alive := lane()) is not None:
        alive._drop(number)  # noqa: SLF001 (a callback of the lane's own)


def _deliver(settled: Settled) -> None:
    """Give the answers out; never under the lock, because whoever waits may call the lane again."""
    for future, answer in settled:
        if isinstance(answer, VitrifyError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
