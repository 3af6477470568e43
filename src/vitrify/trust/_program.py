"""Running a program that keeps a key: for so long and no longer, and of what it says so much and no more."""

from __future__ import annotations

import selectors
import subprocess
import time
from dataclasses import dataclass
from select import PIPE_BUF
from typing import IO, TYPE_CHECKING

from vitrify.core.errors import MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 120
"""A program that takes longer is stopped; a person may have to touch a module meanwhile."""

_MAX_COMPLAINT = 500
_CHUNK = 64 * 1024


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        status: What it returned; negative where a signal ended it.
        output: What it wrote to its standard output.
        complaint: The end of what it wrote to its standard error.
    """

    status: int
    output: bytes
    complaint: str


def run(command: Sequence[str], data: bytes, *, limit: int, what: str) -> Ended:
    """Run a program to its end.

    It stays in this process's group and session, because it may have to ask a person for a PIN at the terminal. So a
    program that is stopped leaves behind what it started itself; nothing here waits for that.

    Args:
        command: The program and its arguments.
        data: What it reads.
        limit: As many bytes it may write.
        what: What it is called in messages.

    Raises:
        UnavailableError: It could not be started, or took too long.
        MalformedError: It wrote more.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 (the caller says why it is to be trusted)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
    except OSError as error:
        msg = f"could not run {what}: {error.strerror or error}"
        raise UnavailableError(
            msg, remedy="check that it is a program of this machine (a script begins with #!)"
        ) from error
    try:
        output, complaint = _talk(process, data, limit, time.monotonic() + SECONDS)
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        msg = f"{what} took more than {SECONDS} s"
        raise UnavailableError(msg, remedy="run it by itself, and see what it waits for") from error
    finally:
        process.kill()  # does nothing to one that has ended
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    if len(output) > limit:
        msg = f"{what} wrote more than {limit} bytes"
        raise MalformedError(msg, remedy="run it by itself, and see what it writes")
    return Ended(process.returncode, output, complaint.decode(errors="replace").strip()[-_MAX_COMPLAINT:])


def _talk(process: subprocess.Popen[bytes], data: bytes, limit: int, deadline: float) -> tuple[bytes, bytes]:
    """Write, and read both streams, until it has ended or written too much."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    said, complained, rest = bytearray(), bytearray(), memoryview(data)
    heard = {process.stdout: said, process.stderr: complained}
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdin, selectors.EVENT_WRITE, process.stdin)
        for pipe in heard:
            ready.register(pipe, selectors.EVENT_READ, pipe)
        while ready.get_map() and len(said) <= limit:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            events = ready.select(left)
            for pipe in (key.data for key, _ in events):
                if pipe is process.stdin:
                    more = rest = _write(pipe, rest)
                else:
                    more = pipe.read(_CHUNK)
                    heard[pipe].extend(more)
                if not more:
                    ready.unregister(pipe)
                    pipe.close()
            del complained[: -4 * _MAX_COMPLAINT]  # a character of UTF-8 has at most four bytes
    if len(said) <= limit:
        process.wait(max(0.0, deadline - time.monotonic()))
    return bytes(said), bytes(complained)


def _write(pipe: IO[bytes], rest: memoryview) -> memoryview:
    """Write so much as surely does not block; who does not read what he is told has heard enough."""
    try:
        return rest[pipe.write(rest[:PIPE_BUF]) :]
    except BrokenPipeError:
        return rest[:0]
