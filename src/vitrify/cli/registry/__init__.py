"""``vitrify registry``: running a registry. Each subcommand is a file of this folder; add a row to the table."""

from __future__ import annotations

import click

from vitrify.cli._lazy import LazyGroup


class _Registry(LazyGroup):
    package = __name__
    sections = {
        "Commands": {
            "serve": "Serve the registry over HTTP.",
            "token": "Make, list and revoke tokens.",
            "webhook": "Send events to other servers.",
            "migrate": "Bring the database to this version of Vitrify.",
            "backup": "Write all of a registry into one directory.",
            "restore": "Make a registry from a backup.",
            "gc": "Delete content that nothing leads to any more.",
        }
    }


@click.group("registry", cls=_Registry)
def command() -> None:
    """Run a registry: serve it, let people in, look after it."""
