"""StableHLO modules: portable artifacts and other MLIR bytecode (``.mlirbc``), and text (``.mlir``).

Written as a portable artifact without places in source files. A live module is a :class:`StableHloModule`: its bytes.
The arguments of its main function are called ``argument 0`` and so on, its results ``result 0``.

Specification: https://openxla.org/stablehlo/spec and https://mlir.llvm.org/docs/BytecodeFormat/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._stablehlo.module import Module

FILE = "model.mlirbc"
MAGIC = b"ML\xefR"
_HEAD = 1 << 15
_BEGINS = re.compile(
    rb"""(\s++|//[^\n]*+\n|[\#!][\w$.\-]++\s*+=[^\n]*+\n)*+
    ("builtin\.module"|(builtin\.)?module(\s+@[\w$."\-]+)?(\s+attributes)?\s*\{|"?func\.func"?[\s(])""",
    re.VERBOSE,
)
_MEANS = re.compile(rb'"?(func\.func|stablehlo\.\w+|mhlo\.\w+|vhlo\.\w+)"?[\s(]')


@dataclass(frozen=True)
class StableHloModule:
    """A module as its bytes: text, bytecode or a portable artifact."""

    data: bytes


class StableHlo:
    """The format of StableHLO modules."""

    def detect(self, files: Files) -> bool:
        """Say whether it begins as bytecode, or as text whose first operation is a module or a function."""
        start = head(files, _HEAD)
        if start.startswith(MAGIC):
            return True
        return b"\0" not in start[:64] and bool(_BEGINS.match(start)) and bool(_MEANS.search(start))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return versions, dialects, what the main function takes and gives, and the operations with their counts.

        Raises:
            MalformedError: It is no module, or cut off.
        """
        from vitrify.formats._stablehlo.looks import facts

        name, module = _read(files, entry)
        form = "bytecode" if bytes(files.map(name)[:4]) == MAGIC else "text"
        return {**facts(module), "form": form}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield custom calls, but for those that XLA itself defines, and operations of unknown dialects.

        Raises:
            MalformedError: It is no module, or cut off.
        """
        from vitrify.formats._stablehlo.looks import hazards

        name, module = _read(files, entry)
        yield from hazards(module, name)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the main function, regions and called functions folded.

        Raises:
            MalformedError: It is no module, or cut off.
        """
        from vitrify.formats._stablehlo.looks import graph

        return graph(_read(files, entry)[1])

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write a module as a portable artifact.

        Raises:
            UnsupportedModelError: It is no module, or has operations that have no portable form.
            MalformedError: MLIR cannot read it.
        """
        del example
        from vitrify.formats._stablehlo.live import without_places
        from vitrify.formats._stablehlo.looks import hazards, read

        if not isinstance(model, StableHloModule):
            msg = f"a {type(model).__qualname__} is no StableHLO module"
            raise UnsupportedModelError(msg, remedy="give StableHloModule(its bytes), or convert to stablehlo")
        data = without_places(model.data)
        with sink.open(FILE, "weight") as stream:
            stream.write(data)
        called = {one.subject for one in hazards(read(memoryview(data), where=FILE), FILE) if one.subject}
        return Written(entry={"file": FILE}, names=tuple(sorted(called)))

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> StableHloModule:
        """Return the module.

        Raises:
            UntrustedCodeError: It calls what is not in it, and ``allow`` does not name it.
            MalformedError: It is no module, or cut off.
        """
        name, _ = _read(files, entry)
        allow.require(sorted({one.subject for one in self.hazards(files, entry) if one.subject}), what=name)
        return StableHloModule(files.read(name))


def _read(files: Files, entry: Mapping[str, Any]) -> tuple[str, Module]:
    from vitrify.formats._stablehlo.looks import read

    name = str(entry.get("file") or only(files) or "")
    if not name:
        refuse("this directory", "is not one StableHLO module")
    return name, read(files.map(name), where=name)
