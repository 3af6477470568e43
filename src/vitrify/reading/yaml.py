"""YAML as model files write it: mappings, lists, scalars, quoted and folded text; nothing that could mean more.

A subset: no tags, no anchors and aliases (with which a small file means an enormous one), no merge keys, one
document, every key once and text. What is outside it is refused, not guessed. ``yes`` and ``no`` are text, as in
YAML 1.2, and so are dates.

Specification: https://yaml.org/spec/1.2.2/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from vitrify.reading._yaml_scalars import FORBIDDEN, MAX_DEPTH, Balance, Flow, quoted_end, typed, unquoted
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BYTES = 4 * 1024 * 1024

_BLOCK = re.compile(r"(?P<style>[|>])(?P<hints>[-+1-9]{0,2})(?:\s+#.*)?")


@dataclass(frozen=True)
class _Line:
    """A line with content: its number from 1, its indentation, and its text without that."""

    number: int
    indent: int
    text: str

    @property
    def is_item(self) -> bool:
        return self.text == "-" or self.text.startswith("- ")


def parse(data: bytes | memoryview, *, where: str) -> Any:
    """Return the value of the only document.

    Raises:
        MalformedError: It is no YAML, or has what this subset leaves out.
        LimitExceededError: It is longer than ``MAX_BYTES`` or nested deeper than ``MAX_DEPTH``.
    """
    if len(data) > MAX_BYTES:
        exceed(where, f"{len(data)} bytes of YAML, more than {MAX_BYTES}")
    try:
        text = bytes(data).decode("utf-8-sig")
    except ValueError:
        refuse(where, "no UTF-8")
    return _Parser(text, where).document()


class _Parser:
    """Lines, and the place among them."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # YAML 1.2.2, section 5.4
        self._at = 0
        self._depth = 0

    def document(self) -> Any:
        line = self._peek()
        if line is not None and (line.text == "---" or line.text.startswith("--- ")):
            self._lines[line.number - 1] = " " * 3 + line.text[3:]
        value = self._block(-1)
        line = self._peek()
        if line is not None:
            self._wrong(line, "a second value, or an indentation that fits nothing")
        return value

    def _wrong(self, line: _Line, what: str) -> NoReturn:
        refuse(self._where, f"line {line.number}: {what}, which is not read here")

    def _peek(self) -> _Line | None:
        """Return the next line with content."""
        while self._at < len(self._lines):
            raw = self._lines[self._at]
            if raw.rstrip() == "...":
                self._end()
                return None
            text = raw.lstrip(" ")
            if text.startswith("\t") and text.strip():
                refuse(self._where, f"line {self._at + 1}: a tab where spaces indent")
            if text.strip() and not text.startswith("#"):
                return _Line(self._at + 1, len(raw) - len(text), text.rstrip())
            self._at += 1
        return None

    def _end(self) -> None:
        """Go to the end of the document, behind which nothing may stand."""
        rest, self._at = self._at + 1, len(self._lines)
        if any(raw.strip() for raw in self._lines[rest:]):
            refuse(self._where, f"line {rest + 1}: a second document")

    def _block(self, above: int) -> Any:
        """Return the value of lines that are indented more than ``above``; None where there are none."""
        line = self._peek()
        if line is None or line.indent <= above:
            return None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            exceed(self._where, f"YAML nested more than {MAX_DEPTH} levels deep")
        if line.is_item:
            value: Any = self._list(line.indent)
        elif self._key(line):
            value = self._mapping(line.indent)
        else:
            self._at = line.number
            value = self._scalar(line, line.text, above)
        self._depth -= 1
        return value

    def _list(self, indent: int) -> list[Any]:
        found = []
        while (line := self._peek()) is not None and line.indent == indent and line.is_item:
            # What follows the dash is a block of its own, as if the dash were a space.
            self._lines[line.number - 1] = " " * (indent + 1) + line.text[1:]
            found.append(self._block(indent))
        return found

    def _mapping(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self._peek()) is not None and line.indent == indent and (split := self._key(line)):
            key, rest = split
            if key in found or key == "<<":
                self._wrong(line, f"the key {key!r} a second time, or a merge")
            self._at = line.number
            found[key] = self._value(line, rest, indent)
        return found

    def _key(self, line: _Line) -> tuple[str, str] | None:
        """Return a line's key and what follows it; None where it has none."""
        text = line.text
        if text == "?" or text.startswith("? "):
            self._wrong(line, "a key with a question mark before it")
        if text[0] in "\"'":
            end = quoted_end(text)
            rest = text[end:].lstrip(" ")
            if not end or not (rest == ":" or rest.startswith(": ")):
                return None
            return unquoted(text[:end], where=f"{self._where}: line {line.number}"), rest[1:].lstrip(" ")
        end = text.find(": ")
        end = end if end >= 0 else len(text) - 1 if text.endswith(":") else -1
        if end < 0 or text[0] in "[{]},#" or " #" in text[:end]:
            return None
        if text[0] in FORBIDDEN:
            self._wrong(line, f"{text[0]!r} before a key")
        return text[:end].rstrip(), text[end + 1 :].lstrip(" ")

    def _value(self, line: _Line, text: str, indent: int) -> Any:
        if text and not text.startswith("#"):
            return self._scalar(line, text, indent)
        below = self._peek()
        # A list may stand right below its key.
        return self._block(indent - 1 if below is not None and below.indent == indent and below.is_item else indent)

    def _scalar(self, line: _Line, text: str, indent: int) -> Any:
        """Return a value that begins on a line; the next line is the first that was not read."""
        if block := _BLOCK.fullmatch(text):
            return self._literal(block["style"], block["hints"], indent)
        if text[0] in FORBIDDEN:
            self._wrong(line, f"a tag, an anchor, an alias or a directive ({text[:20]!r})")
        where = f"{self._where}: line {line.number}"
        if text[0] in "[{":
            return Flow(self._joined(text, indent), where=where).parse()
        if text[0] not in "\"'":
            return self._plain(text, indent)
        whole = self._joined(text, indent)
        end = quoted_end(whole)
        if not end or whole[end:].strip():
            self._wrong(line, "quoted text that does not end, or with something behind it")
        return unquoted(whole[:end], where=where)

    def _more(self, indent: int) -> str | None:
        """Return the next line if it still belongs to a scalar, empty ones too."""
        if self._at >= len(self._lines):
            return None
        raw = self._lines[self._at]
        if raw.strip() and len(raw) - len(raw.lstrip(" ")) <= indent:
            return None
        self._at += 1
        return raw

    def _literal(self, style: str, hints: str, indent: int) -> str:
        """Return text whose lines are kept (``|``) or folded (``>``)."""
        taken = list(iter(lambda: self._more(indent), None))
        filled = [raw for raw in taken if raw.strip()]
        own = next((int(hint) + max(indent, 0) for hint in hints if hint.isdigit()), None)
        width = own if own is not None else len(filled[0]) - len(filled[0].lstrip(" ")) if filled else 0
        lines = [raw[width:] for raw in taken]
        text = "\n".join(lines) if style == "|" else _folded_block(lines)
        if "+" in hints:
            return text + "\n" * bool(lines)
        return text.rstrip("\n") + "\n" * ("-" not in hints and bool(filled))

    def _joined(self, text: str, indent: int) -> str:
        """Return a flow value or quoted text with all of its lines: a break is a space, an empty line a break."""
        balance = Balance()
        first, is_open = balance.feed(text)
        lines, escapes = [first], [balance.quote == '"']
        # What closes a bracket may stand at any indentation.
        least = indent if text[0] in "\"'" else -1
        while is_open and (raw := self._more(least)) is not None:
            line, is_open = balance.feed(raw.strip())
            lines.append(line)
            escapes.append(balance.quote == '"')
        return _folded(lines, escapes)

    def _plain(self, text: str, indent: int) -> Any:
        pieces, read = [_without_comment(text)], self._at
        while pieces[-1] == text and (line := self._peek()) is not None and line.indent > indent:
            if self._key(line):
                self._wrong(line, "a key inside a text")
            between = self._lines[read : line.number - 1]
            if any(raw.strip() for raw in between):
                self._wrong(line, "a text that goes on behind a comment")
            self._at = read = line.number
            text = line.text
            pieces += [*("" for _ in between), _without_comment(text)]
        return typed(pieces[0]) if len(pieces) == 1 else _folded(pieces)


def _without_comment(text: str) -> str:
    return text.partition(" #")[0].rstrip()


def _folded(lines: list[str], escapes: Sequence[bool] = ()) -> str:
    """Join lines: a break is a space, an empty line a break; one that is escaped is nothing.

    Args:
        lines: Without indentation.
        escapes: For each line, whether a backslash escapes at its end; none does where this is shorter.
    """
    pieces: list[str] = lines[:1]
    breaks = 0
    for before, line in enumerate(lines[1:]):
        last = lines[before]
        if not line:
            breaks += 1
        elif any(escapes[before : before + 1]) and (len(last) - len(last.rstrip("\\"))) % 2:
            pieces[-1] = pieces[-1][:-1]
            pieces.append(line)
        else:
            pieces.append("\n" * breaks if breaks else " ")
            pieces.append(line)
            breaks = 0
    return "".join(pieces) + "\n" * breaks


def _folded_block(lines: list[str]) -> str:
    """Join the lines of a ``>`` block: as :func:`_folded`, but the breaks around a line that is indented more stay.

    Source: YAML 1.2.2, section 8.1.3.
    """
    text, breaks, kept = "", 0, True
    for line in lines:
        if not line:
            breaks += 1
            continue
        indented = line[0] in " \t"
        if not text:
            text = "\n" * breaks
        elif kept or indented:
            text += "\n" * (breaks + 1)
        else:
            text += "\n" * breaks or " "
        text += line
        breaks, kept = 0, indented
    return text + "\n" * (breaks if text else max(0, breaks - 1))
