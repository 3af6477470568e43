"""Row: one plugin as data."""

from __future__ import annotations

import importlib
import importlib.util
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from vitrify.core.errors import MissingDependencyError

if TYPE_CHECKING:
    from vitrify.core.plan import Fidelity

_NO_TEXT = re.compile(rb"[\x80-\xc1]|.{0,7}[\x01-\x08\x0e-\x1a\x1c-\x1f]", re.DOTALL)
"""How no text begins, of whatever encoding: with half a character, or with control characters."""

Kind = Literal["format", "transform", "runtime", "check", "store", "container", "signer", "resolver"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One plugin.

    Attributes:
        kind: Which extension point it fills.
        name: Unique within its kind.
        target: ``package.module:Class``, called without arguments when first used.
        extra: The extra that brings its library: ``pip install 'vitrify[extra]'``.
        requires: Modules that must be importable.
        suffixes: File name endings, most specific first (formats).
        types: Dotted names of the classes it handles, matched along the MRO (formats, runtimes, containers).
        source: Format that it starts from (transforms).
        destination: Format that it leads to (transforms).
        fidelity: What it may change (transforms).
        cost: Relative effort; the planner takes the cheapest road (transforms).
        formats: Formats that it opens (runtimes).
        specification: Where the format is written down (formats).
        transient: Whether its files are read into a live model, which is kept in its own format: a pickle (formats).
        read_only: Whether its files are read into a live model and no model is written as one (formats).
        generic: Whether it says nothing about a model: a zip file, plain text. Others are asked first (formats).
        magic: Offsets and the bytes that stand there, of which every such file has one; none where that cannot be said.
            A file without them is not asked about, so that looking costs no import (formats).
        text: Whether it is always text, so that a file that begins as none does is not asked about (formats).
        anywhere: Whether it is looked for in each file that a folder's format takes for its own, too: some loader may
            take the file for this (formats).
        appended: Whether its files may have a zip file of their own behind them, for which it answers; behind any other
            file one is a second meaning of the same bytes (formats).
        around: Whether a folder of it holds models of other formats, which are then its parts and not what the folder
            is (formats).
        named: Whether it is used only where somebody names it (runtimes).
        folder: Whether it is always several files in a folder, so that a single file is not asked about (formats).
        summary: One line for people.
    """

    kind: Kind
    name: str
    target: str
    extra: str | None = None
    requires: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    source: str | None = None
    destination: str | None = None
    fidelity: Fidelity = "exact"
    cost: int = 1
    formats: tuple[str, ...] = ()
    specification: str = ""
    transient: bool = False
    read_only: bool = False
    generic: bool = False
    magic: tuple[tuple[int, bytes], ...] = ()
    text: bool = False
    anywhere: bool = False
    appended: bool = False
    around: bool = False
    named: bool = False
    folder: bool = False
    summary: str = ""

    def may_start(self, start: bytes) -> bool:
        """Say whether a single file that starts so can be of this format at all."""
        begins = not self.magic or any(start.startswith(mark, offset) for offset, mark in self.magic)
        return begins and not self.folder and not (self.text and _NO_TEXT.match(start))

    def installed(self) -> bool:
        """Say whether the libraries it needs can be imported, without importing them."""
        return all(_importable(module) for module in self.requires)

    def load(self) -> Any:
        """Return the plugin, made once a process.

        Raises:
            MissingDependencyError: A library is missing; the remedy is the install command.
        """
        if missing := [module for module in self.requires if not _importable(module)]:
            package = f"vitrify[{self.extra}]" if self.extra else " ".join(missing)
            msg = f"{self.kind} {self.name!r} needs {', '.join(missing)}, which is not installed"
            raise MissingDependencyError(msg, remedy=f"pip install '{package}'")
        return _make(self)

    def look(self) -> Any:
        """Return the plugin without asking for its libraries: a format that only looks at files needs none."""
        return _make(self)


@cache
def _make(row: Row) -> Any:
    module, _, name = row.target.partition(":")
    return getattr(importlib.import_module(module), name)()


def _importable(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None
