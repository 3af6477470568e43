"""The mark: an id in the lowest digits of weights, found again by whoever has the key.

The logarithm of a weight's size is moved to the nearest point of a lattice, whose step is a small share of the weight
itself (quantisation index modulation). Where the lattice lies is drawn by the key, anew for every *cell*: for each sign
and each four steps of the logarithm. Which of the id's coded bits a cell carries is drawn as well; the bit moves the
lattice by half a step. So a weight's own leading digits say where to look: nothing depends on the order of weights,
on names, shapes, layouts or files, and a part of the weights carries the mark as well as all.

The detector asks how well the weights agree with the lattices of a key. Its p-value is a bound that holds for any
weights whatsoever, marked or not: over random keys, the angle between a cell's weights and its lattice is uniform, so
the sum of their cosines, weighted by ``a``, exceeds ``t`` with probability at most ``exp(-t^2 / sum(a^2))`` (Chernoff,
with ``I0(x) <= exp(x^2 / 4)``). An id that is not known beforehand is paid for with the number of all ids, and the
strength with the number of strengths.

Source: Chen and Wornell, "Quantization Index Modulation" (IEEE Transactions on Information Theory 47, 2001).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.protect import _code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

STRENGTHS = (1, 2, 3, 4, 5)
"""Each is twice the one before; the first changes a weight by less than a cast to float16 may."""

MIN_ELEMENTS = 64
"""A smaller tensor is left alone: constants of the arithmetic are such, and few weights carry nothing."""

_FIRST_STEP = 1e-3
_CELL = 4
_MARGIN = 0.1
"""Of a step, between a marked weight and the end of its cell: rounding does not carry it over."""

_PART = 1 << 21
_TURN = 2 * np.pi


def step_of(strength: int) -> float:
    """Return the lattice's step in the natural logarithm: about the largest relative change of a weight."""
    return _FIRST_STEP * 2.0 ** (strength - 1)


@dataclass(frozen=True)
class Agreement:
    """How well weights agree with one key at one strength.

    Attributes:
        soft: For each coded bit, the evidence that it is zero.
        power: The sum of the squared weights of the cells.
        cells: How many there are.
        weights: How many weights were looked at.
    """

    soft: NDArray[np.float64]
    power: float
    cells: int
    weights: int

    def exponent(self, payload: bytes | None) -> float:
        """Return ``t^2 / sum(a^2)`` for an id; 0 where it disagrees, or there is none."""
        if payload is None:
            return 0.0
        total = float(self.soft @ _code.encode(payload))
        return total * total / self.power if total > 0 and self.power > 0 else 0.0


def log10_p(exponent: float, *, known: bool) -> float:
    """Return the decimal logarithm of the bound on the p-value, at most 0."""
    tried = math.log(len(STRENGTHS)) + (0.0 if known else _code.PAYLOAD * math.log(2))
    return min(0.0, (tried - exponent) / math.log(10))


def marked(values: NDArray[Any], secret: bytes, payload: bytes, strength: int) -> NDArray[Any]:
    """Return a copy of an array of floats in which every weight that can carries the mark."""
    flat = np.array(values).reshape(-1)
    code = _code.encode(payload)
    for start in range(0, len(flat), _PART):
        part = flat[start : start + _PART]
        at = _eligible(part)
        weights = part[at].astype(np.float64)
        numbers, where = _positions(weights, strength)
        cells, inverse = np.unique(numbers, return_inverse=True)
        shift, bit = _draw(cells, secret, strength)
        offset = ((shift + 0.25 * (1 - code[bit])) % 1.0)[inverse]
        point = np.clip(np.rint(where - offset), 0, _CELL - 1) + offset
        point = np.clip(point, _MARGIN, _CELL - _MARGIN)
        sizes = np.exp(((numbers >> 1) * _CELL + point) * step_of(strength))
        part[at] = np.copysign(sizes, weights).astype(flat.dtype)
    return flat.reshape(values.shape)


def agreement(arrays: Iterable[NDArray[Any]], secret: bytes, strength: int) -> Agreement:
    """Return how well arrays of floats agree with a key."""
    sums: dict[int, complex] = {}
    count = 0
    for array in arrays:
        flat = array.reshape(-1)
        for start in range(0, len(flat), _PART):
            part = flat[start : start + _PART]
            weights = part[_eligible(part)].astype(np.float64)
            numbers, where = _positions(weights, strength)
            cells, inverse = np.unique(numbers, return_inverse=True)
            angle = _TURN * where
            real = np.bincount(inverse, np.cos(angle), len(cells))
            imaginary = np.bincount(inverse, np.sin(angle), len(cells))
            for cell, value in zip(cells.tolist(), real + 1j * imaginary, strict=True):
                sums[cell] = sums.get(cell, 0j) + value
            count += len(weights)
    cells = np.fromiter(sums.keys(), np.int64, len(sums))
    vectors = np.fromiter(sums.values(), np.complex128, len(sums))
    shift, bit = _draw(cells, secret, strength)
    length = np.abs(vectors)
    # A cell of many weights that agree says hardly more than one of a few: near the best weighting, I1 / I0.
    trust = length / (1.0 + length)
    cosine = np.cos(np.angle(vectors) - _TURN * shift)
    soft: NDArray[np.float64] = np.bincount(bit, trust * cosine, _code.LENGTH).astype(np.float64)
    return Agreement(soft, float(np.sum(trust * trust)), len(cells), count)


def counts(array: NDArray[Any]) -> int:
    """Return how many weights of an array can carry the mark."""
    return int(np.count_nonzero(_eligible(array.reshape(-1))))


def _eligible(flat: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which weights are looked at: finite ones that are no whole numbers, which are often meant exactly."""
    wide = flat.astype(np.float64)
    eligible: NDArray[np.bool_] = np.isfinite(wide) & (np.trunc(wide) != wide)
    return eligible


def _positions(weights: NDArray[np.float64], strength: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each weight's cell (its sign is the lowest bit) and where in it the weight lies, in steps."""
    steps = np.log(np.abs(weights)) / step_of(strength)
    cells = np.floor(steps / _CELL).astype(np.int64)
    return (cells << 1) | (weights < 0), steps - cells * _CELL


def _draw(cells: NDArray[np.int64], secret: bytes, strength: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return each cell's shift of the lattice, in steps, and the coded bit that it carries."""
    person = bytes([strength])
    drawn = b"".join(
        hashlib.blake2b(cell, digest_size=16, key=secret, person=person).digest()
        for cell in (number.to_bytes(8, "big", signed=True) for number in cells.tolist())
    )
    numbers = np.frombuffer(drawn, ">u8").reshape(-1, 2)
    shift = (numbers[:, 0] >> np.uint64(11)).astype(np.float64) / 2.0**53
    return shift, (numbers[:, 1] % np.uint64(_code.LENGTH)).astype(np.intp)
