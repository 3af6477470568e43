"""``vitrify edit``: what stands in the registry about a model or a version, but for its tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vitrify.cli._registry import common, opened, show_model, show_version, split


@click.command("edit")
@click.argument("reference", metavar="NAME[:VERSION|@ALIAS]")
@click.option("--description", help="One line for people.")
@click.option("--owner", help="Whose the model is.")
@click.option("--licence", help="The model's licence, an SPDX identifier.")
@click.option("--card", type=click.Path(exists=True, dir_okay=False), help="The version's card, a Markdown file.")
@common
def command(reference: str, card: str | None, place: str | None, as_json: bool, **about: str | None) -> None:
    """Change what is said about a model, or about a version where one is named: edit churn --owner ann --licence MIT.

    Tags are changed by vitrify tag. What a version pins never changes.
    """
    versioned = ":" in reference or "@" in reference
    changes: dict[str, Any] = {key: value for key, value in about.items() if value is not None}
    if card is not None:
        changes["card"] = Path(card).read_text(encoding="utf-8")
    _check(reference, changes, ("description", "card") if versioned else ("description", "owner", "licence"))
    name, which = split(reference)
    with opened(place) as registry:
        if versioned:
            show_version(registry.update_version(name, which, **changes), as_json=as_json)
        else:
            show_model(registry.update_model(name, **changes), as_json=as_json)


def _check(reference: str, changes: dict[str, Any], known: tuple[str, ...]) -> None:
    from vitrify.core.errors import UsageError

    if not changes:
        raise UsageError("nothing to change", remedy=f"name what: {', '.join(f'--{one}' for one in known)}")
    if strange := [one for one in changes if one not in known]:
        what = "version" if "card" in known else "model"
        msg = f"{reference} is a {what}, which has no {strange[0]} of its own"
        raise UsageError(msg, remedy=f"a {what} has: {', '.join(f'--{one}' for one in known)}")
