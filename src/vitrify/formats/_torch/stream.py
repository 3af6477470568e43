"""Pickles and raw numbers one after the other: how PyTorch wrote its files before it took ZIP files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.pickles.dialect import PLAIN, Dialect
from vitrify.pickles.machine import audit
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from vitrify.core.report import Finding
    from vitrify.pickles.machine import Audit


class Stream:
    """A place in a file, from which pickles and bytes are taken.

    Attributes:
        at: Where the next one begins.
        findings: What was found in the pickles so far.
    """

    def __init__(self, view: memoryview, *, where: str) -> None:
        """Begin at the first byte."""
        self._view = view
        self._where = where
        self.at = 0
        self.findings: list[Finding] = []

    @property
    def left(self) -> int:
        """How many bytes follow."""
        return self._view.nbytes - self.at

    def pickle(self, dialect: Dialect = PLAIN) -> tuple[memoryview, Audit]:
        """Take one pickle, up to and with its STOP: its bytes, and what it would do. A broken one is the last."""
        start = self.at
        found = audit(self._view, where=self._where, dialect=dialect, start=start, stacked=False)
        self.findings += found.findings
        self.at = found.end if found.error is None else self._view.nbytes
        return self._view[start : self.at], found

    def take(self, size: int) -> memoryview:
        """Take bytes.

        Raises:
            MalformedError: There are not as many.
        """
        if not 0 <= size <= self.left:
            refuse(self._where, f"cut off: {size} bytes were expected at {self.at}, and {self.left} follow")
        self.at += size
        return self._view[self.at - size : self.at]
