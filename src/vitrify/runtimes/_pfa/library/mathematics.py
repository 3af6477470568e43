"""Mathematics: ``m.*``, with links and kernels.

Where a function has no value it is NaN or infinite, as in IEEE 754, and no error.

Source: https://dmg.org/pfa/docs/library/#lib:math
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.arithmetic import divide, power
from vitrify.runtimes._pfa.library.base import Library
from vitrify.runtimes._pfa.types import PfaError, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

LIBRARY = Library()
_REAL = "double -> double"
_TWO = "double, double -> double"
_LINK = (_REAL, "[double] -> [double]", "{double} -> {double}")
_HALF = 0.5
_WHOLE_DOUBLES = 2.0**52
_NORMAL = statistics.NormalDist()

LIBRARY.plain("m.pi", "-> double")(lambda: math.pi)
LIBRARY.plain("m.e", "-> double")(lambda: math.e)
LIBRARY.plain("m.abs", "N -> N", overflow=27020)(abs)
for _name in ("atan2", "hypot"):
    LIBRARY.plain(f"m.{_name}", _TWO)(getattr(math, _name))


def total(function: Callable[..., float], at_overflow: Callable[[float], float]) -> Callable[[float], float]:
    """Return a function of the standard library that answers everywhere."""

    def call(x: float) -> float:
        try:
            return float(function(x))
        except OverflowError:
            return at_overflow(x)
        except ValueError:
            return math.nan

    return call


def _grows(_: float) -> float:
    return math.inf


def _odd(x: float) -> float:
    return math.copysign(math.inf, x)


exp = total(math.exp, _grows)
for _name, _at_overflow in (
    *((name, _grows) for name in ("expm1", "cosh", "acos", "asin", "atan", "cos", "sin", "tan", "tanh", "sqrt")),
    ("sinh", _odd),
):
    LIBRARY.plain(f"m.{_name}", _REAL)(total(getattr(math, _name), _at_overflow))
LIBRARY.plain("m.exp", _REAL)(exp)
LIBRARY.plain("m.special.erf", _REAL)(math.erf)
LIBRARY.plain("m.special.erfc", _REAL)(math.erfc)
LIBRARY.plain("m.special.lnGamma", _REAL)(total(math.lgamma, _grows))


def _logarithm(function: Callable[[float], float], pole: float) -> Callable[[float], float]:
    safe = total(function, _grows)
    return lambda x: -math.inf if x == pole else safe(x)


ln = _logarithm(math.log, 0.0)
LIBRARY.plain("m.ln", _REAL)(ln)
LIBRARY.plain("m.log10", _REAL)(_logarithm(math.log10, 0.0))
LIBRARY.plain("m.ln1p", _REAL)(_logarithm(math.log1p, -1.0))


@LIBRARY.plain("m.log", "double, int -> double")
def _log(x: float, base: int) -> float:
    if base <= 0:
        msg = "base must be positive"
        raise PfaError(msg, 27170)
    return divide(ln(x), math.log(base))


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """Return a function to whole numbers that keeps what is whole already, NaN, and the sign of zero."""
    return lambda x: x if not abs(x) < _WHOLE_DOUBLES else math.copysign(float(function(x)), x)


LIBRARY.plain("m.floor", _REAL)(_whole(math.floor))
LIBRARY.plain("m.ceil", _REAL)(_whole(math.ceil))
LIBRARY.plain("m.rint", _REAL)(_whole(round))


@LIBRARY.built("m.round", "float -> int", "double -> long")
def _round(site: Site) -> Callable[[float], int]:
    kind = site.result.kind
    return lambda x: rounded(x, kind, 27190 + (kind == "long"))


def rounded(x: float, kind: str, code: int) -> int:
    """Return the closest whole number; of two the larger.

    Raises:
        PfaError: There is none of that kind.
    """
    if not math.isfinite(x):
        msg = f"{kind} overflow"
        raise PfaError(msg, code)
    low = math.floor(x)
    return int(number(low + (x - low >= _HALF), kind, code=code))


@LIBRARY.plain("m.signum", "double -> int")
def _signum(x: float) -> int:
    return (x > 0) - (x < 0)


@LIBRARY.plain("m.copysign", "N, N -> N", overflow=18050)
def _with_sign(mag: Any, sign: Any) -> Any:
    if isinstance(mag, int):
        return -abs(mag) if sign < 0 else abs(mag)
    return math.copysign(mag, sign)


@LIBRARY.plain("m.special.nChooseK", "int, int -> int", overflow=36000)
def _choose(n: int, k: int) -> int:
    if n <= 0 or k < 0 or n < k:
        msg = "domain error"
        raise PfaError(msg, 36000)
    answer = 1
    for step in range(min(k, n - k)):
        answer = answer * (n - step) // (step + 1)
        if answer >= 1 << 31:
            break  # it only grows
    return answer


@LIBRARY.plain("m.special.lnBeta", _TWO)
def _ln_beta(a: float, b: float) -> float:
    if a <= 0 or b <= 0:
        msg = "domain error"
        raise PfaError(msg, 36010)
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def sigmoid(x: float) -> float:
    """Return the logistic function."""
    return divide(1.0, 1.0 + exp(-x))


def _probit(x: float) -> float:
    return _NORMAL.cdf(x)


def _loglog(x: float) -> float:
    return exp(-exp(x))


_LINKS: dict[str, Callable[[float], float]] = {
    "logit": sigmoid,
    "probit": _probit,
    "cloglog": lambda x: 1.0 - exp(-exp(x)),
    "loglog": _loglog,
    "cauchit": lambda x: _HALF + math.atan(x) / math.pi,
    "softplus": lambda x: ln(1.0 + exp(x)),
    "relu": lambda x: max(0.0, x),
    "tanh": math.tanh,
}


def _register_link(name: str, function: Callable[[float], float]) -> None:
    @LIBRARY.built(f"m.link.{name}", *_LINK)
    def build(site: Site) -> Callable[[Any], Any]:
        return each(function, site.params[0].kind)


def each(function: Callable[[Any], Any], kind: str) -> Callable[[Any], Any]:
    """Return a function of a number as one of an array or a map of them."""
    if kind == "array":
        return lambda values: [function(one) for one in values]
    if kind == "map":
        return lambda values: {key: function(one) for key, one in values.items()}
    return function


for _name, _link in _LINKS.items():
    _register_link(_name, _link)


@LIBRARY.plain("m.link.softmax", *_LINK[1:])
def _softmax(values: Any) -> Any:
    numbers = list(values.values()) if isinstance(values, dict) else values
    if not numbers:
        msg = "empty input"
        raise PfaError(msg, 25000)
    largest = max(numbers)
    powers = [exp(one - largest) for one in numbers]
    whole = math.fsum(powers) if all(map(math.isfinite, powers)) else math.nan
    shares = [divide(one, whole) for one in powers]
    return dict(zip(values, shares, strict=True)) if isinstance(values, dict) else shares


def _kernel(name: str, more: str, code: int) -> Callable[[Callable[..., float]], None]:
    def register(function: Callable[..., float]) -> None:
        @LIBRARY.plain(f"m.kernel.{name}", f"[double], [double]{more} -> double")
        def call(x: list[float], y: list[float], *constants: float) -> float:
            if len(x) != len(y):
                msg = "arrays must have same length"
                raise PfaError(msg, code)
            return function(x, y, *constants)

    return register


def dot(x: list[float], y: list[float]) -> float:
    """Return the sum of products, added from the first to the last."""
    sum_ = 0.0
    for one, other in zip(x, y, strict=True):
        sum_ += one * other
    return sum_


def _squared_distance(x: list[float], y: list[float]) -> float:
    away = [one - other for one, other in zip(x, y, strict=True)]
    return dot(away, away)


_kernel("linear", "", 23000)(dot)
_kernel("rbf", ", double", 23010)(lambda x, y, gamma: exp(-gamma * _squared_distance(x, y)))
_kernel("poly", ", double, double, double", 23020)(
    lambda x, y, gamma, intercept, degree: power(gamma * dot(x, y) + intercept, degree)
)
_kernel("sigmoid", ", double, double", 23030)(lambda x, y, gamma, intercept: math.tanh(gamma * dot(x, y) + intercept))
