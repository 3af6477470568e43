"""The operands of protocol 0: numbers and text as a line of ASCII, read as strictly as they are written.

CPython reads some of them leniently, and its two unpicklers not alike: blanks, underscores, octal numbers. No pickler
writes those.
"""

from __future__ import annotations

import re

_INTEGER = rb"-?(?:0|[1-9][0-9]{0,4000})"
_INDEX = rb"(?:0|[1-9][0-9]{0,9})"
_FLOAT = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?|-?inf|-?nan"
_ESCAPE = rb"\\(x[0-9a-fA-F]{2}|[0-3][0-7]{2}|[0-7]{1,2}|[abfnrtv\\'\"])|\\"
_ESCAPES = {
    **dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True)),
    **dict(zip(b"\\'\"", b"\\'\"", strict=True)),
}


def integer(line: bytes, *, long: bool) -> int:
    """Return the operand of INT, where ``00`` and ``01`` are booleans, or of LONG, which may end in ``L``.

    Raises:
        ValueError: It is no such number.
    """
    if long:
        line = line.removesuffix(b"L")
    elif line in {b"00", b"01"}:
        return line == b"01"
    if not re.fullmatch(_INTEGER, line):
        raise ValueError(line)
    return int(line)


def index(line: bytes) -> int:
    """Return the operand of PUT and GET.

    Raises:
        ValueError: It is no place of a memo.
    """
    if not re.fullmatch(_INDEX, line):
        raise ValueError(line)
    return int(line)


def number(line: bytes) -> float:
    """Return the operand of FLOAT.

    Raises:
        ValueError: It is no such number.
    """
    if not re.fullmatch(_FLOAT, line):
        raise ValueError(line)
    return float(line)


def quoted(line: bytes) -> str:
    """Return the operand of STRING, a literal of Python 2, its bytes read as Latin-1.

    Raises:
        ValueError: It has no quotes, or an escape that no ``repr`` of Python 2 has.
    """
    if len(line) < 2 or line[0] != line[-1] or line[:1] not in {b"'", b'"'}:  # noqa: PLR2004 (two quotes)
        raise ValueError(line)
    return re.sub(_ESCAPE, _unescape, line[1:-1]).decode("latin1")


def _unescape(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if code is None:
        raise ValueError(found)
    if code[0] in _ESCAPES:
        return bytes([_ESCAPES[code[0]]])
    return bytes([int(code[1:], 16) if code[:1] == b"x" else int(code, 8)])
