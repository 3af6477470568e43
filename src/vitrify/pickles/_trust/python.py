"""What a pickle may use of Python itself: values, functions that compute on values, errors as values.

Left out on purpose: whatever hands out attributes by text (``getattr``, ``attrgetter``, ``str.format``), opens files
(also ``pathlib.Path``, whose methods do), calls what it is given for each item without being told so by name (``map``,
``filter``, ``reduce``), or makes something from nothing for as long as it is asked (``iter``, ``itertools``).
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOKS = (
    *("any", "all", "ascii", "callable", "chr", "divmod", "enumerate", "hash", "isinstance", "ord", "repr", "reversed"),
    "zip",
)
_TEXT = (
    *("capitalize", "casefold", "endswith", "isalnum", "isalpha", "isdecimal", "isdigit", "islower", "isnumeric"),
    *("isspace", "istitle", "isupper", "lower", "lstrip", "rsplit", "rstrip", "split", "splitlines", "startswith"),
    *("strip", "swapcase", "title", "upper"),
)
_OPERATORS = frozenset(
    {
        *("abs", "add", "and_", "concat", "contains", "countOf", "eq", "floordiv", "ge", "getitem", "gt", "index"),
        *("indexOf", "inv", "invert", "is_", "is_not", "le", "lshift", "lt", "matmul", "mod", "mul", "ne", "neg"),
        *("not_", "or_", "pos", "pow", "rshift", "sub", "truediv", "truth", "xor"),
    }
)
_WITHOUT_END = frozenset({"comb", "factorial", "perm"})
"""Functions of ``math`` whose result grows without bounds."""

_STATISTICS = (
    *("fmean", "geometric_mean", "harmonic_mean", "mean", "median", "median_high", "median_low", "mode", "pstdev"),
    *("pvariance", "stdev", "variance"),
)
MEMBERS = frozenset({"re.RegexFlag", "http.HTTPStatus", "uuid.SafeUUID"})
"""Enumerations whose members are looked up by their value."""

ARRAYS = frozenset({"array.array", "array._array_reconstructor"})

CALLS = frozenset({*MEMBERS, *ARRAYS})

STATES = frozenset(
    {
        *("argparse.Namespace", "collections.UserDict", "collections.UserList", "collections.UserString"),
        "string.Template",
    }
)
"""Plain holders of values."""

TYPES = frozenset(
    {
        *("array.array", "collections.Counter", "collections.defaultdict", "collections.deque", "operator.itemgetter"),
        *("datetime.time", "datetime.timedelta", "fractions.Fraction", "pathlib.PurePosixPath", "uuid.UUID"),
        *("pathlib.PureWindowsPath", "pathlib.PurePath", "zoneinfo.ZoneInfo"),
    }
)
"""Types that may stand as values: the factory of a ``defaultdict`` is one."""


def functions() -> Iterator[str]:
    """Functions that compute on what they get."""
    yield from (f"builtins.{name}" for name in _LOOKS)
    yield from (f"_operator.{name}" for name in dir(operator) if name in _OPERATORS)
    yield from (f"math.{name}" for name in dir(math) if callable(getattr(math, name)) and name not in _WITHOUT_END)
    yield from (f"statistics.{name}" for name in _STATISTICS)


def methods() -> Iterator[str]:
    """Methods of text that return text, parts of it or a truth: none fills in a template."""
    return (f"builtins.str.{name}" for name in _TEXT)


def errors() -> Iterator[str]:
    """Errors as values; groups of them are left out, which iterate over what they get."""
    for name, value in vars(builtins).items():
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, BaseExceptionGroup):
            yield f"builtins.{name}"
