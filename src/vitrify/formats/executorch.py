"""ExecuTorch programs (``.pte``): a FlatBuffer of instructions, and behind it segments of weights and compiled parts.

Specification: https://docs.pytorch.org/executorch/stable/pte-file-format.html and ``schema/program.fbs`` of
https://github.com/pytorch/executorch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.reading.files import head, only
from vitrify.reading.flatbuffer import identifier, root
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_IDENTIFIER = re.compile(rb"ET[0-9]{2}")
_VERSION, _PLANS = 0, 1
_NAME, _OPERATORS, _DELEGATES = 0, 6, 7
"""Fields of ``Program``, and of ``ExecutionPlan``."""


class _Plan(NamedTuple):
    name: str
    operators: list[str]
    delegates: list[str]


class ExecuTorch:
    """The format of ExecuTorch programs: operators and delegates by name; delegates' parts are compiled code."""

    def detect(self, files: Files) -> bool:
        """Say whether it has the identifier ``ET`` and the number of the schema."""
        return _IDENTIFIER.fullmatch(identifier(head(files, 8))) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the methods, the operators that they use, and who runs the compiled parts.

        Raises:
            MalformedError: It is no ExecuTorch program, or cut off.
        """
        name, version, plans = _parse(files, entry)
        delegates = sorted({one for plan in plans for one in plan.delegates})
        return {
            "versions": {"schema": version, "identifier": identifier(files.map(name)[:8]).decode()},
            "methods": [plan.name for plan in plans],
            "operators": dict.fromkeys(sorted({one for plan in plans for one in plan.operators}), 1),
            "delegates": delegates,
            "bytes": len(files.map(name)),
            "needs": ["ExecuTorch with these operators", *(f"the delegate {one}" for one in delegates)],
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield operators that are not PyTorch's own, and compiled parts, which were not looked at.

        Raises:
            MalformedError: It is no ExecuTorch program, or cut off.
        """
        from vitrify.core.report import Finding

        name, _, plans = _parse(files, entry)
        for one in sorted({one for plan in plans for one in plan.operators}):
            if not one.startswith(
                ("aten::", "prim::", "executorch_prim::", "quantized_decomposed::", "dim_order_ops::")
            ):
                message = f"the operator {one} is native code that is not in this file: the application has to bring it"
                remedy = "find out what it does; allow it by its exact name if it is yours"
                yield Finding(place=name, message=message, rule="custom-operator", subject=one, remedy=remedy)
        for one in sorted({one for plan in plans for one in plan.delegates}):
            message = f"a part that was compiled for the delegate {one}: it cannot be read"
            yield Finding(place=name, message=message, rule="native-code", subject=one, verdict="not checked")
        message = "its instructions and memory plan were not checked: ExecuTorch trusts them"
        yield Finding(place=name, message=message, rule="unread-program", verdict="not checked")


def _parse(files: Files, entry: Mapping[str, Any]) -> tuple[str, int, list[_Plan]]:
    name = str(entry.get("file") or only(files) or "")
    if not name:
        refuse("this directory", "is not one ExecuTorch program")
    view = files.map(name)
    if _IDENTIFIER.fullmatch(identifier(view[:8])) is None:
        refuse(name, "is no ExecuTorch program: it has not the identifier")
    program = root(view, where=name)
    plans = []
    for table in program.tables(_PLANS):
        named = [(one.text(0), one.text(1)) for one in table.tables(_OPERATORS)]
        operators = [f"{operator}.{overload}" if overload else operator for operator, overload in named]
        plans.append(_Plan(table.text(_NAME), operators, [one.text(0) for one in table.tables(_DELEGATES)]))
    return name, int(program.number(_VERSION, "<I")), plans
