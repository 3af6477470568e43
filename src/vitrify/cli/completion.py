"""``vitrify completion``: the completion script of a shell."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print a script; for bash: eval "$(vitrify completion bash)"."""
    from click.shell_completion import get_completion_class

    from vitrify.cli import group

    maker = get_completion_class(shell)
    assert maker is not None
    click.echo(maker(group, {}, "vitrify", "_VITRIFY_COMPLETE").source())
