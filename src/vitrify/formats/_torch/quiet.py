"""Keep PyTorch's exporters from writing to the screen: what they have to say is in the errors that they raise."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHATTY = {"torch", "onnxscript", "onnx_ir", "coremltools"}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop what PyTorch logs, prints and warns of about its own internals while the block runs."""
    loggers = [logger for name, logger in logging.root.manager.loggerDict.items() if name.split(".")[0] in _CHATTY]
    handlers = {handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers}
    handlers |= {logging.lastResort} if logging.lastResort else set()
    for handler in handlers:
        handler.addFilter(_nothing)
    shared = [handler for handler in logging.root.handlers if handler not in handlers]
    for handler in shared:
        handler.addFilter(_others)
    try:
        nowhere = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(_nothing)
        for handler in shared:
            handler.removeFilter(_others)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def _others(record: logging.LogRecord) -> bool:
    """Let the records of everyone else through."""
    return record.name.partition(".")[0] not in _CHATTY
