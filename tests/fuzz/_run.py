"""How every fuzz target is run: honest files, changed at random, looked at, with an eye on time and memory.

A target is a module of this folder with three functions:

* ``seeds(quick=False)`` returns honest cases, quickly made ones only where that is asked for;
* ``change(case, honest, chance)`` returns a case made from one of them (``honest`` are all of them);
* ``check(case)`` looks at one, says whether anything accepted it, and raises whatever should not have been.

An input depends on nothing but the seed and its own number, so that one that kills the process can be made again.
"""

from __future__ import annotations

import gc
import itertools
import random
import signal
import threading
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 2.0
"""Of processor time, that one input of up to a MiB may take, and each further MiB as much."""
MEMORY = 64 << 20
"""Bytes over its own size that one input may take."""
SMALL = 1 << 16
"""Bytes of a case that is changed twice as seldom as an empty one: large ones take longer, and show hardly more."""
HANG = 30
"""Seconds of processor time after which an input is given up."""


@dataclass(frozen=True)
class Case:
    """Files as bytes by name, and what they were before they were changed: mostly the name of a format."""

    kind: str
    files: dict[str, bytes]

    @property
    def size(self):
        return sum(map(len, self.files.values()))

    @property
    def entry(self):
        """What a stranger's file is looked at with."""
        return {"file": next(iter(self.files))} if len(self.files) == 1 else {}


@dataclass(frozen=True)
class Trial:
    """What one look at a case took, and what was wrong.

    Attributes:
        what: Tells one kind of failure from another: an error and where it was raised, or what there was too much of.
        problem: The same at length; empty for nothing.
    """

    accepted: bool
    seconds: float
    memory: int
    what: str = ""
    problem: str = ""

    @property
    def costly(self):
        """Whether nothing was wrong but time or memory, which another look may need less of."""
        return self.what in ("time", "memory")


@dataclass
class Outcome:
    """What a run did.

    Attributes:
        inputs, accepted, kinds: How many there were, and of each kind.
        seconds: Processor time of all.
        slowest, largest: Seconds and bytes of the input that took most.
        failures: The first case of each kind of failure, by what tells it from others, with its problem.
    """

    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    largest: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failures: dict[str, tuple[Case, str]] = field(default_factory=dict)

    def add(self, case, trial):
        self.inputs += 1
        self.accepted += trial.accepted
        self.kinds[case.kind] += 1
        self.seconds += trial.seconds
        self.slowest, self.largest = max(self.slowest, trial.seconds), max(self.largest, trial.memory)
        if trial.problem:
            self.failures.setdefault(f"{case.kind if trial.costly else ''} {trial.what}", (case, trial.problem))

    def __str__(self):
        return "\n".join(f"{case.kind}: {problem}" for case, problem in self.failures.values())


class HangError(BaseException):
    """An input that takes far too long; nothing that is looked at catches it."""


def run(target, seconds, seed, *, inputs=None, quick=False, told=lambda number: None):
    """Fuzz for so long, or for so many inputs, and return what happened.

    Args:
        target: A module as above.
        seconds: For how long, at most.
        seed: What the inputs depend on.
        inputs: How many, beside the honest ones; None for as many as there is time for.
        quick: Whether only what is quickly made is changed.
        told: Hears the number of each input before it is looked at.
    """
    honest, outcome = target.seeds(quick=quick), Outcome()
    for case in honest:  # which imports and warms up all that an input would else be blamed for
        trial = attempt(target, case)
        if trial.what and not trial.costly:
            outcome.add(case, trial)
    end = time.monotonic() + seconds
    for number in itertools.count() if inputs is None else range(inputs):
        if time.monotonic() > end:
            break
        told(number)
        case = make(target, honest, seed, number)
        trial = attempt(target, case)
        if trial.costly:  # by mistake: something was imported, another process was in the way
            gc.collect()
            trial = attempt(target, case)
        outcome.add(case, trial)
    return outcome


def make(target, honest, seed, number):
    """Return one input of a run."""
    chance = random.Random(f"{seed} {number}")
    [case] = chance.choices(honest, [1 / (case.size + SMALL) for case in honest])
    return target.change(case, honest, chance)


def attempt(target, case):
    """Look at a case once, and measure it."""
    accepted, what, problem = False, "", ""
    before, began = _memory(reset=True), time.process_time()
    with warnings.catch_warnings(), _given_up():
        warnings.simplefilter("ignore")  # libraries warn about what a changed file may well say
        try:
            accepted = bool(target.check(case))
        except (Exception, HangError) as error:  # noqa: BLE001 (what a fuzzer is for)
            last = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} at {last.filename}:{last.lineno}"
            problem = traceback.format_exc()
    took, memory = time.process_time() - began, _memory() - before
    if not what and took > SECONDS * max(1, case.size / (1 << 20)):
        what, problem = "time", f"took {took:.1f} s"
    if not what and memory > MEMORY + case.size:
        what, problem = "memory", f"took {memory >> 20} MiB for {case.size} bytes"
    return Trial(accepted, took, memory, what, problem)


@contextmanager
def _given_up():
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_):
        raise HangError

    former = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def _memory(*, reset=False):
    """Return the bytes that this process holds, or has held at most since the last reset; 0 where no system tells."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_bytes(b"5")
        status = Path("/proc/self/status").read_bytes()
    except OSError:
        return 0
    mark = b"VmRSS:" if reset else b"VmHWM:"
    return int(status.partition(mark)[2].split(maxsplit=1)[0]) << 10
