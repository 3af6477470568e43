"""The catalog: every plugin as a row of data. Nothing is imported before it is used.

Built-in rows stand in :mod:`vitrify.core.rows`; a third party adds its own through an entry point in the group
``vitrify.plugins`` whose object is a list of :class:`Row`.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

from vitrify.core.errors import MissingDependencyError, UsageError
from vitrify.core.plan import FIDELITIES, Fidelity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Kind = Literal["format", "transform", "runtime", "check", "store", "container"]
GROUP = "vitrify.plugins"


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
    summary: str = ""

    def installed(self) -> bool:
        """Say whether the libraries it needs can be imported, without importing them."""
        return all(_importable(module) for module in self.requires)

    def load(self) -> Any:
        """Return the plugin, made once a process.

        Raises:
            MissingDependencyError: A library is missing; the remedy is the install command.
        """
        return _load(self)


class Catalog:
    """The rows, by kind and name."""

    def __init__(self, rows: Iterable[Row]) -> None:
        """Check that no two rows of a kind share a name."""
        self._rows: dict[tuple[Kind, str], Row] = {}
        for row in rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        key = (row.kind, row.name)
        if other := self._rows.get(key):
            msg = f"two plugins are called {row.kind} {row.name!r}: {other.target} and {row.target}"
            raise UsageError(msg, remedy="uninstall one of them, or ask its author for another name")
        if ":" not in row.target or row.fidelity not in FIDELITIES:
            msg = f"{row.kind} {row.name!r}: not a valid row (target {row.target!r}, fidelity {row.fidelity!r})"
            raise UsageError(msg)
        self._rows[key] = row

    def rows(self, kind: Kind) -> Iterator[Row]:
        """Yield the rows of a kind in the order of their names."""
        return iter(sorted((row for row in self._rows.values() if row.kind == kind), key=lambda row: row.name))

    def row(self, kind: Kind, name: str) -> Row:
        """Return one row.

        Raises:
            UsageError: There is none; the message lists those there are.
        """
        try:
            return self._rows[kind, name]
        except KeyError:
            known = ", ".join(row.name for row in self.rows(kind))
            msg = f"no {kind} is called {name!r} (there are: {known})"
            raise UsageError(msg) from None

    def load(self, kind: Kind, name: str) -> Any:
        """Return one plugin, made once a process."""
        return self.row(kind, name).load()

    def for_object(self, kind: Kind, value: object) -> Row | None:
        """Return the row whose types name the most derived class of ``value``, or None."""
        by_type = {name: row for row in self.rows(kind) for name in row.types}
        for base in type(value).__mro__:
            if row := by_type.get(f"{base.__module__}.{base.__qualname__}"):
                return row
        return None

    def with_plugins(self) -> Catalog:
        """Return this catalog and every row that installed packages add; a broken package warns and is left out."""
        catalog = Catalog(self._rows.values())
        for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
            try:
                rows = list(point.load())
                trial = Catalog([*catalog._rows.values(), *rows])
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 (a third party's import may raise anything)
                where = f"{point.dist.name}=={point.dist.version}" if point.dist else point.value
                warnings.warn(f"vitrify plugin {point.name!r} of {where} was left out: {error!r}", stacklevel=2)
            else:
                catalog = trial
        return catalog


@cache
def catalog() -> Catalog:
    """Return the process's catalog."""
    from vitrify.core.rows import BUILTIN

    return Catalog(BUILTIN).with_plugins()


@cache
def _load(row: Row) -> Any:
    if missing := [module for module in row.requires if not _importable(module)]:
        package = f"vitrify[{row.extra}]" if row.extra else " ".join(missing)
        msg = f"{row.kind} {row.name!r} needs {', '.join(missing)}, which is not installed"
        raise MissingDependencyError(msg, remedy=f"pip install '{package}'")
    module, _, name = row.target.partition(":")
    return getattr(importlib.import_module(module), name)()


def _importable(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None
