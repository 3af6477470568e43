"""OpenVINO's XML as values: layers, their ports, the edges between them, and the graphs inside a layer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.xml import parse as tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.xml import Element

MOST_DIMENSIONS = 64
DEEPEST = 16
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_BODIES = ("body", "then_body", "else_body")
_CONSTANT = "Const"


class Port(NamedTuple):
    """An input or output of a layer; a size that may change is None, or a range as text."""

    id: int
    type: str
    shape: tuple[int | str | None, ...]
    names: str


class Constant(NamedTuple):
    """Where a constant's bytes lie in the file of weights."""

    type: str
    shape: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator; ``version`` is the operator set that defines it, empty in files older than 2020."""

    id: int
    name: str
    type: str
    version: str
    attributes: dict[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constant: Constant | None
    bodies: dict[str, Net]
    label: str


@dataclass(frozen=True, slots=True)
class Net:
    """A graph. ``edges`` leads from an input (layer, port) to the output that feeds it."""

    name: str
    layers: tuple[Layer, ...]
    edges: dict[tuple[int, int], tuple[int, int]]

    def walk(self) -> Iterator[Layer]:
        """Yield every layer, those of inner graphs too."""
        for layer in self.layers:
            yield layer
            for body in layer.bodies.values():
                yield from body.walk()


@dataclass(frozen=True, slots=True)
class Model:
    """A whole file: the graph, the IR's version, and what the tools that wrote it say."""

    net: Net
    version: int
    notes: dict[str, Any]


def parse(view: memoryview, *, where: str) -> Model:
    """Return what the XML says.

    Raises:
        MalformedError: It is no OpenVINO IR, or says something impossible.
        LimitExceededError: It is larger or deeper than the reader of XML allows.
    """
    top = tree(view, where=where)
    if top.tag != "net":
        refuse(where, f"is no OpenVINO model: its first element is {top.tag!r:.100}, not 'net'")
    notes = {
        child.tag: _notes(child)
        for tag in ("rt_info", "meta_data", "quantization_parameters")
        for child in top.all(tag)
    }
    return Model(_net(top, where, 0), _integer(top.get("version", "0"), where), notes)


def _net(element: Element, where: str, depth: int) -> Net:
    if depth > DEEPEST:
        exceed(where, f"graphs nest deeper than {DEEPEST}")
    layers = tuple(_layer(one, where, depth) for one in element.all("layers", "layer"))
    if len({layer.id for layer in layers}) != len(layers):
        refuse(where, "two layers have the same number")
    edges = {}
    for one in element.all("edges", "edge"):
        source, start, target, end = (
            _integer(one.get(key), where) for key in ("from-layer", "from-port", "to-layer", "to-port")
        )
        edges[target, end] = source, start
    return Net(element.get("name"), layers, edges)


def _layer(element: Element, where: str, depth: int) -> Layer:
    kind = element.get("type")
    data = element.find("data")
    attributes = dict(data.attributes) if data else {}
    return Layer(
        id=_integer(element.get("id"), where),
        name=element.get("name"),
        type=kind,
        version=element.get("version"),
        attributes=attributes,
        inputs=tuple(_port(one, where) for one in element.all("input", "port")),
        outputs=tuple(_port(one, where) for one in element.all("output", "port")),
        constant=_constant(attributes, where) if kind == _CONSTANT and "offset" in attributes else None,
        bodies={one.tag: _net(one, where, depth + 1) for one in element.children if one.tag in _BODIES},
        label=element.get("output_names"),
    )


def _constant(attributes: dict[str, str], where: str) -> Constant:
    shape = [_integer(one.strip(), where) for one in attributes.get("shape", "").split(",") if one.strip()]
    offset, size = (_integer(attributes.get(key, "0"), where) for key in ("offset", "size"))
    if min((offset, size, *shape)) < 0 or len(shape) > MOST_DIMENSIONS:
        refuse(where, "a constant has no possible shape, offset or size")
    return Constant(attributes.get("element_type", ""), tuple(shape), offset, size)


def _port(element: Element, where: str) -> Port:
    sizes = [one.text for one in element.all("dim")]
    if len(sizes) > MOST_DIMENSIONS:
        refuse(where, f"a port has {len(sizes)} dimensions")
    shape = tuple(_size(text, where) for text in sizes)
    return Port(_integer(element.get("id"), where), element.get("precision"), shape, element.get("names"))


def _size(text: str, where: str) -> int | str | None:
    if ".." in text:
        return text[:40]
    size = _integer(text, where)
    return size if size >= 0 else None


def _integer(text: str, where: str) -> int:
    if not _INTEGER.fullmatch(text):
        refuse(where, f"expected a number, found {text!r:.60}")
    return int(text)


def _notes(element: Element) -> Any:
    """Return ``rt_info`` as JSON: an element with a ``value`` is that text, any other a dict of what is in it."""
    if not element.children:
        return element.get("value") or element.text or dict(element.attributes)
    return {_key(child): _notes(child) for child in element.children}


def _key(element: Element) -> str:
    """Return what a note is called: ``<info name="Runtime" value=...>`` by its own name, others by their tag."""
    return element.get("name" if "value" in element.attributes else "", element.tag)
