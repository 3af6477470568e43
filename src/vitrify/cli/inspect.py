"""``vitrify inspect``: what an artifact or a file is, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import REFERENCE, common, open_store

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact


@click.command("inspect")
@click.argument("reference", type=REFERENCE)
@click.option("--all", "whole", is_flag=True, help="Show every row of every table.")
@common
def command(reference: str, whole: bool, store: str | None, as_json: bool) -> None:
    """Show an artifact's files, signature, environment and evidence, or what a model file says about itself.

    A model file or folder is recognised by its content, and nothing in it runs.
    """
    from vitrify.cli._render import artifact_json, show_json

    path = Path(reference)
    if _is_plain(path):
        _inspect_file(path, whole=whole, as_json=as_json)
        return
    from vitrify.artifacts import open_artifact
    from vitrify.core.catalog import catalog
    from vitrify.core.wire import to_builtins

    artifact = open_artifact(reference, store=open_store(store))
    row = catalog().row("format", artifact.document.format)
    about = row.look().describe(artifact.files, artifact.document.entry)
    if as_json:
        evidence = [to_builtins(attestation) for attestation in artifact.attestations]
        show_json({**artifact_json(artifact), "content": about, "attestations": evidence})
    else:
        _show(artifact, about, whole=whole)


def _is_plain(path: Path) -> bool:
    """Say whether it is a stranger's file or folder; an exported artifact or a store is opened as what it is."""
    if path.is_dir():
        return not (path / "oci-layout").exists()
    return path.is_file() and path.suffix not in {".tar", ".vit"}


def _inspect_file(path: Path, *, whole: bool, as_json: bool) -> None:
    """Show what each format that the file is of says about it; an honest file is of one."""
    from vitrify.cli._about import show_about
    from vitrify.cli._render import show_json
    from vitrify.inspection.identify import describe_all

    told = describe_all(path)
    if len(told) > 1 and path.is_file():
        names = " and ".join(about["format"] for about in told)
        click.echo(f"{click.style('warning:', fg='yellow', bold=True)} it is several things at once: {names}", err=True)
    if as_json:
        show_json(told[0] if len(told) == 1 else {"formats": told})
        return
    for number, about in enumerate(told):
        if number:
            click.echo()
        show_about(about, whole=whole)


def _show(artifact: Artifact, about: dict[str, Any], *, whole: bool) -> None:
    from vitrify.cli._about import show_about
    from vitrify.cli._render import show_facts, show_table, size

    document = artifact.document
    show_facts(
        [
            ("name", artifact.name or ""),
            ("digest", artifact.digest),
            ("format", document.format),
            ("size", size(artifact.size)),
            ("runtime", document.runtime or "none (weights only)"),
            ("golden", f"{document.golden} samples"),
            *(("note", note) for note in document.notes),
        ]
    )
    if document.code.names:
        show_facts([("code", f"loading runs {', '.join(document.code.names)}; allow each by name")])
    show_table(
        ("file", "size", "sha256"),
        [(path, size(layer.size), layer.content.short) for path, layer in artifact.manifest.files.items()],
        title="\nFiles",
    )
    if document.signature:
        fields = [("input", field) for field in document.signature.inputs]
        fields += [("output", field) for field in document.signature.outputs]
        rows = [(side, field.name, str(field).partition(": ")[2], _values(field)) for side, field in fields]
        show_table(("", "name", "type", "values"), rows, title="\nSignature")
    if document.environment:
        needs = sorted(document.environment.distributions.items())
        show_table(("needs", "version"), [("python", document.environment.python), *needs], title="\nEnvironment")
    click.echo("\nContent")
    show_about(about, whole=whole)
    evidence = [
        (item.predicate_type.split(":")[-2], item.predicate.get("verdict", "")) for item in artifact.attestations
    ]
    show_table(("attestation", "verdict"), evidence, title="\nEvidence")


def _values(field: Any, most: int = 6) -> str:
    values = field.classes or field.categories or ()
    shown = ", ".join(repr(value) for value in values[:most])
    return f"{shown}, ... ({len(values)})" if len(values) > most else shown
