"""What a key of a dictionary or set would hash to, where a file can choose that.

Text and bytes hash differently in every process; numbers and what is made of them do not, so a file may hold thousands
that share one hash, each of which is compared with all before it. Only numbers and groups of them are hashed here.
"""

from __future__ import annotations

import decimal
import fractions
from typing import TYPE_CHECKING, Any, cast

from vitrify.pickles.inert import Call, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MAX_TEXT = 4096
MAX_BITS = 16_384
_NUMBERS = frozenset({type(None), bool, int, float})
_MADE: dict[str, Callable[..., Any]] = {
    "builtins.complex": complex,
    "decimal.Decimal": decimal.Decimal,
    "fractions.Fraction": fractions.Fraction,
}


def chosen(key: Any) -> Hashable:
    """Return a value that is hashed as the key is, or None where no file could choose the hash.

    The key's parts are few: that was checked.
    """
    if type(key) is Call and key.dotted in _MADE and type(key.args) is tuple and all(map(_is_short, key.args)):
        try:
            return cast("Hashable", _MADE[key.dotted](*key.args))
        except (ArithmeticError, TypeError, ValueError):  # making it will fail as well
            return None
    if type(key) is tuple and _is_numeric(key):
        return key
    if type(key) is Group and all(_is_numeric(item) for item in key.items):
        return frozenset(key.items)
    return None


def _is_numeric(value: Any) -> bool:
    return type(value) in _NUMBERS or (type(value) is tuple and all(map(_is_numeric, value)))


def _is_short(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() <= MAX_BITS
    return type(value) is float or (type(value) is str and len(value) <= MAX_TEXT)
