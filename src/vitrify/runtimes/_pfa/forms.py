"""The language's own forms: literals, symbols, choices, loops, types, errors. Places in data are in :mod:`.places`.

Source: https://dmg.org/pfa/docs/special_forms/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import refuse
from vitrify.runtimes._pfa import places
from vitrify.runtimes._pfa.scope import Expression
from vitrify.runtimes._pfa.types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    NULL,
    STRING,
    PfaError,
    Type,
    accepts,
    common,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.compiler import Compiler
    from vitrify.runtimes._pfa.scope import Frame, Run, Scope

    Form = Callable[[Compiler, dict[str, Any], Scope, str], Expression]

_INT = 1 << 31
_LONG = 1 << 63


def constant(type_: Type, value: Any) -> Expression:
    """Return an expression that always gives the same."""
    return Expression(type_, lambda _: value, constant=True)


def literal(node: Any, where: str) -> Expression:
    """Compile what stands for itself: null, a truth value, a number, or text in a list of its own."""
    if node is None or isinstance(node, bool):
        return constant(NULL if node is None else BOOLEAN, node)
    if isinstance(node, int):
        if not -_LONG <= node < _LONG:
            refuse(where, f"{node!s:.40} is too large for a long")
        return constant(INT if -_INT <= node < _INT else LONG, node)
    if isinstance(node, float):
        return constant(DOUBLE, node)
    if not isinstance(node, list) or len(node) != 1 or not isinstance(node[0], str):
        refuse(where, f"no expression: {node!r:.80}")
    return constant(STRING, node[0])


def _typed(kind: str) -> Form:
    def form(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
        del scope
        return constant(Type(kind), compiler.types.value(node[kind], Type(kind), where))

    return form


def _value(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    del scope
    type_ = compiler.types.read(node.get("type"), where)
    return constant(type_, compiler.types.value(node["value"], type_, where))


def _new(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    type_, given = compiler.types.read(node.get("type"), where), node["new"]
    if type_.kind == "array" and isinstance(given, list):
        items = [compiler.wanted(one, type_.item, scope, f"{where}[{at}]") for at, one in enumerate(given)]
        spend = compiler.meter.spend

        def run(frame: Frame) -> list[Any]:
            spend(len(items))
            return [one(frame) for one in items]

        return Expression(type_, run)
    if not isinstance(given, dict) or type_.kind not in {"map", "record"}:
        refuse(where, f"{type(given).__name__} is nothing that a {type_} can be made of")
    fields = compiler.types.fields[type_.name] if type_.kind == "record" else dict.fromkeys(given, type_.parts[0])
    if fields.keys() != given.keys():
        refuse(where, f"the fields {sorted(given)!s:.200}, and {type_} has {sorted(fields)!s:.200}")
    parts = {key: compiler.wanted(given[key], one, scope, f"{where}.{key}") for key, one in fields.items()}
    return Expression(type_, lambda frame: {key: one(frame) for key, one in parts.items()})


# Symbols


def _let(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    return _assigned(compiler, node["let"], scope, where, new=True)


def _set(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    return _assigned(compiler, node["set"], scope, where, new=False)


def _assigned(compiler: Compiler, given: Any, scope: Scope, where: str, *, new: bool) -> Expression:
    if not isinstance(given, dict) or not given:
        refuse(where, "no names with expressions")
    found = {name: compiler.expression(one, scope, f"{where}.{name}") for name, one in given.items()}
    steps: list[tuple[int, Run]] = []
    for name, one in found.items():
        if new:
            steps.append((scope.declare(name, one.type, where), one.run))
        else:
            slot, type_ = scope.changeable(name, where)
            steps.append((slot, compiler.fit(one, type_, f"{where}.{name}")))
    if len(steps) == 1:
        return Expression(NULL, _store(*steps[0]))

    def run(frame: Frame) -> None:
        for slot, value in [(slot, one(frame)) for slot, one in steps]:
            frame[slot] = value

    return Expression(NULL, run)


def _store(slot: int, value: Run) -> Run:
    def run(frame: Frame) -> None:
        frame[slot] = value(frame)

    return run


# Choices


def _if(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    return _chosen(compiler, [node], node, scope, where)


def _cond(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    if not isinstance(node["cond"], list) or not all(isinstance(one, dict) for one in node["cond"]):
        refuse(where, "no list of choices")
    return _chosen(compiler, node["cond"], node, scope, where)


def _chosen(compiler: Compiler, choices: list[Any], node: dict[str, Any], scope: Scope, where: str) -> Expression:
    tests, answers = [], []
    for at, one in enumerate(choices):
        place = f"{where}[{at}]"
        if not {"if", "then"} <= one.keys():
            refuse(place, "a choice without 'if' or 'then'")
        tests.append(compiler.wanted(one["if"], BOOLEAN, scope, place))
        answers.append(compiler.block(one["then"], scope.inner(), f"{place}.then"))
    if "else" in node:
        answers.append(compiler.block(node["else"], scope.inner(), f"{where}.else"))
        type_ = common(one.type for one in answers)
    else:
        answers.append(constant(NULL, None))
        type_ = NULL
    runs = [one.run if type_ == NULL else compiler.fit(one, type_, where) for one in answers]
    if len(tests) == 1:
        (test,), (yes, no) = tests, runs
        if type_ == NULL:
            return Expression(NULL, lambda frame: (yes(frame) if test(frame) else no(frame)) and None)
        return Expression(type_, lambda frame: yes(frame) if test(frame) else no(frame))
    pairs, otherwise = list(zip(tests, runs, strict=False)), runs[-1]

    def run(frame: Frame) -> Any:
        answer = next((one for test, one in pairs if test(frame)), otherwise)(frame)
        return None if type_ == NULL else answer

    return Expression(type_, run)


def _if_not_null(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    given, inner = node["ifnotnull"], scope.inner()
    if not isinstance(given, dict) or not given or "then" not in node:
        refuse(where, "no names with expressions, or no 'then'")
    steps = []
    for name, one in given.items():
        found = compiler.expression(one, scope, f"{where}.{name}")
        rest = common(part for part in _members(found.type) if part != NULL)
        steps.append((inner.declare(name, rest, where), found.run))
    then = compiler.block(node["then"], inner, f"{where}.then")
    other = compiler.block(node["else"], scope.inner(), f"{where}.else") if "else" in node else None
    type_ = NULL if other is None else common((then.type, other.type))
    yes = then.run if other is None else compiler.fit(then, type_, where)
    no = None if other is None else compiler.fit(other, type_, where)

    def run(frame: Frame) -> Any:
        for slot, one in steps:
            value = one(frame)
            if value is None:
                return no(frame) if no else None
            frame[slot] = value
        answer = yes(frame)
        return answer if no else None

    return Expression(type_, run)


def _members(type_: Type) -> tuple[Type, ...]:
    return type_.parts if type_.kind == "union" else (type_,)


def _cast(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    given, cases = compiler.expression(node["cast"], scope, where), node.get("cases")
    if not isinstance(cases, list) or not all(
        isinstance(one, dict) and {"as", "named", "do"} <= one.keys() for one in cases
    ):
        refuse(where, "no list of cases, each with 'as', 'named' and 'do'")
    found: list[tuple[Type, int, Expression]] = []
    for at, one in enumerate(cases):
        inner, place = scope.inner(), f"{where}.cases[{at}]"
        type_ = compiler.types.read(one["as"], place)
        slot = inner.declare(one["named"], type_, place)
        found.append((type_, slot, compiler.block(one["do"], inner, place)))
    partial = node.get("partial") is True
    left = [one for one in _members(given.type) if not any(accepts(type_, one) for type_, _, _ in found)]
    if left and not partial and given.type != NOTHING:
        refuse(where, f"no case for {', '.join(map(str, left))}")
    result = NULL if partial else common(one.type for _, _, one in found)
    runs = [(type_, slot, one.run if partial else compiler.fit(one, result, where)) for type_, slot, one in found]
    value, belongs = given.run, compiler.types.belongs

    def run(frame: Frame) -> Any:
        one = value(frame)
        for type_, slot, body in runs:
            if belongs(one, type_) or (type_ == DOUBLE and isinstance(one, int) and not isinstance(one, bool)):
                frame[slot] = one
                answer = body(frame)
                return None if partial else answer
        return None

    return Expression(result, run)


def _upcast(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    type_ = compiler.types.read(node.get("as"), where)
    return Expression(type_, compiler.wanted(node["upcast"], type_, scope, where))


# Blocks and loops


def _do(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    inner = scope.inner()
    body = compiler.block(node["do"], inner, where)
    if "until" not in node:
        return body
    test, step, spend = compiler.wanted(node["until"], BOOLEAN, inner, where), body.run, compiler.meter.spend

    def run(frame: Frame) -> None:
        while True:
            spend()
            step(frame)
            if test(frame):
                return

    return Expression(NULL, run)


def _while(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    test = compiler.wanted(node["while"], BOOLEAN, scope, where)
    body, spend = compiler.block(node.get("do"), scope.inner(), f"{where}.do").run, compiler.meter.spend

    def run(frame: Frame) -> None:
        while test(frame):
            spend()
            body(frame)

    return Expression(NULL, run)


def _for(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    inner = scope.inner()
    start = _assigned(compiler, node["for"], inner, where, new=True).run
    test = compiler.wanted(node.get("while"), BOOLEAN, inner, f"{where}.while")
    step = _assigned(compiler, node.get("step"), inner, f"{where}.step", new=False).run
    body, spend = compiler.block(node.get("do"), inner.inner(), f"{where}.do").run, compiler.meter.spend

    def run(frame: Frame) -> None:
        start(frame)
        while test(frame):
            spend()
            body(frame)
            step(frame)

    return Expression(NULL, run)


def _foreach(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    given = compiler.expression(node.get("in"), scope, f"{where}.in")
    if given.type.kind != "array":
        refuse(where, f"{given.type} given, an array expected")
    inner = scope.inner(sealed=node.get("seq") is not True)
    slot = inner.declare(node["foreach"], given.type.item, where)
    return _over(compiler, given.run, (slot,), node, inner=inner, where=where)


def _forkey(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    given = compiler.expression(node.get("in"), scope, f"{where}.in")
    if given.type.kind != "map" or not isinstance(node.get("forval"), str):
        refuse(where, f"{given.type} given, a map expected, with 'forkey' and 'forval'")
    inner = scope.inner()
    slots = (inner.declare(node["forkey"], STRING, where), inner.declare(node["forval"], given.type.item, where))
    value = given.run
    return _over(compiler, lambda frame: value(frame).items(), slots, node, inner=inner, where=where)


def _over(
    compiler: Compiler, values: Run, slots: tuple[int, ...], node: dict[str, Any], *, inner: Scope, where: str
) -> Expression:
    body, spend = compiler.block(node.get("do"), inner, f"{where}.do").run, compiler.meter.spend
    first, last = slots[0], slots[-1] + 1

    def run(frame: Frame) -> None:
        for one in values(frame):
            spend()
            frame[first:last] = one if len(slots) > 1 else (one,)
            body(frame)

    return Expression(NULL, run)


# Errors


def _error(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    del compiler, scope
    message, code = node["error"], node.get("code", 0)
    if not isinstance(message, str) or not isinstance(code, int):
        refuse(where, "an error without a text, or with a code that is no number")

    def run(_: Frame) -> Any:
        raise PfaError(message, code)

    return Expression(NOTHING, run)


def _try(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    body = compiler.block(node["try"], scope.inner(), where)
    only = node.get("filter")
    if only is not None and not isinstance(only, list):
        refuse(where, "a filter that is no list")
    type_ = common((NULL, body.type))
    run = body.run

    def attempt(frame: Frame) -> Any:
        try:
            return run(frame)
        except PfaError as error:
            if only is None or str(error) in only or error.code in only:
                return None
            raise

    return Expression(type_, attempt)


def _log(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    parts = node["log"] if isinstance(node["log"], list) else [node["log"]]
    runs = [compiler.expression(one, scope, where).run for one in parts]
    return Expression(NULL, lambda frame: [one(frame) for one in runs] and None)


def _doc(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    del compiler, node, scope, where
    return constant(NULL, None)


def _lacking(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    del node, scope
    return compiler.lacks(where, "a form on bytes, which this engine does not have", "keep text and numbers in fields")


def _called(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    """Compile a call whose function an enumeration chooses."""
    chosen = compiler.expression(node["call"], scope, where)
    given = node.get("args")
    if chosen.type.kind != "enum" or not isinstance(given, list):
        refuse(where, f"{chosen.type} given, an enumeration of functions expected, with 'args'")
    inner = scope.inner()
    calls = {name: compiler.call(f"u.{name}", given, inner, where) for name in compiler.types.symbols[chosen.type.name]}
    type_ = common(one.type for one in calls.values())
    runs, value = {name: compiler.fit(one, type_, where) for name, one in calls.items()}, chosen.run
    return Expression(type_, lambda frame: runs[value(frame)](frame))


def _misplaced(compiler: Compiler, node: dict[str, Any], scope: Scope, where: str) -> Expression:
    del compiler, node, scope
    refuse(where, "a function where a value is expected")


FORMS: dict[str, Form] = {
    "for": _for,
    "while": _while,
    "foreach": _foreach,
    "forkey": _forkey,
    "ifnotnull": _if_not_null,
    "cast": _cast,
    "upcast": _upcast,
    "if": _if,
    "cond": _cond,
    "try": _try,
    "error": _error,
    "log": _log,
    "let": _let,
    "set": _set,
    "attr": places.attr,
    "cell": places.cell,
    "pool": places.pool,
    "new": _new,
    "call": _called,
    "unpack": _lacking,
    "pack": _lacking,
    "base64": _lacking,
    "params": _misplaced,
    "fcn": _misplaced,
    "value": _value,
    "do": _do,
    "doc": _doc,
    **{kind: _typed(kind) for kind in ("int", "long", "float", "double", "string")},
}
"""By the key that tells a form from the others, in the order in which they are looked for."""
