"""A module from bytecode: what operations mean that name functions, call them, or call out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vitrify.core.errors import MalformedError
from vitrify.formats._stablehlo.meaning import Meaning
from vitrify.formats._stablehlo.module import Body, Function, Module, Op, Port, is_custom_call
from vitrify.reading.mlir import Cursor, parse

if TYPE_CHECKING:
    from vitrify.reading.mlir import Operation, Region

_VERSIONED = re.compile(r"^vhlo\.(\w+?)_v[0-9]+$")
_RELEASE = re.compile(r"StableHLO_v([\w.]+)")
_DIALECTS = {"func": "func.func", "call": "func.call"}
"""Operations that the versioned dialect took over from another."""


class _Place(NamedTuple):
    """Which property of an operation an attribute is, and whether it may be left out, which shifts its number."""

    at: int
    optional: bool = False


_PLACES = {
    ("vhlo.func", "function_type"): _Place(1),
    ("vhlo.func", "sym_name"): _Place(3),
    ("vhlo.func", "sym_visibility"): _Place(4),
    ("func.func", "function_type"): _Place(1),
    ("func.func", "sym_name"): _Place(4),
    ("func.func", "sym_visibility"): _Place(5, optional=True),
    ("vhlo.call", "callee"): _Place(0),
    ("func.call", "callee"): _Place(1),
    ("builtin.module", "sym_name"): _Place(0, optional=True),
}
"""Properties lie in the order of their names; these are the places of those that are looked at."""
_TARGET = _Place(2)
"""After ``api_version`` and ``backend_config``, in every version of custom calls."""


def read(view: memoryview, *, where: str) -> Module:
    """Return the module that a file of bytecode holds.

    Raises:
        MalformedError: It is no bytecode, or says something impossible.
        LimitExceededError: It is deeper or has more in it than its size allows.
    """
    code = parse(view, where=where)
    reader = _Reader(Meaning(code, where))
    found = _RELEASE.match(code.producer)
    module = Module("", found[1] if found else "", code.producer, code.dialects, [], [])
    tops = code.top.operations
    if len(tops) == 1 and tops[0].name == "builtin.module":
        module.name = reader.text(tops[0], "sym_name") or ""
        tops = [one for region in tops[0].regions for one in region.operations]
    for one in tops:
        if one.name == "func.func" or _VERSIONED.sub(r"\1", one.name) == "func":
            module.functions.append(reader.function(one))
        else:
            module.others.append(reader.operation(one))
    return module


class _Reader:
    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning

    def function(self, one: Operation) -> Function:
        kind = self.attribute(one, "function_type")
        number = None if kind is None else self.meaning.type_of(kind)
        outputs = [] if number is None else self.meaning.outputs(number)
        body = self.body(one.regions[0], "func.return") if one.regions else Body()
        return Function(self.text(one, "sym_name") or "", self.text(one, "sym_visibility") or "", outputs, body)

    def body(self, region: Region, ending: str = "stablehlo.return") -> Body:
        arguments = [Port(f"%{value}", self.meaning.type(kind)) for value, kind in region.arguments]
        return Body(arguments, [self.operation(one, ending) for one in region.operations])

    def operation(self, one: Operation, ending: str = "") -> Op:
        """Return an operation; the versioned dialect has one name for what ends a function and what ends a region."""
        name = _name(one.name)
        name = ending if name == "stablehlo.return" and ending else name
        return Op(
            name=name,
            results=[Port(f"%{value}", self.meaning.type(kind)) for value, kind in one.results],
            operands=[f"%{value}" for value in one.operands],
            regions=[self.body(region) for region in one.regions],
            target=self.target(one) if is_custom_call(name) else "",
            call=(self.text(one, "callee") or "") if name == "func.call" else "",
        )

    def target(self, one: Operation) -> str | None:
        """Return what a custom call calls; None where that is not told, or told twice and not the same."""
        told = [self.text(one, "call_target_name")]
        if one.properties is not None and one.attributes is not None:
            again = self.meaning.dictionary(one.attributes).get("call_target_name")
            told += [] if again is None else [self.meaning.text(again)]
        return told[0] if len(set(told)) == 1 else None

    def text(self, one: Operation, name: str) -> str | None:
        """Return an attribute that is text; None where it is absent, or no text."""
        index = self.attribute(one, name)
        return None if index is None else self.meaning.text(index)

    def attribute(self, one: Operation, name: str) -> int | None:
        """Return the number of an attribute, from the properties or, in older files, from the dictionary."""
        plain = _VERSIONED.sub(r"vhlo.\1", one.name)
        place = _TARGET if is_custom_call(plain) else _PLACES.get((plain, name))
        if one.properties is None:
            return None if one.attributes is None else self.meaning.dictionary(one.attributes).get(name)
        if place is None:
            return None
        cursor = Cursor(one.properties, self.meaning.where)
        try:
            numbers = [cursor.number() for _ in range(place.at + 1)]
        except MalformedError:
            return None
        number = numbers[-1]
        if place.optional:
            return number >> 1 if number & 1 else None
        return number


def _name(name: str) -> str:
    """Return what an operation is called in text: ``vhlo.add_v1`` is the stored form of ``stablehlo.add``."""
    found = _VERSIONED.match(name)
    return _DIALECTS.get(found[1], f"stablehlo.{found[1]}") if found else name
