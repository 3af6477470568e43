"""What a piece of work takes, in units that no busy machine changes: calls made, and memory above what there was.

A test never asserts on time. That work grows with its input and not with its square shows in calls; that it ends at
all is what ``pytest.mark.timeout`` is for.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


def calls(work) -> int:
    """Return how many calls this thread makes, of functions of Python and of C, while it does some work."""
    count = 0

    def hear(_frame, event, _arg):
        nonlocal count
        count += event in ("call", "c_call")

    former = sys.getprofile()
    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(former)
    return count


def assert_linear(work, size: int) -> None:
    """Assert that ``work(2 * size)`` makes hardly more than twice the calls of ``work(size)``.

    Args:
        work: Called with a size. It is called once before, so that what is imported and cached is no matter.
        size: Large enough for what grows to be more than what does not.
    """
    work(size)
    once, twice = calls(lambda: work(size)), calls(lambda: work(2 * size))
    assert twice <= 2.2 * once + 1000, (once, twice)


@dataclass
class Memory:
    """Bytes that this process held at most in a block, above what it held before."""

    used: int = 0


@contextmanager
def memory():
    """Measure the memory of a block; the answer is complete when the block has ended.

    The peak starts anew, so that an earlier and larger one hides nothing; and what earlier tests left behind stays out
    of the garbage collections that the block causes.
    """
    measured = Memory()
    gc.freeze()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    try:
        yield measured
    finally:
        measured.used = _resident("VmHWM") - before
        gc.unfreeze()


def _resident(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


PEAK = """
def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
"""
"""For a process of its own: KiB that it has held at most. ``ru_maxrss`` begins with what its parent held."""
