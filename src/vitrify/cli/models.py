"""``vitrify models``: the names in the registry."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened


@click.command("models")
@click.argument("pattern", metavar="[NAME]", default="*")
@common
def command(pattern: str, place: str | None, as_json: bool) -> None:
    """List the models of the registry; NAME may have * and ? in it."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.wire import to_builtins

    with opened(place) as registry:
        models = list(registry.models(pattern))
    if as_json:
        show_json([to_builtins(model) for model in models])
        return
    rows = [
        (
            model.name,
            model.versions,
            model.production or "",
            model.owner,
            model.licence,
            f"{model.updated:%Y-%m-%d %H:%M}",
        )
        for model in models
    ]
    show_table(("model", "versions", "production", "owner", "licence", "changed"), rows)
