"""``vitrify push``: send an artifact to an OCI registry."""

from __future__ import annotations

import click

from vitrify.cli._options import REFERENCE, common, open_store


@click.command("push")
@click.argument("reference", type=REFERENCE)
@click.argument("target", metavar="oci://HOST/NAME[:TAG]")
@click.option(
    "--mount-from", metavar="NAME", help="A repository of the same registry that may have some of it already."
)
@click.option("--plain-http", is_flag=True, help="Speak without encryption to a host that is not this machine.")
@common
def command(
    reference: str, target: str, mount_from: str | None, plain_http: bool, store: str | None, as_json: bool
) -> None:
    """Send an artifact and the attestations about it; what is there is not sent again, and the tag is set last.

    The policy of this machine is asked whether it may be shipped. Who you are stands in the file that skopeo login,
    oras login or docker login has written.
    """
    from vitrify import stores
    from vitrify.artifacts import open_artifact
    from vitrify.artifacts.permit import permit
    from vitrify.cli._render import progress_bars, show_json
    from vitrify.core import reference as references

    references.remote(target)  # before anything is opened
    artifact = open_artifact(reference, store=open_store(store))
    permit(artifact, "ship")
    with progress_bars():
        pinned = stores.push(artifact.store, artifact.digest, target, plain_http=plain_http, mount_from=mount_from)
    if as_json:
        show_json({"reference": pinned, "digest": str(artifact.digest)})
    else:
        click.echo(pinned)
