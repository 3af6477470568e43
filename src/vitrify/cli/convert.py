"""``vitrify convert``: convert and prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import REFERENCE, TARGET, common, open_store

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact


@click.command("convert")
@click.argument("reference", type=REFERENCE)
@click.option("--to", "target", type=TARGET, default="onnx", show_default=True, help="The target format.")
@click.option("--name", help="The result's name; by default the source's with the target's behind it.")
@click.option("--precision", type=click.Choice(("source", "float32", "float64")), default="source", show_default=True)
@click.option("--opset", type=int, help="ONNX operator set; by default what the runtime at hand reads.")
@click.option("--ir-version", type=int, help="Version of ONNX's file format; by default the operator set's own.")
@click.option(
    "--via", type=TARGET, multiple=True, metavar="FORMAT", help="A format that the road must pass; repeat for more."
)
@click.option("--samples", metavar="DATA", help="Rows to compare on instead of the golden samples.")
@click.option("--rtol", type=float, help="Relative tolerance; by default by element type.")
@click.option("--atol", type=float, help="Absolute tolerance, in units of the output.")
@click.option("--rows", type=int, help="Rows to compare, about.")
@click.option("--without", multiple=True, metavar="PROBE", help="Leave out a probe, as the report names it.")
@click.option("--state", multiple=True, metavar="IN=OUT", help="An input that takes an output's last value: a memory.")
@click.option("--stochastic", is_flag=True, help="The model draws at random: compare distributions.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write the proof as a page with its picture.")
@click.option("--dry-run", is_flag=True, help="Show the plan and what stands in its way; keep nothing.")
@click.option(
    "--allow",
    multiple=True,
    metavar="NAME",
    help="Exact dotted name of code that may run, or 'lossy': steps that lose something; repeat for more.",
)
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
    state: tuple[str, ...],
    stochastic: bool,
    store: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Convert an artifact and prove that the result predicts the same; otherwise there is no result."""
    from vitrify.artifacts import open_artifact
    from vitrify.checks.parity import Parity, Tolerance
    from vitrify.checks.parity.compare import ROWS
    from vitrify.cli import _data
    from vitrify.cli._render import artifact_json, progress_bars, show_json, show_sealed
    from vitrify.core.errors import CheckFailedError
    from vitrify.transforms.conversion import convert

    where = open_store(store)
    options["fidelity"], options["allow"] = _allowed(options["allow"])
    if report and not Path(report).parent.is_dir():  # before the work, not after it
        msg = f"--report {report}: there is no directory {Path(report).parent}"
        raise click.UsageError(msg)
    if dry_run:
        _show_plan(reference, target, where, {**options, "samples": samples}, as_json=as_json)
        return
    gate = Parity(
        Tolerance(rtol, atol),
        ROWS if rows is None else rows,
        without=without,
        state=_pairs(state),
        stochastic=stochastic,
    )
    try:
        with progress_bars():
            given = _data.read(samples) if samples else None
            source = open_artifact(reference, store=where)
            artifact = convert(source, target, samples=given, checks=[gate], store=where, **options)
    except CheckFailedError as error:
        if report:
            _write_report(report, error.report)
        raise
    if artifact.digest == source.digest:
        if report:
            msg = f"{reference} is in the format {target} already: nothing was converted, so there is nothing to report"
            raise click.UsageError(msg)
        show_json(artifact_json(artifact)) if as_json else click.echo(f"nothing to do: it is {target} already")
        return
    if report:
        _write_report(report, proof(artifact))
    show_sealed(artifact, as_json=as_json)
    if not as_json:
        click.echo(f"\n{_text(proof(artifact))}")


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    if wrong := [name for name, sign, output in pairs if not (name and sign and output)]:
        msg = f"--state {wrong[0]}: expected INPUT=OUTPUT"
        raise click.UsageError(msg)
    return {name: output for name, _, output in pairs}


def _allowed(given: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the fidelity and the names of code: a name of code has a dot."""
    return ("lossy" if "lossy" in given else "numeric"), tuple(name for name in given if name != "lossy")


def _show_plan(reference: str, target: str, where: Any, options: dict[str, Any], *, as_json: bool) -> None:
    """Show the steps, and leave with the error that stands in their way, if there is one."""
    from vitrify.artifacts import open_artifact
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars, show_json, show_steps
    from vitrify.core.wire import to_builtins
    from vitrify.transforms.conversion import foresee

    del options["name"]
    options["samples"] = _data.read(options["samples"]) if options["samples"] else None
    with progress_bars():
        road, error = foresee(open_artifact(reference, store=where), target, **options)
    if as_json:
        problems = [to_builtins(problem) for problem in getattr(error, "problems", ())]
        show_json({"plan": to_builtins(road), "problems": problems, "error": error.message if error else None})
    else:
        show_steps(road)
        if road.steps and not error:
            click.echo("\nnothing stands in the way; what comes out has to be proven: leave --dry-run out")
    if error:
        raise error


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
