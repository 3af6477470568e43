"""``vitrify deployment``: where versions run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._registry import common, opened, pairs, split

if TYPE_CHECKING:
    from vitrify.registry.values import Deployment


@click.group("deployment")
def command() -> None:
    """Record where versions run, so that their lineage leads there: deployment start churn@production eu-west."""


@command.command("start")
@click.argument("reference", metavar="NAME[:VERSION|@ALIAS]")
@click.argument("target")
@click.option("--fact", "facts", multiple=True, metavar="KEY=VALUE", help="What else is to be known of it; repeat.")
@common
def start(reference: str, target: str, facts: tuple[str, ...], place: str | None, as_json: bool) -> None:
    """Say that a version runs on TARGET from now on; the policy for serve is asked."""
    with opened(place) as registry:
        _show(registry.deploy(*split(reference), target, **pairs(facts, "fact")), as_json=as_json)


@command.command("end")
@click.argument("id_", metavar="ID", type=int)
@common
def end(id_: int, place: str | None, as_json: bool) -> None:
    """Say that it does not run there any more."""
    with opened(place) as registry:
        _show(registry.end_deployment(id_), as_json=as_json)


@command.command("list")
@click.option("--model", default="", help="Only of this model.")
@click.option("--target", default="", help="Only on this target.")
@click.option("--all", "ended", is_flag=True, help="Those that have ended, too.")
@common
def list_(model: str, target: str, ended: bool, place: str | None, as_json: bool) -> None:
    """List what runs where, newest first."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.wire import to_builtins

    with opened(place) as registry:
        found = registry.deployments(model, target, ended=ended)
    if as_json:
        show_json([to_builtins(one) for one in found])
        return
    rows = [
        (
            one.id,
            f"{one.model}:{one.version}",
            one.target,
            f"{one.started:%Y-%m-%d %H:%M}",
            f"{one.ended:%Y-%m-%d %H:%M}" if one.ended else "",
            one.by,
        )
        for one in found
    ]
    show_table(("id", "version", "runs on", "since", "until", "by"), rows)


def _show(one: Deployment, *, as_json: bool) -> None:
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins

    if as_json:
        show_json(to_builtins(one))
        return
    since = f"{one.started:%Y-%m-%d %H:%M:%S} UTC"
    until = f" until {one.ended:%Y-%m-%d %H:%M:%S} UTC" if one.ended else ""
    click.echo(f"deployment {one.id}: {one.model}:{one.version} on {one.target} since {since}{until}")
