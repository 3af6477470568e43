"""Protocol buffers as text, for the configuration of other people's servers.

A message is a mapping, a repeated field a list, an enumeration's value a :class:`Word`. A map is a list of messages
with ``key`` and ``value``. Source: https://protobuf.dev/reference/protobuf/textformat-spec/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Word(str):
    """The name of an enumeration's value, which stands without quotes."""

    __slots__ = ()


def dump(message: Mapping[str, Any]) -> bytes:
    """Return a message as text, its fields in their order.

    Raises:
        UsageError: It holds something that is no text, whole number, boolean, list or mapping.
    """
    return "".join(f"{line}\n" for line in _lines(message)).encode("ascii")


def map_of(pairs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a mapping as the messages that a map field is made of."""
    return [{"key": key, "value": value} for key, value in pairs.items()]


def _lines(message: Mapping[str, Any]) -> Iterator[str]:
    for name, value in message.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, dict):
                yield f"{name} {{"
                yield from (f"  {line}" for line in _lines(one))
                yield "}"
            else:
                yield f"{name}: {_scalar(one)}"


def _scalar(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Word() if _NAME.fullmatch(value):
            return str(value)
        case str() if not isinstance(value, Word):
            return f'"{"".join(_character(byte) for byte in value.encode("utf-8", "replace"))}"'
    msg = f"{value!r:.100} cannot be written in a server's configuration"
    raise UsageError(msg)


def _character(byte: int) -> str:
    """Return a byte as it stands between quotes: in octal where it is no printable ASCII."""
    return chr(byte) if byte in _PLAIN else f"\\{byte:03o}"
