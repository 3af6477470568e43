"""An ORT file as values: the ONNX model that ONNX Runtime optimised and wrote as a FlatBuffer.

Source: ``onnxruntime/core/flatbuffers/schema/ort.fbs`` of https://github.com/microsoft/onnxruntime. Fields go by their
place in that schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vitrify.reading.flatbuffer import root
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.flatbuffer import Table

TYPES = """
undefined float uint8 int8 uint16 int16 int32 int64 string bool float16 double uint32 uint64 complex64 complex128
bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1
""".split()  # noqa: SIM905 (a list of strings would be half a page)
"""Element types by number, those of ``onnx.TensorProto``."""
DEEPEST = 32
MOST_DIMENSIONS = 64
_GRAPH, _GRAPHS = 5, 10
_TENSOR_TYPE = 1
_VALUE = 1
_SHORT, _FEW = 60, 8


class Value(NamedTuple):
    """What a name stands for; of a sequence or a map the type says that, and no shape is known."""

    type: str
    shape: tuple[int | str | None, ...] | None


class Stored(NamedTuple):
    """An initialiser; ``external`` where its bytes lie in another file."""

    name: str
    type: str
    shape: tuple[int, ...]
    size: int
    external: bool


@dataclass(frozen=True, slots=True)
class Node:
    """One operator. ``provider`` is the execution provider that the file assigns it to, empty for none."""

    name: str
    domain: str
    operator: str
    since: int
    fused: bool
    provider: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, str]
    graphs: dict[str, Graph]

    @property
    def title(self) -> str:
        """The operator with its domain, where that is not the standard's."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph, and what is known of its values by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stored: tuple[Stored, ...]
    values: dict[str, Value]
    nodes: tuple[Node, ...]

    def walk(self) -> Iterator[Node]:
        """Yield every operator, those of inner graphs too."""
        for node in self.nodes:
            yield node
            for graph in node.graphs.values():
                yield from graph.walk()

    def tensors(self) -> Iterator[Stored]:
        """Yield every initialiser, those of inner graphs too."""
        yield from self.stored
        for node in self.nodes:
            for graph in node.graphs.values():
                yield from graph.tensors()


@dataclass(frozen=True, slots=True)
class Model:
    """A whole file."""

    version: str
    ir: int
    opsets: dict[str, int]
    producer: str
    domain: str
    description: str
    metadata: dict[str, str]
    graph: Graph
    end: int


def parse(view: memoryview, *, where: str) -> Model:
    """Return what a file holds; of tensors the sizes, not the data.

    Raises:
        MalformedError: It leads out of the file, or has no model or graph.
        LimitExceededError: Graphs nest deeper than 32, or it has more tables than a file of its size needs.
    """
    session = root(view, where=where)
    model = session.table(1)
    graph = _graph(model.table(7), 0, where)
    if resolver := session.maybe(3):
        _kernels(resolver)
    return Model(
        version=session.text(0),
        ir=int(model.number(0, "<q")),
        opsets={one.text(0) or "ai.onnx": int(one.number(1, "<q")) for one in model.tables(1)},
        producer=f"{model.text(2)} {model.text(3)}".strip(),
        domain=model.text(4),
        description=model.text(6),
        metadata={one.text(0): one.text(1) for one in model.tables(9)},
        graph=graph,
        end=session.buffer.end,
    )


def _kernels(resolver: Table) -> None:
    """Walk the table of kernels' types, which mean nothing here, so that what is behind it is known to be hidden."""
    for operator in resolver.tables(0):
        operator.text(0)
        for kind in operator.tables(1):
            kind.text(0)
            for argument in kind.tables(1):
                argument.inline()


def _graph(table: Table, depth: int, where: str) -> Graph:
    if depth > DEEPEST:
        exceed(where, f"graphs nest deeper than {DEEPEST}")
    stored = [_stored(one, one.text(0), where) for one in table.tables(0)]
    sparse = [_stored(one.table(0), one.table(0).text(0), where) for one in table.tables(7)]
    return Graph(
        inputs=tuple(table.texts(5)),
        outputs=tuple(table.texts(6)),
        stored=(*stored, *sparse),
        values={one.text(0): _value(one.maybe(2), where) for one in table.tables(1)},
        nodes=tuple(_node(one, depth, where) for one in table.tables(2)),
    )


def _node(table: Table, depth: int, where: str) -> Node:
    attributes, graphs = {}, {}
    for one in table.tables(10):
        name, kind = one.text(0), one.integer(2)
        if kind == _GRAPH:
            graphs[name] = _graph(one.table(7), depth + 1, where)
        elif kind == _GRAPHS:
            inner = enumerate(one.tables(12))
            graphs |= {f"{name}.{place}": _graph(graph, depth + 1, where) for place, graph in inner}
        else:
            attributes[name] = _attribute(one, kind)
    return Node(
        name=table.text(0),
        domain="" if (domain := table.text(2)) == "ai.onnx" else domain,
        operator=table.text(5),
        since=table.integer(3),
        fused=table.integer(6) == 1,
        provider=table.text(7),
        inputs=tuple(table.texts(8)),
        outputs=tuple(table.texts(9)),
        attributes=attributes,
        graphs=graphs,
    )


def _attribute(table: Table, kind: int) -> str:
    """Return an attribute for people: short, of long ones the count."""
    match kind:
        case 1:
            return f"{table.number(3, '<f'):g}"
        case 2:
            return str(table.number(4, "<q"))
        case 3:
            text = table.text(5)
            return text if len(text) <= _SHORT else f"text of {len(text)}"
        case 4 | 11:
            return "a tensor"
        case 7 if table.count(9) <= _FEW:
            return str(table.numbers(9, "q"))
    field = {6: 8, 7: 9, 8: 10}.get(kind, 11)
    return f"{table.count(field)} values"


def _stored(table: Table, name: str, where: str) -> Stored:
    shape = table.numbers(2, "q")
    if len(shape) > MOST_DIMENSIONS or any(size < 0 for size in shape):
        refuse(where, f"the tensor {name!r:.100} has no possible shape")
    texts = table.count(5)
    size = len(table.bytes(4)) or sum(len(text.encode()) for text in (table.texts(5) if texts else []))
    return Stored(name, element(table.integer(3)), tuple(shape), size, int(table.number(6, "<q", -1)) >= 0)


def element(number: int) -> str:
    """Return the name of an element type."""
    return TYPES[number] if 0 <= number < len(TYPES) else f"type {number}"


def _value(table: Table | None, where: str) -> Value:
    if table is None:
        return Value("", None)
    kind, inner = table.union(1, 2)
    if inner is None or kind != _TENSOR_TYPE:
        return Value({2: "sequence", 3: "map"}.get(kind, "unknown"), None)
    shape = inner.maybe(1)
    sizes = shape.tables(0) if shape else []
    if len(sizes) > MOST_DIMENSIONS:
        refuse(where, f"a value of {len(sizes)} dimensions")
    return Value(element(inner.integer(0)), tuple(_size(one.maybe(0)) for one in sizes) if shape else None)


def _size(table: Table | None) -> int | str | None:
    if table is None:
        return None
    kind = int(table.number(0, "<b"))
    return int(table.number(1, "<q")) if kind == _VALUE else table.text(2) or None
