"""Protocol Buffers from a stranger: parsed by the library, bounded by us.

A schema is data: of each message the fields that we look at, by name, as ``"NUMBER KIND"``. A kind is a scalar type of
Protocol Buffers, the name of another message, or ``blob``: bytes that may be long and are not copied. ``*`` before it
says repeated; ``?`` says that zero is to be told from absent::

    SCHEMA = Schema("demo", {"Model": {"version": "1 int64", "nodes": "2 *Node"}, "Node": {"name": "1 string"}})
    document = SCHEMA.parse(view, "Model", where="model.pb")
    names = [node.name for node in document.each(document.root, "nodes")]

Repeated messages are kept as bytes and parsed one by one as :meth:`Document.each` comes to them, so that a million
empty messages take no more memory than their bytes.

Source: https://protobuf.dev/programming-guides/encoding/; the parser is google.protobuf.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.reading._protobuf_wire import BYTES, Layout, Pruner, spans, stub, varint
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES = 2**31
"""No library reads a longer message."""
MAX_PEEK = 64

_SCALARS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "blob": 12,
}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3
_FEWEST_MESSAGES = 100_000
_BYTES_A_MESSAGE = 8


class Schema:
    """The messages of one format, as far as they are looked at."""

    def __init__(self, name: str, messages: Mapping[str, Mapping[str, str]]) -> None:
        """Take a name, unique among all schemas, and each message's fields."""
        self.name = name
        self._messages = messages

    def parse(self, view: memoryview, message: str, *, where: str) -> Document:
        """Return a message of a file.

        Raises:
            MalformedError: The bytes are no such message.
            LimitExceededError: It is longer, deeper or of more parts than what is read from a stranger.
        """
        if len(view) >= MAX_BYTES:
            exceed(where, f"a message of {len(view)} bytes, more than any library reads")
        return Document(self, view, message, where)

    @cached_property
    def layouts(self) -> dict[str, Layout]:
        """What the skeleton of each message keeps."""
        return {name: self._layout(fields) for name, fields in self._messages.items()}

    @cached_property
    def classes(self) -> dict[str, Any]:
        """The library's class of each message."""
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

        file = descriptor_pb2.FileDescriptorProto(name=f"vitrify/{self.name}", package=self.name, syntax="proto3")
        for name, fields in self._messages.items():
            described = file.message_type.add(name=name)
            for field, text in fields.items():
                self._describe(described, field, text)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        found = {name: pool.FindMessageTypeByName(f"{self.name}.{name}") for name in self._messages}
        return {name: message_factory.GetMessageClass(one) for name, one in found.items()}

    def inner(self, message: str, field: str) -> str:
        """Return the name of the message that a field holds."""
        return self._inner[message, field]

    @cached_property
    def error(self) -> type[Exception]:
        """What the library raises for bytes that are no message."""
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

        found: type[Exception] = DecodeError
        return found

    @cached_property
    def _inner(self) -> dict[tuple[str, str], str]:
        return {
            (name, field): text.partition(" ")[2].lstrip("*?")
            for name, fields in self._messages.items()
            for field, text in fields.items()
        }

    def _layout(self, fields: Mapping[str, str]) -> Layout:
        kinds = {
            int(number): kind.lstrip("*?") for number, _, kind in (text.partition(" ") for text in fields.values())
        }
        messages = {number: kind for number, kind in kinds.items() if kind not in _SCALARS}
        blobs = frozenset(number for number, kind in kinds.items() if kind == "blob")
        return Layout(messages, blobs, frozenset(kinds) - blobs - set(messages))

    def _describe(self, described: Any, name: str, text: str) -> None:
        number, _, kind = text.partition(" ")
        plain = kind.lstrip("*?")
        repeated = kind.startswith("*")
        field = described.field.add(name=name, number=int(number), label=_REPEATED if repeated else _OPTIONAL)
        if plain in _SCALARS:
            field.type = _SCALARS[plain]
        elif repeated:
            field.type = _SCALARS["bytes"]
        else:
            field.type, field.type_name = _MESSAGE, f".{self.name}.{plain}"
        if kind.startswith("?"):
            field.proto3_optional, field.oneof_index = True, len(described.oneof_decl)
            described.oneof_decl.add(name=f"_{name}")


class Document:
    """One file's message.

    Attributes:
        root: The message, an object of the library's.
        where: What the file is, for error messages.
    """

    def __init__(self, schema: Schema, view: memoryview, message: str, where: str) -> None:
        """Parse the outermost message."""
        self.where = where
        self._schema = schema
        self._classes = schema.classes
        self._view = view
        self._left = _FEWEST_MESSAGES + len(view) // _BYTES_A_MESSAGE
        self.root = self._parse(message, Pruner(view, schema.layouts, where).skeleton(message))

    def each(self, message: Any, field: str, *, most: int | None = None) -> Iterator[Any]:
        """Yield the messages of a repeated field.

        Args:
            message: The message that has the field.
            field: The field's name.
            most: How many an honest file has at most, where that is known.

        Raises:
            MalformedError: One of them is no such message.
            LimitExceededError: More were asked for than an honest file of this size has.
        """
        held = getattr(message, field)
        if not held:
            return
        if most is not None and len(held) > most:
            exceed(self.where, f"{len(held)} of {field!r}, more than {most}")
        inner = self._schema.inner(message.DESCRIPTOR.name, field)
        for data in held:
            self._left -= 1
            if self._left < 0:
                exceed(self.where, f"more parts than an honest file of {len(self._view)} bytes has")
            yield self._parse(inner, data)

    def size(self, blob: bytes) -> int:
        """Return the length of a blob."""
        found = stub(blob)
        return len(blob) if found is None else found[1]

    def whole(self, blob: bytes) -> memoryview:
        """Return a blob; nothing is copied."""
        found = stub(blob)
        return memoryview(blob) if found is None else self._view[found[0] : sum(found)]

    def _parse(self, message: str, data: bytes) -> Any:
        try:
            return self._classes[message].FromString(data)
        except self._schema.error as error:
            refuse(self.where, f"not a {message} of {self._schema.name} ({error})")


def peek(view: memoryview, *, most: int = MAX_PEEK) -> dict[int, int | memoryview] | None:
    """Return a message's first fields by number, the first of each; None where the bytes are no message.

    Args:
        view: The message.
        most: Fields that are looked at.
    """
    found: dict[int, int | memoryview] = {}
    try:
        for count, (number, kind, _, body, stop) in enumerate(spans(view, 0, len(view), "")):
            if count == most:
                break
            value = view[body:stop] if kind else varint(view, body, stop, "")[0]
            found.setdefault(number, value if kind in {0, BYTES} else 0)
    except MalformedError:
        return None
    return found
