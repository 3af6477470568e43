"""``vitrify delete``: give a version up, or a whole model."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened, split


@click.command("delete")
@click.argument("reference", metavar="NAME[:VERSION|@ALIAS]")
@click.option("--all", "whole", is_flag=True, help="The model with all its versions; then no version is named.")
@click.option("--reason", default="", help="Why a version is given up; whoever asks for it is told.")
@common
def command(reference: str, whole: bool, reason: str, place: str | None, as_json: bool) -> None:
    """Give up a version of the registry and its content: delete churn:1.0.0; or a whole model: delete churn --all.

    Its history stays, and its name is never given again. What is in production is not given up.
    """
    from vitrify.cli._render import show_json

    _check(reference, whole=whole, reason=reason)
    name, which = split(reference)
    with opened(place) as registry:
        if whole:
            registry.delete_model(name)
            gone = name
        else:
            gone = f"{name}:{registry.version(name, which).version}"
            registry.delete_version(name, gone.partition(":")[2], reason)
    if as_json:
        show_json({"deleted": gone})
    else:
        click.echo(f"deleted {gone}")


def _check(reference: str, *, whole: bool, reason: str) -> None:
    from vitrify.core.errors import UsageError

    named = ":" in reference or "@" in reference
    if not named and not whole:
        msg = f"{reference} is a model with all its versions"
        raise UsageError(msg, remedy=f"name a version: {reference}:1.0.0; to give all of it up: --all")
    if named and whole:
        msg = f"{reference} is one version, and --all gives up a whole model"
        raise UsageError(msg, remedy="leave --all or the version out")
    if whole and reason:
        raise UsageError("a reason is kept with a version, and a whole model would go", remedy="leave --reason out")
