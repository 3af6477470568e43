"""``vitrify rm``: take a name away, or all names of a digest."""

from __future__ import annotations

import click

from vitrify.cli._options import REFERENCE, common, open_store


@click.command("rm")
@click.argument("references", type=REFERENCE, nargs=-1, required=True)
@common
def command(references: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Take names away, or with a digest all its names; the bytes stay until ``vitrify gc``."""
    from vitrify.cli._render import show_json
    from vitrify.core.errors import UsageError
    from vitrify.core.reference import parse

    where = open_store(store)
    parsed = [parse(reference) for reference in references]
    for item in parsed:
        if item.kind == "path":
            msg = f"{item} is a path, not a name or digest in the store"
            raise UsageError(msg)
        if item.kind == "name":
            where.names.get(item.value)
    for item in parsed:
        where.forget(item.digest) if item.kind == "digest" else where.names.unset(item.value)
    if as_json:
        show_json({"removed": [item.value for item in parsed]})
    else:
        click.echo("\n".join(item.value for item in parsed))
