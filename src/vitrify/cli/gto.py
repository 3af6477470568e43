"""``vitrify gto``: versions and stages as git tags, in GTO's convention."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from vitrify.cli._options import json_option

_REPOSITORY = click.option(
    "--repository", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".", help="Default: here."
)
_MESSAGE = click.option("-m", "--message", default="", help="The tag's message.")
_COMMIT = click.option("--commit", default="HEAD", show_default=True, help="What it is about.")


@click.group("gto")
def command() -> None:
    """Read and write the git tags by which GTO registers versions and assigns stages. Nothing is pushed."""


@command.command("show")
@_REPOSITORY
@json_option
def show(repository: Path, as_json: bool) -> None:
    """Show the models, versions and stages that a repository's tags say."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.package import gto

    state = gto.read(repository)
    if as_json:
        show_json({name: _plain(model) for name, model in sorted(state.items())})
        return
    rows = [
        (
            name,
            model.latest or "",
            len(model.versions),
            ", ".join(f"{stage}: {version}" for stage, version in sorted(model.stages.items())),
            "deprecated" if model.deprecated else "",
        )
        for name, model in sorted(state.items())
    ]
    show_table(("model", "latest", "versions", "stages", ""), rows)


@command.command("register")
@click.argument("name")
@click.argument("version")
@_MESSAGE
@_COMMIT
@_REPOSITORY
def register(name: str, version: str, message: str, commit: str, repository: Path) -> None:
    """Tag a commit as a version: gto register churn v1.2.0."""
    _write(repository, "register", name, message, commit, version=version)


@command.command("assign")
@click.argument("name")
@click.argument("stage")
@_MESSAGE
@_COMMIT
@_REPOSITORY
def assign(name: str, stage: str, message: str, commit: str, repository: Path) -> None:
    """Tag a commit as being in a stage: gto assign churn production --commit churn@v1.2.0."""
    _write(repository, "assign", name, message, commit, stage=stage)


@command.command("deprecate")
@click.argument("name")
@_MESSAGE
@_REPOSITORY
def deprecate(name: str, message: str, repository: Path) -> None:
    """Say that a model is no longer used."""
    _write(repository, "deprecate", name, message, "HEAD")


def _write(
    repository: Path,
    action: Literal["register", "assign", "deprecate"],
    name: str,
    message: str,
    commit: str,
    *,
    version: str | None = None,
    stage: str | None = None,
) -> None:
    from vitrify.package import gto

    event = gto.GtoEvent(name=name, action=action, version=version, stage=stage)
    said = message or " ".join(word for word in (action, name, version, stage) if word)
    click.echo(gto.write(repository, event, said, commit=commit))


def _plain(model: Any) -> dict[str, Any]:
    versions = [{"version": one.version, "commit": one.commit, "when": one.when} for one in model.versions]
    return {"versions": versions, "stages": model.stages, "deprecated": model.deprecated}
