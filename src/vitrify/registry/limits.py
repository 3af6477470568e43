"""What a request may hold, whatever it asks for: text that every database and every screen takes, of a bounded size."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UsageError
from vitrify.core.reference import name as check_reference

if TYPE_CHECKING:
    from vitrify.core.wire import Value

MAX_TEXT = 256 * 1024
"""Characters of a description, a card, a comment."""
MAX_STATEMENT = 8 * 1024 * 1024
"""Characters of an attestation."""
MAX_KEY = 250
MAX_ENTRIES = 1000
"""Tags, metrics, parameters, digests of one request."""
MAX_DEPTH = 20
_LONG = {"content": MAX_STATEMENT, "commit": 200, "datasets": 500, "owner": 500, "licence": 500, "target": 500}
"""Characters of fields that hold more than most, or stand in an index or a line."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""No character of text: databases refuse NUL, files refuse halves of pairs, and the others make a name look like
another."""
_SEMANTIC = re.compile(
    r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})"
    r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[._-][A-Za-z0-9]+)*", re.ASCII)
_RESERVED = frozenset({"latest", "development", "staging", "production", "archived", "none"})
_MAX_NAME = 128


def check(request: Value) -> None:
    """Refuse what no request of any kind may hold.

    Raises:
        UsageError: A text is too long or holds control characters, a number is none, there are too many entries; the
            message names the field.
    """
    for field in request.__struct_fields__:
        if field == "extra":
            if request.extra:
                msg = f"{type(request).__name__} has no field {min(request.extra)!r}"
                raise UsageError(msg, remedy="see the registry's OpenAPI page for the fields")
        else:
            _check(getattr(request, field), field, _LONG.get(field, MAX_TEXT), 0)


def check_plain(value: Any, place: str, most: int = MAX_TEXT) -> None:
    """Refuse the same in plain dicts and lists, as they come from another tool's client.

    Args:
        value: What came.
        place: What to call it.
        most: Characters of a text.

    Raises:
        UsageError: As for :func:`check`.
    """
    _check(value, place, most, 0)


def _check(value: Any, place: str, most: int, depth: int) -> None:
    match value:
        case str():
            if len(value) > most or _CONTROL.search(value):
                found = f"{len(value)} characters" if len(value) > most else "a control character"
                msg = f"{place} has {found}; expected printable text of at most {most} characters"
                raise UsageError(msg)
        case float() if not math.isfinite(value):
            msg = f"{place} is {value}; expected a finite number"
            raise UsageError(msg, remedy="leave out what could not be measured")
        case int() if not isinstance(value, bool) and abs(value) >= 2**63:
            msg = f"{place} is a number of more than 64 bits"
            raise UsageError(msg)
        case dict() | list() | tuple():
            if len(value) > MAX_ENTRIES or depth > MAX_DEPTH:
                msg = f"{place} has more than {MAX_ENTRIES} entries, or is nested more than {MAX_DEPTH} levels deep"
                raise UsageError(msg)
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                if isinstance(key, str):
                    _check(key, f"a key of {place}", MAX_KEY, depth)
                _check(item, f"{place}[{key!r}]"[:_MAX_NAME], most, depth + 1)


def check_model(name: str) -> str:
    """Accept a model's name: what a reference can say before its colon.

    Raises:
        UsageError: It is none.
    """
    if ":" in name or "@" in name:
        msg = f"not a model's name: {name!r} (a version or an alias stands apart from it)"
        raise UsageError(msg, remedy="for example: churn, team/churn")
    check_reference(name)
    return name


def check_version(version: str) -> str:
    """Accept a semantic version (https://semver.org, 2.0.0).

    Raises:
        UsageError: It is none.
    """
    if not _SEMANTIC.fullmatch(version) or len(version) > _MAX_NAME:
        msg = f"not a semantic version: {version!r}"
        raise UsageError(msg, remedy="for example 1.2.0 or 2.0.0-rc.1; leave it out to count")
    return version


def check_alias(alias: str) -> str:
    """Accept an alias: a word that is no stage, no number and not ``latest``.

    Raises:
        UsageError: It is none.
    """
    if not _ALIAS.fullmatch(alias) or len(alias) > _MAX_NAME or alias.lower() in _RESERVED or alias[1:].isdigit():
        msg = (
            f"not an alias: {alias!r} (expected a word of letters, digits and single . _ - that is no stage or version)"
        )
        raise UsageError(msg, remedy="for example champion, canary-eu")
    return alias
