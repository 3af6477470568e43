"""The words and signs of MLIR's text, one by one with a look ahead.

Specification: https://mlir.llvm.org/docs/LangRef/#notation.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 1_000_000
"""Words and signs that are read of any text, and one more for each five bytes of it."""

_TOKEN = re.compile(
    rb"""\s+|//[^\n]*
    |(?P<string>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")|(?P<open>"[^\n]*+)
    |(?P<value>%(?:[0-9]+|[A-Za-z_$.\-][\w$.\-]*)(?:[:\#][0-9]+)?)
    |(?P<symbol>@(?:[A-Za-z_][\w$.]*|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"))
    |(?P<label>\^[\w$.\-]+)
    |(?P<alias>[\#!][A-Za-z_][\w$.\-]*)
    |(?P<word>[A-Za-z_][\w$.]*)
    |(?P<number>0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)
    |(?P<mark>->|::|.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(rb'\\([0-9a-fA-F]{2}|[\\"nt])')
_LETTERS = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}
_LONG = 1 << 16


class Token(NamedTuple):
    """A token: its kind, its text (of a string without its quotes, of a symbol without its sign), where it lies."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def sign(self) -> str:
        """The text where it is a sign; a string that holds one is none."""
        return self.text if self.kind == "mark" else ""


END = Token("end", "", 0, 0)


class Tokens:
    """A text as tokens."""

    def __init__(self, view: memoryview, where: str) -> None:
        """Take the text; nothing is read yet."""
        self._view, self._where = view, where
        self._ahead: deque[Token] = deque()
        self._rest = self._split()

    def peek(self, distance: int = 0) -> Token:
        """Return a token that is still to come; ``END`` behind the last."""
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._rest, END))
        return self._ahead[distance]

    def next(self) -> Token:
        """Return the next token, and go on."""
        found = self.peek()
        self._ahead.popleft()
        return found

    def _split(self) -> Iterator[Token]:
        left = MOST + len(self._view) // 5
        for found in _TOKEN.finditer(self._view):
            kind = found.lastgroup
            if kind is None:
                continue
            left -= 1
            if left < 0:
                exceed(self._where, "has more words and signs than a text of its size needs")
            if kind == "open":  # whoever looked on would look for its end behind each quote that follows
                refuse(self._where, "has a text that is never closed")
            start, end = found.span()
            text = b"" if end - start > _LONG else found[0]
            if kind == "symbol":
                text = text[1:]
            if text[:1] == b'"' and len(text) > 1:
                text = _ESCAPE.sub(_unescaped, text[1:-1])
            yield Token(kind, text.decode("utf-8", "replace"), start, end)


def _unescaped(found: re.Match[bytes]) -> bytes:
    return _LETTERS.get(found[1]) or bytes.fromhex(found[1].decode())
