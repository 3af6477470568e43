"""A version that answers: its lane, what it takes, and how it is let go."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from vitrify.core.protocols import Streams
from vitrify.serve.lanes import LaneSpec
from vitrify.serve.models.matching import Matcher, is_plain
from vitrify.serve.models.opening import remembers
from vitrify.serve.models.sequences import SequenceLane
from vitrify.serve.models.streams import StreamLane
from vitrify.serve.values import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from concurrent.futures import Future

    from vitrify.core.protocols import Session
    from vitrify.core.signature import Field
    from vitrify.serve.lanes import Lane, MakeLane, Watch
    from vitrify.serve.models import Served
    from vitrify.serve.models.opening import Sessions
    from vitrify.serve.settings import SequenceSettings
    from vitrify.serve.values import Infer


class Loaded:
    """What answers: an artifact's session behind a lane, or anything else that a lane stands before."""

    def __init__(
        self, served: Served, lane: Lane, let_go: Callable[[], None], trouble: Callable[[], str] | None = None
    ) -> None:
        """Keep the parts.

        Args:
            served: What it is.
            lane: Where its requests go.
            let_go: Frees what the lane runs, once it is closed.
            trouble: Says why it does not answer just now, although it is loaded; empty where it does.
        """
        self.served, self.lane, self._let_go, self._trouble = served, lane, let_go, trouble
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._holders, self._closing = 0, False
        self.closed = False
        self._matcher = Matcher(served.signature)

    def submit(self, request: Infer) -> Future[Reply] | Reply:
        """Match a request with the signature, and put it into the lane; without rows it is answered here.

        Raises:
            SignatureError: It does not fit.
            BusyError: The queue is full.
            UnavailableError: The lane is closed or stuck.
        """
        matched = self._matcher.match(request)
        nothing = self._matcher.without_rows(matched)
        if nothing is None:
            return self.lane.submit(matched)
        return Reply(self.served.name, self.served.version, nothing, request.id, self.served.digest)

    def stream(self, request: Infer) -> AsyncGenerator[Reply] | None:
        """Match a request with the signature, and have it answered in parts; None where this model makes none.

        Raises:
            SignatureError: It does not fit.
            BusyError: As many streams wait as may.
            UnavailableError: The lane is closed.
        """
        if not isinstance(self.lane, StreamLane):
            return None
        matched = self._matcher.match(request)
        return self.lane.stream(matched) if self._matcher.without_rows(matched) is None else None

    @property
    def trouble(self) -> str:
        """Why it does not answer just now; empty where it does."""
        return self._trouble() if self._trouble is not None else ""

    def hold(self) -> bool:
        """Keep it open, for a request that comes in parts; false where it is being closed already."""
        with self._lock:
            self._holders += not self._closing
            return not self._closing

    def release(self) -> None:
        """Let it be closed, after :meth:`hold`."""
        with self._lock:
            self._holders -= 1
            self._freed.notify_all()

    @property
    def idle(self) -> bool:
        """Whether nobody waits for it, and no sequence would be forgotten with it."""
        inner = self.lane.lane if isinstance(self.lane, StreamLane) else self.lane
        if isinstance(inner, SequenceLane) and inner.live:
            return False
        figures = self.lane.figures()
        return not figures.waiting and not figures.running

    def close(self, seconds: float, *, wait: bool = True) -> None:
        """Answer what waits, for at most so many seconds; then free the model.

        Args:
            seconds: For all.
            wait: Whether what is held waits, too, for more that is to come.
        """
        until = time.monotonic() + seconds
        with self._lock:
            self._closing = True
            self._freed.wait_for(lambda: not (wait and self._holders), max(0.0, seconds))
            self.closed = True
        self.lane.close(max(0.0, until - time.monotonic()))
        self._let_go()


def lane_spec(served: Served) -> LaneSpec:
    """Return what a lane has to know of a version."""
    hot = bool(served.inputs) and all(map(is_plain, served.signature.inputs)) and not served.batching.pad
    return LaneSpec(
        served.name,
        served.version,
        served.digest,
        served.inputs,
        served.outputs,
        served.batching,
        hot and all(map(_goes_plainly, served.signature.outputs)),
    )


def open_lane(
    served: Served,
    sessions: Sessions,
    make_lane: MakeLane,
    watch: Watch | None,
    *,
    more: Callable[[], Session],
    sequences: SequenceSettings,
) -> Lane:
    """Return the lane of a version: with what its model can beside answering one request after the other.

    Args:
        served: What it is.
        sessions: What answers.
        make_lane: The plane's.
        watch: Sees every batch.
        more: Opens one more session, for a sequence.
        sequences: How many there may be, and how long.
    """
    spec = lane_spec(served)
    stateful, streams = remembers(sessions.first), isinstance(sessions.first, Streams)
    if stateful or streams:
        spec = replace(spec, hot=False)  # the plane itself must not answer what names a sequence
    lane = make_lane(spec, sessions.run, watch)
    if stateful:
        alone = replace(spec, batching=served.batching.replace(rows=1, instances=1, pad={}))
        lane = SequenceLane(lane, more, lambda run: make_lane(alone, run, watch), sequences)
    return StreamLane(spec, lane, sessions.stream) if streams else lane


def _goes_plainly(field: Field) -> bool:
    """Say whether an output is rows of numbers or of text, of which none can be missing."""
    return is_plain(field) or (field.batched and not field.nullable and field.dtype in {"string", "bytes"})
