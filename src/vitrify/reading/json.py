"""JSON from a stranger: bounded in size and depth, every key once.

Source: RFC 8259; NaN and infinities are read as Python and most of the field write them.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES = 256 * 1024 * 1024
"""No honest model's JSON is larger; XGBoost's largest come near."""
MAX_DEPTH = 200


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
        text = bytes(data).decode("utf-8-sig")
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
