"""YAML for other people's tools: mappings, lists and scalars; every text in double quotes, as JSON has it.

A double-quoted JSON string is a YAML string of the same meaning, so that no text can be read as something else: no
``no`` that is false, no ``1.10`` that is a number. Source: YAML 1.2.2, section 7.3.1.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_STRANGE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def dump(value: Mapping[str, Any]) -> bytes:
    """Return a mapping as YAML, its keys in their order.

    Raises:
        UsageError: It holds something that is no text, number, boolean, None, list or mapping.
    """
    return "".join(f"{line}\n" for line in _mapping(value)).encode()


def _mapping(value: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, item in value.items():
        name = key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS else _scalar(key)
        lines += _entry(f"{name}:", item)
    return lines


def _entry(head: str, item: Any) -> list[str]:
    if isinstance(item, dict) and item:
        return [head, *(f"  {line}" for line in _mapping(item))]
    if isinstance(item, list | tuple) and item:
        return [head, *(f"  {line}" for one in item for line in _item(one))]
    return [f"{head} {_scalar(item)}"]


def _item(one: Any) -> list[str]:
    if isinstance(one, dict) and one:
        first, *rest = _mapping(one)
        return [f"- {first}", *(f"  {line}" for line in rest)]
    if isinstance(one, list | tuple) and one:
        msg = "a list inside a list, which is not written here"
        raise UsageError(msg)
    return [f"- {_scalar(one)}"]


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _STRANGE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
        case {} | [] | ():
            return "{}" if isinstance(value, dict) else "[]"
    msg = f"a {type(value).__name__} cannot be written as YAML"
    raise UsageError(msg)


def _number(value: float) -> str:
    """Return a number that YAML 1.1 takes for one too: there it has a point, also before an exponent."""
    if not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    digits, e, exponent = repr(value).partition("e")
    return f"{digits}{'.0' if e and '.' not in digits else ''}{e}{exponent}"
