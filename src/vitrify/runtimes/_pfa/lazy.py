"""Calls that do not need all their arguments: logic with and without missing values.

Source: https://dmg.org/pfa/docs/library/#lib:basic
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import refuse
from vitrify.runtimes._pfa.scope import Expression
from vitrify.runtimes._pfa.types import BOOLEAN, NULL, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.runtimes._pfa.compiler import Compiler
    from vitrify.runtimes._pfa.scope import Frame, Run, Scope

_MAYBE = Type("union", parts=(NULL, BOOLEAN))


def _both(compiler: Compiler, given: Sequence[Any], type_: Type, scope: Scope, where: str) -> list[Run]:
    if len(given) != 2:  # noqa: PLR2004 (the two sides)
        refuse(where, f"{len(given)} argument(s), and it takes 2")
    return [compiler.wanted(one, type_, scope, f"{where}[{at}]") for at, one in enumerate(given)]


def _and(compiler: Compiler, given: Sequence[Any], scope: Scope, where: str) -> Expression:
    left, right = _both(compiler, given, BOOLEAN, scope, where)
    return Expression(BOOLEAN, lambda frame: left(frame) and right(frame))


def _or(compiler: Compiler, given: Sequence[Any], scope: Scope, where: str) -> Expression:
    left, right = _both(compiler, given, BOOLEAN, scope, where)
    return Expression(BOOLEAN, lambda frame: left(frame) or right(frame))


def _kleene(*, decides: bool) -> Callable[..., Expression]:
    """Return a form where one value decides whatever the other side is, and null is not known."""

    def form(compiler: Compiler, given: Sequence[Any], scope: Scope, where: str) -> Expression:
        left, right = _both(compiler, given, _MAYBE, scope, where)

        def run(frame: Frame) -> bool | None:
            first: bool | None = left(frame)
            if first is decides:
                return decides
            second: bool | None = right(frame)
            if second is decides:
                return decides
            return None if first is None or second is None else not decides

        return Expression(_MAYBE, run)

    return form


FORMS: dict[str, Callable[..., Expression]] = {
    "&&": _and,
    "||": _or,
    "&&&": _kleene(decides=False),
    "|||": _kleene(decides=True),
}
"""By the function's name: a compiler, the arguments as written, the scope and the place."""
