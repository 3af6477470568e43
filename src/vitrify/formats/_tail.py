"""What stands behind the last byte that a file's own format leads to: another file may hide there.

Writers pad with zeros to a multiple of some small number; whatever else is there is told, and looked at as a file of
its own, so that the reader is told what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.reading.files import HeldFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files

_PADDING = 64
_BLOCK = 1 << 20


def hidden(view: memoryview, end: int, where: str) -> Iterator[Finding]:
    """Yield that there is something behind the end, where it is more than padding."""
    if not is_padding(view[end:]):
        message = f"{len(view) - end} bytes at {end} that nothing in it leads to: another file may hide there"
        yield Finding(place=where, message=message, rule="hidden-bytes", remedy="save the model again")


def parts(view: memoryview, end: int) -> Iterator[tuple[str, Files]]:
    """Yield what is behind the end as a file of its own, without the padding before it."""
    if is_padding(rest := view[end:]):
        return
    start = next(at for at in range(len(rest)) if rest[at]) if any(rest[:_PADDING]) else 0
    yield f"bytes from {end + start}", HeldFiles({"rest": rest[start:]})


def is_padding(rest: memoryview) -> bool:
    """Say whether there are only zeros, however many: nobody takes them for a file."""
    zeros = bytes(_BLOCK)
    return all(rest[at : at + _BLOCK] == zeros[: len(rest) - at] for at in range(0, len(rest), _BLOCK))
