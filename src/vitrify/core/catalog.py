"""The catalog: every plugin as a row of data. Nothing is imported before it is used.

Built-in rows stand in :mod:`vitrify.core.rows`; a third party adds its own through an entry point in the group
``vitrify.plugins`` whose object is a list of :class:`vitrify.core.row.Row`.
"""

from __future__ import annotations

import warnings
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from vitrify.core.entry_points import may_have
from vitrify.core.errors import UsageError
from vitrify.core.plan import FIDELITIES
from vitrify.core.rows import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vitrify.core.row import Kind, Row

GROUP = "vitrify.plugins"
_FEW = 20
"""So many names are listed in a message; of more, those near to what was asked for."""


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
            UsageError: There is none; the message names those that may be meant, and of few all there are.
        """
        try:
            return self._rows[kind, name]
        except KeyError:
            known = [row.name for row in self.rows(kind)]
            near = get_close_matches(name.lower(), known, n=3)
            if not near and len(known) > _FEW:
                msg = f"no {kind} is called {name!r} (there are {len(known)})"
            else:
                msg = f"no {kind} is called {name!r} ({'near it' if near else 'there are'}: {', '.join(near or known)})"
            raise UsageError(msg, remedy="choose a name that is there: vitrify formats") from None

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

    def runtime_of(self, format_name: str) -> Row | None:
        """Return the first runtime, by name, that opens a format without being asked for; None where none does."""
        return next((row for row in self.rows("runtime") if format_name in row.formats and not row.named), None)

    def with_plugins(self) -> Catalog:
        """Return this catalog and every row that installed packages add; a broken package warns and is left out."""
        catalog = Catalog(self._rows.values())
        if not may_have(GROUP):
            return catalog
        from importlib import metadata

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
    return Catalog(BUILTIN).with_plugins()
