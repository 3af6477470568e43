"""``vitrify ls``: the artifacts in the store, or the tags of a repository."""

from __future__ import annotations

import click

from vitrify.cli._options import common, open_store


@click.command("ls")
@click.argument("repository", required=False, metavar="[oci://HOST/NAME]")
@click.option("--plain-http", is_flag=True, help="Speak without encryption to a host that is not this machine.")
@common
def command(repository: str | None, plain_http: bool, store: str | None, as_json: bool) -> None:
    """List the artifacts that have a name; of a repository of an OCI registry, its tags."""
    from vitrify.artifacts.artifact import list_artifacts
    from vitrify.cli._render import show_json, show_table, size

    if repository is not None:
        from vitrify.stores.oci_registry import tags

        names = tags(repository, plain_http=plain_http)
        if as_json:
            show_json([{"tag": name} for name in names])
        else:
            click.echo("\n".join(names))
        return
    found = list_artifacts(open_store(store))
    if as_json:
        keys = ("name", "digest", "format", "size")
        show_json([dict(zip(keys, (a.name, str(a.digest), a.document.format, a.size), strict=True)) for a in found])
        return
    rows = [(a.name, a.digest.short, a.document.format, size(a.size), a.document.golden) for a in found]
    show_table(("name", "digest", "format", "size", "golden"), rows)
