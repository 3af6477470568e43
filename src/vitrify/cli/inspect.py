"""``vitrify inspect``: what an artifact or a file is, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import REFERENCE, common

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.artifacts.artifact import Artifact


@click.command("inspect")
@click.argument("reference", type=REFERENCE)
@click.option("--format", "format_", metavar="NAME", help="Read a file as this; by default as what its content is.")
@click.option("--all", "whole", is_flag=True, help="Show every row of every table, and all tables.")
@common
def command(reference: str, format_: str | None, whole: bool, store: str | None, as_json: bool) -> None:
    """Show an artifact's files, signature, environment and evidence, or what a model file says about itself.

    A model file or folder is recognised by its content, and nothing in it runs.
    """
    from vitrify.cli._render import artifact_json, show_json
    from vitrify.cli._subject import find
    from vitrify.inspection.identify import Identity, told

    found = find(reference, store)
    if isinstance(found, Path):
        _inspect_file(found, format_, whole=whole, as_json=as_json)
        return
    from vitrify.core.catalog import catalog
    from vitrify.core.wire import to_builtins

    row = catalog().row("format", found.document.format)
    about = {"format": row.name} if _locked(found) else told(Identity(row, found.files, found.document.entry))
    if as_json:
        evidence = [to_builtins(attestation) for attestation in found.attestations]
        show_json({**artifact_json(found), "content": about, "attestations": evidence})
    else:
        _show(found, about, whole=whole)


def _inspect_file(path: Path, form: str | None, *, whole: bool, as_json: bool) -> None:
    """Show what each format that the file is of says about it; an honest file is of one."""
    from vitrify.cli._about import show_about
    from vitrify.cli._render import show_json
    from vitrify.inspection.identify import describe_all

    said = describe_all(path, form)
    if len(said) > 1 and path.is_file():
        names = " and ".join(about["format"] for about in said)
        click.echo(f"{click.style('warning:', fg='yellow', bold=True)} it is several things at once: {names}", err=True)
    if as_json:
        show_json(said[0] if len(said) == 1 else {"formats": said})
        return
    for number, about in enumerate(said):
        if number:
            click.echo()
        show_about(about, whole=whole)


def _locked(artifact: Artifact) -> bool:
    """Say whether its content is encrypted for somebody else."""
    from vitrify.core.errors import DeniedError

    if artifact.sealed:
        try:
            artifact.sealed.unlock()
        except DeniedError:
            return True
    return False


def _show(artifact: Artifact, about: dict[str, Any], *, whole: bool) -> None:
    from vitrify.cli._about import show_about
    from vitrify.cli._plain import plain
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
            *(
                ("encrypted", f"for {stanza}")
                for stanza in (artifact.sealed.envelope.recipients if artifact.sealed else ())
            ),
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
    said = {"format", "inputs", "outputs"} if document.signature and not whole else {"format"}
    show_about({key: value for key, value in about.items() if key not in said}, whole=whole)
    evidence = [(plain(_kind(item.predicate_type)), plain(_verdict(item.predicate))) for item in artifact.attestations]
    show_table(("attestation", "verdict"), evidence, title="\nEvidence")


def _kind(predicate_type: str) -> str:
    """Return one word for a statement of ours, and the whole type of any other."""
    from vitrify.core.attestation import OURS

    own = predicate_type.startswith(OURS)
    return predicate_type.removeprefix(OURS).partition(":")[0] if own else predicate_type


def _verdict(predicate: Mapping[str, Any]) -> str:
    """Return what a statement found, or what its reports found, each verdict once."""
    reports = predicate.get("reports")
    found = [predicate, *(reports if isinstance(reports, list) else ())]
    verdicts = [str(one["verdict"]) for one in found if isinstance(one, dict) and one.get("verdict")]
    return ", ".join(dict.fromkeys(verdicts))


def _values(field: Any, most: int = 6) -> str:
    values = field.classes or field.categories or ()
    shown = ", ".join(repr(value) for value in values[:most])
    return f"{shown}, ... ({len(values)})" if len(values) > most else shown
