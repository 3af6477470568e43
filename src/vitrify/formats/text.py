"""Plain text: JSON, CSV, YAML, Markdown, a licence, a vocabulary. It is read by people and parsers, and runs nowhere.

Every byte is asked for: what only begins as text is none. Text that some loader takes for more (a pickle of protocol 0,
Python source, a model) is of that format, which is asked first. Specification: https://www.unicode.org/versions/latest/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.reading.files import only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_CHUNK = 1024 * 1024
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""What no text holds; ESC is kept, as logs have colours."""
_HIGH_CONTROL = re.compile(r"[\x80-\x9f]")
_MAX_JSON = 1024 * 1024


class Text:
    """UTF-8, UTF-16 with a byte order mark, or Latin-1 text."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is text from its first to its last byte."""
        name = only(files)
        return name is not None and encoding(files.map(name)) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the encoding, the number of lines, and whether it is JSON.

        Raises:
            MalformedError: It is no text.
        """
        where = str(entry.get("file", only(files)))
        view = files.map(where)
        found = encoding(view) or refuse(where, "no text: it has bytes that no text has")
        lines = sum(part.count("\n") for part in _decoded(view, found))
        return {"encoding": found, "lines": lines, "bytes": len(view), "json": _is_json(view)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield nothing: what it says to which program is not its own doing."""
        where = str(entry.get("file", only(files)))
        if encoding(files.map(where)) is None:
            refuse(where, "no text: it has bytes that no text has")
        return ()


def encoding(view: memoryview) -> str | None:
    """Return how a text is encoded; None for what is no text."""
    start = bytes(view[:3])
    marked = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    for name in (marked,) if marked else ("utf-8", "latin-1"):
        forbidden = (_CONTROL, _HIGH_CONTROL) if name == "latin-1" else (_CONTROL,)
        try:
            if not any(pattern.search(part) for part in _decoded(view, name) for pattern in forbidden):
                return name
        except UnicodeDecodeError:
            continue
    return None


def _decoded(view: memoryview, name: str) -> Iterator[str]:
    """Yield the text in parts, so that a large one is never in memory twice.

    Raises:
        UnicodeDecodeError: It is not encoded so.
    """
    from codecs import getincrementaldecoder

    decoder = getincrementaldecoder(name)()
    for start in range(0, len(view), _CHUNK):
        yield decoder.decode(bytes(view[start : start + _CHUNK]), final=start + _CHUNK >= len(view))


def _is_json(view: memoryview) -> bool:
    from vitrify.core.errors import MalformedError
    from vitrify.reading.json import parse

    try:
        parse(view, where="text", most=_MAX_JSON)
    except MalformedError:
        return False
    return True
