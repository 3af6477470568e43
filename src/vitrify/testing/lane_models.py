"""Models, specifications and requests to try lanes with; see :mod:`.lanes`."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vitrify.core.errors import UnavailableError
from vitrify.core.signature import BATCH, Field
from vitrify.serve.lanes import Batching, LaneSpec
from vitrify.serve.ports import port
from vitrify.serve.values import Infer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Lane, MakeLane, Run, Watch
    from vitrify.serve.values import Reply

LIMIT = 60.0
"""Seconds that a test waits for what must come, on a machine that has much else to do."""
WIDTH = 3

INPUTS = (Field(name="x", dtype="float32", shape=(BATCH, WIDTH)),)
OUTPUTS = (
    Field(name="twice", dtype="float32", shape=(BATCH, WIDTH)),
    Field(name="first", dtype="int64", shape=(BATCH,)),
)


def twice(inputs: Arrays) -> Arrays:
    """Return twice the input, and the first value of each row: what ``INPUTS`` and ``OUTPUTS`` describe."""
    x = inputs["x"]
    return {"twice": x * 2, "first": x[:, 0].astype(np.int64)}


def spec(inputs: Iterable[Field] = INPUTS, outputs: Iterable[Field] = OUTPUTS, **batching: Any) -> LaneSpec:
    """Return what a lane is told; keywords are those of :class:`Batching`."""
    ends = [tuple(port(field) for field in side) for side in (inputs, outputs)]
    settings = Batching(**{"rows": 8, "delay_us": 0, "seconds": LIMIT, "run_seconds": LIMIT, **batching})
    return LaneSpec("glass", "3", f"sha256:{'0' * 64}", ends[0], ends[1], settings, hot=inputs is INPUTS)


def row(*values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return one row of ``x`` for each value."""
    column = np.array(values, np.float32).reshape(-1, 1)
    return column + np.arange(WIDTH, dtype=np.float32) * np.float32(0.125)


def ask(*values: float, **more: Any) -> Infer:
    """Return a request with one row for each value; keywords are those of :class:`Infer`."""
    return Infer("glass", {"x": row(*values)}, **more)


def answer(future: Future[Reply]) -> Arrays:
    """Wait for the outputs."""
    return future.result(LIMIT).outputs


def error(future: Future[Reply]) -> BaseException:
    """Wait for the error; there must be one."""
    raised = future.exception(LIMIT)
    assert raised is not None, "it was answered"
    return raised


def insist(lane: Lane, *values: float) -> tuple[Arrays, int]:
    """Ask until it is answered, and return the outputs and how often it was not.

    For a lane whose ``run_seconds`` are so few that a machine that stalls takes longer for a model that does nothing.
    """
    end, failures = time.monotonic() + LIMIT, 0
    while True:
        try:
            return answer(lane.submit(ask(*values))), failures
        except UnavailableError:
            failures += 1
            assert time.monotonic() < end, "it was never answered"
            time.sleep(0.001)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition.

    Raises:
        AssertionError: It did not come true.
    """
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"it never came true that {what}"
        time.sleep(0.001)


class Model:
    """A model that remembers its batches, and that can be held.

    Args:
        function: What it computes.
        held: Whether every run waits until :meth:`release`.

    Attributes:
        batches: The inputs of each run, copied, in the order in which the runs began.
    """

    def __init__(self, function: Run = twice, *, held: bool = False) -> None:
        self.batches: list[Arrays] = []
        self._function = function
        self._entered = threading.Semaphore(0)
        self._free = threading.Event()
        if not held:
            self._free.set()

    def __call__(self, inputs: Arrays) -> Arrays:
        """Run."""
        self.batches.append({name: array.copy() for name, array in inputs.items()})
        self._entered.release()
        assert self._free.wait(LIMIT), "nobody released the model"
        return self._function(inputs)

    def entered(self) -> None:
        """Wait until one more run has begun."""
        assert self._entered.acquire(timeout=LIMIT), "the model was not run"

    def release(self) -> None:
        """Let every run go on."""
        self._free.set()

    @property
    def firsts(self) -> list[list[int]]:
        """The first value of each row, batch by batch."""
        return [batch["x"][:, 0].astype(int).tolist() for batch in self.batches]


def plug(lane: Lane, model: Model) -> Future[Reply]:
    """Occupy a held model with a row of -1, so that what is submitted next waits."""
    future = lane.submit(ask(-1))
    model.entered()
    return future


@contextmanager
def opened(make: MakeLane, run: Run, watch: Watch | None = None, **settings: Any) -> Iterator[Lane]:
    """Open a lane, and close it whatever happens; a held model is released first."""
    lane = make(spec(**settings), run, watch)
    try:
        yield lane
    finally:
        if isinstance(run, Model):
            run.release()
        lane.close(LIMIT)


def same(outputs: Arrays, *values: float) -> None:
    """Assert that outputs are those of a request with a row for each value, bit for bit."""
    expected = twice({"x": row(*values)})
    assert list(outputs) == list(expected)
    for name, array in expected.items():
        assert (outputs[name].dtype, outputs[name].shape) == (array.dtype, array.shape)
        assert outputs[name].tobytes() == array.tobytes()


def refuses_negatives(inputs: Arrays) -> Arrays:
    """Be a model that raises where any row is negative."""
    if (inputs["x"] < 0).any():
        raise ZeroDivisionError("a negative row")
    return twice(inputs)


class LaneSuite:
    """A class of tests with the fixture ``make``."""

    @pytest.fixture
    def make(self) -> MakeLane:
        """Return what opens a lane."""
        raise NotImplementedError("a conformance suite needs the fixture `make`")
