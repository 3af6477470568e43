"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vitrify.stores.oci_layout import OciLayout


class ReferenceType(click.ParamType[str]):
    """A reference to an artifact; completes the names in the store."""

    name = "ref"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return the names that start with what was typed."""
        del param
        from click.shell_completion import CompletionItem

        names = open_store(ctx.params.get("store")).names.all()
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


class FormatType(click.ParamType[str]):
    """A format's name; which it may be, the catalog and the planner say.

    Attributes:
        reached: Whether only those are completed that a road leads to.
    """

    name = "format"

    def __init__(self, *, reached: bool) -> None:
        """Say what is completed."""
        self.reached = reached

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return the formats that start with what was typed."""
        del ctx, param
        from click.shell_completion import CompletionItem

        from vitrify.core.catalog import catalog

        ends = {str(row.destination) for row in catalog().rows("transform")}
        names = ends if self.reached else {row.name for row in catalog().rows("format")}
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


REFERENCE = ReferenceType()
FORMAT, TARGET = FormatType(reached=False), FormatType(reached=True)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
store_option = click.option(
    "--store", type=click.Path(file_okay=False), help="The store's directory; default: the user's.  [env: VITRIFY_HOME]"
)
allow_option = click.option(
    "--allow", multiple=True, metavar="NAME", help="Exact dotted name of code that may run; repeat for more."
)


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` and ``--store``."""
    return json_option(store_option(command))


def open_store(path: str | Path | None) -> OciLayout:
    """Return the store that ``--store`` names, or the user's."""
    from pathlib import Path

    from vitrify import stores
    from vitrify.stores.oci_layout import OciLayout

    return OciLayout(Path(path)) if path else stores.default_store()
