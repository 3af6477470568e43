"""The queue: what waits, in the order in which it is to be run.

Requests wait by priority, and within one priority by what they may be put together with; each such line is in the
order of arrival. The oldest of the best priority leads the next batch, so nothing is passed over for ever. Nothing here
is locked: the lane does that.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes._padding import Sizes
    from vitrify.serve.values import Infer, Reply

_LAST = 1 << 62
"""Normal requests come after all that name a priority."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One request on its way through a lane.

    Attributes:
        request: What was asked.
        future: Who waits for it.
        admitted: By ``time.monotonic()``.
        deadline: Likewise.
        rows: Its rows; None where the model knows none, or the inputs do not agree in them.
        bytes: Of its inputs.
        number: In the order of arrival.
        key: What others must have in common with it to be run with it; None for by itself.
        sizes: Of what may be filled up.
        waits: Whether rows of it are in the queue.
        taken: Rows that have left the queue.
        answered: Rows whose outputs are there.
        parts: These outputs, by the first row of the piece.
        running: How many of its pieces are in batches that are being run.
        started: When its first piece was run; 0 for not yet.
    """

    request: Infer
    future: Future[Reply]
    admitted: float
    deadline: float
    rows: int | None
    bytes: int
    number: int = 0
    key: Hashable = None
    sizes: Sizes = field(default_factory=dict)
    waits: bool = False
    taken: int = 0
    answered: int = 0
    parts: dict[int, Arrays] = field(default_factory=dict)
    running: int = 0
    started: float = 0.0

    @property
    def rank(self) -> int:
        """Where its priority stands: smaller comes first."""
        return self.request.priority if self.request.priority > 0 else _LAST

    @property
    def length(self) -> int:
        """Its rows; 1 where the model knows none."""
        return 1 if self.rows is None else self.rows


@dataclass(slots=True, eq=False)
class Piece:
    """Some rows of a request, or all; made when they leave the queue, so that a large request costs no more there.

    Attributes:
        ticket: The request's.
        start: The first row.
        rows: How many; 1 where the model knows none.
    """

    ticket: Ticket
    start: int
    rows: int

    @property
    def whole(self) -> bool:
        """Whether it is all of its request."""
        return self.rows == self.ticket.length

    def inputs(self) -> Arrays:
        """Return its share of the inputs."""
        arrays = self.ticket.request.inputs
        if self.whole:
            return arrays
        return {name: array[self.start : self.start + self.rows] for name, array in arrays.items()}


class Queue:
    """The requests that wait.

    Args:
        limit: Rows a batch.

    Attributes:
        tickets: How many have rows here.
        bytes: Of their inputs.
        rows: That are here.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._levels: dict[int, dict[Hashable, OrderedDict[int, Ticket]]] = {}
        self.tickets = 0
        self.bytes = 0
        self.rows = 0

    def push(self, ticket: Ticket) -> None:
        """Take a request."""
        level = self._levels.setdefault(ticket.rank, {})
        level.setdefault(ticket.key, OrderedDict())[ticket.number] = ticket
        ticket.waits = True
        self.tickets += 1
        self.bytes += ticket.bytes
        self.rows += ticket.length

    def drop(self, ticket: Ticket) -> None:
        """Forget what of a request still waits; nothing does where it has left already."""
        if not ticket.waits:
            return
        ticket.waits = False
        self.tickets -= 1
        self.bytes -= ticket.bytes
        self.rows -= ticket.length - ticket.taken
        level = self._levels[ticket.rank]
        line = level[ticket.key]
        del line[ticket.number]
        if not line:
            del level[ticket.key]
            if not level:
                del self._levels[ticket.rank]

    def take(self) -> list[Piece]:
        """Remove and return the next batch; it has at least one piece if anything waits.

        Within one priority, later requests may come along before others that cannot be of this batch. They may not
        before those of a higher priority.
        """
        if not self._levels:
            return []
        lead = self._lead()
        batch = [self._next(lead)]
        room = self._limit - batch[0].rows
        if lead.key is None:
            return batch
        for rank in sorted(self._levels):
            line = self._levels[rank].get(lead.key)
            while line and self._step(ticket := next(iter(line.values()))) <= room:
                batch.append(self._next(ticket))
                room -= batch[-1].rows
            if rank in self._levels:  # somebody was left behind
                break
        return batch

    def due(self) -> bool:
        """Say whether waiting would not make the next batch larger, or would keep others waiting."""
        if not self._levels or self.rows >= self._limit:
            return True
        key = self._lead().key
        return key is None or any(len(level) > 1 or key not in level for level in self._levels.values())

    def deadline(self) -> float:
        """Return the deadline of the request that leads the next batch; something must wait."""
        return self._lead().deadline

    def _lead(self) -> Ticket:
        lines = self._levels[min(self._levels)].values()
        return min((next(iter(line.values())) for line in lines), key=lambda ticket: ticket.number)

    def _step(self, ticket: Ticket) -> int:
        """Return the rows of a request's next piece: all that are left, or a full batch of a larger one."""
        left = ticket.length - ticket.taken
        return left if ticket.key is None else min(left, self._limit)

    def _next(self, ticket: Ticket) -> Piece:
        piece = Piece(ticket, ticket.taken, self._step(ticket))
        ticket.taken += piece.rows
        self.rows -= piece.rows
        if ticket.taken >= ticket.length:
            self.drop(ticket)
        return piece
