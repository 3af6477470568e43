"""StableHLO modules: portable artifacts and other MLIR bytecode (``.mlirbc``), and text (``.mlir``).

Specification: https://openxla.org/stablehlo/spec and https://mlir.llvm.org/docs/BytecodeFormat/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.formats._stablehlo.module import Module

MAGIC = b"ML\xefR"
_HEAD = 1 << 15
_BEGINS = re.compile(
    rb"""(\s++|//[^\n]*+\n|[\#!][\w$.\-]++\s*+=[^\n]*+\n)*+
    ("builtin\.module"|(builtin\.)?module(\s+@[\w$."\-]+)?(\s+attributes)?\s*\{|"?func\.func"?[\s(])""",
    re.VERBOSE,
)
_MEANS = re.compile(rb'"?(func\.func|stablehlo\.\w+|mhlo\.\w+|vhlo\.\w+)"?[\s(]')


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


def _read(files: Files, entry: Mapping[str, Any]) -> tuple[str, Module]:
    from vitrify.formats._stablehlo.looks import read

    name = str(entry.get("file") or only(files) or "")
    if not name:
        refuse("this directory", "is not one StableHLO module")
    return name, read(files.map(name), where=name)
