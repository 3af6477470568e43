"""``vitrify promotion``: requests to promote, and what others say to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._registry import comment_option, common, opened

if TYPE_CHECKING:
    from vitrify.registry.values import Promotion


@click.group("promotion")
def command() -> None:
    """List and decide on requests to promote a version: promotion approve 12."""


@command.command("list")
@click.option("--model", default="", help="Only of this model.")
@click.option("--state", default="", help="Only open, done, rejected, withdrawn or expired ones.")
@common
def list_(model: str, state: str, place: str | None, as_json: bool) -> None:
    """List requests, newest first."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.wire import to_builtins

    with opened(place) as registry:
        found = registry.promotions(model, state)
    if as_json:
        show_json([to_builtins(one) for one in found])
        return
    rows = [
        (
            one.id,
            f"{one.model}:{one.version}",
            one.stage,
            one.state,
            one.author,
            ", ".join(f"{decision.who} {decision.verdict}s" for decision in one.decisions),
            f"{one.expires:%Y-%m-%d %H:%M}",
        )
        for one in found
    ]
    show_table(("id", "version", "to", "state", "by", "decisions", "expires"), rows)


@command.command("approve")
@click.argument("id_", metavar="ID", type=int)
@comment_option
@common
def approve(id_: int, comment: str, place: str | None, as_json: bool) -> None:
    """Approve a request; it is carried out when the policy misses nothing more."""
    with opened(place) as registry:
        show(registry.decide(id_, "approve", comment), as_json=as_json)


@command.command("reject")
@click.argument("id_", metavar="ID", type=int)
@comment_option
@common
def reject(id_: int, comment: str, place: str | None, as_json: bool) -> None:
    """Reject a request; that closes it."""
    with opened(place) as registry:
        show(registry.decide(id_, "reject", comment), as_json=as_json)


@command.command("withdraw")
@click.argument("id_", metavar="ID", type=int)
@common
def withdraw(id_: int, place: str | None, as_json: bool) -> None:
    """Take a request of your own back."""
    with opened(place) as registry:
        show(registry.withdraw(id_), as_json=as_json)


def show(promotion: Promotion, *, as_json: bool) -> None:
    """Print one request."""
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins

    if as_json:
        show_json(to_builtins(promotion))
        return
    what = f"{promotion.model}:{promotion.version} to {promotion.stage}"
    click.echo(f"request {promotion.id}, {what}: {click.style(promotion.state, bold=True)}")
    for decision in promotion.decisions:
        click.echo(f"  {decision.who} {decision.verdict}s  {decision.comment}".rstrip())
    for missing in promotion.missing:
        click.echo(f"  missing: {missing}")
