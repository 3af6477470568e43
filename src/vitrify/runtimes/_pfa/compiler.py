"""From a document to closures: expressions, calls and functions. The language's own forms are in :mod:`.forms`.

Types are checked here, so that nothing but values can go wrong while it runs. What the engine lacks is collected and
refused at once.

Source: https://dmg.org/pfa/docs/expressions/ and https://dmg.org/pfa/docs/functions/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.reading.malformed import exceed, refuse
from vitrify.runtimes._pfa import forms, lazy
from vitrify.runtimes._pfa.library import LIBRARY
from vitrify.runtimes._pfa.library.base import Meter, Site
from vitrify.runtimes._pfa.scope import Expression, Scope, Size
from vitrify.runtimes._pfa.signatures import filled, fits, known
from vitrify.runtimes._pfa.types import NOTHING, Type, Types, accepts, converter, function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.runtimes._pfa.library.base import Function
    from vitrify.runtimes._pfa.scope import Frame, Run
    from vitrify.runtimes._pfa.signatures import Bound, Signature

_DEEPEST = 150
"""Expressions within expressions; each takes some frames of Python's own stack."""


@dataclass
class Own:
    """A function of the document's own; its body comes later, as functions may call each other."""

    type: Type
    names: list[str]
    size: Size = field(default_factory=Size)
    body: Run = lambda _: None


@dataclass(frozen=True)
class Borrowed:
    """A function of the library that is passed on; what it is depends on who calls it."""

    name: str
    function: Function


class Compiler:
    """Compiles one document.

    Attributes:
        types: Its named types.
        cells: Type by name.
        pools: Type of each value by name.
        state: What cells and pools hold, while the engine runs.
        own: Its functions.
        problems: What the engine lacks.
        changes: Whether something is written into cells or pools.
        meter: What bounds the work.
    """

    def __init__(self, types: Types, meter: Meter) -> None:
        """Start with nothing but types."""
        self.types = types
        self.meter = meter
        self.cells: dict[str, Type] = {}
        self.pools: dict[str, Type] = {}
        self.state: dict[str, dict[str, Any]] = {"cell": {}, "pool": {}}
        self.own: dict[str, Own] = {}
        self.problems: list[Finding] = []
        self.changes = False
        self._depth = 0

    def lacks(self, where: str, message: str, remedy: str) -> Expression:
        """Note what the engine does not have; what depends on it is not checked."""
        self.problems.append(Finding(place=where, message=message, remedy=remedy))
        return Expression(NOTHING, lambda _: None)

    # Expressions

    def expression(self, node: Any, scope: Scope, where: str) -> Expression:
        """Compile one expression.

        Raises:
            MalformedError: It is none, or types do not fit.
        """
        self._depth += 1
        if self._depth > _DEEPEST:
            exceed(where, f"expressions within expressions, more than {_DEEPEST} deep")
        try:
            return self._expression(node, scope, where)
        finally:
            self._depth -= 1

    def _expression(self, node: Any, scope: Scope, where: str) -> Expression:
        if isinstance(node, str):
            return self._symbol(node, scope, where)
        if not isinstance(node, dict):
            return forms.literal(node, where)
        node = {key: value for key, value in node.items() if key != "@"}
        for key, form in forms.FORMS.items():
            if key in node:
                return form(self, node, scope, f"{where}.{key}")
        if len(node) != 1:
            refuse(where, f"no expression: {sorted(node)!s:.120}")
        ((name, given),) = node.items()
        return self.call(name, given if isinstance(given, list) else [given], scope, f"{where}.{name}")

    def _symbol(self, name: str, scope: Scope, where: str) -> Expression:
        found = scope.find(name)
        if found is None:
            refuse(where, f"no symbol {name!r:.80}; text is written as {{'string': ...}}")
        slot, type_ = found
        return Expression(type_, lambda frame: frame[slot])

    def block(self, nodes: Any, scope: Scope, where: str) -> Expression:
        """Compile one expression or several, of which the last gives the value."""
        listed = nodes if isinstance(nodes, list) and not _is_text(nodes) else [nodes]
        if not listed:
            refuse(where, "an empty list of expressions")
        parts = [self.expression(one, scope, f"{where}[{at}]") for at, one in enumerate(listed)]
        if len(parts) == 1:
            return parts[0]
        *before, last = (part.run for part in parts)
        type_ = NOTHING if any(part.type == NOTHING for part in parts) else parts[-1].type

        def run(frame: Frame) -> Any:
            for step in before:
                step(frame)
            return last(frame)

        return Expression(type_, run)

    def wanted(self, node: Any, type_: Type, scope: Scope, where: str) -> Run:
        """Compile an expression whose value has to be of a type."""
        return self.fit(self.expression(node, scope, where), type_, where)

    def fit(self, given: Expression, type_: Type, where: str) -> Run:
        """Return what gives an expression's value as one of a type.

        Raises:
            MalformedError: It cannot be one.
        """
        if not accepts(type_, given.type):
            refuse(where, f"{given.type} given, {type_} expected")
        run, step = given.run, converter(type_, given.type, self.types)
        return run if step is None else lambda frame: step(run(frame))

    # Functions

    def inline(self, node: dict[str, Any], scope: Scope, where: str) -> Expression:
        """Compile a function that is written where it is used."""
        names, type_ = self.signature(node, where)
        inner = scope.inner(sealed=True)
        slots = [inner.declare(name, one, where) for name, one in zip(names, type_.parts, strict=False)]
        body = self.fit(self.block(node.get("do"), inner, f"{where}.do"), type_.parts[-1], where)
        spend, first = self.meter.spend, slots[0] if slots else 0

        def one(frame: Frame) -> Callable[[Any], Any]:
            def call(value: Any) -> Any:
                spend()
                frame[first] = value
                return body(frame)

            return call

        def several(frame: Frame) -> Callable[..., Any]:
            def call(*values: Any) -> Any:
                spend()
                frame[first : first + len(values)] = values
                return body(frame)

            return call

        return Expression(type_, one if len(slots) == 1 else several)

    def signature(self, node: dict[str, Any], where: str) -> tuple[list[str], Type]:
        """Return the names of a function's parameters, and its type."""
        params = node.get("params")
        if not isinstance(params, list) or not all(isinstance(one, dict) and len(one) == 1 for one in params):
            refuse(where, "a function whose parameters are no list of names with types")
        named = [next(iter(one.items())) for one in params]
        parts = [self.types.read(type_, where) for _, type_ in named]
        return [name for name, _ in named], function(*parts, self.types.read(node.get("ret"), where))

    def reference(self, node: dict[str, Any], scope: Scope, where: str) -> Expression | Borrowed:
        """Compile the name of a function, perhaps with some of its arguments."""
        name = node["fcn"]
        if not isinstance(name, str):
            refuse(where, "a function without a name")
        if not name.startswith("u."):
            return Borrowed(name, LIBRARY[name]) if name in LIBRARY else self._unknown(name, where)
        own = self._own(name, where)
        call = self._caller(own)
        if not isinstance(given := node.get("fill"), dict):
            return Expression(own.type, lambda _: call)
        return self._partial(own, call, given, scope, where)

    def _partial(
        self, own: Own, call: Callable[..., Any], given: dict[str, Any], scope: Scope, where: str
    ) -> Expression:
        names = own.names
        if unknown := given.keys() - set(names):
            refuse(where, f"no parameter {sorted(unknown)}")
        fixed = {
            names.index(name): self.wanted(one, own.type.parts[names.index(name)], scope, where)
            for name, one in given.items()
        }
        left = [one for at, one in enumerate(own.type.parts) if at not in fixed]

        def run(frame: Frame) -> Callable[..., Any]:
            values = {at: one(frame) for at, one in fixed.items()}

            def filled_in(*rest: Any) -> Any:
                more = iter(rest)
                return call(*(values[at] if at in values else next(more) for at in range(len(names))))

            return filled_in

        return Expression(function(*left), run)

    def declare(self, name: str, node: Any, where: str) -> None:
        """Note a function of the document's own."""
        if not isinstance(node, dict):
            refuse(where, "no function")
        names, type_ = self.signature(node, where)
        self.own[f"u.{name}"] = Own(type_, names)

    def define(self, name: str, node: dict[str, Any], where: str) -> None:
        """Compile the body of a function that was declared."""
        own = self.own[f"u.{name}"]
        scope = Scope(own.size)
        for symbol, type_ in zip(own.names, own.type.parts, strict=False):
            scope.declare(symbol, type_, where)
        own.body = self.fit(self.block(node.get("do"), scope, f"{where}.do"), own.type.parts[-1], where)

    def _caller(self, own: Own) -> Callable[..., Any]:
        spend = self.meter.spend

        def call(*values: Any) -> Any:
            spend()
            return own.body([*values, *[None] * (own.size.slots - len(values))])

        return call

    def _own(self, name: str, where: str) -> Own:
        if name not in self.own:
            refuse(where, f"no function {name!r:.80} in this document")
        return self.own[name]

    def _unknown(self, name: str, where: str) -> Expression:
        remedy = "write it as a function of the document's own, or run the document on an engine that has it"
        return self.lacks(where, f"the function {name!r:.80}, which this engine does not have", remedy)

    # Calls

    def call(self, name: str, given: Sequence[Any], scope: Scope, where: str) -> Expression:
        """Compile a call of a function by name."""
        if name in lazy.FORMS:
            return lazy.FORMS[name](self, given, scope, where)
        if name.startswith("u."):
            return self._call_own(self._own(name, where), given, scope, where)
        arguments = [self._argument(one, scope, f"{where}[{at}]") for at, one in enumerate(given)]
        if name not in LIBRARY:
            return self._unknown(name, where)
        for one in LIBRARY[name].signatures:
            if (found := self._matched(one, arguments)) is not None:
                return self._applied(LIBRARY[name], one, *found, where)
        never = [one for one in arguments if isinstance(one, Expression) and one.type == NOTHING]
        if not never:
            listed = ", ".join(one.name if isinstance(one, Borrowed) else str(one.type) for one in arguments)
            refuse(where, f"no signature of {name} takes ({listed})")
        return never[0]

    def _call_own(self, own: Own, given: Sequence[Any], scope: Scope, where: str) -> Expression:
        *params, result = own.type.parts
        if len(params) != len(given):
            refuse(where, f"{len(given)} argument(s), and it takes {len(params)}")
        runs = [
            self.wanted(one, type_, scope, f"{where}[{at}]")
            for at, (one, type_) in enumerate(zip(given, params, strict=True))
        ]
        return Expression(result, applied(self._caller(own), runs))

    def _argument(self, node: Any, scope: Scope, where: str) -> Expression | Borrowed:
        if isinstance(node, dict) and "params" in node:
            return self.inline(node, scope, where)
        if isinstance(node, dict) and "fcn" in node:
            return self.reference(node, scope, where)
        return self.expression(node, scope, where)

    def _matched(
        self, one: Signature, arguments: Sequence[Expression | Borrowed]
    ) -> tuple[list[Expression], Bound] | None:
        """Return the arguments as expressions and what letters stand for, where a signature takes them.

        What a borrowed function gives is known last: from the arguments that it will get.
        """
        if len(one.params) != len(arguments):
            return None
        bound: Bound = {}
        pairs = list(zip(one.params, arguments, strict=True))
        # A function's parameters tell nothing new; what it gives does, and so it comes after values.
        for pattern, given in sorted(pairs, key=lambda pair: pair[0].kind == "function"):
            if isinstance(given, Expression) and not fits(pattern, given.type, bound, self.types):
                return None
        done = []
        for pattern, given in pairs:
            if isinstance(given, Expression):
                done.append(given)
                continue
            if pattern.kind != "function" or not known(pattern.parts[:-1], bound):
                return None
            lent = self._lent(given, [filled(part, bound) for part in pattern.parts[:-1]])
            if lent is None or not fits(pattern.parts[-1], lent.type.parts[-1], bound, self.types):
                return None
            done.append(lent)
        return done, bound

    def lend(self, borrowed: Borrowed, params: list[Type], where: str) -> Expression:
        """Return a function of the library for arguments of some types.

        Raises:
            MalformedError: It does not take them.
        """
        found = self._lent(borrowed, params)
        if found is None:
            refuse(where, f"no signature of {borrowed.name} takes ({', '.join(map(str, params))})")
        return found

    def _lent(self, borrowed: Borrowed, params: list[Type]) -> Expression | None:
        """Return a function of the library for arguments of some types."""
        values = [Expression(type_, lambda _: None) for type_ in params]
        for one in borrowed.function.signatures:
            found = self._matched(one, values)
            if found is None:
                continue
            site = self._site(one, found[1])
            call = borrowed.function.build(site)
            steps = [converter(want, have, self.types) for want, have in zip(site.params, params, strict=True)]
            return Expression(function(*params, site.result), _always(_converting(call, steps) if any(steps) else call))
        return None

    def _site(self, one: Signature, bound: Bound) -> Site:
        return Site(
            tuple(filled(part, bound) for part in one.params), filled(one.result, bound), self.types, self.meter
        )

    def _applied(
        self, called: Function, one: Signature, arguments: list[Expression], bound: Bound, where: str
    ) -> Expression:
        site = self._site(one, bound)
        runs = [self.fit(given, type_, where) for given, type_ in zip(arguments, site.params, strict=True)]
        return Expression(site.result, applied(called.build(site), runs))


def _always(value: Any) -> Run:
    return lambda _: value


def _converting(call: Callable[..., Any], steps: list[Callable[[Any], Any] | None]) -> Callable[..., Any]:
    return lambda *values: call(*(step(one) if step else one for step, one in zip(steps, values, strict=True)))


def applied(call: Callable[..., Any], runs: Sequence[Run]) -> Run:
    """Return what calls a function with what some expressions give."""
    match runs:
        case []:
            return lambda _: call()
        case [first]:
            return lambda frame: call(first(frame))
        case [first, second]:
            return lambda frame: call(first(frame), second(frame))
        case [first, second, third]:
            return lambda frame: call(first(frame), second(frame), third(frame))
    every = list(runs)
    return lambda frame: call(*[one(frame) for one in every])


def _is_text(nodes: list[Any]) -> bool:
    """Say whether a list is text: one string alone."""
    return len(nodes) == 1 and isinstance(nodes[0], str)
