"""JSON from a stranger: bounded in size and depth, every key once.

Source: RFC 8259; NaN and infinities are read as Python and most of the field write them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

from vitrify.core.nesting import shallow
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    import msgspec

MAX_BYTES = 256 * 1024 * 1024
"""No honest model's JSON is larger; XGBoost's largest come near."""
MAX_DEPTH = 200
MAX_PEEKED = 2 * 1024 * 1024
"""Bytes that are parsed for a look, where only Python's lenient parser takes them."""

_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_LETTER = rb"\\u00(?:5[fF]|[46][0-9a-fA-F]|[57][0-9aA])"
"""An escaped letter or underscore: nobody honest writes one, and a key that is looked for may be written so."""


def parse(data: bytes | memoryview, *, where: str, most: int = MAX_BYTES) -> Any:
    """Return the value.

    Args:
        data: UTF-8 text, with or without a byte order mark.
        where: What it is, for the error message.
        most: Bytes that are parsed at most; parsed JSON takes up to twenty times as much memory.

    Raises:
        MalformedError: It is no JSON, or an object has a key twice: readers would differ in which they take.
        LimitExceededError: It is longer than ``most``, or nested more than ``MAX_DEPTH`` levels deep.
    """
    if len(data) > most:
        exceed(where, f"{len(data)} bytes of JSON, more than {most}")
    try:
        text = shallow(bytes(data)).decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_unique)
        if "\\ud" in text.lower():  # half a surrogate pair is no character: what would print it, or write it, fails
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        exceed(where, "JSON nested too deep")
    except ValueError as error:
        refuse(where, f"not valid JSON ({error})")
    if _deeper_than(MAX_DEPTH, value):
        exceed(where, f"JSON nested more than {MAX_DEPTH} levels deep")
    return value


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    listed = list(pairs)
    found = dict(listed)
    if len(found) != len(listed):
        ((twice, _),) = Counter(key for key, _ in listed).most_common(1)
        msg = f"the key {twice!r} stands twice in one object"
        raise ValueError(msg)
    return found


def _deeper_than(limit: int, value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        parts = (part for node in level for part in (node.values() if isinstance(node, dict) else node))
        level = [part for part in parts if isinstance(part, dict | list)]
    return bool(level)


def peek(view: memoryview, *keys: str) -> dict[str, bytes]:
    """Return members of an object by name, as JSON, at the cost of a look; nothing where the bytes are no object.

    Whatever Python's own reader would take is taken: keys that are escaped, NaN, UTF-16. Of what is too long to be
    parsed for a look, each key that seems to be there is returned as ``null``.
    """
    data = _utf8(view)
    if data is None:
        return dict.fromkeys(keys, b"null")
    if not _mentions(keys).search(data):
        return {}
    import msgspec

    try:
        found = msgspec.json.decode(shallow(bytes(data)), type=_members(keys))
    except (msgspec.DecodeError, RecursionError):
        return _peek_leniently(bytes(data), keys)
    return {key: bytes(held) for key in keys if (held := getattr(found, key)) is not msgspec.UNSET}


def _peek_leniently(data: bytes, keys: tuple[str, ...]) -> dict[str, bytes]:
    if len(data) > MAX_PEEKED:
        return {key: b"null" for key in keys if _mentions((key,)).search(data)}
    try:
        value = json.loads(shallow(data))
        return {key: json.dumps(value[key]).encode() for key in keys if key in value} if isinstance(value, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _utf8(view: memoryview) -> bytes | memoryview | None:
    """Return what may be an object in UTF-8, whatever Unicode it is in; nothing for what is none.

    None is returned for one in another encoding that is too long for a look.
    """
    start = bytes(view[:64])
    if 0 in start[:4] or start.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = json.detect_encoding(start)
        text = bytes(view[:MAX_PEEKED]).decode(encoding, "ignore").lstrip("\ufeff")
        if not text.lstrip().startswith("{"):
            return b""
        return text.encode(errors="replace") if len(view) <= MAX_PEEKED else None
    rest = view[len(_BOM) :] if start.startswith(_BOM) else view
    return rest if start.removeprefix(_BOM).lstrip(_SPACE)[:1] in {b"{", b""} else b""


@cache
def _mentions(keys: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile(b"|".join([*(re.escape(key.encode()) for key in keys), _LETTER]))


@cache
def _members(keys: tuple[str, ...]) -> type[msgspec.Struct]:
    import msgspec

    return msgspec.defstruct("Members", [(key, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for key in keys])
