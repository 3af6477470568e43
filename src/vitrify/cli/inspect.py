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
@common
def command(reference: str, store: str | None, as_json: bool) -> None:
    """Show an artifact's files, signature, environment and evidence, or what a model file says about itself."""
    from vitrify.artifacts import open_artifact
    from vitrify.cli._render import artifact_json, show_facts, show_json
    from vitrify.core.catalog import catalog
    from vitrify.core.wire import to_builtins
    from vitrify.inspection.identify import describe

    where = open_store(store)
    if Path(reference).is_file() and not reference.endswith((".tar", ".vit")):
        facts = describe(Path(reference))
        show_json(facts) if as_json else show_facts(_flat(facts))
        return
    artifact = open_artifact(reference, store=where)
    row = catalog().row("format", artifact.document.format)
    about = row.look().describe(artifact.files, artifact.document.entry)
    if as_json:
        evidence = [to_builtins(attestation) for attestation in artifact.attestations]
        show_json({**artifact_json(artifact), "content": about, "attestations": evidence})
    else:
        _show(artifact, about)


def _show(artifact: Artifact, about: dict[str, Any]) -> None:
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
    show_table(("", ""), list(_flat(about)), title="\nContent")
    evidence = [
        (item.predicate_type.split(":")[-2], item.predicate.get("verdict", "")) for item in artifact.attestations
    ]
    show_table(("attestation", "verdict"), evidence, title="\nEvidence")


def _values(field: Any, most: int = 6) -> str:
    values = field.classes or field.categories or ()
    shown = ", ".join(repr(value) for value in values[:most])
    return f"{shown}, ... ({len(values)})" if len(values) > most else shown


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, object]]:
    """Return nested facts as ``a.b`` and value; long lists by their length."""
    rows: list[tuple[str, object]] = []
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, dict):
            rows += _flat(item, f"{name}.")
        else:
            text = str(item)
            rows.append((name, text if len(text) <= 200 else f"{text[:197]}..."))  # noqa: PLR2004 (a screen's width)
    return rows
