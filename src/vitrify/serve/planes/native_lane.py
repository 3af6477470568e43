"""The native lane: queue and batches in the library, the model in threads of ours, which enter Python once a batch."""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from concurrent.futures import Future
from ctypes import byref, c_uint32, c_uint64, pointer
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import ModelError, SignatureError, VitrifyError
from vitrify.serve.lanes import Figures
from vitrify.serve.planes._library import (
    FAULT,
    KINDS,
    RANK,
    Array,
    Asked,
    Due,
    Happened,
    error_of,
    kind_of,
    last_error,
    lend,
    library,
    taken,
    told_of,
)
from vitrify.serve.planes.native_arrays import Memory, answered, batch_inputs, lent, lent_outputs
from vitrify.serve.values import Done, Part, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import LaneSpec, Run, Watch
    from vitrify.serve.ports import Port
    from vitrify.serve.values import Infer

_LOG = logging.getLogger(__name__)
_SHOWN = 500
"""Characters of a model's own error text that are passed on."""
_OUTPUTS = 256
"""No model has more outputs than this; one that does is no model for this lane."""
_JOIN = 1.0
"""Seconds for threads that have nothing to do but to end."""


def fits(spec: LaneSpec) -> bool:
    """Return whether a lane can be native."""
    ends = (*spec.inputs, *spec.outputs)
    return spec.hot and bool(spec.inputs) and len(ends) <= _OUTPUTS and all(len(port.shape) <= RANK for port in ends)


class Deliveries:
    """Our own requests that have no answer yet. It may be used from any thread."""

    def __init__(self) -> None:
        """Have none."""
        self._numbers = count(1)
        self._open: dict[int, tuple[Future[Reply], LaneSpec, Sequence[Port], str]] = {}

    def issue(self, future: Future[Reply], spec: LaneSpec, ports: Sequence[Port], id_: str) -> int:
        """Return a new ticket."""
        number = next(self._numbers)
        self._open[number] = (future, spec, ports, id_)
        return number

    def withdraw(self, number: int) -> bool:
        """Forget a ticket; false where somebody delivers its answer just now."""
        return self._open.pop(number, None) is not None

    def deliver(self, happened: Happened, error: VitrifyError | None = None) -> None:
        """Give an answer to whoever waits for it; ``error`` says what failed, where somebody knows better."""
        found = self._open.pop(happened.number, None)
        if found is None:
            return
        future, spec, ports, id_ = found
        if not future.set_running_or_notify_cancel():
            return
        if happened.what == FAULT:
            told = error_of(happened.fault)
            future.set_exception(error if error is not None and type(told) is type_of(error) else told)
            return
        try:
            outputs = {port.name: answered(happened.arrays[place], port) for place, port in enumerate(ports)}
        except VitrifyError as flaw:
            future.set_exception(flaw)
        else:
            future.set_result(Reply(spec.model, spec.version, outputs, id_, spec.digest))

    def collect(self, happened: Happened, error: VitrifyError | None = None) -> None:
        """Deliver what the library's last call in this thread answered."""
        lib = library()
        while lib.answered(byref(happened)) == 1:
            try:
                self.deliver(happened, error)
            finally:
                lib.happened_free(happened.handle)


def type_of(error: VitrifyError) -> type[VitrifyError]:
    """Return the class that the library says an error by."""
    return KINDS[kind_of(error)]


def new_happened() -> tuple[Happened, Any]:
    """Return room for what happens, and what keeps it."""
    arrays = (Array * _OUTPUTS)()
    happened = Happened()
    happened.arrays, happened.room = arrays, _OUTPUTS
    return happened, arrays


class Handle:
    """A lane of the library, let go of when no thread uses it; its house lives as long."""

    def __init__(self, house: Any, address: int) -> None:
        """Keep both."""
        self.house = house
        self.address = address
        weakref.finalize(self, library().lane_free, address).atexit = False


class NativeLane:
    """A lane of the native plane; see :class:`vitrify.serve.lanes.Lane`.

    Args:
        house: The plane's house; whoever gives it keeps it until the lane is closed.
        deliveries: The plane's.
        spec: What it has to know of the model version; :func:`fits`.
        run: Runs one batch.
        watch: Sees each batch, after its answers have gone.
    """

    def __init__(
        self, house: Any, deliveries: Deliveries, spec: LaneSpec, run: Run, watch: Watch | None = None
    ) -> None:
        """Open it; from now on the plane gives it the requests of its model version."""
        address = library().lane_open(house.address, lend(text := _described(spec)))
        del text
        if not address:
            raise last_error()
        self._house = house
        self._deliveries = deliveries
        self._spec = spec
        self._inputs = {port.name: (index, port) for index, port in enumerate(spec.inputs)}
        self._outputs = {port.name: index for index, port in enumerate(spec.outputs)}
        self._handle = Handle(house, address)
        work = (self._handle, deliveries, spec, run, watch)
        self._threads = [
            threading.Thread(target=_work, args=work, name=f"lane-{spec.model}-{number}", daemon=True)
            for number in range(spec.batching.instances)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, request: Infer) -> Future[Reply]:
        """Take a request."""
        inputs = request.inputs
        arrays = (Array * len(inputs))()
        kept = []
        for place, (name, array) in enumerate(inputs.items()):
            if name not in self._inputs:
                msg = f"model {self._spec.model!r} has no input {name!r}"
                raise SignatureError(msg)
            index, port = self._inputs[name]
            # In the model's order, so that the same inputs are the same batch.
            place = index if len(inputs) == len(self._inputs) else place  # noqa: PLW2901 (a subset keeps its own)
            kept.append(lent(arrays[place], index, array, port))
        places = self._places(request.outputs)
        ports = [self._spec.outputs[place] for place in places] or self._spec.outputs
        future: Future[Reply] = Future()
        ticket = self._deliveries.issue(future, self._spec, ports, request.id)
        id_, client = request.id.encode(), request.client.encode()
        patience = max(0.0, request.deadline - time.monotonic()) if request.deadline < math.inf else math.inf
        asked = Asked(lend(id_), lend(client), places, len(places), request.priority, 0, patience, ticket)
        if library().submit(self._house.address, self._handle.address, arrays, len(kept), byref(asked)) < 0:
            self._deliveries.withdraw(ticket)
            raise last_error()
        future.add_done_callback(partial(_left, weakref.ref(self._handle), self._deliveries, ticket))
        return future

    def _places(self, outputs: tuple[str, ...]) -> Any:
        if unknown := [name for name in outputs if name not in self._outputs]:
            msg = f"model {self._spec.model!r} has no output {unknown[0]!r}"
            raise SignatureError(msg)
        return (c_uint32 * len(outputs))(*(self._outputs[name] for name in outputs))

    def figures(self) -> Figures:
        """Return what it has done."""
        return msgspec.json.decode(taken(library().lane_figures(self._handle.address)), type=Figures)

    def close(self, seconds: float) -> None:
        """Take nothing more, run what waits, and return when that is done; after ``seconds`` the rest fails.

        A model that hangs keeps its thread until it returns: a thread cannot be ended.
        """
        end = time.monotonic() + seconds
        all_done = library().lane_close(self._house.address, self._handle.address, max(seconds, 0.0)) == 1
        happened, _kept = new_happened()
        self._deliveries.collect(happened)
        end = max(end, time.monotonic() + (_JOIN if all_done else 0.0))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(min(max(end - time.monotonic(), 0.0), threading.TIMEOUT_MAX))


def _left(handle: weakref.ref[Handle], deliveries: Deliveries, ticket: int, future: Future[Reply]) -> None:
    """Tell the lane of a cancelled future; the future itself does not keep the lane in memory."""
    if future.cancelled() and (alive := handle()) is not None and deliveries.withdraw(ticket):
        future.set_running_or_notify_cancel()
        library().cancel(alive.house.address, alive.address, ticket)
        happened, _kept = new_happened()
        deliveries.collect(happened)


def _work(handle: Handle, deliveries: Deliveries, spec: LaneSpec, run: Run, watch: Watch | None) -> None:
    """Run batches until the lane is closed and nothing waits."""
    inputs, outputs = (Array * len(spec.inputs))(), (Array * max(1, len(spec.outputs)))()
    due = Due(arrays=inputs, room=len(spec.inputs))
    happened, _kept = new_happened()
    take, pointed = library().lane_take, pointer(due)
    worker = _Worker(handle.address, deliveries, spec, run, watch, due, outputs, happened)
    while got := take(handle.address, pointed):
        if got == 1:  # else a batch could not be handed over, and has failed
            worker.once()


class _Worker:
    """What one thread of a lane uses again and again."""

    def __init__(
        self, lane: int, deliveries: Deliveries, spec: LaneSpec, run: Run, watch: Watch | None, *room: Any
    ) -> None:
        self._lane = lane
        self._deliveries = deliveries
        self._spec = spec
        self._run = run
        self._watch = watch
        self._due, self._places, self._happened = room
        self._made = c_uint64()
        self._pointed = pointer(self._made)
        self._answer = library().lane_answer

    def once(self) -> None:
        """Run one batch; its arrays live no longer than this call."""
        due, spec = self._due, self._spec
        number, began = due.number, time.monotonic()
        memory = Memory(due.handle)
        try:
            inputs = batch_inputs(due, spec.inputs, memory)
            outputs = self._run(inputs)
            kept = lent_outputs(self._places, outputs, spec.outputs)
        except VitrifyError as error:
            if error.__cause__ is not None:
                _LOG.warning("%s raised", spec.model, exc_info=True)
            return self._fail(number, error)
        except BaseException as error:  # noqa: BLE001 (a model that calls sys.exit must not end the lane)
            _LOG.warning("%s raised", spec.model, exc_info=True)
            return self._fail(number, ModelError(f"the model raised {type(error).__name__}: {error}"[:_SHOWN]))
        seconds = time.monotonic() - began
        right = self._answer(self._lane, number, self._places, len(spec.outputs), self._pointed) == 0
        del kept
        if self._made.value:
            self._deliveries.collect(self._happened)
        if self._watch is not None and right:
            self._show(self._watch, due.handle, inputs, outputs, seconds)
        del memory
        return None

    def _fail(self, number: int, error: VitrifyError) -> None:
        error.__traceback__ = error.__cause__ = error.__context__ = None  # the frames hold the batch's arrays
        told, text = told_of(error)
        library().lane_fail(self._lane, number, byref(told), self._pointed)
        del text
        if self._made.value:
            self._deliveries.collect(self._happened, error)

    def _show(self, watch: Watch, batch: int, inputs: Arrays, outputs: Arrays, seconds: float) -> None:
        """Let the watcher see a batch; what it raises harms nobody."""
        spec = self._spec

        def told() -> tuple[Part, ...]:
            return tuple(Part(*part) for part in msgspec.json.decode(taken(library().batch_parts(batch))))

        try:
            watch(Done(spec.model, spec.version, spec.digest, inputs, outputs, told, seconds))
        except Exception:  # noqa: BLE001 (somebody else's code: the lane goes on)
            _LOG.exception("what watches %s raised", spec.model)


def _described(spec: LaneSpec) -> bytes:
    batching = spec.batching
    return msgspec.json.encode(
        {
            "model": spec.model,
            "version": spec.version,
            "digest": spec.digest,
            "inputs": [_port(port) for port in spec.inputs],
            "outputs": [_port(port) for port in spec.outputs],
            "rows": batching.rows,
            "delay_us": batching.delay_us,
            "queue": batching.queue,
            "queue_bytes": batching.queue_bytes,
            "instances": batching.instances,
            "seconds": batching.seconds,
            "run_seconds": batching.run_seconds,
        }
    )


def _port(port: Port) -> dict[str, Any]:
    text = port.datatype == "BYTES" and port.field.dtype != "bytes"
    return {"name": port.name, "datatype": port.datatype, "shape": port.shape, "text": text}
