"""The walk over a StableHLO module: each operation is converted by the function that knows it.

A value is a tensor of the graph or a constant. Broadcasting is put off: a value may be smaller than its type says, as
ONNX's own operators broadcast; who needs it whole asks for :meth:`Walk.full`.

Source: https://openxla.org/stablehlo/spec
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.transforms.convert._building.graph import I64, Array, DType, Graph, Tensor
from vitrify.transforms.convert._building.steps import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Sizes = tuple["int | None", ...]

_TYPES = {"i1": "bool", **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)}}
_TYPES |= {f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)} | {f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32)}
_FOREVER = 2**63 - 1
_CONSTANT = 1 << 16
"""Elements of a constant that is computed on the way; larger ones are computed by the graph."""


@dataclass(frozen=True)
class Value:
    """A value on the way.

    Attributes:
        data: A tensor of the graph, or a constant.
        sizes: What its type says; None for one that may change.
        whole: Where it still has to be broadcast, the shape to expand to: a vector of int64. Its rank is right already.
    """

    data: Tensor | Array
    sizes: Sizes
    whole: Tensor | Array | None = None

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.data.dtype

    @property
    def constant(self) -> Array | None:
        """Its elements, where they are known; not broadcast."""
        return self.data if isinstance(self.data, np.ndarray) else None


Converter = Callable[["Walk", "Op"], "Value | Iterable[Value]"]
CONVERTERS: dict[str, Converter] = {}


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter for operations of the dialect."""

    def register(converter: Converter) -> Converter:
        CONVERTERS.update({name if "." in name else f"stablehlo.{name}": converter for name in names})
        return converter

    return register


class Op:
    """One operation, its attributes as Python values."""

    def __init__(self, operation: Any, operands: Sequence[Value]) -> None:
        """Wrap MLIR's."""
        self.operation = operation
        self.name: str = operation.name
        self.operands = tuple(operands)

    def attribute(self, name: str) -> Any:
        """Return MLIR's attribute, or None."""
        attributes = self.operation.attributes  # MLIR's map has no get
        return attributes[name] if name in attributes else None  # noqa: SIM401 (as above)

    def integers(self, name: str, default: Any = None) -> list[int]:
        """Return an array of integers, a nested one row by row."""
        found = self.attribute(name)
        if found is None:
            return list(default) if default is not None else []
        return [
            int(value) for value in (np.asarray(found).ravel() if isinstance(found, ir.DenseElementsAttr) else found)
        ]

    def integer(self, name: str, default: int = 0) -> int:
        """Return a number."""
        found = self.attribute(name)
        return default if found is None else int(ir.IntegerAttr(found).value)

    def text(self, name: str) -> str:
        """Return text, or a symbol's name."""
        found = self.attribute(name)
        return str(found.value) if hasattr(found, "value") else str(found)

    @property
    def sizes(self) -> Sizes:
        """What the type of the first result says."""
        return sizes_of(self.operation.results[0].type)

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return dtype_of(self.operation.results[0].type)


class Walk:
    """One walk through a module."""

    def __init__(self, graph: Graph, module: ir.Module) -> None:
        """Start with the functions of the module."""
        self.graph = graph
        self.problems: Counter[tuple[str, str, str]] = Counter()
        functions = (one.operation for one in module.body.operations if one.operation.name == "func.func")
        self._functions = {ir.StringAttr(one.attributes["sym_name"]).value: one for one in functions}

    def findings(self) -> tuple[Finding, ...]:
        """Return what could not be converted."""
        return tuple(
            Finding(place=place, message=f"{message} ({count} time(s))", remedy=remedy)
            for (place, message, remedy), count in sorted(self.problems.items())
        )

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """Return what a function of the module gives."""
        return self.block(self._functions[name].regions[0].blocks[0], arguments, {})

    def block(self, block: ir.Block, arguments: Sequence[Value], outer: dict[Any, Value]) -> list[Value]:
        """Return what a block gives for its arguments, seeing the values around it."""
        values = {**outer, **dict(zip(block.arguments, arguments, strict=True))}
        for one in block.operations:
            operation = one.operation
            operands = [values[value] for value in operation.operands]
            if operation.name in {"func.return", "stablehlo.return"}:
                return operands
            values.update(zip(operation.results, self._results(operation, operands, values), strict=True))
        return []

    def _results(self, operation: Any, operands: list[Value], values: dict[Any, Value]) -> Sequence[Value]:
        op = Op(operation, operands)
        try:
            if operation.name == "func.call":
                return self.call(op.text("callee").lstrip("@"), operands)
            if operation.name == "stablehlo.case":
                return self._case(op, values)
            if operation.name == "stablehlo.while":
                return self._while(op, values)
            kinds = [dtype_of(result.type) for result in operation.results]
            converter = CONVERTERS.get(operation.name)
            if converter is None:
                refuse("has no counterpart in ONNX", "compute it otherwise, or keep the model's own form")
            found = converter(self, op)
            answers = [found] if isinstance(found, Value) else list(found)
            assert [one.dtype for one in answers] == kinds, (operation.name, answers, kinds)
        except UnsupportedModelError as error:
            self.problems[_place(op), error.message, error.remedy] += 1
            return [_stand_in(result.type) for result in operation.results]
        return answers

    def _case(self, op: Op, values: dict[Any, Value]) -> list[Value]:
        """Compute every branch, as none has an effect, and choose."""
        every = [self.block(region.blocks[0], (), values) for region in op.operation.regions]
        chosen = every[-1]
        index = self.tensor(op.operands[0])
        for at in range(len(every) - 2, -1, -1):
            here = self.graph.compare("Equal", index, np.array(at, index.dtype))
            chosen = [
                Value(self.select(here, self.full(one), self.full(other)), one.sizes)
                for one, other in zip(every[at], chosen, strict=True)
            ]
        return chosen

    def _while(self, op: Op, values: dict[Any, Value]) -> list[Value]:
        """Repeat a block as long as another one says so, which is asked before the first time, too."""
        ask, do = (region.blocks[0] for region in op.operation.regions)
        sizes = [sizes_of(result.type) for result in op.operation.results]

        def going(states: Sequence[Value]) -> Tensor:
            return self.full(self.block(ask, states, values)[0])

        def step(_: Tensor, before: tuple[Tensor, ...]) -> list[Tensor]:
            after = self.block(do, [*map(Value, before, sizes)], values)
            return [going(after), *map(self.full, after)]

        times = self.graph.where(going(op.operands), np.array(_FOREVER, I64), np.array(0, I64))
        states = self.graph.loop(times, [self.full(one) for one in op.operands], step)
        return [*map(Value, states, sizes)]

    # Values

    def tensor(self, value: Value) -> Tensor:
        """Return a value in the graph, broadcast or not."""
        return value.data if isinstance(value.data, Tensor) else self.graph.constant(value.data)

    def full(self, value: Value) -> Tensor:
        """Return a value in the graph, in its whole shape."""
        if value.whole is None:
            return self.tensor(value)
        if isinstance(value.data, np.ndarray) and isinstance(value.whole, np.ndarray):
            return self.graph.constant(np.ascontiguousarray(np.broadcast_to(value.data, tuple(value.whole))))
        return self.graph.op("Expand", self.tensor(value), value.whole, dtype=value.dtype)

    def known(self, value: Value) -> Array | None:
        """Return a constant in its whole shape, where it is one and small."""
        if value.constant is None or isinstance(value.whole, Tensor):
            return None
        if value.whole is None:
            return value.constant
        return np.broadcast_to(value.constant, tuple(value.whole)) if np.prod(value.whole) <= _CONSTANT else None

    def shape(self, value: Value) -> Tensor | Array:
        """Return the sizes of a vector of sizes as int64."""
        known = self.known(value)
        return known.astype(I64) if known is not None else self.graph.cast(self.full(value), I64)

    def select(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
        """Return one or the other, of any element type."""
        graph = self.graph
        if yes.dtype == np.bool_:
            first = graph.op("And", condition, yes, dtype=bool)
            second = graph.op("And", graph.op("Not", condition, dtype=bool), no, dtype=bool)
            return graph.op("Or", first, second, dtype=bool)
        if yes.dtype in _NO_WHERE:
            wide = np.dtype(np.int32 if yes.dtype.itemsize < 4 else np.int64)  # noqa: PLR2004 (bytes)
            return graph.cast(graph.where(condition, graph.cast(yes, wide), graph.cast(no, wide)), yes.dtype)
        return graph.where(condition, yes, no)


_NO_WHERE = frozenset(np.dtype(kind) for kind in ("int8", "int16", "uint16", "uint32"))


def sizes_of(kind: Any) -> Sizes:
    """Return the sizes of a type."""
    ranked = ir.RankedTensorType(kind)
    return tuple(None if ranked.is_dynamic_dim(at) else int(ranked.get_dim_size(at)) for at in range(ranked.rank))


def dtype_of(kind: Any) -> DType:
    """Return the element type as NumPy has it.

    Raises:
        UnsupportedModelError: ONNX Runtime computes with none such.
    """
    name = str(ir.RankedTensorType(kind).element_type)
    if name not in _TYPES:
        refuse(f"computes in {name}, which ONNX Runtime does not on the CPU", "compute in float32")
    return np.dtype(_TYPES[name])


def _place(op: Op) -> str:
    if op.name == "stablehlo.custom_call":
        return f"custom_call {op.text('call_target_name')}"
    return op.name.removeprefix("stablehlo.")


def _stand_in(kind: Any) -> Value:
    try:
        dtype = dtype_of(kind)
    except UnsupportedModelError:
        dtype = np.dtype(np.float32)
    return Value(Tensor("unsupported", dtype), sizes_of(kind))
