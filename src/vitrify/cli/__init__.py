"""The command line: one file a command; each parses, calls one verb, and renders as text or JSON."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from vitrify.core.errors import VitrifyError

_PIPE_CLOSED = 141
"""128 and the number of SIGPIPE, as a shell has it."""
_COMMANDS = {
    "save": "Seal a model that a Python file makes: save train.py:model churn --example train.py:X",
    "pack": "Seal a model file: pack model.onnx churn",
    "inspect": "Show what an artifact or a file is, without running it.",
    "view": "Draw a model's graph: view model.onnx -o model.html",
    "scan": "Say whether a model file could hurt whoever loads it.",
    "ls": "List the artifacts in the store.",
    "predict": "Predict from a data file: predict churn rows.csv",
    "convert": "Convert and prove: convert churn --to onnx",
    "verify": "Hash every byte again, and replay the golden samples.",
    "export": "Write an artifact and its attestations into one file.",
    "import": "Take an exported file into the store.",
    "rm": "Take a name away.",
    "gc": "Delete what no name leads to.",
    "formats": "Show the map: formats, runtimes and the roads between them.",
    "demo": "Train, save, convert, prove and predict, on real data.",
    "completion": "Print the completion script of a shell.",
}


class _LazyGroup(click.Group):
    """Imports a command's file when that command is used, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"vitrify.cli.{cmd_name.replace('import', 'import_')}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whoever reads its output may leave before the end, which is no error to tell of.

        Click would leave with 1, which is what ``scan`` says when it found something.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # What is still in the buffer has nowhere to go, and Python writes it when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_PIPE_CLOSED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands from their summaries, importing none."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vitrify", prog_name="vitrify")
def group() -> None:
    """Carry a trained model to where it has to run, and prove that it still is the same model."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; this is the one boundary at which errors become exit codes."""
    as_json = "--json" in (arguments if arguments is not None else sys.argv)
    try:
        group.main(arguments, prog_name="vitrify", standalone_mode=False)
    except click.ClickException as error:
        if not as_json:
            error.show()
            sys.exit(error.exit_code)
        from vitrify.core.errors import UsageError

        remedy = f"{error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        _fail(UsageError(error.format_message(), remedy=remedy), as_json=as_json)
    except click.Abort:
        sys.exit(130)
    except Exception as error:
        from vitrify.core.errors import StoreError, VitrifyError

        if isinstance(error, OSError) and error.filename is not None:
            # A path that the user gave cannot be read or written: that is no fault of ours to trace back.
            error = StoreError(
                f"{os.fsdecode(error.filename)}: {error.strerror}", remedy="check the path and its rights"
            )
        if not isinstance(error, VitrifyError):
            raise
        _fail(error, as_json=as_json)


def _fail(error: VitrifyError, *, as_json: bool) -> NoReturn:
    from vitrify.cli._render import show_error

    show_error(error, as_json=as_json)
    sys.exit(error.exit_code)
