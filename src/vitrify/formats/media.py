"""Pictures and sound beside a model: read to their last byte, so that nothing hides behind them.

No loader of models opens them, and what an image library does with them is its own affair. Where each ends:
PNG https://www.w3.org/TR/png-3/, JPEG https://www.w3.org/Graphics/JPEG/itu-t81.pdf, GIF
https://www.w3.org/Graphics/GIF/spec-gif89a.txt, RIFF (WAV, WebP) https://www.rfc-editor.org/rfc/rfc9649.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vitrify.core.protocols import Files
    from vitrify.reading.files import HeldFiles

_SIZE = struct.Struct("<I")
_CHUNK = struct.Struct(">I4s")
_CRC = 4
_GIF_TRAILER, _GIF_IMAGE, _GIF_EXTENSION = b";,!"
_JPEG_MARKER = re.compile(rb"\xff+[\x01-\xcf\xd8-\xfe]")
"""No marker ends a scan's data that is a stuffed byte or a restart."""
_JPEG_END, _JPEG_SCAN = b"\xd9", b"\xda"


class Media:
    """PNG, JPEG, GIF, WebP and WAV."""

    def detect(self, files: Files) -> bool:
        """Say whether a file begins as one of them does."""
        return _kind(head(files)) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return which kind it is."""
        view, where = _view(files, entry)
        kind, end = _end(view, where)
        return {"kind": kind, "bytes": end}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield the bytes behind its end, where there are any."""
        view, where = _view(files, entry)
        kind, end = _end(view, where)
        if end < len(view):
            message = f"{len(view) - end} bytes behind the end of the {kind} at {end}: another file may hide there"
            yield Finding(place=where, message=message, rule="hidden-bytes", remedy="save the picture again")

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, HeldFiles]]:
        """Yield what stands behind its end."""
        from vitrify.reading.files import HeldFiles

        view, where = _view(files, entry)
        _, end = _end(view, where)
        if end < len(view):
            yield f"bytes from {end}", HeldFiles({"rest": view[end:]})


def _view(files: Files, entry: Mapping[str, Any]) -> tuple[memoryview, str]:
    where = str(entry.get("file", only(files)))
    return files.map(where), where


def _kind(start: bytes) -> str | None:
    known = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF87a": "GIF", b"GIF89a": "GIF"}
    if start[:4] == b"RIFF" and start[8:12] in {b"WEBP", b"WAVE"}:
        return start[8:12].decode()
    return next((kind for mark, kind in known.items() if start.startswith(mark)), None)


def _end(view: memoryview, where: str) -> tuple[str, int]:
    """Return the kind, and where it ends."""
    kind = _kind(bytes(view[:12])) or refuse(where, "no picture or sound of a known kind")
    try:
        end = _ENDS[kind](view)
    except (struct.error, IndexError):
        refuse(where, f"a {kind} that is cut off")
    return (kind, end) if 0 < end <= len(view) else refuse(where, f"a {kind} that is cut off or damaged")


def _png(view: memoryview) -> int:
    at, name = 8, b""
    while name != b"IEND":
        size, name = _CHUNK.unpack_from(view, at)
        at += _CHUNK.size + size + _CRC
    return at


def _riff(view: memoryview) -> int:
    size = int(_SIZE.unpack_from(view, 4)[0])
    end = 8 + size
    return min(end + size % 2, max(end, len(view)))  # the last padding byte is often left out


def _gif(view: memoryview) -> int:
    at = 13 + _colors(view[10])
    while view[at] != _GIF_TRAILER:
        if view[at] == _GIF_IMAGE:  # its frame, its colours, the first code's size
            at += 10 + _colors(view[at + 9]) + 1
        elif view[at] == _GIF_EXTENSION:
            at += 2
        else:
            return 0
        while size := view[at]:
            at += size + 1
        at += 1
    return at + 1


def _colors(flags: int) -> int:
    """Return the bytes of a table of colours."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _jpeg(view: memoryview) -> int:
    at = 2
    while marker := _JPEG_MARKER.match(view, at):
        at, kind = marker.end(), marker[0][-1:]
        if kind == _JPEG_END:
            return at
        at += max(2, int.from_bytes(view[at : at + 2]))
        if kind == _JPEG_SCAN:
            following = _JPEG_MARKER.search(view, at)
            at = following.start() if following else len(view)
    return 0


_ENDS: dict[str, Callable[[memoryview], int]] = {"PNG": _png, "JPEG": _jpeg, "GIF": _gif, "WEBP": _riff, "WAVE": _riff}
