"""``vitrify registry webhook``: who is told of what happens."""

from __future__ import annotations

import click

from vitrify.cli._registry import common, opened


@click.group("webhook")
def command() -> None:
    """Send events to other servers, signed; the registry's server does the sending."""


@command.command("create")
@click.argument("url")
@click.option("--kind", "kinds", multiple=True, metavar="GLOB", help="Kinds of events: version.*; default: all.")
@click.option("--models", "models", multiple=True, metavar="GLOB", help="Names of models; default: all.")
@common
def create(url: str, kinds: tuple[str, ...], models: tuple[str, ...], place: str | None, as_json: bool) -> None:
    """Tell a URL of events. The secret that signs them is shown once."""
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins
    from vitrify.registry.requests import CreateWebhook

    with opened(place, create=True) as registry:
        made = registry.do(CreateWebhook(url=url, kinds=kinds or ("*",), models=models or ("*",)))
    if as_json:
        show_json(to_builtins(made))
    else:
        click.echo(f"{made.id}  {made.url}")
        click.echo(made.secret)


@command.command("list")
@click.option("--deliveries", type=int, metavar="ID", help="What was sent to one of them, newest first.")
@common
def list_(deliveries: int | None, place: str | None, as_json: bool) -> None:
    """List webhooks, or what was sent to one."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.wire import to_builtins
    from vitrify.registry.requests import ListDeliveries, ListWebhooks

    with opened(place) as registry:
        if deliveries is None:
            hooks = registry.do(ListWebhooks()).webhooks
            columns = ("id", "url", "kinds", "models")
            rows = [(hook.id, hook.url, " ".join(hook.kinds), " ".join(hook.models)) for hook in hooks]
        else:
            hooks = registry.do(ListDeliveries(id=deliveries)).deliveries
            columns = ("event", "state", "attempts", "error")
            rows = [(one.event, one.state, one.attempts, one.error) for one in hooks]
    if as_json:
        show_json([to_builtins(hook) for hook in hooks])
    else:
        show_table(columns, rows)


@command.command("delete")
@click.argument("id_", metavar="ID", type=int)
@common
def delete(id_: int, place: str | None, as_json: bool) -> None:
    """Send nothing there any more."""
    from vitrify.cli._render import show_json
    from vitrify.registry.requests import DeleteWebhook

    with opened(place) as registry:
        registry.do(DeleteWebhook(id=id_))
    if as_json:
        show_json({"deleted": id_})
