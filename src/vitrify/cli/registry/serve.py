"""``vitrify registry serve``: the registry over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

_FILE = click.Path(exists=True, dir_okay=False)


@click.command("serve")
@click.option(
    "--registry",
    "place",
    metavar="PLACE",
    envvar="VITRIFY_REGISTRY",
    help="URL of the database, or a directory; default: the user's.  [env: VITRIFY_REGISTRY]",
)
@click.option(
    "--blobs",
    metavar="PLACE",
    envvar="VITRIFY_REGISTRY_BLOBS",
    help="Where the content is: a directory or s3://bucket/prefix.  [env: VITRIFY_REGISTRY_BLOBS]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8642, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 for any free one."
)
@click.option("--tls-certificate", type=_FILE, help="PEM file of the certificate and its chain.")
@click.option("--tls-key", type=_FILE, help="PEM file of its key.")
@click.option("--insecure-http", is_flag=True, help="Speak plain HTTP to other machines: behind a proxy with TLS only.")
@click.option(
    "--anonymous", type=click.Choice(["reader"]), help="What whoever has no token may do; nothing by default."
)
@click.option(
    "--webhook-network",
    "networks",
    multiple=True,
    metavar="CIDR",
    help="Private network that events may be sent to: 10.1.0.0/16. Repeat for more.",
)
def command(
    place: str | None,
    blobs: str | None,
    host: str,
    port: int,
    tls_certificate: str | None,
    tls_key: str | None,
    insecure_http: bool,
    anonymous: str | None,
    networks: tuple[str, ...],
) -> None:
    """Serve the registry over HTTP until SIGTERM or Ctrl-C; what is being answered then is finished.

    The log is JSON, a line a request, on standard error. Any number of servers may stand before one PostgreSQL and one
    object storage.
    """
    from vitrify.core.errors import UsageError
    from vitrify.registry.api.serving import Listening, serve
    from vitrify.registry.places import local_backend

    if (place or "").startswith(("http://", "https://")):
        msg = f"{place} is a server already"
        raise UsageError(msg, remedy="name a database or a directory: vitrify registry serve --registry PLACE")
    listening = Listening(
        host,
        port,
        _path(tls_certificate),
        _path(tls_key),
        insecure=insecure_http,
        anonymous=("reader",) if anonymous == "reader" else (),
        webhook_networks=tuple(map(_network, networks)),
    )
    listening.check()
    backend = local_backend(place or "", blobs)
    try:
        serve(backend, listening, ready=lambda url: click.echo(f"serving {url}"))
    finally:
        backend.close()


def _network(text: str) -> IPv4Network | IPv6Network:
    import ipaddress

    from vitrify.core.errors import UsageError

    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        msg = f"not a network: {text!r} ({error})"
        raise UsageError(msg, remedy="for example: --webhook-network 10.1.0.0/16") from error


def _path(text: str | None) -> Path | None:
    from pathlib import Path

    return None if text is None else Path(text)
