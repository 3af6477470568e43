"""Linear algebra and metrics: ``la.*`` and ``metric.*``, on arrays.

Source: https://dmg.org/pfa/docs/library/#lib:la and #lib:metric
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.arithmetic import divide, power
from vitrify.runtimes._pfa.library.base import Library
from vitrify.runtimes._pfa.library.mathematics import dot, exp
from vitrify.runtimes._pfa.types import PfaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LIBRARY = Library()
Vector = list[float]
Matrix = list[Vector]
_FORMS = ("[double]", "[[double]]", "{double}", "{{double}}")


def _deep(function: Callable[..., Any], code: int, *values: Any) -> Any:
    """Apply a function to each number of equal structures."""
    first = values[0]
    if isinstance(first, list):
        if any(len(one) != len(first) for one in values):
            msg = "misaligned matrices"
            raise PfaError(msg, code)
        return [_deep(function, code, *ones) for ones in zip(*values, strict=True)]
    if isinstance(first, dict):
        keys = list(dict.fromkeys(key for one in values for key in one))
        nothing: Any = {} if any(isinstance(part, dict) for one in values for part in one.values()) else 0.0
        return {key: _deep(function, code, *(one.get(key, nothing) for one in values)) for key in keys}
    return function(*values)


for _name, _code, _step in (("add", 24030, lambda x, y: x + y), ("sub", 24040, lambda x, y: x - y)):
    LIBRARY.plain(f"la.{_name}", *(f"{form}, {form} -> {form}" for form in _FORMS))(
        lambda x, y, step=_step, code=_code: _deep(step, code, x, y)
    )
LIBRARY.plain("la.scale", *(f"{form}, double -> {form}" for form in _FORMS))(
    lambda x, alpha: _deep(lambda one: one * alpha, 0, x)
)
LIBRARY.plain("la.map", *(f"{form}, <double -> double> -> {form}" for form in _FORMS[1::2]))(
    lambda x, fcn: _deep(fcn, 0, x)
)
LIBRARY.plain("la.zipmap", *(f"{form}, {form}, <double, double -> double> -> {form}" for form in _FORMS[1::2]))(
    lambda x, y, fcn: _deep(fcn, 24020, x, y)
)


def _require(holds: bool, message: str, code: int) -> None:  # noqa: FBT001 (it is the point)
    if not holds:
        raise PfaError(message, code)


def _rows(x: Matrix, code: int) -> int:
    """Return the number of columns of a matrix whose rows are all as long."""
    _require(bool(x) and bool(x[0]), "too few rows/cols", code)
    _require(len({len(row) for row in x}) == 1, "ragged columns", code)
    return len(x[0])


@LIBRARY.plain("la.dot", "[[double]], [double] -> [double]", "[[double]], [[double]] -> [[double]]")
def _dot(x: Matrix, y: Any) -> Any:
    width = _rows(x, 24051)
    _require(bool(y), "too few rows/cols", 24051)
    _require(len(y) == width, "misaligned matrices", 24050)
    parts = [part for row in (*x, *(y if isinstance(y[0], list) else [y])) for part in row]
    _require(all(map(math.isfinite, parts)), "contains non-finite value", 24052)
    if not isinstance(y[0], list):
        return [dot(row, y) for row in x]
    _rows(y, 24051)
    columns = [list(column) for column in zip(*y, strict=True)]
    return [[dot(row, column) for column in columns] for row in x]


@LIBRARY.plain("la.transpose", "[[double]] -> [[double]]")
def _transpose(x: Matrix) -> Matrix:
    _require(bool(x) and bool(x[0]), "too few rows/cols", 24060)
    _require(len({len(row) for row in x}) == 1, "ragged columns", 24061)
    return [list(column) for column in zip(*x, strict=True)]


def total(values: Iterable[float]) -> float:
    """Return the sum, added from the first to the last."""
    tally = 0.0
    for one in values:
        tally += one
    return tally


@LIBRARY.plain("la.trace", "[[double]] -> double")
def _trace(x: Matrix) -> float:
    _require(len({len(row) for row in x}) <= 1, "ragged columns", 24080)
    return total(row[at] for at, row in enumerate(x) if at < len(row))


@LIBRARY.plain("la.symmetric", "[[double]], double -> boolean")
def _symmetric(x: Matrix, tolerance: float) -> bool:
    _require(bool(x) and bool(x[0]), "too few rows/cols", 24100)
    _require(len({len(row) for row in x}) == 1, "ragged columns", 24101)
    _require(len(x) == len(x[0]), "non-square matrix", 24102)
    pairs = ((x[i][j], x[j][i]) for i in range(len(x)) for j in range(i))
    return all(one == other or abs(one - other) < tolerance for one, other in pairs)


# Metrics of two arrays, by a similarity of two numbers; what is missing does not count.


def _metric(name: str, code: int, gather: Callable[..., float], more: str = "") -> None:
    item = "(null | A)"
    form = f"<A, A -> double>, [{item}], [{item}]{more}"

    @LIBRARY.plain(f"metric.{name}", f"{form} -> double", f"{form}, [double] -> double")
    def call(similarity: Any, x: list[Any], y: list[Any], *weights: Any) -> float:
        given = weights[-1] if weights and isinstance(weights[-1], list) else [1.0] * len(x)
        _require(len(x) == len(y) == len(given), "dimensions do not match", code)
        pairs = [
            (similarity(one, other), weight)
            for one, other, weight in zip(x, y, given, strict=True)
            if one is not None and other is not None
        ]
        share = divide(total(given), total(weight for _, weight in pairs))
        numbers = [one for one in weights if not isinstance(one, list)]
        return gather([(one, share) for one, _ in pairs], *numbers)


def _squares(pairs: list[tuple[float, float]]) -> float:
    tally = 0.0
    for one, _ in pairs:
        tally += one * one
    return tally * (pairs[0][1] if pairs else 1.0)


def _taxicab(pairs: list[tuple[float, float]]) -> float:
    tally = 0.0
    for one, _ in pairs:
        tally += abs(one)
    return tally * (pairs[0][1] if pairs else 1.0)


def _minkowski(pairs: list[tuple[float, float]], p: float) -> float:
    _require(p > 0, "Minkowski parameter p must be positive", 28071)
    if math.isinf(p):
        return max((abs(one) for one, _ in pairs), default=0.0)
    tally = 0.0
    for one, _ in pairs:
        tally += power(abs(one), p)
    return power(tally * (pairs[0][1] if pairs else 1.0), 1 / p)


_metric("euclidean", 28030, lambda pairs: math.sqrt(_squares(pairs)))
_metric("squaredEuclidean", 28040, _squares)
_metric("chebyshev", 28050, lambda pairs: max((abs(one) for one, _ in pairs), default=0.0))
_metric("taxicab", 28060, _taxicab)
_metric("minkowski", 28070, _minkowski, ", double")
LIBRARY.plain("metric.absDiff", "double, double -> double")(lambda x, y: abs(x - y))


@LIBRARY.plain("metric.gaussianSimilarity", "double, double, double -> double")
def _gaussian(x: float, y: float, sigma: float) -> float:
    return exp(divide(-math.log(2) * (x - y) * (x - y), sigma * sigma))


@LIBRARY.plain("metric.simpleEuclidean", "[double], [double] -> double")
def simple_euclidean(x: Vector, y: Vector) -> float:
    """Return the length of the difference."""
    _require(len(x) == len(y), "dimensions do not match", 28000)
    return math.sqrt(_squares([(one - other, 1.0) for one, other in zip(x, y, strict=True)]))


def _binary(name: str, code: int, share: Callable[[int, int, int, int], float]) -> None:
    @LIBRARY.plain(f"metric.{name}", "[boolean], [boolean] -> double")
    def call(x: list[bool], y: list[bool]) -> float:
        _require(len(x) == len(y), "dimensions do not match", code)
        counts = [sum((one, other) == kind for one, other in zip(x, y, strict=True)) for kind in _KINDS]
        return share(*counts)


_KINDS = ((False, False), (False, True), (True, False), (True, True))
_binary("simpleMatching", 28080, lambda n00, n01, n10, n11: divide(n11 + n00, n00 + n01 + n10 + n11))
_binary("jaccard", 28090, lambda _, n01, n10, n11: divide(n11, n10 + n01 + n11))
_binary("tanimoto", 28100, lambda n00, n01, n10, n11: divide(n11 + n00, n11 + 2 * (n10 + n01) + n00))
