"""A traced value: a tensor of the graph, the element type that NumPy would have, and a shape.

A size is a number, or :class:`Rows`: how many rows a call has is not known while tracing, and no answer may depend on
it. ONNX Runtime lacks kernels for many element types, so values are computed in a *working type* that holds every one
of them exactly, and rounded or wrapped to their own type after each operation, as NumPy does.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, F32, I64, TEXT, Graph, Tensor
from vitrify.transforms.convert._trace.errors import untraceable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.transforms.convert._building.graph import DType

U64, F16 = np.dtype(np.uint64), np.dtype(np.float16)

_NO_ROWS = "keep the batch: write x[:, j], -1 in a reshape, np.zeros_like(x) or np.full_like(x, value)"


class Rows:
    """The number of rows of a call: at least one, and nothing else is known about it."""

    def __eq__(self, other: object) -> bool:
        """Rows are as many as rows; any other comparison would make the answer depend on the batch."""
        if isinstance(other, Rows):
            return True
        return False if isinstance(other, int) and other <= 0 else self._refuse()

    def __gt__(self, other: object) -> bool:
        """Say that there are more than none."""
        return True if isinstance(other, int) and other <= 0 else self._refuse()

    def __ge__(self, other: object) -> bool:
        """Say that there is at least one."""
        return True if isinstance(other, int) and other <= 1 else self._refuse()

    def __lt__(self, other: object) -> bool:
        """Say that there are not less than one."""
        return False if isinstance(other, int) and other <= 1 else self._refuse()

    def __le__(self, other: object) -> bool:
        """Say that there is not nothing."""
        return False if isinstance(other, int) and other <= 0 else self._refuse()

    def __hash__(self) -> int:
        """All are equal."""
        return hash(Rows)

    def __bool__(self) -> bool:
        """Say that there are some."""
        return True

    def __repr__(self) -> str:
        """Return a word for messages."""
        return "rows"

    def _refuse(self, *_: object) -> Any:
        untraceable("computes with the number of rows", _NO_ROWS)

    __index__ = __int__ = __float__ = __len__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __pow__ = _refuse


numbers.Integral.register(Rows)
ROWS = Rows()
Shape = tuple[int | Rows, ...]


@dataclass(frozen=True)
class Value:
    """One value.

    Attributes:
        graph: Where it is computed.
        tensor: Its place there; floating-point types follow the graph's precision.
        dtype: What ``x.dtype`` is for the user's code.
        shape: Numbers and ``ROWS``.
    """

    graph: Graph
    tensor: Tensor
    dtype: DType
    shape: Shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def work(self, *, modular: bool = False) -> Tensor:
        """Return the tensor in its working type; see :func:`working`."""
        return self.graph.cast(self.tensor, working(self.dtype, modular=modular))

    def same(self, tensor: Tensor, shape: Shape) -> Value:
        """Return another value of the same element type, from a tensor in the working type."""
        return finish(self.graph, tensor, self.dtype, shape)


Operand = Any
"""A value, an array, a NumPy scalar or a Python number."""


def working(dtype: DType, *, modular: bool = False) -> DType:
    """Return the element type to compute in.

    Args:
        dtype: NumPy's.
        modular: Whether the operation is the same modulo 2^64, so that unsigned 64-bit numbers may be taken as signed.
    """
    if dtype in {BOOL, TEXT} or dtype in {F32, np.dtype(np.float64)}:
        return dtype
    if dtype == F16:
        return F32
    if dtype == U64 and not modular:
        untraceable("computes with unsigned 64-bit integers", "cast to int64 or float64 first")
    if dtype.kind in "iu":
        return I64
    return untraceable(f"computes with {dtype}", "use numbers, booleans or text")


def finish(graph: Graph, tensor: Tensor, dtype: DType, shape: Shape) -> Value:
    """Return what was computed in the working type as a value of its own type: rounded, or wrapped around."""
    return Value(graph, graph.cast(tensor, dtype), dtype, shape)


def constant(graph: Graph, value: Any, dtype: DType | None = None) -> Value:
    """Return a constant; a Python number takes the given type, and must fit it."""
    array = np.asarray(value, dtype)
    if array.dtype.kind in "US":
        array = array.astype(TEXT)
    if array.dtype == TEXT and not all(isinstance(item, str) for item in array.flat):
        untraceable("computes with an array of Python objects", "use arrays of numbers, booleans or text")
    working(array.dtype, modular=True)
    return Value(graph, graph.constant(array), array.dtype, array.shape)


def graph_of(operands: Sequence[Operand]) -> Graph:
    """Return the graph of the first value among the operands."""
    return next(operand.graph for operand in operands if isinstance(operand, Value))


def lift(graph: Graph, operand: Operand) -> Value:
    """Return an operand as a value."""
    return operand if isinstance(operand, Value) else constant(graph, operand)


def astype(value: Value, dtype: Any) -> Value:
    """Return ``value.astype(dtype)``."""
    target = np.dtype(dtype)
    if target.kind in "USO" and value.dtype == TEXT:
        return value
    if value.dtype == TEXT or target.kind not in "biuf":
        untraceable(f"casts {value.dtype} to {target}", "cast between numbers and booleans only")
    working(target, modular=True)
    graph = value.graph
    if target == BOOL and value.dtype != BOOL:
        return Value(graph, truth(value), target, value.shape)
    if value.dtype.kind == "f" and target.kind in "iu" and target.itemsize < I64.itemsize:
        # As compilers do it: to 32 bits, of which the lower ones are kept; to 64 for 32 bits without a sign.
        wide = np.dtype(np.int64 if target == np.dtype(np.uint32) else np.int32)
        return Value(graph, graph.cast(graph.cast(value.tensor, wide), target), target, value.shape)
    return Value(graph, graph.cast(value.tensor, target), target, value.shape)


def truth(value: Value) -> Tensor:
    """Return where a value counts as true: it is not zero; NaN is not."""
    if value.dtype == BOOL:
        return value.tensor
    if value.dtype == TEXT:
        untraceable("takes text for a truth value", "compare it: x == 'yes'")
    graph, tensor = value.graph, value.work(modular=True)
    return graph.op("Not", graph.compare("Equal", tensor, np.zeros((), tensor.dtype)), dtype=BOOL)


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape that NumPy broadcasts to."""
    result: list[int | Rows] = []
    for place in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [shape[-place] for shape in shapes if place <= len(shape)]
        kept: int | Rows = 1
        for size in sizes:
            if isinstance(size, int) and size == 1:
                continue
            if isinstance(kept, int) and kept == 1:
                kept = size
            elif isinstance(kept, Rows) is not isinstance(size, Rows):
                untraceable(
                    "combines the rows of the batch with an array of fixed length", "line up other axes: x[:, None]"
                )
            elif kept != size:
                msg = f"operands could not be broadcast together with shapes {' '.join(map(str, shapes))}"
                raise ValueError(msg)
        result.append(kept)
    return tuple(result[::-1])


def axis_of(value: Value, axis: Any) -> int:
    """Return an axis counted from the front.

    Raises:
        ValueError: There is no such axis.
    """
    place = int(axis)
    if not -value.ndim <= place < value.ndim:
        msg = f"axis {axis} is out of bounds for array of dimension {value.ndim}"
        raise np.exceptions.AxisError(msg)
    return place % value.ndim


def static(value: Value, axis: int, what: str) -> int:
    """Return the size of an axis that is not the batch's.

    Raises:
        UnsupportedModelError: It is: the answer for one row would depend on the other rows of its call.
    """
    size = value.shape[axis]
    if isinstance(size, Rows):
        untraceable(
            f"{what} the rows of the batch (axis {axis}), so that a row's answer depends on the other rows of its call",
            "compute it in fit and keep it, or work along the columns: axis=1",
        )
    return size


def count(shape: Sequence[int | Rows]) -> tuple[int, int]:
    """Return the product of the known sizes, and how many are the batch's."""
    known = [size for size in shape if isinstance(size, int)]
    return math.prod(known), len(shape) - len(known)


def moved(value: Value, change: Callable[[Tensor], Tensor], shape: Shape) -> Value:
    """Return a value whose elements were only moved; every element type can be."""
    tensor = change(value.tensor)
    return Value(value.graph, Tensor(tensor.name, value.tensor.dtype), value.dtype, shape)
