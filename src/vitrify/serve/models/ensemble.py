"""An ensemble: models that answer together, served like one.

Each step is run as soon as what it takes is there; steps that need nothing of each other run at the same time. What a
request does not ask for is not run. All steps share the request's deadline; where one fails, the others are given up
and the error says which it was. The models are what others ask, too: batched, replaced and rolled out on their own.

Which version of each model answers is decided when a request begins, once for each model, and these versions stay open
until it ends: a request is never answered by a mixture of what was there before and after a reload.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Protocol

from vitrify import containers
from vitrify.core.errors import BusyError, UnavailableError, UsageError, VitrifyError
from vitrify.serve.lanes import Batching
from vitrify.serve.lanes._tally import Tally
from vitrify.serve.models._graph import REQUEST
from vitrify.serve.models.identity import identity, make
from vitrify.serve.models.pinning import pins
from vitrify.serve.values import Done, Infer, Part, Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Figures, Watch
    from vitrify.serve.models import Served
    from vitrify.serve.models._graph import Step
    from vitrify.serve.models.identity import Made
    from vitrify.serve.models.pinning import Pin, Pins
    from vitrify.serve.models.repository import Entry
    from vitrify.serve.settings import EnsembleSettings, StepSettings

BATCHING = Batching(rows=1)
"""An ensemble puts no requests together: each of its models does."""
_LOG = logging.getLogger(__name__)
_JOIN = 1.0
_OTHERS = 64
"""So many combinations of its models' versions are remembered: a rollout has few at a time."""


class Members(Protocol):
    """What answers the steps."""

    def choose(self, request: Infer) -> Entry:
        """Return the version that answers a request.

        Raises:
            ReferenceNotFoundError: There is none.
        """

    async def infer(self, request: Infer, pin: Pin | None = None) -> Reply:
        """Answer a request, with the version that was chosen for it; raises as the engine does."""


class EnsembleLane:
    """Where the requests of one ensemble are answered.

    Args:
        settings: What it is.
        made: The same, with the versions that its models had when it was loaded.
        members: Answer for its steps.
        watch: Sees each answer; None for nobody.
    """

    def __init__(self, settings: EnsembleSettings, made: Made, members: Members, watch: Watch | None = None) -> None:
        self._settings, self._made, self._members, self._watch = settings, made, members, watch
        self._name = settings.name
        self._others: dict[tuple[str, ...], Made] = {}
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._open: dict[Future[Reply], asyncio.Task[Reply]] = {}
        self._tally = Tally()
        self._closing = False

    def submit(self, request: Infer) -> Future[Reply]:
        """Take a request, in an event loop; see :meth:`vitrify.serve.lanes.Lane.submit`."""
        future: Future[Reply] = Future()
        began = time.monotonic()
        with self._lock:
            self._admit()
            task = self._open[future] = asyncio.get_running_loop().create_task(self._answer(request, began))
        task.add_done_callback(partial(self._end, future, request, began))
        future.add_done_callback(partial(_cancelled, task))
        return future

    def figures(self) -> Figures:
        """Return what it has done; a request counts as one batch."""
        with self._lock:
            return self._tally.figures(waiting=0, running=len(self._open), stuck=False)

    def close(self, seconds: float) -> None:
        """Take nothing more, and wait until everything was answered; after that the rest fails."""
        with self._lock:
            self._closing = True
            self._ended.wait_for(lambda: not self._open, max(0.0, seconds))
            left = tuple(self._open.values())
        for task in left:
            _cancel(task)
        with self._lock:
            self._ended.wait_for(lambda: not self._open, _JOIN)

    def _admit(self) -> None:
        """Refuse a request for which there is no room. Under the lock."""
        if self._closing:
            msg = f"{self._name} is being unloaded"
            raise UnavailableError(msg, remedy="ask again")
        self._tally.admitted()
        if (running := len(self._open)) >= BATCHING.queue:
            self._tally.failed("BusyError")
            msg = f"{running} requests are being answered by {self._name}, as many as may"
            raise BusyError(msg, retry_after=self._tally.retry_after(running, running), remedy="ask again later")

    def _end(self, future: Future[Reply], request: Infer, began: float, task: asyncio.Task[Reply]) -> None:
        """Tell whoever asked what came of it."""
        rows = containers.rows(request.inputs, self._made.graph.signature.inputs) or 1
        seconds = time.monotonic() - began
        error = UnavailableError(f"{self._name} was unloaded before its turn", remedy="ask again")
        failed = error if task.cancelled() else task.exception()
        wanted = not future.done() and future.set_running_or_notify_cancel()
        with self._lock:
            del self._open[future]
            self._tally.ran(rows, 1, seconds)
            if wanted and failed is None:
                self._tally.answered(seconds)
            else:
                self._tally.failed(type(failed).__name__ if wanted else "CancelledError")
            self._ended.notify_all()
        if wanted and failed is None:
            future.set_result(task.result())
            if self._watch is not None:
                self._show(self._watch, request, task.result(), rows, seconds)
        elif wanted:
            future.set_exception(failed)

    def _show(self, watch: Watch, request: Infer, reply: Reply, rows: int, seconds: float) -> None:
        """Let the watcher see an answer; what it raises harms nobody."""
        parts = (Part(request.id, request.client, rows, 0.0),)
        whole = reply.outputs.keys() == self._made.graph.outputs.keys()
        named = (reply.model, reply.version, reply.digest)
        try:
            watch(Done(*named, request.inputs, reply.outputs, lambda: parts, seconds, whole))
        except Exception:  # noqa: BLE001 (somebody else's code: the lane goes on)
            _LOG.exception("what watches %s raised", self._name)

    async def _answer(self, request: Infer, began: float) -> Reply:
        outputs = request.outputs or tuple(self._made.graph.outputs)
        if request.deadline == math.inf:
            request = dataclasses.replace(request, deadline=began + BATCHING.seconds)
        found, asked = pins(self._members.choose), self._asked(request)
        tasks: dict[str, asyncio.Task[Reply]] = {}
        with contextlib.ExitStack() as holds:
            held = {name: self._hold(name, found, asked, holds) for name in self._made.graph.needed(outputs)}
            known = self._made.digests  # of what is not there, and is not needed
            digests = {name: found.digest(one) or known[name] for name, one in asked.items()}
            made = self._made_of(digests, held, found, request)
            try:
                for name, step in made.graph.needed(outputs).items():
                    hold = held.get(name) or self._hold(name, found, asked, holds)
                    running = self._run(name, step, asked[name], tasks, found.pin(asked[name]))
                    tasks[name] = asyncio.create_task(running)
                    tasks[name].add_done_callback(partial(_let_go, hold))  # also of a task that never began
                await asyncio.gather(*tasks.values())
            finally:
                for task in tasks.values():
                    task.cancel()
                await asyncio.gather(*tasks.values(), return_exceptions=True)
        places = {name: made.graph.outputs[name] for name in outputs}
        given = {name: tasks[step].result().outputs[output] for name, (step, output) in places.items()}
        by = {f"step.{name}": f"{task.result().model}:{task.result().version}" for name, task in tasks.items()}
        digests |= {name: task.result().digest for name, task in tasks.items()}
        digest = made.digest if digests == made.digests else identity(self._settings, digests)
        return Reply(self._name, self._settings.version, given, request.id, digest, by)

    def hold(self, found: Pins, request: Infer, holds: contextlib.ExitStack) -> None:
        """Keep the versions open that a request needs, for an ensemble that will ask this one.

        Raises:
            ReferenceNotFoundError: A model is not there.
        """
        graph, asked = self._made.graph, self._asked(request)
        outputs = request.outputs or tuple(graph.outputs)
        for name in graph.needed(output for output in outputs if output in graph.outputs):
            self._hold(name, found, asked, holds)

    def _hold(
        self, name: str, found: Pins, asked: Mapping[str, Infer], holds: contextlib.ExitStack
    ) -> contextlib.ExitStack:
        """Keep what answers for a step open; return what lets it go."""
        hold = holds.enter_context(contextlib.ExitStack())
        try:
            pin = found.hold(asked[name])
            hold.callback(pin.leave)
            if pin.loaded is not None and isinstance(lane := pin.loaded.lane, EnsembleLane):
                outputs = self._made.graph.steps[name].outputs
                lane.hold(found, dataclasses.replace(asked[name], outputs=outputs), hold)
        except VitrifyError as error:
            raise _of_step(error, name, self._settings.steps[name]) from None
        return hold

    def _made_of(self, digests: dict[str, str], steps: Iterable[str], found: Pins, request: Infer) -> Made:
        """Return the ensemble with the versions that answer a request.

        Raises:
            UnavailableError: They do not fit together.
        """
        if all(digests[name] == self._made.digests[name] for name in steps):
            return self._made
        key = tuple(digests.values())
        if (made := self._others.get(key)) is None:

            def find(model: str, version: str) -> Served:
                return found.pin(dataclasses.replace(request, model=model, version=version)).served

            try:
                made = make(self._settings, find)
            except UsageError as error:
                raise UnavailableError(error.message, remedy="ask again once its models fit together") from error
            if len(self._others) >= _OTHERS:
                self._others.clear()
            self._others[key] = made
        return made

    def _asked(self, request: Infer) -> dict[str, Infer]:
        """Return what each step asks, still without inputs of its own."""
        steps = self._settings.steps.items()
        return {name: dataclasses.replace(request, model=step.model, version=step.version) for name, step in steps}

    async def _run(
        self,
        name: str,
        step: Step,
        asked: Infer,
        tasks: dict[str, asyncio.Task[Reply]],
        pin: Pin,
    ) -> Reply:
        """Run one step when those before it are done."""
        inputs: Arrays = {}
        for field, (source, output) in step.sources.items():
            given = asked.inputs if source == REQUEST else (await tasks[source]).outputs
            inputs[field] = given[output]
        try:
            return await self._members.infer(dataclasses.replace(asked, inputs=inputs, outputs=step.outputs), pin)
        except VitrifyError as error:
            raise _of_step(error, name, step) from None


def _let_go(hold: contextlib.ExitStack, _task: asyncio.Task[Reply]) -> None:
    hold.close()


def _of_step(error: VitrifyError, name: str, step: Step | StepSettings) -> VitrifyError:
    """Return the same error, which says in which step it was; others may have been given the one itself."""
    kind = type(error)
    told = kind.__new__(kind)
    told.args = error.args
    told.__dict__.update(error.__dict__)
    told.message = f"step {name!r} (model {step.model!r}): {error.message}"
    return told


def _cancelled(task: asyncio.Task[Reply], future: Future[Reply]) -> None:
    """Give a request up whose future was cancelled."""
    if future.cancelled():
        _cancel(task)


def _cancel(task: asyncio.Task[Reply]) -> None:
    with contextlib.suppress(RuntimeError):  # its loop is closed, and the task with it
        task.get_loop().call_soon_threadsafe(task.cancel)
