"""Scalars and flow collections of YAML: what stands on one line, once its lines have been put together."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from vitrify.reading.malformed import exceed, refuse

MAX_DEPTH = 50
FORBIDDEN = "&*!%@`|>"
"""How a plain scalar may not start: an anchor, an alias, a tag, a directive, what is reserved, a block."""

_INTEGER = re.compile(r"[-+]?\d{1,300}")
_FLOAT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_QUOTED = re.compile(r"""'[^']*+(?:''[^']*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+\"""", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>[\[\]{},:])|(?P<text>'[^']*+(?:''[^']*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+")|(?P<plain>[^\s\[\]{},:"'#](?:[^\[\]{},:]|:(?=[^\s\[\]{},]))*))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "e": "\x1b",
    "v": "\v",
    " ": " ",
    "_": "\xa0",
    "N": "\x85",
    "L": "\u2028",
    "P": "\u2029",
}


def typed(text: str) -> Any:
    """Return what a plain scalar means, by the core schema."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def quoted_end(text: str) -> int:
    """Return where the quoted text ends that ``text`` starts with; 0 where it does not end."""
    found = _QUOTED.match(text)
    return found.end() if found else 0


def unquoted(text: str, *, where: str) -> str:
    """Return the text that stands in quotes.

    Raises:
        MalformedError: It has an escape that means nothing.
    """
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    plain = _ESCAPE.sub(_plain_escape, text[1:-1])
    try:
        return str(json.loads(f'"{plain}"', strict=False))
    except ValueError:
        refuse(where, f"quoted text with an escape that means nothing: {text[:40]}")


def _plain_escape(found: re.Match[str]) -> str:
    """Return an escape as JSON has it, or the character where it has none."""
    if code := found[1] or found[2]:
        return json.dumps(chr(min(int(code, 16), 0x10FFFF)))[1:-1]
    return json.dumps(_ESCAPES[found[3]])[1:-1] if found[3] in _ESCAPES else found[0]


class Balance:
    """How many brackets are open, line by line: a quote may hold one open over the end of a line."""

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """Go over a line; return it without its comment, and whether something is still open."""
        at = 0
        while at < len(text):
            character = text[at]
            if self.quote:
                escaped = character == "\\" if self.quote == '"' else text.startswith("''", at)
                at += escaped
                if character == self.quote and not escaped:
                    self.quote = ""
            elif character == "#" and (not at or text[at - 1] == " "):
                text = text[:at].rstrip(" ")
            elif character in "\"'" and (not at or text[at - 1] in " [{,:"):
                self.quote = character
            else:
                self.depth += (character in "[{") - (character in "]}")
            at += 1
        return text, self.depth > 0 or bool(self.quote)


class Flow:
    """``[a, b]`` and ``{a: b}``, of which JSON is a case."""

    def __init__(self, text: str, *, where: str) -> None:
        """Take the whole value, its lines joined by spaces."""
        self._where, self._at = where, 0
        self._tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                self._wrong()
            kind = str(token.lastgroup)
            self._tokens.append((kind, token[kind].rstrip()))
            at = token.end()

    def _wrong(self) -> NoReturn:
        refuse(self._where, "a list or a mapping that is not read here")

    def parse(self) -> Any:
        """Return the value.

        Raises:
            MalformedError: It is none, or has anchors, tags or a key twice.
            LimitExceededError: It is nested deeper than ``MAX_DEPTH``.
        """
        found = self._value(MAX_DEPTH)
        return found if self._at == len(self._tokens) else self._wrong()

    def _take(self, mark: str) -> bool:
        taken = self._at < len(self._tokens) and self._tokens[self._at] == ("mark", mark)
        self._at += taken
        return taken

    def _value(self, depth: int) -> Any:
        if depth == 0:
            exceed(self._where, f"YAML nested more than {MAX_DEPTH} levels deep")
        if self._take("["):
            return self._list(depth)
        return self._mapping(depth) if self._take("{") else self._scalar()

    def _scalar(self) -> Any:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("mark", "")
        self._at += 1
        if kind == "mark" or (kind == "plain" and text[0] in FORBIDDEN):
            self._wrong()
        return unquoted(text, where=self._where) if kind == "text" else typed(text)

    def _list(self, depth: int) -> list[Any]:
        found = []
        while not self._take("]"):
            found.append(self._value(depth - 1))
            self._between("]")
        return found

    def _mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._take("}"):
            start = self._at
            self._scalar()
            kind, text = self._tokens[start]
            key = unquoted(text, where=self._where) if kind == "text" else text
            if key in found or key == "<<" or not self._take(":"):
                self._wrong()
            found[key] = self._value(depth - 1)
            self._between("}")
        return found

    def _between(self, close: str) -> None:
        if not self._take(",") and self._tokens[self._at : self._at + 1] != [("mark", close)]:
            self._wrong()
