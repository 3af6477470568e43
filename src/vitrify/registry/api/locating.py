"""What a URL says, taken apart strictly: what two readers could understand in two ways is refused.

A path is split before it is decoded, so that a ``/`` that is written ``%2F`` stays inside its segment, and every
segment is checked after it was decoded, once. Source: RFC 3986, sections 2.1 and 3.3.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from vitrify.core.errors import ReferenceNotFoundError, UsageError

MOST_TARGET = 16 * 1024
"""Bytes of a path with its query: a search may be long."""
_MOST_FIELDS = 100
_LITERAL = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")
_QUERY = re.compile(rb"(?:[A-Za-z0-9._~!$'()*+,;:@/?=&-]|%[0-9A-Fa-f]{2})*")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_DOTS = frozenset({".", ".."})


def segments_of(path: bytes) -> list[str]:
    """Return the decoded segments of a raw path; none for ``/``.

    Raises:
        UsageError: It is not percent-encoded UTF-8, or a segment is ``.`` or ``..`` or has control characters.
        ReferenceNotFoundError: A segment is empty.
    """
    if path == b"/":
        return []
    first, *parts = path.split(b"/")
    if first or not parts:
        msg = "a path starts with /"
        raise UsageError(msg)
    return [_segment(part) for part in parts]


def fields_of(query: bytes) -> dict[str, list[str]]:
    """Return every value of every field of a raw query.

    Raises:
        UsageError: It is not percent-encoded UTF-8, or has too many fields.
    """
    if not query:
        return {}
    if not _QUERY.fullmatch(query):
        msg = "the query holds what must be percent-encoded"
        raise UsageError(msg)
    pairs = query.split(b"&")
    if len(pairs) > _MOST_FIELDS:
        msg = f"the query has {len(pairs)} fields; expected at most {_MOST_FIELDS}"
        raise UsageError(msg)
    fields: dict[str, list[str]] = {}
    for pair in filter(None, pairs):
        name, _, value = pair.partition(b"=")
        fields.setdefault(_decoded(name.replace(b"+", b" ")), []).append(_decoded(value.replace(b"+", b" ")))
    return fields


def segment(text: str) -> str:
    """Return how a text is written as one segment of a path; the inverse of what :func:`segments_of` does.

    Raises:
        UsageError: It is empty, and no segment can be.
    """
    if not text:
        msg = "an empty name leads nowhere"
        raise UsageError(msg, remedy="name the model, the version, the id")
    return text.replace(".", "%2E") if text in _DOTS else quote(text, safe="")


def _segment(part: bytes) -> str:
    if not part:
        msg = "this path has an empty segment (// or a / at its end)"
        raise ReferenceNotFoundError(msg, remedy="see /openapi.json for the paths")
    if not _LITERAL.fullmatch(part):
        msg = "this path holds what must be percent-encoded"
        raise UsageError(msg)
    text = part.decode("ascii") if b"%" not in part else _decoded(part)
    if text in _DOTS or _CONTROL.search(text):
        msg = "a segment of this path is . or .. or has control characters"
        raise UsageError(msg)
    return text


def _decoded(data: bytes) -> str:
    try:
        return unquote_to_bytes(data).decode()
    except UnicodeDecodeError as error:
        msg = f"what is percent-encoded is not UTF-8: {error.reason}"
        raise UsageError(msg) from error
