"""The words that all formats share in what they say of a file, as a check: see :mod:`vitrify.formats`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEY = re.compile(r"[a-z][a-z0-9_]*")


def check(facts: Mapping[str, Any]) -> None:
    """Check what ``describe`` returned: it is JSON, its keys are words, and the common ones mean what they should.

    Raises:
        AssertionError: They do not; the message names the key.
    """
    assert json.loads(json.dumps(facts)) == facts, "not the JSON that it is read back as: tuples, numbers as keys"
    for key, value in facts.items():
        assert _KEY.fullmatch(key), f"{key!r}: keys are words in lower case with underscores"
        assert key not in _COMMON or value is None or _COMMON[key](value), f"{key}: {str(value)[:200]}"


def _port(value: Any) -> bool:
    shape = value["shape"]
    sizes = shape is None or all(size is None or type(size) in {int, str} for size in shape)
    return type(value["name"]) is type(value["type"]) is str and sizes


def _tensor(value: Any) -> bool:
    sizes = all(_is_count(size) for size in value["shape"])
    return type(value["name"]) is type(value["type"]) is str and sizes and _is_count(value["bytes"])


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _list_of(item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(item, value))


def _map_to(item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(item, value.values()))


_COMMON: dict[str, Callable[[Any], bool]] = {
    "producer": _is_text,
    "versions": _map_to(lambda value: isinstance(value, str | int)),
    "inputs": _list_of(_port),
    "outputs": _list_of(_port),
    "tensors": _list_of(_tensor),
    "parameters": _is_count,
    "bytes": _is_count,
    "precision": _map_to(_is_count),
    "operators": _map_to(_is_count),
    "quantisation": _map_to(lambda _: True),
    "license": lambda value: _is_text(value) or _list_of(_is_text)(value),
    "classes": _list_of(_is_label),
    "class": _is_text,
    "library": _is_text,
    "metadata": _map_to(lambda _: True),
    "needs": _list_of(_is_text),
    "code": lambda value: isinstance(value, bool),
}
