"""Ensembles: models that answer together, served like one.

Each step is run as soon as what it takes is there; steps that need nothing of each other run at the same time. What a
request does not ask for is not run. All steps share the request's deadline; where one fails, the others are given up
and the error says which it was. The models are what others ask, too: batched, replaced and rolled out on their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from vitrify.core.errors import BusyError, ReferenceNotFoundError, UnavailableError, UsageError, VitrifyError
from vitrify.serve.lanes import Batching
from vitrify.serve.lanes._tally import Tally
from vitrify.serve.models import Served
from vitrify.serve.models._graph import REQUEST, graph
from vitrify.serve.models.repository import UNLOADED
from vitrify.serve.ports import ports
from vitrify.serve.values import Infer, Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Figures
    from vitrify.serve.models._graph import Graph, Step
    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.settings import EnsembleSettings

VERSION = "1"
PLATFORM = "ensemble"
_BATCHING = Batching(rows=1)
"""An ensemble puts no requests together: each of its models does."""
_JOIN = 1.0


class EnsembleLane:
    """Where the requests of one ensemble are answered.

    Args:
        name: The name that it is served by.
        graph: Its steps.
        infer: Answers for one step.
    """

    def __init__(self, name: str, graph: Graph, infer: Callable[[Infer], Awaitable[Reply]]) -> None:
        self._name, self._graph, self._infer = name, graph, infer
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
        task.add_done_callback(partial(self._end, future, began))
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
        if (running := len(self._open)) >= _BATCHING.queue:
            self._tally.failed("BusyError")
            msg = f"{running} requests are being answered by {self._name}, as many as may"
            raise BusyError(msg, retry_after=self._tally.retry_after(running, running), remedy="ask again later")

    def _end(self, future: Future[Reply], began: float, task: asyncio.Task[Reply]) -> None:
        """Tell whoever asked what came of it."""
        seconds = time.monotonic() - began
        error = UnavailableError(f"{self._name} was unloaded before its turn", remedy="ask again")
        failed = error if task.cancelled() else task.exception()
        wanted = not future.done() and future.set_running_or_notify_cancel()
        with self._lock:
            del self._open[future]
            self._tally.ran(0, 1, seconds)
            if wanted and failed is None:
                self._tally.answered(seconds)
            else:
                self._tally.failed(type(failed).__name__ if wanted else "CancelledError")
            self._ended.notify_all()
        if wanted and failed is None:
            future.set_result(task.result())
        elif wanted:
            future.set_exception(failed)

    async def _answer(self, request: Infer, began: float) -> Reply:
        outputs = request.outputs or tuple(self._graph.outputs)
        if request.deadline == math.inf:
            request = dataclasses.replace(request, deadline=began + _BATCHING.seconds)
        tasks: dict[str, asyncio.Task[Reply]] = {}
        try:
            for name, step in self._graph.needed(outputs).items():
                tasks[name] = asyncio.create_task(self._run(name, step, request, tasks))
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        places = {name: self._graph.outputs[name] for name in outputs}
        made = {name: tasks[step].result().outputs[output] for name, (step, output) in places.items()}
        by = {f"step.{name}": f"{task.result().model}:{task.result().version}" for name, task in tasks.items()}
        return Reply(self._name, VERSION, made, request.id, parameters=by)

    async def _run(self, name: str, step: Step, request: Infer, tasks: dict[str, asyncio.Task[Reply]]) -> Reply:
        """Run one step when those before it are done."""
        inputs: Arrays = {}
        for field, (source, output) in step.sources.items():
            given = request.inputs if source == REQUEST else (await tasks[source]).outputs
            inputs[field] = given[output]
        asked = dataclasses.replace(
            request, model=step.model, version=step.version, inputs=inputs, outputs=step.outputs
        )
        try:
            return await self._infer(asked)
        except VitrifyError as error:
            raise _of_step(error, name, step) from None


class Ensembles:
    """Keeps ensembles served while their models come, change and go.

    Args:
        engine: Serves them, and their models.
        settings: What they are.

    Raises:
        UsageError: Two have one name.
    """

    def __init__(self, engine: ServingEngine, settings: Iterable[EnsembleSettings]) -> None:
        self._engine = engine
        settings = tuple(settings)
        self._settings = {one.name: one for one in settings}
        if len(self._settings) < len(settings):
            msg = f"two ensembles have one name: {', '.join(sorted(one.name for one in settings))}"
            raise UsageError(msg, remedy="give each a name of its own")
        self._graphs: dict[str, Graph] = {}
        self._troubles: dict[str, str] = {}
        self._thread = ThreadPoolExecutor(1, "vitrify-ensembles")
        self._asked = threading.Event()

    async def start(self) -> tuple[VitrifyError, ...]:
        """Serve them; return why some cannot be. From then on changes of their models are followed."""
        if not self._settings:
            return ()
        errors = await asyncio.wrap_future(self._thread.submit(self._look))
        self._engine.when_changed(self._changed)
        return errors

    def close(self) -> None:
        """Follow changes no longer; the engine lets the ensembles go."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _changed(self) -> None:
        """Look again, elsewhere: whoever tells of a change holds locks. Many changes are one look."""
        if self._asked.is_set():
            return
        self._asked.set()
        try:
            self._thread.submit(self._look)
        except RuntimeError:  # the server is stopping
            return

    def _look(self) -> tuple[VitrifyError, ...]:
        """Serve each ensemble as its models are now; those that ask other ensembles after these."""
        self._asked.clear()
        left = dict(self._settings)
        errors: list[VitrifyError] = []
        while left:
            now = [one for one in left.values() if not any(step.model in left for step in one.steps.values())]
            if not now:
                msg = f"ensembles ask each other in a circle: {', '.join(sorted(left))}"
                return (*errors, UsageError(msg, remedy="take one of these steps out"))
            for one in now:
                del left[one.name]
                error = self._serve(one)
                if error is not None:
                    errors.append(error)
        return tuple(errors)

    def _serve(self, one: EnsembleSettings) -> VitrifyError | None:
        try:
            self._require_free(one.name)
            found = graph(one, self._engine.served)
        except UsageError as error:
            self._troubles[one.name] = error.message
            return error
        self._troubles.pop(one.name, None)
        if found != self._graphs.get(one.name) and not self._unloaded(one.name):
            self._graphs[one.name] = found
            lane = EnsembleLane(one.name, found, self._engine.infer)
            self._engine.add(_served(one, found), lane, trouble=partial(self._trouble, one))
        return None

    def _require_free(self, name: str) -> None:
        if name in self._graphs or all(served.name != name for served in self._engine.index()):
            return
        msg = f"an ensemble is to be called {name!r}, as a model is"
        raise UsageError(msg, remedy="give it another name")

    def _unloaded(self, name: str) -> bool:
        """Say whether somebody has let it go, on purpose."""
        try:
            return self._engine.served(name).reason == UNLOADED
        except ReferenceNotFoundError:
            return False

    def _trouble(self, one: EnsembleSettings) -> str:
        """Say why an ensemble does not answer just now: a model of it does not."""
        if (trouble := self._troubles.get(one.name)) is not None:
            return trouble
        for name, step in one.steps.items():
            try:
                served = self._engine.served(step.model, step.version)
            except ReferenceNotFoundError as error:
                return f"step {name!r}: {error.message}"
            if served.state != "READY" and not served.lazy:
                why = f": {served.reason}" if served.reason else ""
                return f"step {name!r}: model {step.model!r} is {served.state.lower()}{why}"
        return ""


def _served(one: EnsembleSettings, found: Graph) -> Served:
    inputs, outputs = ports(found.signature)
    return Served(
        name=one.name,
        version=VERSION,
        number=int(VERSION),
        digest="",
        reference=one.name,
        platform=PLATFORM,
        state="READY",
        reason="",
        signature=found.signature,
        inputs=inputs,
        outputs=outputs,
        batching=_BATCHING,
        since=time.time(),
        size=0,
    )


def _of_step(error: VitrifyError, name: str, step: Step) -> VitrifyError:
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
