"""XML, read by expat as what a model file needs of it: elements, attributes, text.

Specification: https://www.w3.org/TR/xml/ with https://www.w3.org/TR/xml-names/.

Refused, because no model format uses it and every attack on XML readers does: a document type (and with it every
entity, internal or external) and any encoding but the four that expat decodes itself, since another would make Python
look for a codec of the file's choice. Bounded: how deep elements nest, how long one tag or comment is, how many bytes a
tree takes in memory.

:func:`parse` gives the tree; :func:`events` gives a long document piece by piece, in constant memory; :func:`root` is a
look at the first element, for detection.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from vitrify.core.errors import MalformedError
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DEPTH = 256
TOKEN = 1 << 20
TREE = 40 << 20
_CHUNK = 1 << 16
_ENCODINGS = frozenset({"utf-8", "utf-16", "us-ascii", "iso-8859-1"})
_ELEMENT = 120
_NONE: Mapping[str, str] = {}
_XML = b"<\xef\xfe\xff \t\r\n"

Event = tuple[str, str, str, "Mapping[str, str]"]
"""``("start", name, namespace, attributes)``, ``("text", text, "", {})`` or ``("end", name, namespace, {})``."""


@dataclass(slots=True)
class Element:
    """One element of a document.

    Attributes:
        tag: Its name without prefix.
        namespace: The address that its prefix stands for, empty for none.
        attributes: By name; one with a prefix is called ``address name``.
        text: The characters directly inside it, without the white space around them.
        children: The elements inside it, in order.
    """

    tag: str
    namespace: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    children: Sequence[Element] = ()

    def get(self, attribute: str, default: str = "") -> str:
        """Return an attribute."""
        return self.attributes.get(attribute, default)

    def find(self, *path: str) -> Element | None:
        """Return the first child of that name, and the first of its children of the next name, and so on."""
        found: Element | None = self
        for tag in path:
            found = next((child for child in found.children if child.tag == tag), None) if found else None
        return found

    def all(self, *path: str) -> list[Element]:
        """Return every element that a path of names leads to, in order."""
        found = [self]
        for tag in path:
            found = [child for one in found for child in one.children if child.tag == tag]
        return found

    def walk(self) -> Iterator[Element]:
        """Yield this element and all inside it, in the order of the document."""
        left = [self]
        while left:
            one = left.pop()
            yield one
            left.extend(reversed(one.children))


def parse(view: memoryview, *, where: str, depth: int = DEPTH, memory: int = TREE) -> Element:
    """Return a document's tree.

    Args:
        view: All of its bytes.
        where: What it is, for errors.
        depth: How deep elements may nest.
        memory: How many bytes the tree may take.

    Raises:
        MalformedError: It is no well-formed XML, or has a document type.
        LimitExceededError: It is deeper or larger than that.
    """
    top = Element("")
    path, texts, used = [top], list[list[str]](), 0
    for kind, name, namespace, attributes in events(view, where=where, depth=depth):
        if kind == "start":
            element = Element(name, namespace, attributes)
            parent = path[-1]
            if isinstance(parent.children, list):
                parent.children.append(element)
            else:
                parent.children = [element]
                used += 88
            path.append(element)
            texts.append([])
            used += _ELEMENT
            if attributes:
                used += sys.getsizeof(attributes) + sum(map(sys.getsizeof, attributes.values()))
        elif kind == "text":
            texts[-1].append(name)
            used += sys.getsizeof(name)
        else:
            path.pop().text = "".join(texts.pop()).strip()
        if used > memory:
            exceed(where, f"the tree of its elements takes more than {memory >> 20} MiB")
    return top.children[0]


def events(view: memoryview, *, where: str, depth: int = DEPTH) -> Iterator[Event]:
    """Yield what a document holds, piece by piece; text that is white space only is left out.

    Raises:
        MalformedError: It is no well-formed XML, or has a document type.
        LimitExceededError: It nests deeper than ``depth``, or a tag or comment is longer than 1 MiB.
    """
    found: list[Event] = []
    parser = _parser(found, where, depth)
    silent = 0
    for start in range(0, len(view), _CHUNK):
        piece = view[start : start + _CHUNK]
        seen = parser.beats
        _feed(parser.expat, piece, where, final=False)
        silent = silent + len(piece) if parser.beats == seen else 0
        if silent > TOKEN:
            exceed(where, f"one tag or comment is longer than {TOKEN >> 20} MiB")
        yield from found
        found.clear()
    _feed(parser.expat, b"", where, final=True)
    yield from found


def root(start: bytes) -> Element | None:
    """Return the first element without what is inside it, from a document's first bytes; None where it is no XML.

    Where a document type comes first, it is an element of the name that this promises. Raises nothing.
    """
    if not start or start[0] not in _XML:
        return None
    seen: list[Element] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.XmlDeclHandler = lambda _version, encoding, _standalone: _known(encoding, "this file")

    def begin(name: str, attributes: dict[str, str]) -> None:
        tag, namespace = _split(name)
        seen.append(Element(tag, namespace, attributes))
        raise _SeenError

    def doctype(name: str, *_rest: Any) -> None:
        begin(name, {})

    parser.StartElementHandler, parser.StartDoctypeDeclHandler = begin, doctype
    with suppress(_SeenError, expat.ExpatError, MalformedError, ValueError):
        parser.Parse(start, False)  # noqa: FBT003 (expat takes it by position)
    return seen[0] if seen else None


class _SeenError(Exception):
    """The first element is there: expat need not go on."""


class _Parser:
    """An expat parser that writes down what it sees, and counts every sign of life."""

    def __init__(self, found: list[Event], where: str, depth: int) -> None:
        self.expat = expat.ParserCreate(namespace_separator=" ")
        self.beats = 0
        self._found, self._where, self._depth, self._open = found, where, depth, 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.beats += 1
        self._open += 1
        if self._open > self._depth:
            exceed(self._where, f"elements nest deeper than {self._depth}")
        self._found.append(("start", *_split(name), attributes or _NONE))

    def end(self, name: str) -> None:
        self.beats += 1
        self._open -= 1
        self._found.append(("end", *_split(name), _NONE))

    def text(self, text: str) -> None:
        self.beats += 1
        if not text.isspace():
            self._found.append(("text", text, "", _NONE))

    def other(self, _text: str) -> None:
        self.beats += 1

    def doctype(self, name: str, *_rest: Any) -> None:
        refuse(self._where, f"has a document type ({name}), which could hold entities: no model format needs one")

    def declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        _known(encoding, self._where)


def _parser(found: list[Event], where: str, depth: int) -> _Parser:
    parser = _Parser(found, where, depth)
    reader = parser.expat
    reader.buffer_text = True
    reader.StartElementHandler, reader.EndElementHandler = parser.start, parser.end
    reader.CharacterDataHandler, reader.DefaultHandler = parser.text, parser.other
    reader.StartDoctypeDeclHandler, reader.XmlDeclHandler = parser.doctype, parser.declaration
    return parser


def _feed(parser: expat.XMLParserType, piece: memoryview | bytes, where: str, *, final: bool) -> None:
    try:
        parser.Parse(piece, final)
    except expat.ExpatError as error:
        refuse(where, f"is no well-formed XML: {error}")


def _known(encoding: str | None, where: str) -> None:
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        refuse(where, f"is XML in the encoding {encoding[:40]!r}; read are {', '.join(sorted(_ENCODINGS))}")


def _split(name: str) -> tuple[str, str]:
    namespace, _space, tag = name.rpartition(" ")
    return tag, namespace
