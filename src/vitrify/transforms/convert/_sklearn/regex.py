r"""Python's regular expressions in RE2, with Python's Unicode classes spelled out.

RE2 finds the leftmost match and prefers the first alternative, as Python does. What it does not have (looking
around, back references, atomic groups) or means otherwise (``\b`` beyond ASCII) is refused.

Source: https://docs.python.org/3/library/re.html; https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_parser: Any = re._parser  # type: ignore[attr-defined]  # noqa: SLF001 (Python's own parser, as of 3.11)

_INSIDE = {
    "CATEGORY_WORD": r"\p{L}\p{N}_",
    "CATEGORY_DIGIT": r"\p{Nd}",
    "CATEGORY_SPACE": r"\t-\r\x1c-\x20\x{85}\p{Z}",
}
"""Python's classes, as what stands between brackets."""

_OUTSIDE = {name.replace("_", "_NOT_", 1): name for name in _INSIDE}

_BOUNDARY = r"\b"
_FLAG = "(?u)"


def run_of_words(pattern: str) -> str | None:
    """Return what stands between two word boundaries, if it is made of word characters alone; else None."""
    body = pattern.removeprefix(_FLAG)
    if not (body.startswith(_BOUNDARY) and body.endswith(_BOUNDARY) and len(body) > 2 * len(_BOUNDARY)):
        return None
    inner = body[len(_BOUNDARY) : -len(_BOUNDARY)]
    return inner if _is_words(_parser.parse(inner)) else None


def translate(pattern: str) -> str:
    """Return the same expression for RE2.

    Raises:
        ValueError: It says something that RE2 cannot, as the end of a sentence.
    """
    parsed = _parser.parse(pattern)
    if parsed.state.flags & ~re.UNICODE.value:
        msg = "sets flags"
        raise ValueError(msg)
    if parsed.state.groups > 1:
        msg = "has a capturing group, which is then the token"
        raise ValueError(msg)
    if parsed.getwidth()[0] == 0:
        msg = "matches the empty text"
        raise ValueError(msg)
    return _sequence(parsed)


def _sequence(items: Any) -> str:
    return "".join(_said(str(kind), value) for kind, value in items)


def _said(kind: str, value: Any) -> str:
    if kind not in _SAID:
        what = "a boundary or an end" if kind == "AT" else f"{kind.lower().replace('_', ' ')}"
        msg = f"has {what}, which RE2 does not have, or takes otherwise"
        raise ValueError(msg)
    return _SAID[kind](value)


def _literal(code: int) -> str:
    return rf"\x{{{code:x}}}"


def _class(items: Any) -> str:
    if len(items) == 1 and str(items[0][1]) in _OUTSIDE:  # one of \\W, \\D, \\S alone
        return f"[^{_INSIDE[_OUTSIDE[str(items[0][1])]]}]"
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    parts = "".join(_member(str(kind), value) for kind, value in items[negated:])
    return f"[{'^' if negated else ''}{parts}]"


def _member(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return _literal(value)
    if kind == "RANGE":
        return f"{_literal(value[0])}-{_literal(value[1])}"
    if kind == "CATEGORY" and str(value) in _INSIDE:
        return _INSIDE[str(value)]
    msg = f"has {str(value).lower().replace('category_', '').replace('_', ' ')} inside brackets"
    raise ValueError(msg)


def _repeat(value: Any, lazy: str = "") -> str:
    least, most, items = value
    end = "" if str(most) == "MAXREPEAT" else int(most)
    return f"(?:{_sequence(items)}){{{least},{end}}}{lazy}"


def _group(value: Any) -> str:
    _, added, removed, items = value
    if added or removed:
        msg = "sets flags inside a group"
        raise ValueError(msg)
    return f"(?:{_sequence(items)})"


_SAID: dict[str, Callable[[Any], str]] = {
    "LITERAL": _literal,
    "NOT_LITERAL": lambda value: f"[^{_literal(value)}]",
    "IN": _class,
    "ANY": lambda _: r"[^\n]",
    "MAX_REPEAT": _repeat,
    "MIN_REPEAT": lambda value: _repeat(value, "?"),
    "BRANCH": lambda value: f"(?:{'|'.join(map(_sequence, value[1]))})",
    "SUBPATTERN": _group,
}


def _is_words(items: Any) -> bool:
    """Return whether every character that an expression matches is a word character."""
    return all(_is_word(str(kind), value) for kind, value in items)


def _is_word(kind: str, value: Any) -> bool:
    return kind in _WORDS and bool(_WORDS[kind](value))


_WIDEST = 0x3000
"""Characters of a range that are looked at one by one."""


def _is_range_of_words(value: tuple[int, int]) -> bool:
    low, high = value
    return high - low < _WIDEST and all(re.match(r"\w", chr(code)) for code in range(low, high + 1))


_WORDS: dict[str, Callable[[Any], bool]] = {
    "LITERAL": lambda value: bool(re.match(r"\w", chr(value))),
    "RANGE": _is_range_of_words,
    "CATEGORY": lambda value: str(value) in {"CATEGORY_WORD", "CATEGORY_DIGIT"},
    "IN": lambda value: str(value[0][0]) != "NEGATE" and _is_words(value),
    "MAX_REPEAT": lambda value: _is_words(value[2]),
    "MIN_REPEAT": lambda value: _is_words(value[2]),
    "BRANCH": lambda value: all(map(_is_words, value[1])),
    "SUBPATTERN": lambda value: _is_words(value[3]),
}
"""Whether what is matched is made of word characters; an anchor or a look around is not."""
