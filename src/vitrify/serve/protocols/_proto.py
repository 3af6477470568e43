"""Our ``.proto`` files: from their text to a descriptor.

What is read is the part of the language that they use: proto3 with messages, enumerations, ``oneof``, ``map`` and
services; no options, no reservations, no extensions. There is no compiler to install and no generated code to keep in
step: the text that a person reads is what the server speaks.

Source: https://protobuf.dev/reference/protobuf/proto3-spec/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(r'\s+|//[^\n]*|("[^"\n]*"|[\w.]+|[{}<>();=,])')
_SCALARS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def parse(name: str, text: str) -> Any:
    """Return a ``google.protobuf.FileDescriptorProto``.

    Names of other messages stay as they are written: the pool that takes the file finds what they mean.

    Args:
        name: What the file is called by those that import it.
        text: What it says.

    Raises:
        MalformedError: It says something that is not read here.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # type: ignore[import-untyped]

    file = FileDescriptorProto(name=name)
    parser = _Parser(name, text)
    for word in parser.words():
        match word:
            case "syntax":
                parser.expect("=")
                file.syntax = parser.next().strip('"')
                parser.expect(";")
            case "package":
                file.package = parser.next()
                parser.expect(";")
            case "import":
                file.dependency.append(parser.next().strip('"'))
                parser.expect(";")
            case "message":
                parser.message(file.message_type.add())
            case "enum":
                parser.enumeration(file.enum_type.add())
            case "service":
                parser.service(file.service.add())
            case _:
                parser.fail(word)
    return file


class _Parser:
    """Reads one file from its first word to its last."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._words = _split(name, text)

    def words(self, end: str = "") -> Iterator[str]:
        """Yield words until one is the end."""
        while (word := next(self._words, "")) != end:
            if not word:
                self.fail("the end")
            yield word

    def next(self) -> str:
        return next(self._words, "")

    def expect(self, word: str) -> None:
        if (found := self.next()) != word:
            self.fail(found, word)

    def fail(self, found: str, expected: str = "something else") -> None:
        msg = f"{self._name}: found {found!r}, expected {expected}"
        raise MalformedError(msg)

    def message(self, described: Any) -> None:
        described.name = self.next()
        self.expect("{")
        for word in self.words("}"):
            match word:
                case "message":
                    self.message(described.nested_type.add())
                case "enum":
                    self.enumeration(described.enum_type.add())
                case "oneof":
                    described.oneof_decl.add(name=self.next())
                    self.expect("{")
                    for kind in self.words("}"):
                        self._field(described, kind).oneof_index = len(described.oneof_decl) - 1
                case "map":
                    self._map(described)
                case "repeated":
                    self._field(described, self.next()).label = _REPEATED
                case _:
                    self._field(described, word)

    def enumeration(self, described: Any) -> None:
        described.name = self.next()
        self.expect("{")
        for word in self.words("}"):
            self.expect("=")
            described.value.add(name=word, number=int(self.next()))
            self.expect(";")

    def service(self, described: Any) -> None:
        described.name = self.next()
        self.expect("{")
        for word in self.words("}"):
            if word != "rpc":
                self.fail(word, "rpc")
            method = described.method.add(name=self.next())
            method.client_streaming, method.input_type = self._side()
            self.expect("returns")
            method.server_streaming, method.output_type = self._side()
            self.expect(";")

    def _side(self) -> tuple[bool, str]:
        """Read ``(Message)`` or ``(stream Message)``."""
        self.expect("(")
        word = self.next()
        streams = word == "stream"
        name = self.next() if streams else word
        self.expect(")")
        return streams, name

    def _field(self, described: Any, kind: str) -> Any:
        field = described.field.add(name=self.next(), label=_OPTIONAL)
        self.expect("=")
        field.number = int(self.next())
        self.expect(";")
        return _typed(field, kind)

    def _map(self, described: Any) -> None:
        """Read a map: on the wire, and so for the library, repeated messages of a key and a value."""
        self.expect("<")
        key = self.next()
        self.expect(",")
        value = self.next()
        self.expect(">")
        field = self._field(described, "")
        entry = described.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _typed(entry.field.add(name="key", number=1, label=_OPTIONAL), key)
        _typed(entry.field.add(name="value", number=2, label=_OPTIONAL), value)
        field.label, field.type, field.type_name = _REPEATED, _MESSAGE, f"{described.name}.{entry.name}"


def _typed(field: Any, kind: str) -> Any:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind:
        field.type_name = kind  # a message or an enumeration: the pool knows
    return field


def _split(name: str, text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            msg = f"{name}: nothing here reads {text[at : at + 20]!r}"
            raise MalformedError(msg)
        if found[1]:
            yield found[1]
        at = found.end()
