"""The Python literals of an ``.npy`` header, by a grammar of our own: nothing is evaluated or compiled.

Text, integers, True, False and None, in dictionaries, lists and tuples, as ``repr`` writes them; integers may end in
the ``L`` of Python 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 32
MAX_DIGITS = 20

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?[0-9]+)L?"""
    r"""|(?P<word>True|False|None)(?![A-Za-z0-9_])"""
    r"""|[ub]?(?P<text>'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")"""
    r"""|(?P<mark>[{}()\[\],:])|(?P<end>\Z))"""
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_PLAIN = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_WORDS = {"True": True, "False": False, "None": None}
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_MAX_CODE = 0x10FFFF


class _Token(NamedTuple):
    kind: str
    text: str


def parse(text: str, *, where: str) -> Any:
    """Return the value.

    Args:
        text: The whole literal; spaces may follow it.
        where: What it is, for error messages.

    Raises:
        MalformedError: It is no such literal, or a dictionary has a key twice.
        LimitExceededError: It is nested more than ``MAX_DEPTH`` levels deep, or has an integer of too many digits.
    """
    parser = _Parser(text, where)
    value = parser.value(parser.next(), MAX_DEPTH)
    if parser.next().kind != "end":
        parser.fail("something follows it")
    return value


class _Parser:
    """One pass over the text, a token at a time."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._at = 0

    def fail(self, why: str) -> Any:
        refuse(self._where, f"no literal at character {self._at} ({why})")

    def next(self) -> _Token:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            self.fail("neither text, number, True, False, None nor bracket")
        assert found is not None
        assert found.lastgroup is not None
        self._at = found.end()
        return _Token(found.lastgroup, found[found.lastgroup])

    def value(self, token: _Token, depth: int) -> Any:
        if depth == 0:
            exceed(self._where, f"a literal nested more than {MAX_DEPTH} levels deep")
        match token.kind:
            case "number" if len(token.text) > MAX_DIGITS:
                exceed(self._where, f"a number of {len(token.text)} digits")
            case "number":
                return int(token.text)
            case "word":
                return _WORDS[token.text]
            case "text":
                return _ESCAPE.sub(self._escaped, token.text[1:-1])
            case "mark" if token.text in _CLOSING:
                return self._bracket(token.text, depth)
            case _:
                pass
        return self.fail("a value was expected")

    def _bracket(self, opening: str, depth: int) -> Any:
        if opening == "{":
            return self._dictionary(depth)
        items, commas = self._items(_CLOSING[opening], lambda one: self.value(one, depth - 1))
        if opening == "(":
            return tuple(items) if commas or not items else items[0]
        return items

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        def pair(token: _Token) -> tuple[Any, Any]:
            if token.kind != "text" or self.next() != _Token("mark", ":"):
                self.fail("text and a colon were expected")
            return self.value(token, depth), self.value(self.next(), depth - 1)

        pairs, _ = self._items("}", pair)
        found = dict(pairs)
        if len(found) != len(pairs):
            self.fail("a key stands twice")
        return found

    def _items(self, closing: str, item: Callable[[_Token], Any]) -> tuple[list[Any], int]:
        """Return the items up to the closing bracket, and how many commas there were."""
        found: list[Any] = []
        commas = 0
        while (token := self.next()) != _Token("mark", closing):
            if len(found) != commas:
                self.fail("a comma was expected")
            found.append(item(token))
            token = self.next()
            if token == _Token("mark", closing):
                break
            if token != _Token("mark", ","):
                self.fail(f"a comma or {closing} was expected")
            commas += 1
        return found, commas

    def _escaped(self, found: re.Match[str]) -> str:
        digits = found[1] or found[2] or found[3]
        if digits and int(digits, 16) <= _MAX_CODE:
            return chr(int(digits, 16))
        if found[4] not in _PLAIN:
            self.fail("an escape that repr does not write")
        return _PLAIN[found[4]]
