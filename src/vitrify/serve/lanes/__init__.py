"""Lanes: where the requests of one model version wait, become batches, and get their answers.

A lane is bounded: what would not fit is refused at once. A request whose deadline has passed is never run. Requests are
put together only where every input agrees in element type and in all dimensions but the batch; one that is larger than
a batch is run in pieces and put together again. Each gets exactly the rows and the outputs that it asked for.

There are two: :mod:`.threads`, in Python, which says what is right, and the native plane's. One suite of tests runs
both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from vitrify.serve._setting import Setting

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays
    from vitrify.serve.ports import Port
    from vitrify.serve.values import Done, Infer, Reply


class Batching(Setting, frozen=True, kw_only=True):
    """How requests become batches.

    Attributes:
        rows: At most so many rows are run at once; 1 means that every request is run by itself, whole.
        delay_us: A batch waits at most so long for more rows, and only where waiting has lately brought any: under
            light load a request is run at once.
        queue: At most so many requests wait; the next is refused with :class:`BusyError`.
        queue_bytes: At most so many bytes of inputs wait.
        instances: So many batches are run at the same time, each in a thread of its own.
        seconds: A request that names no deadline has this one.
        run_seconds: A model that takes longer hangs: the batch fails, and the lane says that it is stuck.
        pad: Inputs whose dimensions after the batch may differ from request to request: filled up to the longest with
            this value. Outputs are cut back where a symbolic dimension of theirs is one of the padded input's.
    """

    rows: int = 32
    delay_us: int = 1000
    queue: int = 1024
    queue_bytes: int = 256 * 1024 * 1024
    instances: int = 1
    seconds: float = 60.0
    run_seconds: float = 300.0
    pad: dict[str, float] = {}

    def __post_init__(self) -> None:
        """Refuse what would never answer."""
        for name in ("rows", "queue", "queue_bytes", "instances"):
            if getattr(self, name) < 1:
                msg = f"batching.{name} is {getattr(self, name)}; it is at least 1"
                raise ValueError(msg)
        for name in ("delay_us", "seconds", "run_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                msg = f"batching.{name} is {getattr(self, name)}; it is a number from 0"
                raise ValueError(msg)


@dataclass(frozen=True)
class LaneSpec:
    """What a lane has to know of a model version.

    Attributes:
        model: The name that it is served by.
        version: Which version.
        digest: The artifact's.
        inputs: What goes in.
        outputs: What comes out.
        batching: How requests become batches. Whoever makes the lane has proven that this model may be batched.
        hot: Whether the native plane may take its requests from the wire itself: every field is a plain tensor whose
            first dimension is the batch, nothing is nullable or categorical, nothing is padded.
    """

    model: str
    version: str
    digest: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    batching: Batching
    hot: bool = False


BOUNDS = (50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds, upper bounds of the buckets of every histogram of times; one more bucket holds the rest."""
ROW_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Upper bounds of the buckets of the histogram of rows a batch; one more bucket holds the rest."""


@dataclass
class Histogram:
    """Counts by bucket, not cumulated; one more than there are bounds."""

    counts: list[int] = field(default_factory=list)
    total: float = 0.0


@dataclass
class Figures:
    """What a lane has done since it was opened.

    Attributes:
        waiting: Requests in the queue now.
        running: Requests in batches that are being run now.
        stuck: Whether a batch has run for longer than ``run_seconds``.
        ok: Requests that were answered.
        failed: Requests that were not, by the name of the error's class (``BusyError``, ``ExpiredError`` ...).
        batches: Batches that were run.
        rows: Rows that were run.
        batch_rows: Rows a batch.
        queued: Seconds from admission to the start of the batch, a request.
        computed: Seconds in the model, a batch.
        answered: Seconds from admission to the answer, a request.
        last: When the last request was admitted, by ``time.time()``; 0 for never.
    """

    waiting: int = 0
    running: int = 0
    stuck: bool = False
    ok: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    rows: int = 0
    batch_rows: Histogram = field(default_factory=Histogram)
    queued: Histogram = field(default_factory=Histogram)
    computed: Histogram = field(default_factory=Histogram)
    answered: Histogram = field(default_factory=Histogram)
    last: float = 0.0


class Lane(Protocol):
    """Where the requests of one model version go."""

    def submit(self, request: Infer) -> Future[Reply]:
        """Take a request; it is conformed to the signature already, and may have any number of rows.

        The future ends with the reply, or with the error of the whole request: :class:`ExpiredError`,
        :class:`ModelError`, :class:`UnavailableError` where the lane was closed. Cancelling the future takes the
        request out of the queue.

        Raises:
            BusyError: The queue is full.
            LimitExceededError: The inputs alone are more bytes than the queue ever holds.
            UnavailableError: The lane is closed, or the model hangs.
        """

    def figures(self) -> Figures:
        """Return what it has done."""

    def close(self, seconds: float) -> None:
        """Take nothing more, run what waits, and return when that is done; after ``seconds`` the rest fails."""


Run = Callable[["Arrays"], "Arrays"]
"""Runs one batch: the inputs of all rows, conformed, to the outputs of all rows. Called from the lane's own threads."""
Watch = Callable[["Done"], None]
"""Sees every batch that was run, in the lane's thread, after the answers have gone. It must be quick and never
raise."""
MakeLane = Callable[[LaneSpec, Run, Watch | None], Lane]
"""What a plane gives to the engine, so that it can open lanes. The watch is asked for each batch; None is nobody."""
