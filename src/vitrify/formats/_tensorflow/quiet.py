"""Keep TensorFlow from writing to the screen: what it has to say is in the errors that it raises."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHATTY = ("tensorflow", "absl", "tf2onnx")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop what TensorFlow logs and warns of about its own internals while the block runs."""
    levels = {name: logging.getLogger(name).level for name in _CHATTY}
    try:
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


class _Silence:
    """What is done about file descriptor 2, which the process has once and threads share."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._wanted = 0
        self._kept: int | None = None

    def begin(self) -> None:
        """Let the descriptor lead nowhere; for whoever is not the first it does already."""
        with self._one_at_a_time:
            self._wanted += 1
            if self._wanted == 1:
                with contextlib.suppress(OSError):  # there is no such descriptor: nothing to drop
                    self._kept = os.dup(2)
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, 2)
                    os.close(nowhere)

    def end(self) -> None:
        """Let it lead where it did, once nobody wants silence any more."""
        with self._one_at_a_time:
            self._wanted -= 1
            if self._wanted == 0 and self._kept is not None:
                os.dup2(self._kept, 2)
                os.close(self._kept)
                self._kept = None


_SILENCE = _Silence()


@contextlib.contextmanager
def mute() -> Iterator[None]:
    """Drop what native code writes straight to file descriptor 2 while the block runs: a line an operator, of hundreds.

    The whole process is mute for that time, so the block has to be short, and its errors have to say all.
    """
    _SILENCE.begin()
    try:
        yield
    finally:
        _SILENCE.end()
