"""``vitrify pull``: fetch an artifact from an OCI registry, or a version from the registry of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._options import common, open_store
from vitrify.cli._registry import registry_option

if TYPE_CHECKING:
    from vitrify.core.digest import Digest


@click.command("pull")
@click.argument("source", metavar="oci://HOST/NAME[:TAG|@DIGEST] | NAME[:VERSION|@ALIAS]")
@click.argument("name", required=False)
@click.option("--format", "format_", metavar="NAME", help="Of a version, the variant in this format.")
@registry_option
@click.option("--plain-http", is_flag=True, help="Speak without encryption to a host that is not this machine.")
@common
def command(
    source: str,
    name: str | None,
    format_: str | None,
    place: str | None,
    plain_http: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Fetch an artifact and the attestations about it; every byte is hashed before anything is committed.

    Without NAME it gets the name that it has there; one that was pulled by its digest gets none.
    """
    from vitrify.cli._render import progress_bars, show_json
    from vitrify.core import reference as references

    given = references.name(name) if name else None
    with progress_bars():
        if references.parse(source).kind in {"name", "alias"}:
            digest, given = _from_registry(source, given, store, place, format_)
        else:
            digest, given = _from_oci(source, given, store, plain_http=plain_http)
    if as_json:
        show_json({"digest": str(digest), "name": given})
    else:
        click.echo(f"{given or ''} {digest}".strip())


def _from_oci(source: str, name: str | None, store: str | None, *, plain_http: bool) -> tuple[Digest, str | None]:
    from vitrify import stores
    from vitrify.core import reference as references

    remote = references.remote(source)
    if name is None and remote.tag is not None:
        name = references.name(f"{remote.repository}:{remote.tag}")
    return stores.pull(open_store(store), source, name=name, plain_http=plain_http), name


def _from_registry(
    source: str, name: str | None, store: str | None, place: str | None, form: str | None
) -> tuple[Digest, str]:
    from vitrify.cli._registry import opened, split

    model, which = split(source)
    with opened(place) as registry:
        version = registry.version(model, which).version
        name = name or f"{model}:{version}" + (f"-{form}" if form else "")
        return registry.pull(model, version, open_store(store), format=form, name=name), name
