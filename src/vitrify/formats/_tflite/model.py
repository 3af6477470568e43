"""A TFLite file as values: every index in it was compared with what it counts, no tensor's data was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vitrify.formats._tflite.schema import (
    CASE,
    CUSTOM,
    CUSTOM_CALL,
    GRAPHS,
    MORE_GRAPHS,
    OPERATORS,
    PLACEHOLDER,
    TYPES,
    BufferField,
    CodeField,
    GraphField,
    ModelField,
    OperatorField,
    QuantisationField,
    SignatureField,
    TensorField,
)
from vitrify.reading.flatbuffer import root
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.reading.flatbuffer import Table

MOST_DIMENSIONS = 64
_OUTSIDE = 1
"""An offset up to this one means that the data is inside the FlatBuffer."""


class Code(NamedTuple):
    """A kind of operator that the model uses: ``custom`` ones are code of the application or of a library."""

    name: str
    version: int
    custom: bool


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How the numbers of a tensor stand for others: one scale, or one for each index of ``axis``."""

    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a graph: a size that may change is None; ``data`` is what is stored, empty for what is computed."""

    name: str
    type: str
    shape: tuple[int | None, ...]
    buffer: int
    data: memoryview
    quantisation: Quantisation | None
    external: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its code, the tensors by index (-1 for one that is left out), the graphs inside it by index."""

    code: Code
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    graphs: dict[str, int] = field(default_factory=dict)
    target: str = ""


@dataclass(frozen=True, slots=True)
class SubGraph:
    """A graph; the first of a model is the one that runs."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """A way to call the model: names of its inputs and outputs, and the tensors of which graph they are."""

    key: str
    graph: int
    inputs: dict[str, int]
    outputs: dict[str, int]


@dataclass(frozen=True, slots=True)
class Model:
    """A whole file. ``end`` is where the last byte lies that anything in it leads to."""

    version: int
    description: str
    codes: tuple[Code, ...]
    graphs: tuple[SubGraph, ...]
    metadata: dict[str, memoryview]
    signatures: tuple[Signature, ...]
    groups: tuple[str, ...]
    end: int


def parse(view: memoryview, *, where: str) -> Model:
    """Return what a file holds.

    Raises:
        MalformedError: It leads out of the file, or an index in it to something that is not there.
        LimitExceededError: It has more tables than a file of its size needs.
    """
    return _Parser(view, where).model()


class _Parser:
    def __init__(self, view: memoryview, where: str) -> None:
        self.view, self.where = view, where
        self.root = root(view, where=where)
        self.end = 0
        self.codes = tuple(_code(table) for table in self.root.tables(ModelField.CODES))
        self.buffers = [self._buffer(table) for table in self.root.tables(ModelField.BUFFERS)]

    def model(self) -> Model:
        graphs = self.root.tables(ModelField.GRAPHS)
        parsed = tuple(self._graph(table, len(graphs)) for table in graphs)
        pairs = [(one.text(0), int(one.number(1, "<I"))) for one in self.root.tables(ModelField.METADATA)]
        metadata = {name: self.buffers[self._index(at, self.buffers, "a buffer")] for name, at in pairs}
        signatures = tuple(self._signature(table, parsed) for table in self.root.tables(ModelField.SIGNATURES))
        version = int(self.root.number(ModelField.VERSION, "<I"))
        description = self.root.text(ModelField.DESCRIPTION)
        groups = tuple(group.text(0) for group in self.root.tables(ModelField.GROUPS))
        self.root.array(ModelField.METADATA_BUFFER, "<i4")
        end = max(self.end, self.root.buffer.end)
        return Model(version, description, self.codes, parsed, metadata, signatures, groups, end)

    def _index(self, index: int, of: Sequence[object], what: str) -> int:
        if not 0 <= index < len(of):
            refuse(self.where, f"names {what} {index}, of {len(of)}")
        return index

    def _indices(self, indices: list[int], of: int, *, least: int) -> tuple[int, ...]:
        if indices and not (least <= min(indices) and max(indices) < of):
            refuse(self.where, f"names tensors {min(indices)} to {max(indices)}, of {of}")
        return tuple(indices)

    def _buffer(self, table: Table) -> memoryview:
        offset, size = (int(table.number(one, "<Q")) for one in (BufferField.OFFSET, BufferField.SIZE))
        return table.bytes(BufferField.DATA) if offset <= _OUTSIDE else self._behind(offset, size)

    def _behind(self, offset: int, size: int) -> memoryview:
        """Return data behind the FlatBuffer, as in models above 2 GB: its offset counts from the file's start."""
        if offset + size > len(self.view):
            refuse(self.where, f"has {size} bytes of data at {offset}, in a file of {len(self.view)}")
        self.end = max(self.end, offset + size)
        return self.view[offset : offset + size]

    def _graph(self, table: Table, graphs: int) -> SubGraph:
        tensors = tuple(self._tensor(one) for one in table.tables(GraphField.TENSORS))
        inputs, outputs = (
            self._indices(table.numbers(one), len(tensors), least=-1) for one in (GraphField.INPUTS, GraphField.OUTPUTS)
        )
        operators = tuple(
            self._operator(one, len(tensors), range(graphs)) for one in table.tables(GraphField.OPERATORS)
        )
        return SubGraph(table.text(GraphField.NAME), tensors, inputs, outputs, operators)

    def _tensor(self, table: Table) -> Tensor:
        number = int(table.number(TensorField.TYPE, "<b"))
        buffer = self._index(int(table.number(TensorField.BUFFER, "<I")), self.buffers, "a buffer")
        return Tensor(
            name=table.text(TensorField.NAME),
            type=TYPES[number] if 0 <= number < len(TYPES) else f"type {number}",
            shape=self._shape(table),
            buffer=buffer,
            data=self.buffers[buffer],
            quantisation=_quantisation(table.maybe(TensorField.QUANTISATION)),
            external=int(table.number(TensorField.EXTERNAL, "<I")) != 0,
        )

    def _shape(self, table: Table) -> tuple[int | None, ...]:
        sizes, signature = table.numbers(TensorField.SHAPE), table.numbers(TensorField.SIGNATURE)
        if len(sizes) > MOST_DIMENSIONS:
            refuse(self.where, f"has a tensor of {len(sizes)} dimensions")
        # The signature has -1 where the shape has what the converter assumed, mostly 1.
        shape = signature if len(signature) == len(sizes) else sizes
        return tuple(None if size < 0 else size for size in shape)

    def _operator(self, table: Table, tensors: int, graphs: range) -> Operator:
        code = self.codes[self._index(int(table.number(OperatorField.CODE, "<I")), self.codes, "an operator code")]
        kind, options = table.union(OperatorField.OPTIONS_KIND, OperatorField.OPTIONS)
        more_kind, more = table.union(OperatorField.MORE_KIND, OperatorField.MORE)
        inner = {name: options.integer(at) for name, at in GRAPHS.get(kind, {}).items()} if options else {}
        target = ""
        for one in (options, more):
            if one:
                one.inline()
        if more:
            inner |= {name: more.integer(at) for name, at in MORE_GRAPHS.get(more_kind, {}).items()}
            if more_kind in {CUSTOM_CALL, CASE}:
                listed = more.numbers(4 if more_kind == CUSTOM_CALL else 0)
                inner |= {str(place): graph for place, graph in enumerate(listed)}
            target = more.text(0) if more_kind == CUSTOM_CALL else ""
        for graph in inner.values():
            self._index(graph, graphs, "a graph")
        table.bytes(OperatorField.CUSTOM_OPTIONS)
        large = int(table.number(OperatorField.LARGE_OFFSET, "<Q"))
        if large > _OUTSIDE:
            self._behind(large, int(table.number(OperatorField.LARGE_SIZE, "<Q")))
        return Operator(
            code,
            self._indices(table.numbers(OperatorField.INPUTS), tensors, least=-1),
            self._indices(table.numbers(OperatorField.OUTPUTS), tensors, least=-1),
            inner,
            target,
        )

    def _signature(self, table: Table, graphs: tuple[SubGraph, ...]) -> Signature:
        graph = self._index(int(table.number(SignatureField.GRAPH, "<I")), graphs, "a graph")
        tensors = graphs[graph].tensors
        ports = []
        for one in (SignatureField.INPUTS, SignatureField.OUTPUTS):
            pairs = [(port.text(0), int(port.number(1, "<I"))) for port in table.tables(one)]
            ports.append({name: self._index(at, tensors, "a tensor") for name, at in pairs})
        return Signature(table.text(SignatureField.KEY), graph, *ports)


def _code(table: Table) -> Code:
    short, number = int(table.number(CodeField.SHORT, "<b")), table.integer(CodeField.BUILTIN)
    # Files of before 2020 have the old field only; later ones have the placeholder there, or the same number.
    number = max(short, number) if short != PLACEHOLDER else number
    name = OPERATORS[number] if 0 <= number < len(OPERATORS) else f"operator {number}"
    custom = number == CUSTOM
    return Code(table.text(CodeField.CUSTOM) if custom else name, table.integer(CodeField.VERSION, 1), custom)


def _quantisation(table: Table | None) -> Quantisation | None:
    if table is None:
        return None
    scales = tuple(float(one) for one in table.numbers(QuantisationField.SCALE, "f"))
    zeros = tuple(int(one) for one in table.numbers(QuantisationField.ZERO_POINT, "q"))
    for limit in (QuantisationField.LEAST, QuantisationField.MOST):
        table.array(limit, "<f4")
    if table.has(QuantisationField.DETAILS):
        table.table(QuantisationField.DETAILS).inline()
    axis = table.integer(QuantisationField.DIMENSION)
    return Quantisation(scales, zeros, axis) if scales else None
