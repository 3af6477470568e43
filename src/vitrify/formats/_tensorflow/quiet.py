"""Keep TensorFlow from writing to the screen: what it has to say is in the errors that it raises."""

from __future__ import annotations

import contextlib
import logging
import os
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


@contextlib.contextmanager
def mute() -> Iterator[None]:
    """Drop what native code writes straight to file descriptor 2 while the block runs: a line an operator, of hundreds.

    The whole process is mute for that time, so the block has to be short, and its errors have to say all.
    """
    try:
        kept = os.dup(2)
    except OSError:  # there is no such descriptor: nothing to drop
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
