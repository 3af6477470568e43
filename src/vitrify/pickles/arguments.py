"""What a trusted function may be called with by a pickle: less than it would take.

A function that is harmless with what its pickler writes can be made to allocate, loop or call with other arguments.
Looked at are inert values (:mod:`vitrify.pickles.inert`), before anything is called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.pickles import arrow, source_text
from vitrify.pickles._trust import python
from vitrify.pickles.inert import Call, Dict, Global, Group, Span, parts

if TYPE_CHECKING:
    from collections.abc import Callable

HASHES = frozenset(
    {
        *("builtins.set", "builtins.frozenset", "builtins.dict"),
        *("collections.Counter", "collections.OrderedDict"),
    }
)
"""What hashes the parts of its arguments."""

MAX_TEXT = 4096
MAX_RANGE = 10_000_000
MAX_BITS = 16_384
"""What is divided by each other: the time grows with the square."""

MAX_SPREAD = 10_000
"""Values that pandas may be given outside of arrays, counted as often as they are reached."""

BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})

_LITERALS = frozenset({type(None), bool, int, float, str, bytes})
_BYTES = frozenset({str, bytes, Span, list})
_HELD = frozenset({list, tuple, Dict, Group, Span, str, bytes})
_RATIO = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")
_SIZED = frozenset({list, tuple, str, bytes, Span, Dict})
_COST_OF_PATTERN = 20
_COST_OF_RANGE = 20_000
_WIDE_RANGE = re.compile(r"-(?:\\[uUN]|[^\x00-\u02ff])")
"""A range of characters that goes far: each of them is looked at where upper and lower case are the same."""

_OF_PYTHON = ("builtins.", "collections.")
_SHAPE = "makes an empty array of a shape of its own"


def problem(dotted: str, args: tuple[Any, ...]) -> str:
    """Return what is wrong with a call's arguments; empty where nothing is, or the function has no rule."""
    rule = _RULES.get(dotted)
    if rule is None and dotted.startswith("pandas."):
        rule = _interpreted
    return "" if rule is None or rule(args) else f"calls {dotted} with what no pickler calls it with"


def state_problem(dotted: str, state: Any) -> str:
    """Return what is wrong with the state given to a class; empty where nothing is."""
    if dotted.startswith("scipy.stats.") and not source_text.fits(state):
        return f"gives {dotted} source text that SciPy would run, and did not write"
    rule = _STATES.get(dotted)
    return "" if rule is None or rule(state) else f"makes a {dotted} of what is no function by its name"


def _literal(value: Any) -> bool:
    return type(value) in _LITERALS


def _literals(args: tuple[Any, ...]) -> bool:
    return all(map(_literal, args))


def _whole(args: tuple[Any, ...]) -> bool:
    return all(type(arg) is int and abs(arg) < 1 << 63 for arg in args)


def _gathers(args: tuple[Any, ...]) -> bool:
    """What iterates gets what stands in the pickle: no range, no iterator without an end."""
    return all(type(arg) in _HELD for arg in args)


def _is_key(value: Any) -> bool:
    return type(value) is Call or (type(value) is tuple and all(map(_literal, value)))


def _range(args: tuple[Any, ...]) -> bool:
    return _whole(args) and args[2:] != (0,) and len(range(*args)) <= MAX_RANGE if 1 <= len(args) <= 3 else False  # noqa: PLR2004 (start, stop, step)


def _bytes(args: tuple[Any, ...]) -> bool:
    """Bytes of bytes, or of text in Latin-1; a number would be a size."""
    first = args[:1]
    if first and type(first[0]) is Call:
        return len(args) == 1 and first[0].dotted == "_codecs.encode"
    return not args or (type(first[0]) in _BYTES and all(map(_is_latin1, args[1:])))


def _encode(args: tuple[Any, ...]) -> bool:
    return len(args) == 2 and type(args[0]) in {str, Span} and _is_latin1(args[1])  # noqa: PLR2004 (text and codec)


def _is_latin1(value: Any) -> bool:
    return type(value) is str and value in {"latin1", "latin-1"}


def _partial_state(state: Any) -> bool:
    return type(state) is tuple and bool(state) and type(state[0]) is Global


def _vectorize_state(state: Any) -> bool:
    """A function by its name, and no universal function that was made of another."""
    if type(state) is not Dict or type(state.get("pyfunc")) is not Global:
        return False
    cached = state.get("_ufunc")
    return cached is None or (type(cached) is Dict and not len(cached))


def _array(args: tuple[Any, ...]) -> bool:
    """``array.array``: a code, and a list or what a pickle of Python 2 has."""
    return 1 <= len(args) <= 2 and type(args[0]) is str and all(type(arg) in _HELD for arg in args[1:])  # noqa: PLR2004 (code and items)


def _array_of_bytes(args: tuple[Any, ...]) -> bool:
    return len(args) == 4 and type(args[0]) is Global and args[0].dotted == "array.array" and type(args[2]) is int  # noqa: PLR2004 (class, code, layout, bytes)


def _member(args: tuple[Any, ...]) -> bool:
    """A member by its value: with more arguments the call would make a class."""
    return len(args) == 1 and _literal(args[0])


def _names_function(args: tuple[Any, ...]) -> bool:
    return bool(args) and type(args[0]) is Global


def _pattern(args: tuple[Any, ...]) -> bool:
    return bool(args) and all(map(_short, args))


def _short(value: Any) -> bool:
    """A literal that is not long; protocol 2 writes bytes as text to encode."""
    if type(value) is Call and value.dotted == "_codecs.encode" and value.args:
        value = value.args[0]
    return _literal(value) and (type(value) not in {str, bytes} or len(value) <= MAX_TEXT)


def _fraction(args: tuple[Any, ...]) -> bool:
    return all(_is_ratio(arg) for arg in args)


def _is_ratio(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() <= MAX_BITS
    return type(value) is str and _RATIO.fullmatch(value) is not None


def _empty_array(args: tuple[Any, ...]) -> bool:
    """``_reconstruct(class, (0,), b"b")``: BUILD makes it what it is."""
    return len(args) == 3 and type(args[0]) is Global and _is_empty(args[1:])  # noqa: PLR2004 (class, shape, type)


def _empty_masked(args: tuple[Any, ...]) -> bool:
    return len(args) == 4 and type(args[0]) is type(args[1]) is Global and _is_empty(args[2:])  # noqa: PLR2004 (and the base class)


def _is_empty(rest: tuple[Any, ...]) -> bool:
    shape, kind = rest
    if type(kind) is Call and kind.dotted == "_codecs.encode" and kind.args:
        kind = kind.args[0]
    return type(shape) is tuple and shape == (0,) and type(kind) in {str, bytes} and kind in {"b", b"b"}


def _dtype(args: tuple[Any, ...]) -> bool:
    """The name of a type, and a copy of it: without one, BUILD would change NumPy's own."""
    if not args or len(args) > 3:  # noqa: PLR2004 (name, align, copy)
        return False
    named = (type(args[0]) is str and len(args[0]) <= MAX_TEXT) or type(args[0]) is Global
    return named and all(type(arg) in {bool, int} for arg in args[1:]) and bool(args[2:3] == () or args[2])


def _bit_generator(args: tuple[Any, ...]) -> bool:
    if len(args) != 1:
        return False
    (kind,) = args
    name = kind.name if type(kind) is Global and kind.module.startswith("numpy.random.") else kind
    return type(name) is str and name in BIT_GENERATORS


def _generator(args: tuple[Any, ...]) -> bool:
    constructor = args[1:]
    if not args or len(args) > 2:  # noqa: PLR2004 (generator and constructor)
        return False
    if constructor and not (
        type(constructor[0]) is Global and constructor[0].dotted == "numpy.random._pickle.__bit_generator_ctor"
    ):
        return False
    made = type(args[0]) is Call and args[0].dotted == "numpy.random._pickle.__bit_generator_ctor"
    return made or _bit_generator(args[:1])


def cost(dotted: str, args: tuple[Any, ...]) -> int:
    """Return what a call takes beyond what its opcode shows, in items that are copied or looked at.

    What a pickle has once, it may give to many calls, each of which makes its own of it.
    """
    copied = sum(len(arg) for arg in args if type(arg) in _SIZED)
    if dotted in {"re.compile", "re._compile"} and args and type(args[0]) in {str, bytes}:
        text = _readable(args[0])
        copied += _COST_OF_PATTERN * len(text) + _COST_OF_RANGE * len(_WIDE_RANGE.findall(text))
    if dotted == "pyarrow.lib._restore_array" and _arrow_array(args):
        copied += sum(len(_arrow_bytes(buffer.args[0]) or b"") for buffer in args[0][4] if buffer is not None)
    return copied


def _interpreted(args: tuple[Any, ...]) -> bool:
    """What pandas makes something of: few values, in a shallow nest, and no time zone that is a file's path."""
    todo, seen = [*args], 0
    while todo:
        value = todo.pop()
        seen += 1
        if type(value) is Call and value.dotted.startswith(_OF_PYTHON):
            value = value.args
        if seen > MAX_SPREAD or (type(value) in {str, bytes} and _names_file(value)):
            return False
        todo += parts(value) if type(value) is not Call else ()
    return True


def _names_file(value: str | bytes) -> bool:
    return "dateutil" in _readable(value).lower()


def _readable(value: str | bytes) -> str:
    return str(value, "latin1") if isinstance(value, bytes) else value


def _of_pandas(args: tuple[Any, ...]) -> bool:
    return (
        bool(args)
        and type(args[0]) is Global
        and args[0].module.partition(".")[0] == "pandas"
        and _interpreted(args[1:])
    )


def _of_sklearn(args: tuple[Any, ...]) -> bool:
    return bool(args) and type(args[0]) is Global and args[0].module.partition(".")[0] == "sklearn"


def _seed(args: tuple[Any, ...]) -> bool:
    return bool(args) and type(args[0]) is Global and args[0].dotted == "numpy.random.bit_generator.SeedSequence"


def _reconstructed(args: tuple[Any, ...]) -> bool:
    """An object of a class of Python's, or of one that extends a container and is made of a literal one."""
    if len(args) != 3 or type(args[1]) is not Global:  # noqa: PLR2004 (class, base, state)
        return False
    base, state = args[1].dotted, args[2]
    return (base == "builtins.object" and state is None) or (base in _BASES and (_literal(state) or _gathers((state,))))


_BASES = frozenset(f"builtins.{name}" for name in ("dict", "list", "tuple", "set", "frozenset", "str", "float", "int"))


def _zone(args: tuple[Any, ...]) -> bool:
    return bool(args) and _literals(args) and type(args[0]) is str and len(args[0]) <= MAX_TEXT


def _timestamp(args: tuple[Any, ...]) -> bool:
    """A unit, and a time zone that is a name or an offset: no path of a file."""
    if not 1 <= len(args) <= 2 or type(args[0]) is not str or args[0] not in arrow.UNITS:  # noqa: PLR2004 (unit and zone)
        return False
    zone = args[1] if len(args) > 1 else None
    return zone is None or (type(zone) is str and _ZONE.fullmatch(zone) is not None and not _names_file(zone))


def _arrow_bytes(value: Any) -> Span | str | bytes | None:
    """Return what the bytes of a buffer stand in the pickle as; None where it is no bytes."""
    made = False
    for makers in (_OF_BYTES, {"_codecs.encode"}):
        if type(value) is Call and value.dotted in makers:
            value, made = value.args[0] if value.args else b"", True
    if type(value) is bytes or (type(value) is Span and value.kind in {"bytes", "bytearray"}):
        return value
    return value if made and type(value) in {str, Span} else None


def _arrow_array(args: tuple[Any, ...]) -> bool:
    """One tuple, with a list of buffers in it that this pickle made."""
    if len(args) != 1 or type(args[0]) is not tuple or len(args[0]) != 7 or type(args[0][4]) is not list:  # noqa: PLR2004 (what PyArrow writes)
        return False
    buffers = args[0][4]
    return len(buffers) <= _MAX_BUFFERS and all(
        one is None or (type(one) is Call and one.dotted == "pyarrow.lib.py_buffer" and len(one.args) == 1)
        for one in buffers
    )


_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,31}){0,3}|[+-][0-9]{2}:[0-9]{2}")
_OF_BYTES = frozenset({"builtins.bytearray", "builtins.bytes"})
_MAX_BUFFERS = 3
"""Validity, offsets, bytes: the types that are read have no more."""

_RULES: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    **dict.fromkeys(("builtins.set", "builtins.frozenset", "builtins.list", "builtins.tuple"), _gathers),
    **dict.fromkeys(("builtins.dict", "collections.Counter", "collections.OrderedDict"), _gathers),
    "collections.deque": lambda args: _gathers(args[:1]) and _literals(args[1:]),
    "collections.defaultdict": lambda args: (
        not args or ((args[0] is None or type(args[0]) is Global) and _gathers(args[1:]))
    ),
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytes,
    "builtins.complex": _literals,
    "builtins.range": _range,
    "builtins.slice": lambda args: all(_literal(arg) or type(arg) is Call for arg in args),
    "builtins.type": lambda args: len(args) == 1 and (args[0] is None or type(args[0]) is Global),
    "builtins.str": _literals,
    "builtins.int": lambda args: _literals(args) and all(type(arg) is not str or len(arg) <= MAX_TEXT for arg in args),
    "builtins.float": _literals,
    "builtins.bool": _literals,
    "builtins.object": lambda args: not args,
    "array.array": _array,
    "array._array_reconstructor": _array_of_bytes,
    **dict.fromkeys(python.MEMBERS, _member),
    "numpy.ma.core.MaskedConstant": lambda args: not args,
    "pyarrow.lib._restore_array": _arrow_array,
    "pyarrow.lib.py_buffer": lambda args: len(args) == 1 and _arrow_bytes(args[0]) is not None,
    "pyarrow.lib.timestamp": _timestamp,
    "pyarrow.lib.type_for_alias": lambda args: len(args) == 1 and type(args[0]) is str and len(args[0]) <= MAX_TEXT,
    "pandas.DateOffset": lambda args: not args,
    "pandas._libs.sparse.IntIndex": lambda args: len(args) == 2 and type(args[0]) is int,  # noqa: PLR2004 (a third would leave out its checks)
    "pandas._libs.sparse.BlockIndex": lambda args: len(args) == 3 and type(args[0]) is int,  # noqa: PLR2004 (length, places, lengths)
    "_codecs.encode": _encode,
    "functools.partial": _names_function,
    "operator.itemgetter": lambda args: bool(args) and all(_literal(arg) or _is_key(arg) for arg in args),
    "re.compile": _pattern,
    "re._compile": _pattern,
    "fractions.Fraction": _fraction,
    "decimal.Decimal": lambda args: all(type(arg) is str and len(arg) <= MAX_TEXT for arg in args),
    "random.Random": lambda args: not args,
    "types.SimpleNamespace": lambda args: not args,
    **dict.fromkeys(("pathlib.PurePath", "pathlib.PurePosixPath", "pathlib.PureWindowsPath"), _literals),
    "zoneinfo.ZoneInfo": _zone,
    "zoneinfo.ZoneInfo._unpickle": _zone,
    "copyreg._reconstructor": _reconstructed,
    "numpy.dtype": _dtype,
    **dict.fromkeys((f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")), _empty_array),
    "numpy.ma.core._mareconstruct": _empty_masked,
    **dict.fromkeys(
        (
            f"sklearn.{module}.newObj"
            for module in ("metrics._dist_metrics", "neighbors._ball_tree", "neighbors._kd_tree")
        ),
        _of_sklearn,
    ),
    "numpy.random.bit_generator.__pyx_unpickle_SeedSequence": _seed,
    "numpy.random._pickle.__bit_generator_ctor": _bit_generator,
    "numpy.random._pickle.__generator_ctor": _generator,
    "numpy.random._pickle.__randomstate_ctor": lambda args: not args or _generator(args),
    **dict.fromkeys(
        (
            *("pandas.core.indexes.base._new_Index", "pandas.core.indexes.datetimes._new_DatetimeIndex"),
            *("pandas.core.indexes.interval._new_IntervalIndex", "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked"),
            "pandas._libs.interval.__pyx_unpickle_IntervalMixin",
        ),
        _of_pandas,
    ),
}

_STATES: dict[str, Callable[[Any], bool]] = {"functools.partial": _partial_state, "numpy.vectorize": _vectorize_state}
