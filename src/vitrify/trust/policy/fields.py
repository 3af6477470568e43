"""Reading a policy's tables strictly: a policy that says something else than its author thinks is worse than none."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_ITEMS = 1000
_MAX_TEXT = 1000
_LINE = 80
_HUGE = 10**30
_DURATION = re.compile(r"([1-9][0-9]{0,4})\s?([hdw])", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class Fields:
    """One table, whose keys are taken one by one; what nobody took is an error.

    Args:
        raw: The table as the TOML parser gave it.
        place: Where it stands, for messages.
    """

    def __init__(self, raw: object, place: str) -> None:
        """Refuse what is no table."""
        if not isinstance(raw, dict):
            msg = f"{place}: found {shown(raw)}, expected a table"
            raise MalformedError(msg)
        self._raw: dict[str, Any] = raw
        self._known: list[str] = []
        self.place = place

    def end(self) -> None:
        """Refuse keys that nobody asked for.

        Raises:
            MalformedError: There is one; the message has the nearest key that means something.
        """
        for key in self._raw:
            if key not in self._known:
                msg = f"{self.place}: unknown key {key!r}{near(key, self._known)}"
                raise MalformedError(msg)

    def has(self, key: str) -> bool:
        """Say whether a key is there."""
        self._known.append(key)
        return key in self._raw

    def wrong(self, key: str, expected: str) -> MalformedError:
        """Return the error for a value that is not what it must be."""
        return MalformedError(f"{self.place}: {key} is {shown(self._raw.get(key))}, expected {expected}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty; without a default it must be there."""
        value = self._get(key, default, "a text")
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
            raise self.wrong(key, f"a text of 1 to {_MAX_TEXT} characters")
        return value

    def texts(self, key: str, default: Collection[str] | None = None) -> tuple[str, ...]:
        """Return a list of texts with at least one in it."""
        value = self._get(key, default, "a list of texts")
        fine = isinstance(value, list | tuple) and 0 < len(value) <= MAX_ITEMS
        if not fine or not all(isinstance(one, str) and 0 < len(one) <= _MAX_TEXT for one in value):
            raise self.wrong(key, "a list of one or more texts")
        return tuple(value)

    def yes(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._get(key, default, "true or false")
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def count(self, key: str, default: int) -> int:
        """Return a whole number from 1."""
        value = self._get(key, default, "a whole number")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ITEMS:
            raise self.wrong(key, f"a whole number from 1 to {MAX_ITEMS}")
        return value

    def number(self, key: str, *, least: float = -math.inf) -> float | None:
        """Return a finite number, or None where the key is not there."""
        if not self.has(key):
            return None
        value = finite(self._raw[key])
        if value is None or value < least:
            raise self.wrong(key, "a finite number" if math.isinf(least) else f"a finite number from {least:g}")
        return value

    def duration(self, key: str) -> timedelta | None:
        """Return a span such as ``12h``, ``30d`` or ``2w``, or None where the key is not there."""
        if not self.has(key):
            return None
        value = self._raw[key]
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if not found:
            raise self.wrong(key, "hours, days or weeks: '12h', '30d', '2w'")
        return int(found[1]) * _UNITS[found[2]]

    def moment(self, key: str) -> datetime | None:
        """Return a point in time with its zone, or None; a date alone means its first moment in UTC."""
        if not self.has(key):
            return None
        value = self._raw[key]
        if isinstance(value, date) and not isinstance(value, datetime):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime) or value.utcoffset() is None:
            raise self.wrong(key, "a date, or a time with its zone: 2026-03-01, 2026-03-01T12:00:00Z")
        return value

    def table(self, key: str) -> dict[str, Fields]:
        """Return the tables in a table by their names; none where it is not there."""
        value = self._get(key, {}, "a table")
        if not isinstance(value, dict) or len(value) > MAX_ITEMS:
            raise self.wrong(key, f"a table of at most {MAX_ITEMS}")
        return {name: Fields(one, f"{self.place}: {key}.{name}") for name, one in value.items()}

    def tables(self, key: str, one: str, default: list[Any] | None = None) -> tuple[Fields, ...]:
        """Return a list of tables; their places are counted from 1."""
        value = self._get(key, default, "a list of tables")
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise self.wrong(key, f"a list of at most {MAX_ITEMS} tables")
        return tuple(Fields(raw, f"{self.place}{one} {number}") for number, raw in enumerate(value, start=1))

    def value(self, key: str) -> str | float | bool:
        """Return a text, a finite number or true or false."""
        value = self._get(key, None, "a text, a number, or true or false")
        if isinstance(value, bool) or (isinstance(value, str) and len(value) <= _MAX_TEXT):
            return value
        if (number := finite(value)) is None:
            raise self.wrong(key, "a text, a finite number, or true or false")
        return number

    def _get(self, key: str, default: Any, expected: str) -> Any:
        if self.has(key):
            return self._raw[key]
        if default is None:
            msg = f"{self.place}: no {key}{self._nearly(key)}, expected {expected}"
            raise MalformedError(msg)
        return default

    def _nearly(self, key: str) -> str:
        others = [other for other in self._raw if other not in self._known]
        found = get_close_matches(key, others, 1)
        return f" (but {found[0]!r})" if found else ""


def near(word: str, known: Collection[str]) -> str:
    """Return the end of a message about a word that means nothing: the nearest that does, or all of them."""
    found = get_close_matches(word, known, 1)
    return f"; is {found[0]!r} meant?" if found else f" (expected one of: {', '.join(sorted(known))})"


def finite(value: object) -> float | None:
    """Return a number that can be compared, or None for anything else: NaN, infinities, texts, true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def shown(value: object) -> str:
    """Return a value for a message, cut where it is long; of tables and lists, which a stranger may fill, only that."""
    match value:
        case None:
            return "missing"
        case dict():
            return "a table"
        case list() | tuple():
            return "a list" if value else "[]"
        case str():
            text = repr(value[:_LINE])
        case int() if not -_HUGE < value < _HUGE:
            text = "a huge number"  # whose digits Python refuses to write
        case _:
            text = repr(value)
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."
