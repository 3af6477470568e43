"""Text: ``s.*``.

Source: https://dmg.org/pfa/docs/library/#lib:string
"""

from __future__ import annotations

from vitrify.runtimes._pfa.library.base import Library
from vitrify.runtimes._pfa.types import PfaError

LIBRARY = Library()
_PAIR = "string, string -> string"
_FIND = "string, string -> int"
_ASK = "string, string -> boolean"
_MOST = 1 << 24
"""Characters of a text that is repeated, and columns of a number."""

LIBRARY.plain("s.len", "string -> int")(len)
LIBRARY.plain("s.substr", "string, int, int -> string")(lambda s, start, end: s[start:end])
LIBRARY.plain("s.contains", _ASK)(lambda s, needle: needle in s)
LIBRARY.plain("s.count", _FIND)(lambda s, needle: s.count(needle) if needle else 0)
LIBRARY.plain("s.index", _FIND)(str.find)
LIBRARY.plain("s.rindex", _FIND)(str.rfind)
LIBRARY.plain("s.startswith", _ASK)(str.startswith)
LIBRARY.plain("s.endswith", _ASK)(str.endswith)
LIBRARY.plain("s.join", "[string], string -> string")(lambda parts, sep: sep.join(parts))
LIBRARY.plain("s.concat", _PAIR)(lambda x, y: x + y)
LIBRARY.plain("s.lower", "string -> string")(str.lower)
LIBRARY.plain("s.upper", "string -> string")(str.upper)
LIBRARY.plain("s.lstrip", _PAIR)(str.lstrip)
LIBRARY.plain("s.rstrip", _PAIR)(str.rstrip)
LIBRARY.plain("s.strip", _PAIR)(str.strip)


@LIBRARY.plain("s.split", "string, string -> [string]")
def _split(s: str, sep: str) -> list[str]:
    return s.split(sep) if sep else list(s)


@LIBRARY.plain("s.repeat", "string, int -> string")
def _repeat(s: str, n: int) -> str:
    if len(s) * n > _MOST:
        msg = f"more than {_MOST} characters"
        raise PfaError(msg)
    return s * n


@LIBRARY.plain("s.substrto", "string, int, int, string -> string")
def _replace_part(s: str, start: int, end: int, replacement: str) -> str:
    first, last, _ = slice(start, end).indices(len(s))
    return s[:first] + replacement + s[max(first, last) :]


@LIBRARY.plain("s.replaceall", "string, string, string -> string")
def _replace_all(s: str, original: str, replacement: str) -> str:
    if (s.count(original) + 1) * len(replacement) > _MOST:
        msg = f"more than {_MOST} characters"
        raise PfaError(msg)
    return s.replace(original, replacement)


LIBRARY.plain("s.replacefirst", "string, string, string -> string")(lambda s, old, new: s.replace(old, new, 1))


@LIBRARY.plain("s.replacelast", "string, string, string -> string")
def _replace_last(s: str, original: str, replacement: str) -> str:
    before, found, after = s.rpartition(original) if original else (s, "", "")
    return before + replacement + after if found or not original else s


@LIBRARY.plain("s.translate", "string, string, string -> string")
def _translate(s: str, old: str, new: str) -> str:
    places = {letter: new[place] if place < len(new) else "" for place, letter in enumerate(old)}
    return "".join(places.get(letter, letter) for letter in s)


@LIBRARY.plain("s.int", "long -> string", "long, int, boolean -> string")
def _int(x: int, width: int = 0, zeros: bool = False) -> str:  # noqa: FBT001, FBT002 (the language's)
    if abs(width) > _MOST or (zeros and width < 0):
        msg = "negative width cannot be used with zero-padding" if zeros else "too wide"
        raise PfaError(msg, 39240)
    text = str(x)
    return text.zfill(width) if zeros else text.ljust(-width) if width < 0 else text.rjust(width)


@LIBRARY.plain("s.hex", "long -> string", "long, int, boolean -> string")
def _hex(x: int, width: int = 0, zeros: bool = False) -> str:  # noqa: FBT001, FBT002 (the language's)
    if x < 0:
        msg = "negative number"
        raise PfaError(msg, 39111)
    if abs(width) > _MOST or (zeros and width < 0):
        msg = "negative width cannot be used with zero-padding" if zeros else "too wide"
        raise PfaError(msg, 39110)
    text = f"{x:x}"
    return text.zfill(width) if zeros else text.ljust(-width) if width < 0 else text.rjust(width)
