"""The prediction log: what models were asked and what they answered, for monitoring and for ``vitrify replay``.

It sees every batch after its answers have gone, copies the rows of the requests that are in the sample, and writes them
by a thread. What does not fit into its buffer is dropped and counted. A process that is killed loses what is in the
buffer, and leaves no half file that anybody reads.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError
from vitrify.serve.lanes._batch import size
from vitrify.serve.observe._kept import Kept, copied, knows_rows
from vitrify.serve.observe._prediction_files import remove_partial, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from vitrify.serve.values import Done, Part

_SECONDS = 30.0
_FILE_BYTES = 8 * 1024 * 1024
_BUFFER_BYTES = 64 * 1024 * 1024
_MOST_FILES = 1000
"""That are waited for at a time: whoever leaves out other inputs each time must not make files without end."""
_HEAD = 200
"""Bytes that are counted for a request beside its values."""
_WHOLE = 2**64
_LONGEST = 500


@dataclass
class _Pile:
    """What will be one file."""

    since: float
    kept: list[Kept] = field(default_factory=list)
    bytes: int = 0


class PredictionLog:
    """Keeps predictions. It may be told from any thread.

    Args:
        folder: Where; it is made.
        sample: Fraction of the requests. Whether a request is in it depends on nothing but its id, where it has one:
            so every process, and every version that answers it, decides alike.
        seconds: No row waits longer for its file.
        file_bytes: A file is written when its rows are so many bytes in memory.
        buffer_bytes: No more wait; what would be more is dropped.
        say: The log: an event and its facts.
    """

    def __init__(
        self,
        folder: str | Path,
        sample: float = 1.0,
        *,
        seconds: float = _SECONDS,
        file_bytes: int = _FILE_BYTES,
        buffer_bytes: int = _BUFFER_BYTES,
        say: Callable[..., None] = lambda _event, **_facts: None,
    ) -> None:
        """Make the folder, and start the thread.

        Raises:
            UsageError: The folder cannot be made, or the sample is no fraction.
        """
        if not 0 <= sample <= 1:
            msg = f"prediction_sample is {sample}; expected a fraction from 0 to 1"
            raise UsageError(msg)
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            remove_partial(self._folder)
        except OSError as error:
            msg = f"the folder {folder} of the prediction log cannot be used: {error.strerror}"
            raise UsageError(msg, remedy="choose another folder for prediction_log") from error
        self._sample = sample
        self._seconds, self._file_bytes, self._buffer_bytes = seconds, file_bytes, buffer_bytes
        self._say = say
        self._piles: dict[Hashable, _Pile] = {}
        self._held = 0
        self._closing = False
        self.rows = self.dropped = self.files = 0
        self._work = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="vitrify-predictions", daemon=True)
        self._thread.start()

    def wanted(self, id_: str) -> bool:
        """Whether a request is in the sample."""
        if self._sample >= 1:
            return True
        if not id_:
            return random.random() < self._sample  # noqa: S311 (no secret)
        position = int.from_bytes(hashlib.blake2b(id_.encode(errors="surrogatepass"), digest_size=8).digest())
        return position < self._sample * _WHOLE

    def watch(self, done: Done) -> None:
        """See a batch; it is a :data:`vitrify.serve.lanes.Watch`."""
        wanted = [self.wanted(part.id) for part in done.parts]
        if not any(wanted):
            return
        parts = tuple(part for part, is_wanted in zip(done.parts, wanted, strict=True) if is_wanted)
        all_bytes = size(done.inputs) + size(done.outputs)
        bytes_ = all_bytes * len(parts) // len(done.parts) + _HEAD * len(parts)
        rowwise = knows_rows(done)
        if not (rowwise or len(done.parts) == 1) or not self._take(bytes_):
            self._drop(parts)
            return
        inputs, outputs = (copied(side, done.parts, wanted) for side in (done.inputs, done.outputs))
        named = (time.time(), done.model, done.version, done.digest)
        self._pile(Kept(*named, parts, whole=not rowwise, inputs=inputs, outputs=outputs, bytes=bytes_))

    def close(self, seconds: float = 10.0) -> None:
        """Write what waits, for at most so many seconds."""
        with self._work:
            self._closing = True
            self._work.notify()
        self._thread.join(seconds)

    def _take(self, bytes_: int) -> bool:
        """Take room in the buffer, before anything is copied into it."""
        with self._work:
            if self._closing or self._held + bytes_ > self._buffer_bytes:
                return False
            self._held += bytes_
            return True

    def _drop(self, parts: Sequence[Part]) -> None:
        with self._work:
            self.dropped += sum(part.rows for part in parts)

    def _pile(self, kept: Kept) -> None:
        with self._work:
            pile = self._piles.get(kept.key)
            if pile is None and len(self._piles) >= _MOST_FILES:
                self._held -= kept.bytes
                self.dropped += kept.rows
                return
            if pile is None:
                pile = self._piles[kept.key] = _Pile(time.monotonic())
                self._work.notify()
            pile.kept.append(kept)
            pile.bytes += kept.bytes
            if pile.bytes >= self._file_bytes:
                self._work.notify()

    def _run(self) -> None:
        while (due := self._due()) or not self._closing:
            for pile in due:
                self._write(pile.kept)

    def _due(self) -> list[_Pile]:
        """Wait until files are to be written; return their rows, none at the end."""
        with self._work:
            while True:
                now = time.monotonic()
                found = {key: pile for key, pile in self._piles.items() if self._closing or self._is_due(pile, now)}
                if found or self._closing:
                    for key in found:
                        del self._piles[key]
                    return list(found.values())
                next_ = min((pile.since for pile in self._piles.values()), default=None)
                self._work.wait(None if next_ is None else max(0.0, next_ + self._seconds - now))

    def _is_due(self, pile: _Pile, now: float) -> bool:
        return pile.bytes >= self._file_bytes or pile.since + self._seconds <= now

    def _write(self, kept: Sequence[Kept]) -> None:
        """Write a file; where rows cannot be written, halves of them, so that the others are."""
        rows = sum(one.rows for one in kept)
        error: Exception | None = None
        try:
            write_file(self._folder, kept)
        except Exception as found:  # noqa: BLE001 (the thread goes on, whatever a model gave)
            if len(kept) > 1 and not isinstance(found, OSError):
                self._write(kept[: len(kept) // 2])
                self._write(kept[len(kept) // 2 :])
                return
            error = found
            self._say("prediction log", level="error", model=kept[0].model, rows=rows, error=repr(found)[:_LONGEST])
        with self._work:
            self._held -= sum(one.bytes for one in kept)
            self.rows += 0 if error else rows
            self.files += 0 if error else 1
            self.dropped += rows if error else 0
