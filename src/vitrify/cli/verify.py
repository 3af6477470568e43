"""``vitrify verify``: is it still the same model, and who vouches for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vitrify.cli._keys import directory, instance_option
from vitrify.cli._options import REFERENCE, allow_option, common, open_store

if TYPE_CHECKING:
    from vitrify.core.report import Report
    from vitrify.stores.oci_layout import OciLayout

_FOUND, _FORGED = 11, 17
"""Exit codes: what a failed check has, and what ForgedError has."""


@click.command("verify")
@click.argument("reference", type=REFERENCE, required=False)
@click.option("--runtime", help="Replay on this runtime; by default the artifact's own.")
@click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="A public key of whom a signature counts: name or path."
)
@click.option("--signed-by", metavar="WHO", help="An identity whose signature counts (Sigstore), with --issuer.")
@click.option("--issuer", metavar="URL", help="The identity provider that vouched for it.")
@instance_option
@click.option("--offline", is_flag=True, help="With the trust root of Sigstore that is here, as it is.")
@click.option(
    "--signature", type=click.Path(dir_okay=False), help="An OpenSSF model signature; of a directory: model.sig."
)
@click.option("--unsigned", multiple=True, metavar="PATH", help="A file that may be there although nobody signed it.")
@allow_option
@common
def command(
    reference: str | None,
    runtime: str | None,
    keys: tuple[str, ...],
    signed_by: str | None,
    issuer: str | None,
    sigstore: str | None,
    offline: bool,
    signature: str | None,
    unsigned: tuple[str, ...],
    allow: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Hash every byte again and replay the golden samples; without a reference, hash the whole store.

    With --key, one of the keys must have signed the artifact, or nothing of it runs. A directory (./model) is verified
    by its OpenSSF model signature alone.
    """
    from vitrify.cli._render import progress_bars, show_json
    from vitrify.cli._whose import Whose
    from vitrify.core.wire import to_builtins

    where = open_store(store)
    folder = directory(reference) if reference else None
    whose = Whose(keys, signed_by, issuer, sigstore, signature, unsigned, offline=offline)
    whose.check(reference, folder)
    reports = []
    if folder:
        reports.append(whose.directory(folder))
    elif reference and whose.asked:
        from vitrify.artifacts import open_artifact

        artifact = open_artifact(reference, store=where)
        reports.append(whose.artifact(artifact))
        # A name may move meanwhile: what is verified next is what was signed.
        reference, where = str(artifact.digest), artifact.store
    signed = reports[0] if reports else None
    if not folder and (signed is None or signed.passed):
        with progress_bars():
            reports.append(_bytes(reference, runtime, allow, where))
    if as_json:
        last = to_builtins(reports[-1])
        show_json(last if len(reports) == 1 else {**last, "signature": to_builtins(reports[0])})
    else:
        for report in reports:
            show(report)
    if signed and not signed.passed:
        sys.exit(_FORGED)
    sys.exit(0 if reports[-1].passed else _FOUND)


def _bytes(reference: str | None, runtime: str | None, allow: tuple[str, ...], store: OciLayout) -> Report:
    from vitrify import stores
    from vitrify.checks.verify import verify

    return verify(reference, runtime=runtime, allow=allow, store=store) if reference else stores.fsck(store)


def show(report: Report) -> None:
    """Print a report: the verdict, the findings, and the plain facts."""
    color = "green" if report.passed else "red"
    click.echo(f"{report.check}: {click.style(report.verdict, fg=color, bold=True)}")
    for finding in report.findings:
        click.echo(f"  - {finding}")
    for key, value in report.details.items():
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            click.echo(f"  {key}: {', '.join(value)}")
        elif not isinstance(value, dict | list):
            click.echo(f"  {key}: {value}")
