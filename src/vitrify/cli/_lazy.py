"""Groups whose commands are imported when they are used, so that ``--help`` stays fast."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """A group from a table: sections, and in each the commands with what they do.

    A command is the object ``command`` in the file of its name; a name that Python has taken ends in ``_`` there.
    """

    package = ""
    sections: Mapping[str, Mapping[str, str]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return [name for commands in self.sections.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        file = cmd_name.replace("import", "import_")
        command: click.Command = importlib.import_module(f"{self.package}.{file}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, importing no command."""
        del ctx
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))
