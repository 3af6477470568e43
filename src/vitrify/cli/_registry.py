"""What the commands of the registry share: where it is, what names a version, and how one is shown."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import json_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vitrify.registry.registry import Registry
    from vitrify.registry.values import Model, Version

registry_option = click.option(
    "--registry",
    "place",
    metavar="PLACE",
    envvar="VITRIFY_REGISTRY",
    help="URL of a registry's server, of its database, or its directory; default: the user's.  [env: VITRIFY_REGISTRY]",
)
comment_option = click.option("--comment", default="", help="Why; it stands in the log.")


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` and ``--registry``. A server's token is never an argument: it is in ``VITRIFY_TOKEN``."""
    return json_option(registry_option(command))


@contextmanager
def opened(place: str | None, *, create: bool = False) -> Iterator[Registry]:
    """Open the registry that the options name; only a command that can fill one makes it where there is none."""
    from vitrify.registry import open_registry

    registry = open_registry(place, create=create)
    try:
        yield registry
    finally:
        registry.close()


def split(reference: str) -> tuple[str, str]:
    """Return model and version of ``name``, ``name:1.2.0`` or ``name@alias``; ``latest`` where none is named."""
    if "@" in reference:
        name, _, alias = reference.partition("@")
        return name, f"@{alias}"
    name, _, version = reference.partition(":")
    return name, version or "latest"


def pairs(texts: Iterable[str], what: str) -> dict[str, str]:
    """Return ``key=value`` arguments as a dict.

    Raises:
        UsageError: One has no equals sign, or a key stands twice.
    """
    from vitrify.core.errors import UsageError

    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or key in found:
            msg = f"not a {what}: {text!r}" if key not in found else f"the {what} {key!r} stands twice"
            raise UsageError(msg, remedy=f"write --{what} KEY=VALUE, each key once")
        found[key] = value
    return found


def show_version(version: Version, *, as_json: bool) -> None:
    """Print all of one version."""
    from vitrify.cli._render import show_facts, show_json
    from vitrify.core.wire import to_builtins

    if as_json:
        show_json(to_builtins(version))
        return
    click.echo(click.style(f"{version.model}:{version.version}", bold=True) + f"  {_state(version)}")
    facts: dict[str, Any] = {
        "digest": version.digest,
        "forms": ", ".join(f"{variant.format or 'unknown'} {variant.digest[7:19]}" for variant in version.variants),
        "aliases": ", ".join(version.aliases),
        "registered": f"{version.created:%Y-%m-%d %H:%M:%S} UTC by {version.author}",
        "description": version.description,
        "commit": version.commit,
        "run": version.run,
    }
    for name in ("tags", "metrics", "parameters", "datasets"):
        facts[name] = ", ".join(f"{key}={value}" for key, value in sorted(getattr(version, name).items()))
    show_facts((name, value) for name, value in facts.items() if value)


def show_model(model: Model, *, as_json: bool) -> None:
    """Print what is said about a model."""
    from vitrify.cli._render import show_facts, show_json
    from vitrify.core.wire import to_builtins

    if as_json:
        show_json(to_builtins(model))
        return
    click.echo(click.style(model.name, bold=True))
    facts: dict[str, Any] = {
        "versions": model.versions,
        "production": model.production,
        "description": model.description,
        "owner": model.owner,
        "licence": model.licence,
        "tags": ", ".join(f"{key}={value}" for key, value in sorted(model.tags.items())),
    }
    show_facts((name, value) for name, value in facts.items() if value)


def show_versions(versions: Iterable[Version], *, as_json: bool) -> None:
    """Print a table of versions."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.wire import to_builtins

    if as_json:
        show_json([to_builtins(version) for version in versions])
        return
    rows = [
        (
            f"{version.model}:{version.version}",
            _state(version),
            ", ".join(version.aliases),
            version.variants[0].format,
            version.digest[7:19],
            f"{version.created:%Y-%m-%d %H:%M}",
            version.author,
            ", ".join(f"{key}={value:g}" for key, value in version.metrics.items()),
        )
        for version in versions
    ]
    show_table(("version", "stage", "aliases", "format", "digest", "registered", "by", "metrics"), rows)


def _state(version: Version) -> str:
    return version.stage if version.status == "active" else f"{version.stage}, {version.status}"


def status_command(name: str, status: str, text: str, example: str) -> click.Command:
    """Return the command that gives a version a status."""

    @click.command(name, help=f"{text}\n\nFor example: {example}")
    @click.argument("reference", metavar="NAME:VERSION")
    @click.option("--reason", default="", help="Why; whoever meets the version is told.")
    @common
    def command(reference: str, reason: str, place: str | None, as_json: bool) -> None:
        with opened(place) as registry:
            version = registry.set_status(*split(reference), status, reason)
        show_version(version, as_json=as_json)

    return command
