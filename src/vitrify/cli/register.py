"""``vitrify register``: an artifact becomes a version of a model."""

from __future__ import annotations

from pathlib import Path

import click

from vitrify.cli._options import REFERENCE, open_store, store_option
from vitrify.cli._registry import common, opened, pairs, show_version


@click.command("register")
@click.argument("reference", type=REFERENCE)
@click.argument("name", metavar="NAME[:VERSION]")
@click.option("--variant", "variants", multiple=True, type=REFERENCE, help="What was converted from it; repeat.")
@click.option("--metric", "metrics", multiple=True, metavar="KEY=NUMBER", help="A figure that was measured; repeat.")
@click.option("--parameter", "parameters", multiple=True, metavar="KEY=VALUE", help="A training parameter; repeat.")
@click.option("--dataset", "datasets", multiple=True, metavar="NAME=DIGEST", help="What it was trained on; repeat.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag; it can be changed later; repeat.")
@click.option("--commit", help="The git commit of the code; by default the one that its provenance names.")
@click.option("--run", default="", help="What made it: a run's id, a URL.")
@click.option("--description", default="", help="One line for people.")
@click.option("--card", type=click.Path(exists=True, dir_okay=False), help="The model card, a Markdown file.")
@store_option
@common
def command(
    reference: str,
    name: str,
    variants: tuple[str, ...],
    metrics: tuple[str, ...],
    parameters: tuple[str, ...],
    datasets: tuple[str, ...],
    tags: tuple[str, ...],
    commit: str | None,
    run: str,
    description: str,
    card: str | None,
    store: str | None,
    place: str | None,
    as_json: bool,
) -> None:
    """Register an artifact, with its evidence, as the next version of a model: register churn risk/churn:1.2.0.

    What a version pins never changes; its description and tags may.
    """
    from vitrify.artifacts import open_artifact
    from vitrify.cli._render import progress_bars

    where = open_store(store)
    model, _, version = name.partition(":")
    with opened(place, create=True) as registry, progress_bars():
        made = registry.register(
            model,
            open_artifact(reference, store=where),
            version=version or None,
            variants=[open_artifact(variant, store=where) for variant in variants],
            metrics=_numbers(metrics),
            parameters=pairs(parameters, "parameter"),
            datasets=pairs(datasets, "dataset"),
            tags=pairs(tags, "tag"),
            **({} if commit is None else {"commit": commit}),
            run=run,
            description=description,
            card=Path(card).read_text(encoding="utf-8") if card else "",
        )
    show_version(made, as_json=as_json)


def _numbers(texts: tuple[str, ...]) -> dict[str, float]:
    from vitrify.core.errors import UsageError

    try:
        return {key: float(value) for key, value in pairs(texts, "metric").items()}
    except ValueError as error:
        msg = f"a metric is a number: {error}"
        raise UsageError(msg, remedy="write --metric auc=0.93") from error
