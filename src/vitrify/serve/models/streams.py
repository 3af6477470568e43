"""Streams: answers that are given in parts, each made when it is wanted.

A part is made in a thread, of which there are as many as sessions, so that two streams never wait for each other's
thread. Whoever takes parts slowly holds up nobody's memory: the model makes the next part only when it is asked for.
Whoever leaves ends the model's work with the part that is being made.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from vitrify.core.errors import BusyError, ExpiredError, ModelError, UnavailableError, VitrifyError
from vitrify.serve.lanes._batch import chosen
from vitrify.serve.lanes._calling import bare
from vitrify.serve.lanes._tally import Tally
from vitrify.serve.models.figures import together
from vitrify.serve.values import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Figures, Lane, LaneSpec
    from vitrify.serve.values import Infer

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

_SHOWN = 500
"""Characters of a model's own error text that are passed on."""


class StreamLane:
    """A lane whose model gives parts, too; what is not streamed goes to the lane behind it.

    Args:
        spec: What it has to know of the model version. ``instances`` streams are answered at the same time, ``queue``
            more may wait.
        lane: Answers what is not streamed.
        parts: Yields the parts of one answer; at most ``instances`` are open at a time.
    """

    def __init__(self, spec: LaneSpec, lane: Lane, parts: Callable[[Arrays], Iterator[Arrays]]) -> None:
        self._spec, self.lane, self._parts = spec, lane, parts
        self._threads = ThreadPoolExecutor(spec.batching.instances, f"stream {spec.model} {spec.version}")
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._turn: asyncio.Semaphore | None = None
        self._tally = Tally()
        self._waiting = self._running = 0
        self._closing = False

    def submit(self, request: Infer) -> Future[Reply]:
        """Take a request that is answered as a whole; see :meth:`vitrify.serve.lanes.Lane.submit`."""
        return self.lane.submit(request)

    def stream(self, request: Infer) -> AsyncGenerator[Reply]:
        """Take a request that is answered in parts; it is conformed to the signature already.

        Raises:
            BusyError: As many streams wait as may.
            UnavailableError: The lane is closed.
            ExpiredError: While it is iterated: the deadline passed before the last part.
            ModelError: While it is iterated: the model raised.
        """
        spec = self._spec
        with self._lock:
            if self._closing:
                msg = f"{spec.model} {spec.version} is being unloaded"
                raise UnavailableError(msg, remedy="ask again: another version may answer")
            if self._waiting >= spec.batching.queue:
                self._tally.failed("BusyError")
                msg = f"{self._waiting} streams wait for {spec.model}, as many as may"
                after = self._tally.retry_after(self._waiting, spec.batching.instances)
                raise BusyError(msg, retry_after=after, remedy="ask again later")
        return self._answer(request)

    def figures(self) -> Figures:
        """Return what it has done; a stream counts as one batch."""
        with self._lock:
            mine = self._tally.figures(waiting=self._waiting, running=self._running, stuck=False)
        return together([mine, self.lane.figures()])

    def close(self, seconds: float) -> None:
        """Take nothing more, and wait until everything was answered, but not longer than that."""
        until = time.monotonic() + seconds
        with self._lock:
            self._closing = True
        self.lane.close(seconds)
        with self._lock:
            self._ended.wait_for(lambda: not self._running and not self._waiting, max(0.0, until - time.monotonic()))
        self._threads.shutdown(wait=False)

    async def _answer(self, request: Infer) -> AsyncGenerator[Reply]:
        """Wait for a turn, and yield the parts."""
        began = time.monotonic()
        deadline = request.deadline if request.deadline < math.inf else began + self._spec.batching.seconds
        turn = self._turn = self._turn or asyncio.Semaphore(self._spec.batching.instances)
        with self._noted(began):
            with self._counted("_waiting"):
                await _in_time(turn.acquire, deadline)
            try:
                with self._counted("_running"):
                    async with contextlib.aclosing(self._made(request, deadline)) as parts:
                        async for part in parts:
                            yield part
            finally:
                turn.release()

    async def _made(self, request: Infer, deadline: float) -> AsyncGenerator[Reply]:
        """Yield the parts as the model makes them; it is stopped where nobody wants more."""
        spec = self._spec
        parts = _chosen(self._parts(request.inputs), request.outputs)
        making: Future[Arrays | None] | None = None

        def make() -> Awaitable[Arrays | None]:
            nonlocal making
            making = self._begun(parts)
            return _settled(making)

        try:
            while (part := await _in_time(make, deadline)) is not None:
                yield Reply(spec.model, spec.version, part, request.id, spec.digest)
        finally:
            self._end(parts, making)

    def _begun(self, parts: Generator[Arrays]) -> Future[Arrays | None]:
        """Have the next part made."""
        try:
            return self._threads.submit(next, parts, None)
        except RuntimeError:
            msg = f"{self._spec.model} was unloaded before the last part of the answer"
            raise UnavailableError(msg, remedy="ask again") from None

    def _end(self, parts: Generator[Arrays], making: Future[Arrays | None] | None) -> None:
        """Close the model's iterator in a thread that may wait: the one that makes a part of it, where one does."""
        if making is not None and not making.done():
            making.add_done_callback(lambda _: parts.close())
            return
        try:
            self._threads.submit(parts.close)
        except RuntimeError:  # the lane is closed
            parts.close()

    @contextlib.contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)
        try:
            yield
        finally:
            with self._lock:
                setattr(self, name, getattr(self, name) - 1)
                self._ended.notify_all()

    @contextlib.contextmanager
    def _noted(self, began: float) -> Iterator[None]:
        """Count what becomes of one stream."""
        with self._lock:
            self._tally.admitted()
        error = ""
        try:
            yield
        except VitrifyError as failed:
            error = type(failed).__name__
            raise
        except BaseException:
            error = "CancelledError"  # whoever asked has left
            raise
        finally:
            seconds = time.monotonic() - began
            with self._lock:
                if error:
                    self._tally.failed(error)
                else:
                    self._tally.ran(0, 1, seconds)
                    self._tally.answered(seconds)


def _chosen(parts: Iterator[Arrays], names: Sequence[str]) -> Generator[Arrays]:
    """Yield of each part what was asked for; what the model raises is an error of ours from here on."""
    close = getattr(parts, "close", lambda: None)
    try:
        for part in parts:
            yield chosen(part, names)
    except VitrifyError as error:
        if error.__cause__ is not None:
            _LOG.warning("a stream raised", exc_info=True)
        raise bare(error) from None
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 (a model that calls sys.exit must not end the thread)
        _LOG.warning("a stream raised", exc_info=True)
        raise ModelError(f"the model raised {type(error).__name__}: {error}"[:_SHOWN]) from None
    finally:
        close()


async def _settled(future: Future[T]) -> T:
    """Wait for a future; whoever is cancelled meanwhile lets it go on."""
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(waiting)


async def _in_time(begin: Callable[[], Awaitable[T]], deadline: float) -> T:
    """Wait for something that is begun only where there is time left."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise _late()
    try:
        async with asyncio.timeout(left):
            return await begin()
    except TimeoutError:
        raise _late() from None


def _late() -> ExpiredError:
    msg = "the deadline passed before the last part of the answer"
    return ExpiredError(msg, remedy="give it more time, or come when there is less load")
