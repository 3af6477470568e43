"""The FlatBuffer of ``jax.export``, as values.

Source: ``jax/_src/export/serialization.fbs`` of https://github.com/jax-ml/jax; there is no file identifier, so that a
buffer is known by what its fields say.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from vitrify.core.errors import MalformedError
from vitrify.reading.flatbuffer import root
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from vitrify.reading.flatbuffer import Table

TYPES = """
bool i8 i16 i32 i64 ui8 ui16 ui32 ui64 f16 f32 f64 c64 c128 bf16 i4 ui4 f8_e4m3b11fnuz f8_e4m3fn f8_e4m3fnuz f8_e5m2
f8_e5m2fnuz f0 f8_e4m3 f8_e3m4 f8_e8m0fnu f4_e2m1fn key_fry key_rbg key_unsafe_rbg
""".split()  # noqa: SIM905 (a list of strings would be half a page)
"""Element types by number."""
CHECKS = ("platform", "custom_call", "shape_assertions")
PLATFORMS = frozenset({"cpu", "cuda", "rocm", "tpu", "gpu", "metal"})
DEEPEST = 16
_MODULES = (b"ML\xefR", b"module", b"#loc", b"// ", b"builtin.module")
_TREE_DEPTH = 32
_MOST_DIMENSIONS = 64
_UNLIKELY = 100
_DIGITS = 18


class _Field(IntEnum):
    """Fields of ``Exported``."""

    VERSION, NAME, IN_TREE, INPUTS, OUT_TREE, OUTPUTS, DEVICES_SHORT = range(7)
    PLATFORMS, ORDERED, UNORDERED, DISABLED, MODULE, CONVENTION, KEPT, GLOBALS, VJP, DEVICES, AVALS = range(9, 20)
    INPUT_INDICES, OUTPUT_INDICES = 22, 23


class Aval(NamedTuple):
    """A type: a size that may change is an expression of names, such as ``b`` or ``2*b + 1``."""

    type: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported function; ``gradient`` is its derivative's, where it was exported too.

    ``end`` is where the last byte lies that anything in the buffer leads to.
    """

    version: int
    name: str
    inputs: tuple[Aval, ...]
    outputs: tuple[Aval, ...]
    structure: str
    classes: tuple[str, ...]
    devices: int
    platforms: tuple[str, ...]
    effects: tuple[str, ...]
    disabled: tuple[str, ...]
    convention: int
    module: memoryview
    gradient: Exported | None
    end: int


def looks_like(view: memoryview) -> bool:
    """Say whether a buffer has a version, platforms and a module where an exported function has them."""
    try:
        table = root(view, where="")
        version, convention = (int(table.number(one, "<H")) for one in (_Field.VERSION, _Field.CONVENTION))
        if not (0 < version < _UNLIKELY and 0 < convention < _UNLIKELY and table.count(_Field.PLATFORMS) < _UNLIKELY):
            return False
        named = set(table.texts(_Field.PLATFORMS)) & PLATFORMS
        return bool(named) and bytes(table.bytes(_Field.MODULE)[:64]).lstrip().startswith(_MODULES)
    except MalformedError:
        return False


def parse(view: memoryview, *, where: str) -> Exported:
    """Return what a buffer holds.

    Raises:
        MalformedError: It leads out of itself, or has no module.
        LimitExceededError: It is deeper or has more in it than a buffer of its size needs.
    """
    return _exported(root(view, where=where), where, 0)


def _exported(table: Table, where: str, depth: int) -> Exported:
    if depth > DEEPEST:
        exceed(where, f"derivatives of derivatives, more than {DEEPEST}")
    if not table.has(_Field.MODULE):
        refuse(where, "is no exported function: it has no module")
    avals = [_aval(one, where) for one in table.tables(_Field.AVALS)]
    table.inline()
    disabled = [(int(one.number(0, "<b")), one.text(1)) for one in table.tables(_Field.DISABLED)]
    effects = (one.text(0) for field in (_Field.ORDERED, _Field.UNORDERED) for one in table.tables(field))
    classes: list[str] = []
    trees = [_tree(table.maybe(field), classes, 0, where) for field in (_Field.IN_TREE, _Field.OUT_TREE)]
    gradient = table.maybe(_Field.VJP)
    return Exported(
        version=int(table.number(_Field.VERSION, "<H")),
        name=table.text(_Field.NAME),
        inputs=_avals(table, _Field.INPUT_INDICES, _Field.INPUTS, avals, where),
        outputs=_avals(table, _Field.OUTPUT_INDICES, _Field.OUTPUTS, avals, where),
        structure=f"{trees[0]} -> {trees[1]}",
        classes=tuple(dict.fromkeys(classes)),
        devices=int(table.number(_Field.DEVICES, "<I")) or int(table.number(_Field.DEVICES_SHORT, "<h")),
        platforms=tuple(table.texts(_Field.PLATFORMS)),
        effects=tuple(effects),
        disabled=tuple(_check(kind, target) for kind, target in disabled),
        convention=int(table.number(_Field.CONVENTION, "<H")),
        module=table.bytes(_Field.MODULE),
        gradient=None if gradient is None else _exported(gradient, where, depth + 1),
        end=table.buffer.end,
    )


def _avals(table: Table, indices: _Field, field: _Field, avals: list[Aval], where: str) -> tuple[Aval, ...]:
    """Return types, by their place in the list of all in files since 2026, else one by one."""
    places = table.numbers(indices, "I")
    if not places:
        return tuple(_aval(one, where) for one in table.tables(field))
    if max(places) >= len(avals):
        refuse(where, f"names type {max(places)}, of {len(avals)}")
    return tuple(avals[place] for place in places)


def _aval(table: Table, where: str) -> Aval:
    number = int(table.number(2, "<b"))
    sizes = table.texts(1)
    if len(sizes) > _MOST_DIMENSIONS:
        refuse(where, f"has a type of {len(sizes)} dimensions")
    shape = tuple(int(one) if one.isascii() and one.isdecimal() and len(one) <= _DIGITS else one for one in sizes)
    return Aval(TYPES[number] if 0 <= number < len(TYPES) else f"type {number}", shape)


def _check(kind: int, target: str) -> str:
    name = CHECKS[kind] if 0 <= kind < len(CHECKS) else f"check {kind}"
    return f"{name} {target}" if target else name


def _tree(table: Table | None, classes: list[str], depth: int, where: str) -> str:
    """Return how values are nested, ``(*, {a: *})``; note the names of classes that JAX has to know to read it."""
    if table is None:
        return ""
    if depth > _TREE_DEPTH:
        exceed(where, f"a tree of values deeper than {_TREE_DEPTH}")
    inner = [_tree(one, classes, depth + 1, where) for one in table.tables(1)]
    kind = int(table.number(0, "<b"))
    listed = ", ".join(inner)
    if kind == _DICT:
        listed = ", ".join(f"{key}: {value}" for key, value in zip(table.texts(2), inner, strict=False))
    if kind in _SHAPES:
        return _SHAPES[kind].format(listed)
    classes.append(table.text(3))
    return f"{table.text(3)}({listed})"


_DICT = 4
_SHAPES = {0: "*", 1: "None", 2: "({})", 3: "[{}]", _DICT: "{{{}}}"}
"""How each kind of tree is written; any other is of a class."""
