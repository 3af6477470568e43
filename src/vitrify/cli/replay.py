"""``vitrify replay``: predictions that were made in service, made again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vitrify.cli._options import allow_option, open_store, store_option
from vitrify.cli._registry import common

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.digest import Digest
    from vitrify.stores.oci_layout import OciLayout


@click.command("replay")
@click.argument("records", type=click.Path(exists=True))
@click.option("--runtime", help="Ask on this runtime; by default each artifact's own.")
@allow_option
@store_option
@common
def command(
    records: str, runtime: str | None, allow: tuple[str, ...], store: str | None, place: str | None, as_json: bool
) -> None:
    """Ask the models of a prediction log again, and say whether they still answer as they did.

    RECORDS is a file of JSON lines with digest, inputs and outputs, a Parquet file of the server's prediction log, or a
    folder of them. An artifact that the store has not is fetched from the registry.
    """
    from vitrify.checks.record_files import read_records
    from vitrify.checks.records import replay_records
    from vitrify.cli._render import progress_bars, show_json
    from vitrify.cli.verify import show
    from vitrify.core.wire import to_builtins

    where = open_store(store)
    with progress_bars():
        found = read_records(records)
        report = replay_records(found, lambda digest: _find(digest, where, place), allow=allow, runtime=runtime)
    if as_json:
        show_json(to_builtins(report))
    else:
        show(report)
    sys.exit(0 if report.passed else 11)


def _find(digest: Digest, store: OciLayout, place: str | None) -> Artifact:
    """Return an artifact from the store, or from the registry by way of the store."""
    from contextlib import suppress

    from vitrify.artifacts import open_artifact
    from vitrify.cli._registry import opened
    from vitrify.core.errors import ReferenceNotFoundError

    try:
        return open_artifact(str(digest), store=store)
    except ReferenceNotFoundError:
        with suppress(ReferenceNotFoundError), opened(place) as registry:
            for version in registry.search(f"digest = {digest}", limit=1):
                registry.pull(version.model, version.version, store)
                return open_artifact(str(digest), store=store)
        raise
