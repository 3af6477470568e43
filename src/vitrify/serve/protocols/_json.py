"""JSON as the REST protocols take it: piece by piece, so that an array of numbers never becomes a tree of objects.

An object is taken apart into its members, each still as text; whoever knows what a member is reads it. A name that
stands twice is refused, for readers differ in what that means. The tokens ``NaN``, ``Infinity`` and ``-Infinity``,
which Python and TensorFlow write although JSON has them not, are read as the strings of the same text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import msgspec

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.core.nesting import shallow
from vitrify.serve.web import Answer

Raw = msgspec.Raw

DEPTH = 64
"""No request is nested deeper; the native plane has the same."""
JSON = "application/json"
CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

BARE = {
    "NaN": rb'"\u004Ea\u004e"',
    "Infinity": rb'"I\u006Efi\u006eity"',
    "-Infinity": rb'"-I\u006Efi\u006eity"',
}
"""The same tokens as strings, escaped as nobody would: so that a token and a string can still be told apart."""

MOST_MEMBERS = 100_000
"""Of objects that are taken apart at a time; each costs more memory than its text."""
MOST_CONTAINERS = 2_000_000
"""Arrays and objects that become Python's own at a time; likewise."""

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?Infinity|NaN', re.DOTALL)
_SHOWN = 80


class _Name:
    """A member's name that is equal to no other, so that a dict keeps them all."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def request(body: bytes, where: str = "the body") -> dict[str, Raw]:
    """Return the members of the object that a body is.

    Raises:
        MalformedError: It is no JSON, no object, or has a name twice.
        LimitExceededError: It is nested too deep.
    """
    require_shallow(body, where)
    try:
        return members(body, where)
    except MalformedError:
        if (quoted := quote_constants(body)) == body:
            raise
    return members(quoted, where)


def require_shallow(body: bytes, where: str = "the body") -> None:
    """Refuse JSON that is nested too deep.

    Raises:
        LimitExceededError: It is.
    """
    try:
        shallow(body, DEPTH)
    except RecursionError as error:
        msg = f"{where}: {error}"
        raise LimitExceededError(msg) from error


def quote_constants(body: bytes) -> bytes:
    """Return JSON in which the tokens for what is no number are strings."""
    if b"NaN" not in body and b"Infinity" not in body:
        return body
    return _TOKENS.sub(lambda found: found[0] if found[0].startswith(b'"') else BARE[found[0].decode()], body)


def members(text: bytes | Raw, where: str) -> dict[str, Raw]:
    """Return the members of an object; what they hold is not looked at.

    Raises:
        MalformedError: It is no object, or has a name twice.
        LimitExceededError: It has too many.
    """
    return _unique(_taken_apart(text, dict[_Name, Raw], where, "an object"), where)


def objects(text: bytes | Raw, where: str, most: int) -> list[dict[str, Raw]]:
    """Return the members of each object of an array.

    Raises:
        MalformedError: It is no array of objects, or one has a name twice.
        LimitExceededError: There are more than ``most`` objects, or too many members.
    """
    _require_few(bytes(text), where)
    found = _taken_apart(text, list[dict[_Name, Raw]], where, "an array of objects")
    if len(found) > most:
        msg = f"{where}: {len(found)} objects, at most {most} are taken"
        raise LimitExceededError(msg)
    return [_unique(one, f"{where}[{index}]") for index, one in enumerate(found)]


def plain(text: bytes | Raw, where: str, kind: Any = Any) -> Any:
    """Return what a piece of JSON is, as Python has it.

    Args:
        text: UTF-8, not nested too deep.
        where: What it is, for the error message.
        kind: What it must be, as a type.

    Raises:
        MalformedError: It is no JSON, or something else.
        LimitExceededError: It is made of too many parts.
    """
    _require_few(bytes(text), where)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{where}: {error}"
        raise MalformedError(msg) from error


def loose(body: bytes | Raw, where: str = "the body") -> Any:
    """Return what a body is, with floats for the tokens ``NaN``, ``Infinity`` and ``-Infinity``.

    Raises:
        MalformedError: It is no JSON.
        LimitExceededError: It is nested too deep, or made of too many parts.
    """
    text = bytes(body)
    require_shallow(text, where)
    _require_few(text, where)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as first:
        if b"NaN" not in text and b"Infinity" not in text:
            msg = f"{where}: {first}"
            raise MalformedError(msg) from first
    try:
        return json.loads(text.decode())
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one
        msg = f"{where}: {error}"
        raise MalformedError(msg) from error


def answer(value: Any, status: int = 200) -> Answer:
    """Return an answer of JSON."""
    return Answer(status, msgspec.json.encode(value), {"content-type": JSON})


def error_answer(error: Exception, status: int) -> Answer:
    """Say an error as the Open Inference Protocol and TensorFlow Serving do."""
    return answer({"error": str(error)}, status)


def _unique(found: dict[_Name, Raw], where: str) -> dict[str, Raw]:
    result = {name.text: value for name, value in found.items()}
    if len(result) != len(found):
        names = [name.text for name in found]
        twice = next(name for name, count in Counter(names).items() if count > 1)
        msg = f"{where}: the name {twice[:_SHOWN]!r} stands twice"
        raise MalformedError(msg)
    return result


def _taken_apart(text: bytes | Raw, kind: Any, where: str, expected: str) -> Any:
    """Decode objects, whose names are counted while they come."""
    left = MOST_MEMBERS

    def name(_kind: type, text: str) -> _Name:
        nonlocal left
        left -= 1
        if left < 0:
            msg = f"{where}: more than {MOST_MEMBERS} members"
            raise LimitExceededError(msg)
        return _Name(text)

    try:
        return msgspec.json.decode(text, type=kind, dec_hook=name)
    except msgspec.ValidationError as error:
        msg = f"{where}: expected {expected} ({error})"
        raise MalformedError(msg) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{where}: not valid JSON ({error})"
        raise MalformedError(msg) from error


def _require_few(text: bytes, where: str) -> None:
    if len(text) > MOST_CONTAINERS and text.count(b"[") + text.count(b"{") > MOST_CONTAINERS:
        msg = f"{where}: more than {MOST_CONTAINERS} arrays and objects"
        raise LimitExceededError(msg, remedy="send fewer rows at a time, or whole tensors")
