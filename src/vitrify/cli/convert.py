"""``vitrify convert``: convert and prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import REFERENCE, allow_option, common, open_store

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact


@click.command("convert")
@click.argument("reference", type=REFERENCE)
@click.option("--to", "target", default="onnx", show_default=True, help="The target format.")
@click.option("--name", help="The result's name; by default the source's with the target's behind it.")
@click.option("--precision", type=click.Choice(("source", "float32", "float64")), default="source", show_default=True)
@click.option("--opset", type=int, help="ONNX operator set; by default what the runtime at hand reads.")
@click.option("--fidelity", type=click.Choice(("exact", "numeric", "lossy")), default="numeric", show_default=True)
@click.option("--samples", metavar="DATA", help="Rows to compare on instead of the golden samples.")
@click.option("--rtol", type=float, help="Relative tolerance; by default by element type.")
@click.option("--atol", type=float, help="Absolute tolerance, in units of the output.")
@click.option("--rows", type=int, help="Rows to compare, about.")
@click.option("--without", multiple=True, metavar="PROBE", help="Leave out a probe, as the report names it.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write the proof as a page with its picture.")
@click.option("--dry-run", is_flag=True, help="Show the plan and what stands in its way; do nothing.")
@allow_option
@common
def command(
    reference: str,
    target: str,
    report: str | None,
    dry_run: bool,
    samples: str | None,
    rtol: float | None,
    atol: float | None,
    rows: int | None,
    without: tuple[str, ...],
    store: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Convert an artifact and prove that the result predicts the same; otherwise there is no result."""
    from vitrify.checks.parity import Parity, Tolerance
    from vitrify.checks.parity.compare import ROWS
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars, show_sealed
    from vitrify.core.errors import CheckFailedError
    from vitrify.transforms.conversion import convert

    where = open_store(store)
    if dry_run:
        _show_plan(reference, target, where, options, as_json=as_json)
        return
    gate = Parity(Tolerance(rtol, atol), ROWS if rows is None else rows, without=without)
    try:
        with progress_bars():
            given = _data.read(samples) if samples else None
            artifact = convert(reference, target, samples=given, checks=[gate], store=where, **options)
    except CheckFailedError as error:
        if report:
            _write_report(report, error.report)
        raise
    if report:
        _write_report(report, proof(artifact))
    show_sealed(artifact, as_json=as_json)
    if not as_json:
        click.echo(f"\n{_text(proof(artifact))}")


def _show_plan(reference: str, target: str, store: Any, options: dict[str, Any], *, as_json: bool) -> None:
    from vitrify.artifacts import open_artifact
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins
    from vitrify.transforms.conversion import foresee

    road, problems = foresee(
        open_artifact(reference, store=store), target, fidelity=options["fidelity"], allow=options["allow"]
    )
    if as_json:
        show_json({"plan": to_builtins(road), "problems": [to_builtins(problem) for problem in problems]})
        return
    click.echo(str(road))
    for problem in problems:
        click.echo(f"  - {problem}")


def proof(artifact: Artifact) -> Any:
    """Return the parity report of an artifact that was just made."""
    from vitrify.core.attestation import PARITY
    from vitrify.core.report import Report

    predicate = next(item.predicate for item in artifact.attestations if item.predicate_type == PARITY)
    return Report.from_builtins(predicate["reports"][-1], where="parity attestation")


def _text(report: Any) -> str:
    from vitrify.checks.parity.picture import text

    return text(report)


def _write_report(path: str, report: Any) -> None:
    from vitrify.checks.parity.picture import html

    Path(path).write_text(html(report), encoding="utf-8")
