"""``vitrify promote``: a version moves to a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from vitrify.cli._registry import comment_option, common, opened, show_version, split

if TYPE_CHECKING:
    from vitrify.registry.values import Stage


@click.command("promote")
@click.argument("reference", metavar="NAME[:VERSION|@ALIAS]")
@click.argument("stage", type=click.Choice(("development", "staging", "production", "archived")))
@click.option("--request", is_flag=True, help="Ask for it, so that others can approve; it is done when they have.")
@click.option("--days", type=float, default=7, help="How long a request stays open.  [default: 7]")
@click.option("--expected", metavar="VERSION", help="Refuse if another version than this is in production now.")
@comment_option
@common
def command(
    reference: str,
    stage: str,
    request: bool,
    days: float,
    expected: str | None,
    comment: str,
    place: str | None,
    as_json: bool,
) -> None:
    """Move a version to a stage, if the policy allows it: promote churn:1.2.0 production.

    A model has one version in production; the one that was there is archived.
    """
    from vitrify.cli.promotion import show

    name, which = split(reference)
    with opened(place) as registry:
        wanted = cast("Stage", stage)
        if request:
            show(registry.request_promotion(name, which, wanted, comment, days), as_json=as_json)
        else:
            version = registry.promote(name, which, wanted, comment, expected=expected)
            show_version(version, as_json=as_json)
