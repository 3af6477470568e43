"""The graph that a converter writes: ONNX nodes with NumPy's arithmetic.

NumPy promotes where ONNX refuses, so every operation here takes what NumPy would take, casts as NumPy would
cast, and remembers the element type of what comes out. A converter that copies the source's expressions thus
copies its rounding too.

Source: ONNX operators, https://onnx.ai/onnx/operators/; type promotion, https://numpy.org/doc/stable/reference/ufuncs.html
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from onnx import ValueInfoProto

Precision = Literal["source", "float32", "float64"]
Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

ML = "ai.onnx.ml"
MS = "com.microsoft"
TEXT = np.dtype(object)
"""The element type of text."""

I64, F32, F64, BOOL = (np.dtype(kind) for kind in (np.int64, np.float32, np.float64, np.bool_))


@dataclass(frozen=True)
class Tensor:
    """A value in the graph: its name there and its element type (``TEXT`` for strings)."""

    name: str
    dtype: DType


Operand = Tensor | Array | float
"""What an operation takes: a tensor, or a constant that becomes an initialiser."""


class Graph:
    """Nodes in the order in which they are computed.

    Args:
        opset: The version of ONNX's main domain that the nodes are written for; at least 18.
        precision: ``source`` keeps every floating-point type; the others replace them all by one.
    """

    def __init__(self, opset: int, precision: Precision = "source") -> None:
        """Start empty."""
        self.opset = opset
        self.precision: Precision = precision
        self.nodes: list[NodeProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.declared: list[ValueInfoProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._names: set[str] = set()
        self._scope: list[str] = []

    # Names

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Put a step's name in front of the names of all that the block adds."""
        self._scope.append(name)
        try:
            yield
        finally:
            self._scope.pop()

    def _name(self, hint: str) -> str:
        base = "/".join(part for part in [*self._scope, hint] if part)
        name, count = base, 0
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    def reserve(self, name: str) -> str:
        """Keep a name for an output that is declared later, and return it, or one like it if it is taken."""
        return self._name(name)

    # Element types

    def real(self, dtype: Any) -> DType:
        """Return the type to compute in where the source computes in ``dtype``."""
        kind: DType = np.dtype(dtype)
        if kind.kind != "f" or self.precision == "source":
            return kind
        return F32 if self.precision == "float32" else F64

    def cast(self, value: Operand, dtype: Any) -> Tensor:
        """Return ``value.astype(dtype)``."""
        target = self.real(dtype)
        if not isinstance(value, Tensor):
            return self.constant(np.asarray(value).astype(target))
        if value.dtype == target:
            return value
        return self.op("Cast", value, dtype=target, to=onnx_type(target))

    def _tensor(self, value: Operand, dtype: DType | None = None) -> Tensor:
        if isinstance(value, Tensor):
            return value if dtype is None else self.cast(value, dtype)
        array = np.asarray(value)
        return self.constant(array if dtype is None else array.astype(self.real(dtype)))

    # Building

    def input(self, name: str, dtype: DType, shape: tuple[int | str, ...]) -> Tensor:
        """Declare an input of the graph; its type is kept whatever the precision."""
        self._names.add(name)
        self.inputs.append(helper.make_tensor_value_info(name, onnx_type(dtype), shape))
        return Tensor(name, dtype)

    def output(self, name: str, value: Tensor, shape: tuple[int | str, ...]) -> Tensor:
        """Declare an output of the graph, under a name that was reserved."""
        self.nodes.append(helper.make_node("Identity", [value.name], [name], name=self._name(f"{name}/Identity")))
        self.outputs.append(helper.make_tensor_value_info(name, onnx_type(value.dtype), shape))
        return Tensor(name, value.dtype)

    def constant(self, value: Any, hint: str = "constant") -> Tensor:
        """Return an initialiser; equal ones are shared."""
        array = np.asarray(value)
        array = array.astype(TEXT) if array.dtype.kind in "US" else array.astype(self.real(array.dtype), copy=False)
        content = repr(array.tolist()).encode() if array.dtype == TEXT else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self._known:
            self._known[key] = name = self._name(hint)
            self.constants[name] = to_proto(array, name)
        return Tensor(self._known[key], array.dtype)

    def op(self, kind: str, *inputs: Operand | None, dtype: Any, domain: str = "", **attributes: Any) -> Tensor:
        """Add one node with one output of element type ``dtype`` and return that output."""
        return self.ops(kind, *inputs, dtypes=(dtype,), domain=domain, **attributes)[0]

    def ops(
        self, kind: str, *inputs: Operand | None, dtypes: tuple[Any, ...], domain: str = "", **attributes: Any
    ) -> tuple[Tensor, ...]:
        """Add one node with several outputs."""
        names = ["" if value is None else self._tensor(value).name for value in inputs]
        label = self._name(kind)
        outputs = [label if len(dtypes) == 1 else self._name(f"{kind}.{index}") for index in range(len(dtypes))]
        node = helper.make_node(kind, names, outputs, name=label, domain=domain)
        node.attribute.extend(_attribute(name, value) for name, value in attributes.items() if value is not None)
        self.nodes.append(node)
        if domain == MS:
            # ONNX does not know the operator, and its inference crashes on an input of a type that it does not know.
            types = zip(outputs, dtypes, strict=True)
            self.declared += [helper.make_tensor_value_info(name, onnx_type(dtype), None) for name, dtype in types]
        return tuple(Tensor(name, np.dtype(dtype)) for name, dtype in zip(outputs, dtypes, strict=True))

    def adopt(self, node: NodeProto, names: dict[str, str]) -> None:
        """Add another graph's node.

        Args:
            node: It stays as it is.
            names: That graph's names to ours; the node's outputs are added to it.
        """
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = ["" if not name else names[name] for name in node.input]
        copy.name = self._name(node.op_type)
        for name in node.output:
            names[name] = self._name(name) if name else ""
        copy.output[:] = [names[name] for name in node.output]
        self.nodes.append(copy)

    def loop(
        self, count: Operand, states: Sequence[Tensor], step: Callable[[Tensor, tuple[Tensor, ...]], Sequence[Tensor]]
    ) -> tuple[Tensor, ...]:
        """Do a step so many times and return the states after the last one.

        Args:
            count: How many times: a scalar of int64.
            states: What the first step begins with.
            step: Adds one step's nodes, from its number and the states before it to the states after it; before
                these it may give a scalar boolean: whether there is another step.
        """
        outer, self.nodes = self.nodes, []
        number, going = Tensor(self._name("step"), I64), Tensor(self._name("going"), BOOL)
        before = tuple(Tensor(self._name("state"), state.dtype) for state in states)
        given = tuple(step(number, before))
        results = given if len(given) > len(states) else (going, *given)
        after = [self.op("Identity", value, dtype=value.dtype) for value in results]
        inputs = [
            helper.make_tensor_value_info(value.name, onnx_type(value.dtype), [] if value in (number, going) else None)
            for value in (number, going, *before)
        ]
        outputs = [helper.make_tensor_value_info(value.name, onnx_type(value.dtype), None) for value in after]
        body, self.nodes = helper.make_graph(self.nodes, "body", inputs, outputs), outer
        return self.ops("Loop", count, None, *states, dtypes=tuple(state.dtype for state in states), body=body)

    # NumPy's operations

    def binary(self, kind: str, left: Operand, right: Operand, dtype: Any = None) -> Tensor:
        """Return ``left kind right``, promoted as NumPy does; a Python float adapts to the other side."""
        target = self.real(dtype if dtype is not None else _promote(left, right))
        return self.op(kind, self._tensor(left, target), self._tensor(right, target), dtype=target)

    def compare(self, kind: str, left: Operand, right: Operand) -> Tensor:
        """Return a boolean tensor: ``Less``, ``LessOrEqual``, ``Greater``, ``GreaterOrEqual`` or ``Equal``."""
        target = self.real(_promote(left, right))
        return self.op(kind, self._tensor(left, target), self._tensor(right, target), dtype=BOOL)

    def unary(self, kind: str, value: Tensor, **attributes: Any) -> Tensor:
        """Return a function of each element, of the same type."""
        return self.op(kind, value, dtype=value.dtype, **attributes)

    def sigmoid(self, value: Tensor) -> Tensor:
        """Return ``1 / (1 + exp(-value))``; ONNX Runtime's Sigmoid answers 0 or 2e-16 for all that is smaller."""
        return self.sigmoid_of_negative(self.unary("Neg", value))

    def sigmoid_of_negative(self, value: Tensor) -> Tensor:
        """Return ``1 / (1 + exp(value))``: the sigmoid of what has the other sign."""
        one = np.ones((), value.dtype)
        return self.binary("Div", one, self.binary("Add", self.unary("Exp", value), one))

    def matmul(self, left: Operand, right: Operand) -> Tensor:
        """Return ``left @ right`` in the promoted type."""
        return self.binary("MatMul", left, right)

    def affine(self, x: Tensor, weights: Array, bias: Operand) -> Tensor:
        """Return ``x @ weights + bias``."""
        return self.binary("Add", self.matmul(x, weights), bias)

    def where(self, condition: Tensor, yes: Operand, no: Operand) -> Tensor:
        """Return ``numpy.where(condition, yes, no)``."""
        target = self.real(_promote(yes, no))
        return self.op("Where", condition, self._tensor(yes, target), self._tensor(no, target), dtype=target)

    def reduce(self, kind: str, value: Tensor, axis: int, *, keep: bool = False) -> Tensor:
        """Return ``ReduceSum``, ``ReduceMax``, ``ReduceMean`` ... along one axis."""
        return self.op(kind, value, np.array([axis]), dtype=value.dtype, keepdims=int(keep))

    def gather(self, table: Operand, indices: Operand, axis: int = 0) -> Tensor:
        """Return ``numpy.take(table, indices, axis)``; an index out of bounds fails."""
        table = self._tensor(table)
        return self.op("Gather", table, indices, dtype=table.dtype, axis=axis)

    def concat(self, values: list[Tensor], axis: int = 1) -> Tensor:
        """Return the values side by side, in the promoted type."""
        target = values[0].dtype if values[0].dtype == TEXT else np.result_type(*(value.dtype for value in values))
        if len(values) == 1:
            return values[0]
        return self.op("Concat", *(self.cast(value, target) for value in values), dtype=self.real(target), axis=axis)

    def reshape(self, value: Tensor, *shape: int) -> Tensor:
        """Return ``value.reshape(shape)``; 0 keeps that dimension."""
        return self.op("Reshape", value, np.array(shape), dtype=value.dtype)

    def column(self, value: Tensor) -> Tensor:
        """Return a vector as a matrix of one column."""
        return self.op("Unsqueeze", value, np.array([1]), dtype=value.dtype)

    def vector(self, value: Tensor) -> Tensor:
        """Return a matrix of one column as a vector."""
        return self.op("Squeeze", value, np.array([1]), dtype=value.dtype)

    def argmax(self, value: Tensor, *, unknown: bool = False) -> Tensor:
        """Return the first position of each row's largest value; with ``unknown``, NaN is the largest, as in NumPy."""
        largest = self.op("ArgMax", value, dtype=I64, axis=1, keepdims=0)
        if not unknown:
            return largest
        nan = self.cast(self.op("IsNaN", value, dtype=BOOL), I64)
        some = self.cast(self.op("ReduceMax", nan, np.array([1]), dtype=I64, keepdims=0), BOOL)
        return self.where(some, self.argmax(nan), largest)

    def rows(self, like: Tensor) -> Tensor:
        """Return the number of rows as a vector of one element."""
        return self.op("Shape", like, dtype=I64, start=0, end=1)


def onnx_type(dtype: Any) -> int:
    """Return ONNX's number for an element type."""
    kind = np.dtype(dtype)
    return int(TensorProto.STRING) if kind == TEXT else int(helper.np_dtype_to_tensor_dtype(kind))


def to_proto(array: Array, name: str) -> TensorProto:
    """Return an array as ONNX keeps it; text as UTF-8."""
    if array.dtype != TEXT:
        return numpy_helper.from_array(np.asarray(array, order="C"), name)
    values = [str(value).encode() for value in array.ravel().tolist()]
    return helper.make_tensor(name, TensorProto.STRING, array.shape, values)


def _attribute(name: str, value: Any) -> AttributeProto:
    if isinstance(value, np.ndarray):
        value = to_proto(value.astype(TEXT) if value.dtype.kind in "US" else value, name)
    return helper.make_attribute(name, value)


def _promote(left: Operand, right: Operand) -> DType:
    sides = [value.dtype if isinstance(value, Tensor | np.ndarray | np.generic) else value for value in (left, right)]
    if TEXT in sides:
        return TEXT
    return np.result_type(*sides)
