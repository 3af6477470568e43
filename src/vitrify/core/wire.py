"""The one way in which values become JSON and come back.

Every value that is written to disk is a :class:`Value`: frozen, typed, validated on the way in, and honest
about what it does not know: a field that this version has no name for is kept in ``extra`` and written
again, so that an older Vitrify never destroys what a newer one wrote.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import msgspec

from vitrify.core.errors import MalformedError, VitrifyError
from vitrify.core.nesting import shallow

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""No JSON document of ours is larger; a larger one is refused before it is parsed."""

MAX_DEPTH = 100
"""No JSON document of ours is nested deeper; Python's own limit would be met at some places and not at others."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A frozen value with a JSON form. Two values are equal when their contents are."""

    extra: dict[str, Any] = msgspec.field(name="__unknown__", default_factory=dict)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def to_json(self) -> bytes:
        """Return canonical JSON: keys sorted, no spaces, no fields at their default."""
        return msgspec.json.encode(to_builtins(self), order="sorted")

    @classmethod
    def from_json(cls, data: bytes, *, where: str) -> Self:
        """Parse and validate.

        Args:
            data: UTF-8 JSON of at most ``MAX_DOCUMENT_BYTES``.
            where: What the bytes are, for the error message.

        Raises:
            MalformedError: It is too large, no JSON, or not of this shape; the message has the JSON path.
        """
        if len(data) > MAX_DOCUMENT_BYTES:
            msg = f"{where}: {len(data)} bytes of JSON, more than the limit of {MAX_DOCUMENT_BYTES}"
            raise MalformedError(msg)
        try:
            raw = msgspec.json.decode(shallow(data))
        except (msgspec.DecodeError, RecursionError) as error:
            msg = f"{where}: not valid JSON ({error})"
            raise MalformedError(msg) from error
        return cls.from_builtins(raw, where=where)

    @classmethod
    def from_builtins(cls, raw: object, *, where: str) -> Self:
        """Validate plain dicts and lists, as :meth:`from_json` does."""
        if _deeper_than(MAX_DEPTH, raw):
            msg = f"{where}: nested more than {MAX_DEPTH} levels deep"
            raise MalformedError(msg)
        try:
            value: Self = msgspec.convert(raw, cls)
        except (msgspec.ValidationError, VitrifyError) as error:  # a value's own checks raise what their callers need
            msg = f"{where}: not a valid {cls.__name__} ({error})"
            raise MalformedError(msg) from error
        known: Self = _with_unknown(value, raw)
        return known


def to_builtins(value: Any) -> Any:
    """Return dicts, lists and scalars, with every unknown field back in its place."""
    match value:
        case Value():
            known = {}
            for name, key, required, default in _fields(type(value)):
                item = getattr(value, name)
                if required or item != default:
                    known[key] = to_builtins(item)
            return {**value.extra, **known}
        case dict():
            return {key: to_builtins(item) for key, item in value.items()}
        case list() | tuple():
            return [to_builtins(item) for item in value]
        case _:
            return msgspec.to_builtins(value)


@cache
def _fields(cls: type[Value]) -> tuple[tuple[str, str, bool, Any], ...]:
    """Return name, JSON key, whether it is required, and default of every field that is not ``extra``."""
    fields = (field for field in msgspec.structs.fields(cls) if field.name != "extra")
    return tuple((field.name, field.encode_name, field.required, _default(field)) for field in fields)


def _deeper_than(limit: int, raw: Any) -> bool:
    level = [raw]
    for _ in range(limit + 1):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]
    return bool(level)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _with_unknown(value: Any, raw: Any) -> Any:
    """Give each value in the tree the keys of ``raw`` that it has no field for; what has none stays what it is."""
    match value:
        case Value():
            fields = _fields(type(value))
            parts = {name: _with_unknown(getattr(value, name), raw[key]) for name, key, _, _ in fields if key in raw}
            changes = {name: part for name, part in parts.items() if part is not getattr(value, name)}
            keys = {key for _, key, _, _ in fields}
            extra = {key: item for key, item in raw.items() if key not in keys}
            return msgspec.structs.replace(value, **changes, extra=extra) if changes or extra else value
        case tuple() if isinstance(raw, list):
            items = tuple(_with_unknown(item, part) for item, part in zip(value, raw, strict=True))
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        case dict() if isinstance(raw, dict):
            found = {key: _with_unknown(item, raw[key]) for key, item in value.items()}
            return found if any(found[key] is not item for key, item in value.items()) else value
        case _:
            return value
