"""Samples: what the versions of a canary predicted, and how long it took, of the last requests."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from vitrify.serve.values import Done

    Array = np.ndarray[Any, Any]

ROWS = 4096
"""So many rows, and so many latencies, are kept of each version."""
_ROWS_A_BATCH = 64
_COLUMNS = 64
_OUTPUTS = 16
_TEXT = 200
"""Characters of a text that are kept."""


class Samples:
    """What was seen of one version. It may be used from any thread."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._lock = threading.Lock()
        self._rows: dict[str, _Chunks] = {}
        self._latencies: deque[float] = deque(maxlen=ROWS)

    def add(self, done: Done, ignored: str) -> None:
        """Keep some rows of a batch, copied, and its latencies.

        Args:
            done: The batch.
            ignored: The client whose requests do not count; a batch with such is passed over.
        """
        if any(part.client == ignored for part in done.parts):
            return
        kept = {name: _some(array) for name, array in list(done.outputs.items())[:_OUTPUTS]}
        with self._lock:
            self._latencies.extend(part.waited + done.seconds for part in done.parts)
            for name, rows in kept.items():
                self._rows.setdefault(name, _Chunks()).add(rows)

    def latencies(self) -> Array:
        """Return the seconds from admission to the answer, one a request."""
        with self._lock:
            return np.array(self._latencies, dtype=np.float64)

    def outputs(self) -> dict[str, Array]:
        """Return rows of the outputs, by name."""
        with self._lock:
            kept = {name: list(rows.chunks) for name, rows in self._rows.items()}
        return {name: np.concatenate(_alike(chunks)) for name, chunks in kept.items() if chunks}


class _Chunks:
    """The last rows of an output, as they came."""

    def __init__(self) -> None:
        self.chunks: deque[Array] = deque()
        self._count = 0

    def add(self, rows: Array) -> None:
        self.chunks.append(rows)
        self._count += len(rows)
        while self._count - len(self.chunks[0]) >= ROWS:
            self._count -= len(self.chunks.popleft())


def _some(array: Any) -> Array:
    """Return a copy of some rows, spread over the batch, each flat and not too long."""
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan) if array.dtype.kind in "fiub" else array.filled(None)
    array = np.asarray(array)
    if array.ndim == 0:
        return np.empty((0, 1))
    rows = array[:: max(1, -(-len(array) // _ROWS_A_BATCH))]
    rows = rows.reshape(len(rows), -1)[:, :_COLUMNS]
    if rows.dtype.kind in "fiu":
        return np.array(rows)
    return np.array([[str(value)[:_TEXT] for value in row] for row in rows.tolist()], dtype=object)


def _alike(chunks: list[Array]) -> list[Array]:
    """Return the chunks that have as many columns as the last one: an output's length may change."""
    return [chunk for chunk in chunks if chunk.shape[1] == chunks[-1].shape[1]]
