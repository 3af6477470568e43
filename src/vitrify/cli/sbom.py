"""``vitrify sbom``: the bill of materials of an artifact."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._keys import key_option, passphrase, passphrase_option
from vitrify.cli._options import REFERENCE, open_store, store_option

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.trust.inventory import Inventory


class _MetricType(click.ParamType[tuple[str, float]]):
    """``NAME=NUMBER``."""

    name = "name=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """Split it."""
        name, equals, figure = str(value).partition("=")
        try:
            number = float(figure)
        except ValueError:
            number = math.nan
        if not name or not equals or not math.isfinite(number):
            self.fail(f"{value!r} is no NAME=NUMBER", param, ctx)
        return name, number


@click.command("sbom")
@click.argument("reference", type=REFERENCE)
@click.option("--format", "form", type=click.Choice(["cyclonedx", "spdx"]), default="cyclonedx", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.option("--attach", is_flag=True, help="Keep it as an attestation beside the artifact, signed if there is a key.")
@key_option(required=False)
@passphrase_option
@click.option("--licence", default="", metavar="SPDX", help="SPDX licence expression of the model.")
@click.option(
    "--metric", "metrics", multiple=True, type=_MetricType(), help="A figure of its quality; repeat for more."
)
@store_option
def command(
    reference: str,
    form: str,
    output: Path | None,
    attach: bool,
    key: str | None,
    passphrase_file: str | None,
    licence: str,
    metrics: tuple[tuple[str, float], ...],
    store: str | None,
) -> None:
    """Print the bill of materials of an artifact: CycloneDX 1.6 with a model card, or SPDX 2.3, in JSON.

    The same artifact, name and facts give the same bytes.
    """
    from vitrify.artifacts import open_artifact
    from vitrify.trust.inventory import Inventory

    if key and not attach:
        raise click.UsageError("--key signs what is attached: add --attach")
    artifact = open_artifact(reference, store=open_store(store))
    thing = Inventory.of(
        artifact.name,
        artifact.digest,
        artifact.manifest,
        artifact.document,
        attestations=artifact.attestations,
        licence=licence,
        metrics=dict(metrics),
    )
    predicate_type, bill = _made(thing, form)
    if attach:
        _attach(artifact, predicate_type, bill, key, passphrase_file)
    text = json.dumps(bill, indent=2, sort_keys=True)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
        click.echo(output)
    elif attach:
        click.echo(f"attached to {artifact}: {predicate_type}")
    else:
        click.echo(text)


def _made(thing: Inventory, form: str) -> tuple[str, dict[str, Any]]:
    from vitrify.trust import cyclonedx, spdx

    if form == "spdx":
        return spdx.PREDICATE_TYPE, spdx.document(thing)
    return cyclonedx.PREDICATE_TYPE, cyclonedx.bom(thing)


def _attach(
    artifact: Artifact, predicate_type: str, bill: dict[str, Any], key: str | None, passphrase_file: str | None
) -> None:
    from vitrify.artifacts.seal import attest
    from vitrify.trust.keyring import Keyring

    signer = Keyring().signer(key, passphrase=passphrase(passphrase_file)) if key else None
    attest(artifact.store, artifact.digest, predicate_type, bill, signer)
