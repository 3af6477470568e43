"""Shadows: copies of requests that a second version answers, too; nobody waits for it, its answers are only compared.

A shadow never holds up those who wait: copies stand in a bounded queue and are dropped when it is full; they are asked
one at a time, after everybody else, and only while nobody waits for the version that is asked.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import VitrifyError
from vitrify.serve.rollout.comparing import Comparison
from vitrify.serve.values import NORMAL, Infer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays
    from vitrify.serve.settings import ShadowSettings
    from vitrify.serve.values import Done, Reply

Ask = Callable[["Infer"], "Future[Reply]"]
"""Asks the engine, in its event loop."""
Busy = Callable[[str, str], bool]
"""Says whether somebody waits for a version of a model."""
Fault = Callable[[str, BaseException], None]

CLIENT = "(shadow)"
"""Who asks for copies: no client is called so, for logs, figures and canaries to tell them apart."""
_QUEUE = 256
_QUEUE_BYTES = 64 * 1024 * 1024
_ROWS = 1024
"""Rows of a batch that are copied at most."""
_PAIRS = 64
_SECONDS = 30.0
"""A copy that is not answered by then has failed."""
_POLL, _QUIET_POLL = 0.05, 0.002
_PATIENCE = 5.0
"""Seconds that a copy waits for a version which others wait for; then it is dropped."""


@dataclass(frozen=True)
class _Copy:
    """Some rows that were answered.

    Attributes:
        model: Which model.
        answered: The version that answered.
        shadow: The version that is to answer, too.
        inputs: The rows.
        outputs: The answer.
        seconds: How long it took.
        size: Bytes of both.
        whole: Whether the answer has all outputs.
    """

    model: str
    answered: str
    shadow: str
    inputs: Arrays
    outputs: Arrays
    seconds: float
    size: int
    whole: bool


class Shadows:
    """The shadows of all models. It may be used from any thread.

    Args:
        fault: Told what goes wrong in the thread.
    """

    def __init__(self, fault: Fault) -> None:
        """Start without any."""
        self.fault = fault
        self._shadows: dict[str, tuple[ShadowSettings, ...]] = {}
        self._some = threading.Condition()
        self._waiting: deque[_Copy] = deque()
        self._bytes = 0
        self._dropped: dict[str, int] = {}
        self._tally = threading.Lock()  # apart: whoever answers requests never waits for a comparison
        self._pairs: dict[tuple[str, str, str], Comparison] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, shadows: Mapping[str, tuple[ShadowSettings, ...]]) -> None:
        """Take the shadows that count, by model."""
        self._shadows = {model: some for model, some in shadows.items() if some}

    def see(self, done: Done) -> None:
        """Copy some requests of a batch, where a shadow wants them. Quick, and it never raises."""
        shadows = self._shadows.get(done.model)
        if shadows is None or not self.open:
            return
        for shadow in shadows:
            if shadow.version != done.version and shadow.fraction > 0:
                self._offer(done, shadow)

    @property
    def open(self) -> bool:
        """Whether copies are answered."""
        return self._thread is not None and not self._ended.is_set()

    def start(self, ask: Ask, busy: Busy = lambda _model, _version: False) -> None:
        """Answer copies from now on, while the version that is asked is not busy."""
        self._thread = threading.Thread(target=self._run, args=(ask, busy), name="vitrify-shadow", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """End the thread; copies that still wait are forgotten."""
        self._ended.set()
        with self._some:
            self._waiting.clear()
            self._some.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    def report(self, model: str) -> dict[str, Any]:
        """Return what was found about a model's shadows, as JSON."""
        with self._tally:
            pairs = [
                {"shadow": shadow, "answered": answered, **one.show()}
                for (name, shadow, answered), one in sorted(self._pairs.items(), key=lambda pair: pair[0])
                if name == model
            ]
        return {"model": model, "dropped": self._dropped.get(model, 0), "pairs": pairs}

    def forget(self, model: str) -> None:
        """Begin the report of a model anew."""
        self._dropped.pop(model, None)
        with self._tally:
            self._pairs = {at: one for at, one in self._pairs.items() if at[0] != model}

    def _offer(self, done: Done, shadow: ShadowSettings) -> None:
        first = 0
        chosen: list[int] = []
        parts = []
        for part in done.parts:
            if part.client != CLIENT and random.random() < shadow.fraction:  # noqa: S311 (no secret)
                chosen.extend(range(first, first + part.rows))
                parts.append(part)
            first += part.rows
        if not chosen:
            return
        if len(self._waiting) >= _QUEUE:
            self._drop(done.model, len(parts))
            return
        rows = None if len(chosen) == first <= _ROWS else chosen[:_ROWS]
        inputs, outputs = (_rows(arrays, rows, first) for arrays in (done.inputs, done.outputs))
        size = _size(inputs) + _size(outputs)
        seconds = max(part.waited for part in parts) + done.seconds
        copy = _Copy(done.model, done.version, shadow.version, inputs, outputs, seconds, size, done.whole)
        with self._some:
            room = len(self._waiting) < _QUEUE and self._bytes + size <= _QUEUE_BYTES
            if room:
                self._bytes += size
                self._waiting.append(copy)
                self._some.notify()
        if not room:
            self._drop(done.model, len(parts))

    def _drop(self, model: str, count: int) -> None:
        with self._some:
            self._dropped[model] = self._dropped.get(model, 0) + count

    def _run(self, ask: Ask, busy: Busy) -> None:
        while not self._ended.is_set():
            with self._some:
                while not self._waiting and not self._ended.is_set():
                    self._some.wait()
                if self._ended.is_set():
                    return
                copy = self._waiting.popleft()
            try:
                if self._quiet(copy, busy):
                    self._ask(ask, copy)
                else:
                    self._drop(copy.model, 1)
            except Exception as error:  # noqa: BLE001 (the boundary of the thread)
                self.fault("vitrify-shadow", error)
            finally:
                with self._some:
                    self._bytes -= copy.size

    def _quiet(self, copy: _Copy, busy: Busy) -> bool:
        """Wait until nobody waits for the version; say whether that came in time."""
        until = time.monotonic() + _PATIENCE
        while busy(copy.model, copy.shadow):
            if self._ended.is_set() or time.monotonic() > until:
                return False
            time.sleep(_QUIET_POLL)
        return True

    def _ask(self, ask: Ask, copy: _Copy) -> None:
        request = Infer(
            copy.model,
            copy.inputs,
            version=copy.shadow,
            deadline=time.monotonic() + _SECONDS,
            priority=NORMAL,  # it comes last
            client=CLIENT,
        )
        began = time.monotonic()
        answer = ask(request)
        failed, outputs = "", {}
        try:
            while True:
                try:
                    outputs = answer.result(_POLL).outputs
                    break
                except TimeoutError:
                    if self._ended.is_set() or time.monotonic() > request.deadline + _SECONDS:
                        answer.cancel()
                        failed = "TimeoutError"
                        break
        except VitrifyError as error:
            failed = type(error).__name__
        seconds = time.monotonic() - began
        with self._tally:
            pair = self._pair(copy)
            if pair is None:
                return
            if failed:
                pair.errors[failed] += 1
            else:
                asked = {name: one for name, one in outputs.items() if copy.whole or name in copy.outputs}
                pair.add(copy.outputs, asked, (copy.seconds, seconds))

    def _pair(self, copy: _Copy) -> Comparison | None:
        at = (copy.model, copy.shadow, copy.answered)
        if at not in self._pairs and len(self._pairs) >= _PAIRS:
            return None
        return self._pairs.setdefault(at, Comparison())


def _size(arrays: Arrays) -> int:
    return sum(map(_bytes, arrays.values()))


def _bytes(array: Any) -> int:
    if array.dtype != object:
        return int(array.nbytes)
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in array.ravel().tolist())


def _rows(arrays: Arrays, rows: list[int] | None, of: int) -> Arrays:
    """Return copies of some rows, or of all; what does not lie along the batch is copied whole."""
    whole = {name: np.asanyarray(array) for name, array in arrays.items()}
    return {
        name: array[rows] if rows is not None and array.ndim and len(array) == of else array.copy()
        for name, array in whole.items()
    }
