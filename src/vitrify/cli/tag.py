"""``vitrify tag``: what is said about a version, or about a model."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened, show_model, show_version, split


@click.command("tag")
@click.argument("reference", metavar="NAME[:VERSION|@ALIAS]")
@click.argument("tags", nargs=-1, metavar="[KEY=VALUE | KEY-]...")
@click.option("--description", help="One line for people.")
@common
def command(reference: str, tags: tuple[str, ...], description: str | None, place: str | None, as_json: bool) -> None:
    """Tag a version, or a model where no version is named: tag churn:1.2.0 team=risk old-.

    A key with a dash behind it is taken away.
    """
    name, which = split(reference)
    changes = _changes(tags)
    with opened(place) as registry:
        if ":" in reference or "@" in reference:
            version = registry.update_version(name, which, tags=changes, description=description)
            show_version(version, as_json=as_json)
            return
        model = registry.update_model(name, tags=changes, description=description)
    show_model(model, as_json=as_json)


def _changes(texts: tuple[str, ...]) -> dict[str, str | None]:
    from vitrify.cli._registry import pairs

    gone: dict[str, str | None] = {text[:-1]: None for text in texts if "=" not in text and text.endswith("-")}
    return gone | pairs((text for text in texts if text.removesuffix("-") not in gone), "tag")
