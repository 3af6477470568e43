"""``vitrify registry token``: who may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._registry import common, opened

if TYPE_CHECKING:
    from vitrify.registry.values import Token

_ROLES = ("reader", "writer", "approver", "admin")


@click.group("token")
def command() -> None:
    """Make, list and revoke tokens. On the database itself this needs none; on a server, an admin's."""


@command.command("create")
@click.option("--who", required=True, metavar="NAME", help="Whose it is: the name that stands in the log.")
@click.option("--role", "roles", required=True, multiple=True, type=click.Choice(_ROLES), help="Repeat for more.")
@click.option("--models", "models", multiple=True, metavar="GLOB", help="Names that it may touch; default: all.")
@click.option("--days", type=float, default=90, show_default=True, help="How long it counts; 0 for ever.")
@common
def create(
    who: str, roles: tuple[str, ...], models: tuple[str, ...], days: float, place: str | None, as_json: bool
) -> None:
    """Make a token. Its secret is shown once; nobody can be told it again."""
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins
    from vitrify.registry.requests import CreateToken

    raw = {"who": who, "roles": list(roles), "models": list(models or ("*",)), "days": days or None}
    request = CreateToken.from_builtins(raw, where="the token")
    with opened(place, create=True) as registry:
        token: Token = registry.do(request)
    if as_json:
        show_json(to_builtins(token))
        return
    click.echo(token.secret)
    until = f"until {token.expires:%Y-%m-%d}" if token.expires else "for ever"
    click.echo(f"{token.id}: {token.who}, {' and '.join(token.roles)}, {until}; shown only now", err=True)


@command.command("list")
@common
def list_(place: str | None, as_json: bool) -> None:
    """List all tokens, without their secrets."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.wire import to_builtins
    from vitrify.registry.requests import ListTokens

    with opened(place) as registry:
        tokens: tuple[Token, ...] = registry.do(ListTokens()).tokens
    if as_json:
        show_json([to_builtins(token) for token in tokens])
        return
    rows = [
        (token.id, token.who, " ".join(token.roles), " ".join(token.models), f"{token.created:%Y-%m-%d}", _end(token))
        for token in tokens
    ]
    show_table(("id", "who", "roles", "models", "made", "end"), rows)


@command.command("revoke")
@click.argument("id_", metavar="ID")
@common
def revoke(id_: str, place: str | None, as_json: bool) -> None:
    """Refuse a token from now on; servers notice within a second."""
    from vitrify.cli._render import show_json
    from vitrify.registry.requests import RevokeToken

    with opened(place) as registry:
        registry.do(RevokeToken(id=id_))
    if as_json:
        show_json({"revoked": id_})
    else:
        click.echo(f"revoked {id_}")


def _end(token: Token) -> str:
    if token.revoked:
        return f"revoked {token.revoked:%Y-%m-%d}"
    return f"{token.expires:%Y-%m-%d}" if token.expires else "never"
