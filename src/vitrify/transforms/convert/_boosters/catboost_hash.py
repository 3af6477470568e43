"""CatBoost's hash of a whole number, computed by the graph: the text of its digits, hashed by CityHash64.

CatBoost knows a category by the last 32 bits of a hash of its text, as a signed number. ONNX has no bytes of a text;
but the text of a whole number is its digits, of which there are 20 at most with the sign. So no table of the
training data's numbers is needed: every number has the hash that CatBoost gives it, also one that was never seen.

Source: ``util/digest/city.cpp`` (CityHash 1.0) and ``catboost/libs/cat_feature/cat_feature.cpp``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, I64

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Array, Graph, Tensor

_U64 = np.dtype(np.uint64)
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_PAIR = 0x9DDFEA08EB382D69
_LONGEST = 20
_ZERO, _MINUS = ord("0"), ord("-")


def hash_of_whole(graph: Graph, x: Tensor) -> Tensor:
    """Return the hash of each value's digits, as CatBoost keeps it: a signed number of 32 bits, in int64.

    Args:
        graph: Where it is computed.
        x: A vector of integers or booleans, which CatBoost reads as 1 and 0.
    """
    text, size = _digits(graph, graph.column(x))
    left = _from_left(graph, text, size)
    hashed = _Hash(graph, text, left, size)
    result = hashed.beyond_16()
    for most, value in ((16, hashed.up_to_16()), (8, hashed.up_to_8()), (3, hashed.up_to_3())):
        result = graph.where(graph.compare("LessOrEqual", size, np.array(most)), value, result)
    low = _shifted(graph, _shifted(graph, graph.cast(result, _U64), 32, "LEFT"), 32)
    low = graph.cast(low, I64)
    signed = graph.binary("Sub", low, np.array(2**32))
    return graph.vector(graph.where(graph.compare("Less", low, np.array(2**31)), low, signed))


def _digits(graph: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the text's bytes from its last to its first, zeros beyond it, (rows, 20), and its length, (rows, 1)."""
    signed = x.dtype.kind == "i"
    negative = graph.cast(graph.compare("Less", x, np.zeros((), x.dtype)), I64) if signed else None
    size = graph.cast(graph.cast(x, I64) if signed else x, _U64)
    if negative is not None:
        # The smallest number has no positive of its own in int64, but one in uint64.
        turned = graph.cast(graph.binary("Mul", graph.cast(x, I64), np.array(-1)), _U64)
        size = graph.cast(_chosen(graph, negative, turned, size), _U64)
    left = graph.binary("Div", size, 10 ** np.arange(_LONGEST, dtype=np.uint64).reshape(1, -1))
    digits = graph.cast(graph.op("Mod", left, np.array(10, np.uint64), dtype=_U64), I64)
    some = graph.cast(graph.compare("Greater", left, np.array(0, np.uint64)), I64)
    count = graph.op("Max", graph.reduce("ReduceSum", some, 1, keep=True), np.array(1), dtype=I64)
    place = np.arange(_LONGEST).reshape(1, -1)
    inside = graph.cast(graph.compare("Greater", count, place), I64)
    text = graph.binary("Mul", graph.binary("Add", digits, np.array(_ZERO)), inside)
    if negative is None:
        return text, count
    sign = graph.binary("Mul", graph.cast(graph.compare("Equal", count, place), I64), negative)
    text = graph.binary("Add", text, graph.binary("Mul", sign, np.array(_MINUS)))
    return text, graph.binary("Add", count, negative)


def _chosen(graph: Graph, chosen: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return one of two tensors of uint64, as int64: not every runtime chooses among uint64."""
    return graph.where(graph.cast(chosen, BOOL), graph.cast(yes, I64), graph.cast(no, I64))


def _from_left(graph: Graph, text: Tensor, size: Tensor) -> Tensor:
    """Return the first 16 bytes from the first on; what lies beyond the text is of no use."""
    places = graph.binary("Sub", size, np.arange(1, 17).reshape(1, -1))
    places = graph.op("Max", places, np.array(0), dtype=I64)
    return graph.op("GatherElements", text, places, dtype=I64, axis=1)


def _shifted(graph: Graph, x: Tensor, by: int | Tensor, direction: str = "RIGHT") -> Tensor:
    amount = np.array(by, np.uint64) if isinstance(by, int) else by
    return graph.op("BitShift", x, amount, dtype=_U64, direction=direction)


class _Hash:
    """The ways of CityHash64 by the length of the text, each for all rows; (rows, 1) of int64."""

    def __init__(self, graph: Graph, text: Tensor, left: Tensor, size: Tensor) -> None:
        """Keep the bytes from the last on, from the first on, and the length."""
        self.graph, self.text, self.left, self.size = graph, text, left, graph.cast(size, _U64)
        middle = graph.cast(_shifted(graph, self.size, 1), I64)  # of up to three bytes, for which alone it is asked
        back = graph.op(
            "Max", graph.binary("Sub", graph.binary("Sub", size, middle), np.array(1)), np.array(0), dtype=I64
        )
        self.middle = graph.cast(graph.op("GatherElements", text, back, dtype=I64, axis=1), _U64)

    def up_to_3(self) -> Tensor:
        first, last = self._load(self.left, range(1)), self._load(self.text, range(1))
        y = self._add(first, _shifted(self.graph, self.middle, 8, "LEFT"))
        z = self._add(self.size, _shifted(self.graph, last, 2, "LEFT"))
        mixed = self._xor(self._times(y, _K2), self._times(z, _K3))
        return self._out(self._times(self._mixed(mixed), _K2))

    def up_to_8(self) -> Tensor:
        first, last = self._load(self.left, range(4)), self._load(self.text, range(3, -1, -1))
        return self._out(self._pair(self._add(self.size, _shifted(self.graph, first, 3, "LEFT")), last))

    def up_to_16(self) -> Tensor:
        first, last = self._load(self.left, range(8)), self._load(self.text, range(7, -1, -1))
        turned = self._rotated(self._add(last, self.size), self.size)
        return self._out(self._xor(self._pair(first, turned), last))

    def beyond_16(self) -> Tensor:
        a = self._times(self._load(self.left, range(8)), _K1)
        b = self._load(self.left, range(8, 16))
        c = self._times(self._load(self.text, range(7, -1, -1)), _K2)
        d = self._times(self._load(self.text, range(15, 7, -1)), _K0)
        first = self._add(self._add(self._rotated(self._less(a, b), 43), self._rotated(c, 30)), d)
        other = self._rotated(self._xor(b, np.array(_K3, np.uint64)), 20)
        return self._out(self._pair(first, self._add(self._less(self._add(a, other), c), self.size)))

    def _load(self, source: Tensor, places: range) -> Tensor:
        """Return some bytes as one number, the first the lowest; bytes of digits never reach the sign."""
        weights = 2 ** (8 * np.arange(len(places)))
        total = self.graph.binary("Mul", self.graph.gather(source, np.array(places), axis=1), weights.reshape(1, -1))
        half = len(places) // 2
        while half:  # half to half: ONNX Runtime's ReduceSum of int64 keeps no more than the bits of a double
            halves = (self.graph.gather(total, np.arange(half) + start, axis=1) for start in (0, half))
            total, half = self.graph.binary("Add", *halves), half // 2
        return self.graph.cast(total, _U64)

    def _pair(self, low: Tensor, high: Tensor) -> Tensor:
        """Return the hash of 128 bits."""
        a = self._mixed(self._times(self._xor(low, high), _PAIR))
        b = self._mixed(self._times(self._xor(high, a), _PAIR))
        return self._times(b, _PAIR)

    def _mixed(self, x: Tensor) -> Tensor:
        return self._xor(x, _shifted(self.graph, x, 47))

    def _rotated(self, x: Tensor, by: int | Tensor) -> Tensor:
        rest = 64 - by if isinstance(by, int) else self._less(np.array(64, np.uint64), by)
        return self._add(_shifted(self.graph, x, by), _shifted(self.graph, x, rest, "LEFT"))

    def _times(self, x: Tensor, factor: int) -> Tensor:
        return self.graph.op("Mul", x, np.array(factor, np.uint64), dtype=_U64)

    def _add(self, a: Tensor, b: Tensor) -> Tensor:
        return self.graph.op("Add", a, b, dtype=_U64)

    def _less(self, a: Tensor | Array, b: Tensor) -> Tensor:
        return self.graph.op("Sub", a, b, dtype=_U64)

    def _xor(self, a: Tensor, b: Tensor | Array) -> Tensor:
        return self.graph.op("BitwiseXor", a, b, dtype=_U64)

    def _out(self, x: Tensor) -> Tensor:
        return self.graph.cast(x, I64)
