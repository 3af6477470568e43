"""The engine: a document, compiled once, asked row by row.

Source: https://dmg.org/pfa/docs/document_structure/ and https://dmg.org/pfa/docs/scoring_engine/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.reading.malformed import refuse
from vitrify.runtimes._pfa.compiler import Compiler
from vitrify.runtimes._pfa.library.base import Meter
from vitrify.runtimes._pfa.scope import Scope, Size
from vitrify.runtimes._pfa.types import INT, STRING, Type, Types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.runtimes._pfa.scope import Run

STEPS = 20_000_000
"""Calls, turns of loops and new elements that one row may cause."""

_SYMBOLS = (("name", STRING), ("version", INT), ("metadata", Type("map", parts=(STRING,))))
_STORES = (("cells", "cell"), ("pools", "pool"))


class Engine:
    """A document that can be asked.

    Attributes:
        types: Its named types.
        input: What a row is.
        output: What it answers.
        stateful: Whether a row changes what later rows get.
    """

    def __init__(self, document: Mapping[str, Any], steps: int = STEPS) -> None:
        """Compile it.

        Raises:
            MalformedError: It is no PFA, or types do not fit.
            UnsupportedModelError: It needs what this engine does not have; everything is listed.
        """
        self.types = Types()
        self._meter = Meter(steps)
        self._compiler = compiler = Compiler(self.types, self._meter)
        compiler.problems += _unsupported(document)
        self._constants = [str(document.get("name", "")), _version(document), _metadata(document)]
        self.types.note(document)
        self.input = self.types.read(document["input"], "input")
        self.output = self.types.read(document["output"], "output")
        self._stores(document)
        self._functions(document)
        self._begin = self._block(document, "begin")
        if "action" not in document:
            refuse("action", "none in this document")
        self._action = self._block(document, "action")
        self._block(document, "end")
        if compiler.problems:
            msg = f"{len(compiler.problems)} part(s) of this document cannot run on this engine"
            raise UnsupportedModelError(msg, problems=compiler.problems)
        self.stateful = compiler.changes
        self.reset()

    def run(self, row: Any) -> Any:
        """Return the answer for one row, a value of the input's type.

        Raises:
            PfaError: The document raised it.
            LimitExceededError: It takes too many steps, or calls itself too deep.
        """
        self._meter.reset()
        return self._guarded(self._action, row)

    def reset(self) -> None:
        """Forget what earlier rows left in cells and pools, and begin again."""
        for (_, kind), values in zip(_STORES, self._initial, strict=True):
            self._compiler.state[kind].clear()
            self._compiler.state[kind].update(values)
        self._meter.reset()
        self._guarded(self._begin, None)

    def _guarded(self, block: tuple[Size, Run], row: Any) -> Any:
        size, run = block
        frame = [row, *self._constants, *[None] * (size.slots - 1 - len(self._constants))]
        try:
            return run(frame)
        except RecursionError as error:
            msg = "a function of this PFA document calls itself too deep"
            raise LimitExceededError(msg, remedy="write it as a loop") from error

    def _block(self, document: Mapping[str, Any], name: str) -> tuple[Size, Run]:
        if name not in document:
            return Size(), lambda _: None
        scope = Scope(Size())
        scope.declare("input", self.input, name)
        for symbol, type_ in _SYMBOLS:
            scope.declare(symbol, type_, name)
        body = self._compiler.block(document[name], scope.inner(), name)
        return scope.size, self._compiler.fit(body, self.output, name) if name == "action" else body.run

    def _stores(self, document: Mapping[str, Any]) -> None:
        compiler = self._compiler
        self._initial: list[dict[str, Any]] = []
        for key, kind in _STORES:
            initial = {}
            for name, one in _object(document, key).items():
                where = f"{key}.{name}"
                type_ = self.types.read(one.get("type") if isinstance(one, dict) else None, where)
                (compiler.cells if kind == "cell" else compiler.pools)[name] = type_
                if one.get("source", "embedded") != "embedded":
                    continue  # it is refused
                whole = type_ if kind == "cell" else Type("map", parts=(type_,))
                initial[name] = self.types.value(one.get("init", {} if kind == "pool" else None), whole, where)
            self._initial.append(initial)

    def _functions(self, document: Mapping[str, Any]) -> None:
        functions = _object(document, "fcns")
        for name, one in functions.items():
            self._compiler.declare(name, one, f"fcns.{name}")
        for name, one in functions.items():
            self._compiler.define(name, one, f"fcns.{name}")


def _object(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = document.get(key) or {}
    if not isinstance(found, dict):
        refuse(key, "no object")
    return found


def _version(document: Mapping[str, Any]) -> int:
    version = document.get("version")
    return version if isinstance(version, int) else 0


def _metadata(document: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in _object(document, "metadata").items()}


def _unsupported(document: Mapping[str, Any]) -> list[Finding]:
    """List what of the document's frame this engine does not have."""
    found = []
    method = document.get("method", "map")
    if method != "map":
        found.append(
            Finding(
                place="method",
                message=f"{method!r:.40}: a row has to give one answer here",
                remedy="write the document with the method 'map'",
            )
        )
    for key, _ in _STORES:
        found += [
            Finding(
                place=f"{key}.{name}",
                message=f"its content lies elsewhere ({one.get('source')!r:.40})",
                remedy="put the content into the document",
            )
            for name, one in _object(document, key).items()
            if isinstance(one, dict) and one.get("source", "embedded") != "embedded"
        ]
    return found
