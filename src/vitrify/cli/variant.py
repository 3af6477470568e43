"""``vitrify variant``: another form of a version, added to it later."""

from __future__ import annotations

import click

from vitrify.cli._options import REFERENCE, open_store, store_option
from vitrify.cli._registry import common, opened, show_version, split


@click.group("variant")
def command() -> None:
    """Add another form to a version of the registry."""


@command.command("add")
@click.argument("reference", type=REFERENCE)
@click.argument("version", metavar="NAME[:VERSION|@ALIAS]")
@store_option
@common
def add(reference: str, version: str, store: str | None, place: str | None, as_json: bool) -> None:
    """Add what was converted from a version's artifact, with its proof: variant add churn-onnx risk/churn:1.2.0.

    Nothing that the version had is changed or taken away.
    """
    from vitrify.artifacts import open_artifact
    from vitrify.cli._render import progress_bars

    artifact = open_artifact(reference, store=open_store(store))
    with opened(place) as registry, progress_bars():
        varied = registry.add_variant(*split(version), artifact)
    show_version(varied, as_json=as_json)
