"""What stands behind the last byte that a file's own format leads to: another file may hide there.

Zeros, however many, are padding: nobody takes them for a file. Whatever else is there is told, and looked at as a file
of its own, so that the reader is told what it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.reading.files import HeldFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files

_CONTENT = re.compile(rb"[^\0]")


def hidden(view: memoryview, end: int, where: str) -> Iterator[Finding]:
    """Yield that there is something behind the end, where it is more than padding."""
    if _CONTENT.search(view, end):
        message = f"{len(view) - end} bytes at {end} that nothing in it leads to: another file may hide there"
        yield Finding(place=where, message=message, rule="hidden-bytes", remedy="save the model again")


def parts(view: memoryview, end: int) -> Iterator[tuple[str, Files]]:
    """Yield what is behind the end as a file of its own, without the padding before it."""
    if found := _CONTENT.search(view, end):
        yield f"bytes from {found.start()}", HeldFiles({"rest": view[found.start() :]})
