"""Places in data: parts of values, cells and pools, read and replaced. Nothing that is there is changed: a copy is.

Source: https://dmg.org/pfa/docs/special_forms/ (attr, cell, pool)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import refuse
from vitrify.runtimes._pfa.scope import Expression
from vitrify.runtimes._pfa.types import INT, LONG, NULL, STRING, PfaError, Type, accepts

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.compiler import Compiler
    from vitrify.runtimes._pfa.scope import Frame, Run, Scope

    Change = Callable[[Frame], Callable[[Any], Any]]

_GET, _TO = 2000, 2002


def attr(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    """Compile a part of a value, or the value with another part."""
    whole = compiler.expression(node["attr"], scope, where)
    keys, type_ = _path(compiler, node, whole.type, scope, where)
    if "to" not in node:
        return Expression(type_, _read(whole.run, keys))
    change = _change(compiler, node["to"], type_, scope, where)
    value = whole.run
    return Expression(whole.type, lambda frame: _replaced(value(frame), [key(frame) for key in keys], change(frame)))


def cell(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    """Compile a cell's value or a part of it, or what puts another there."""
    name = node["cell"]
    if not isinstance(name, str) or name not in compiler.cells:
        refuse(where, f"no cell {name!r:.80}")
    held, root = compiler.state["cell"], compiler.cells[name]
    keys, type_ = _path(compiler, node, root, scope, where)
    if "to" not in node:
        return Expression(type_, _read(lambda _: held[name], keys))
    change = _change(compiler, node["to"], type_, scope, where)
    compiler.changes = True

    def run(frame: Frame) -> Any:
        held[name] = _replaced(held[name], [key(frame) for key in keys], change(frame))
        return held[name]

    return Expression(root, run)


def pool(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    """Compile an item of a pool or a part of it, what puts another there, or what takes it away."""
    name = node["pool"]
    if not isinstance(name, str) or name not in compiler.pools:
        refuse(where, f"no pool {name!r:.80}")
    held, item = compiler.state["pool"], compiler.pools[name]
    if "del" in node:
        compiler.changes = True
        key = compiler.wanted(node["del"], STRING, scope, where)

        def remove(frame: Frame) -> None:
            gone = key(frame)
            held[name] = {one: value for one, value in held[name].items() if one != gone}

        return Expression(NULL, remove)
    keys, type_ = _path(compiler, node, Type("map", parts=(item,)), scope, where)
    if not keys:
        refuse(where, "a pool without a path to one of its items")
    if "to" not in node:
        return Expression(type_, _read(lambda _: held[name], keys))
    compiler.changes = True
    change = _change(compiler, node["to"], type_, scope, where)
    init = compiler.wanted(node["init"], item, scope, f"{where}.init") if "init" in node else None

    def run(frame: Frame) -> Any:
        places = [key(frame) for key in keys]
        if places[0] not in held[name] and init is not None:
            value = init(frame)
        else:
            value = _replaced(held[name].get(places[0]), places[1:], change(frame))
        compiler.meter.spend(len(held[name]) // 8)
        held[name] = {**held[name], places[0]: value}
        return value

    return Expression(item, run)


def _path(compiler: Compiler, node: dict[str, Any], type_: Type, scope: Scope, where: str) -> tuple[list[Run], Type]:
    """Return what gives each key of a path, and the type at its end."""
    path = node.get("path", [])
    if not isinstance(path, list):
        refuse(where, "a path that is no list")
    keys = []
    for at, one in enumerate(path):
        key = compiler.expression(one, scope, f"{where}.path[{at}]")
        if type_.kind == "record":
            name = key.run([]) if key.constant else None
            if name not in compiler.types.fields[type_.name]:
                refuse(where, f"no field {name!r:.80} in {type_}")
            type_ = compiler.types.fields[type_.name][name]
        elif (type_.kind == "array" and accepts(LONG, key.type)) or (type_.kind == "map" and accepts(STRING, key.type)):
            type_ = type_.item
        elif type_.kind != "nothing":
            refuse(where, f"{key.type} is no key of {type_} ({INT} of arrays, {STRING} of maps, names of records)")
        keys.append(key.run)
    return keys, type_


def _read(whole: Run, keys: list[Run]) -> Run:
    if not keys:
        return whole
    if len(keys) == 1:
        (key,) = keys
        return lambda frame: _part(whole(frame), key(frame), _GET)

    def run(frame: Frame) -> Any:
        value = whole(frame)
        for one in keys:
            value = _part(value, one(frame), _GET)
        return value

    return run


def _part(value: Any, key: Any, code: int) -> Any:
    try:
        if type(key) is not int or key >= 0:  # Python would count what is below zero from the end
            return value[key]
    except KeyError:
        msg = "map key not found"
        raise PfaError(msg, code + 1) from None
    except IndexError:
        pass
    msg = "array index not found"
    raise PfaError(msg, code)


def _change(compiler: Compiler, node: Any, type_: Type, scope: Scope, where: str) -> Change:
    """Return what makes the new part of the old one: an expression, or a function."""
    if isinstance(node, dict) and "params" in node:
        made = compiler.inline(node, scope, where)
    elif isinstance(node, dict) and "fcn" in node:
        found = compiler.reference(node, scope, where)
        made = found if isinstance(found, Expression) else compiler.lend(found, [type_], where)
    else:
        value = compiler.wanted(node, type_, scope, where)

        def put(frame: Frame) -> Callable[[Any], Any]:
            new = value(frame)
            return lambda _: new

        return put
    return compiler.fit(made, Type("function", parts=(type_, type_)), where)


def _replaced(value: Any, keys: list[Any], new: Callable[[Any], Any]) -> Any:
    if not keys:
        return new(value)
    first, *rest = keys
    if isinstance(value, dict):
        if not rest and first not in value:
            return {**value, first: new(None)}
        return {**value, first: _replaced(_part(value, first, _TO), rest, new)}
    part = _replaced(_part(value, first, _TO), rest, new)
    return [*value[:first], part, *value[first + 1 :]]
