"""JSON that has one meaning: what is signed must not be read in two ways by two readers.

RFC 8259, section 4, leaves open what an object means in which a name stands twice, and parsers differ; what they
differ about is a way to have one thing signed and another one read.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow
from vitrify.core.wire import MAX_DOCUMENT_BYTES


def strict_json(data: bytes, *, where: str) -> Any:
    """Parse UTF-8 JSON in which no object has the same name twice.

    Args:
        data: At most ``MAX_DOCUMENT_BYTES``.
        where: What the bytes are, for the error message.

    Raises:
        MalformedError: It is too large, too deep, no JSON, or has a name twice.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        msg = f"{where}: {len(data)} bytes of JSON, more than the limit of {MAX_DOCUMENT_BYTES}"
        raise MalformedError(msg)
    try:
        value = msgspec.json.decode(shallow(data))
        json.loads(data, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        msg = f"{where}: not valid JSON ({error})"
        raise MalformedError(msg) from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"the name {twice[:80]!r} stands twice in one object"
        raise ValueError(msg)
