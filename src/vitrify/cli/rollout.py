"""``vitrify rollout``: who answers on a running server, and how a new version takes over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from vitrify.cli._serving import RunningServer, common

_SHOWN = 10
"""Events."""


@click.group("rollout")
def command() -> None:
    """Change which versions answer on a running server: weights, canaries, shadows; load and unload.

    What is changed counts in all processes of the server and, where it has a file for its state, after a restart.
    """


@command.command("show")
@click.argument("model", required=False)
@common
def show(model: str | None, server: str, token: str | None, as_json: bool) -> None:
    """Show the models of a server, or the rollout of one of them."""
    from vitrify.cli._render import show_json, show_table

    running = RunningServer(server, token)
    if model is not None:
        _show_route(running.ask("GET", "routes", model), running, as_json=as_json)
        return
    models = running.ask("GET", "models")
    if as_json:
        show_json(models)
        return
    rows = [
        (one["name"], one["version"], one["state"], f"{one['share']:.1%}", one["digest"][7:19], one["reason"])
        for one in models
    ]
    show_table(("model", "version", "state", "share", "digest", "note"), rows)


@command.command("weights")
@click.argument("model")
@click.argument("weights", nargs=-1, required=True, metavar="VERSION=WEIGHT...")
@common
def weights(model: str, weights: tuple[str, ...], server: str, token: str | None, as_json: bool) -> None:
    """Share requests among versions.

    For example: rollout weights churn 1.2.0=0.9 1.3.0=0.1

    Weights need not add up to one. A canary that is going on ends; shadows stay.
    """
    running = RunningServer(server, token)
    route = running.ask("GET", "routes", model)["route"]
    route.pop("canary", None)
    route["weights"] = dict(map(_weight, weights))
    _show_route(running.ask("PUT", "routes", model, body=route), running, as_json=as_json)


@command.command("canary")
@click.argument("model")
@click.argument("version")
@click.option("--steps", metavar="SHARE,...", help="Its share, step by step.  [default: 0.01,0.05,0.25,0.5]")
@click.option("--seconds", type=click.FloatRange(0), help="A step lasts at least so long.  [default: 60]")
@click.option("--requests", type=click.IntRange(1), help="A step takes at least so many.  [default: 100]")
@click.option("--errors", type=click.FloatRange(0, 1), help="Its error rate may be higher by so much.  [default: 0.01]")
@click.option("--latency", type=click.FloatRange(1), help="Its p99 may be so many times the old.  [default: 1.5]")
@click.option("--drift", type=click.FloatRange(0), help="Its predictions may be so far off; 0: any.  [default: 0.2]")
@common
def canary(
    model: str, version: str, server: str, token: str | None, as_json: bool, steps: str | None, **options: Any
) -> None:
    """Let a version take over step by step, or be taken back.

    For example: rollout canary churn 1.3.0
    """
    body = {"version": version, **{name: value for name, value in options.items() if value is not None}}
    if steps is not None:
        body["steps"] = [_number(step, "step") for step in steps.split(",")]
    running = RunningServer(server, token)
    _show_route(running.ask("POST", "routes", model, "canary", body=body), running, as_json=as_json)


@command.command("promote")
@click.argument("model")
@click.argument("version", required=False, default="")
@click.option("--reason", default="by hand", help="Why; it stands among the events.")
@common
def promote(model: str, version: str, reason: str, server: str, token: str | None, as_json: bool) -> None:
    """Give the canary, or the version that is named, all requests."""
    running = RunningServer(server, token)
    body = {"version": version, "reason": reason}
    _show_route(running.ask("POST", "routes", model, "promote", body=body), running, as_json=as_json)


@command.command("rollback")
@click.argument("model")
@click.option("--reason", default="by hand", help="Why; it stands among the events.")
@common
def rollback(model: str, reason: str, server: str, token: str | None, as_json: bool) -> None:
    """Take the canary back; without one, undo the last promotion."""
    running = RunningServer(server, token)
    answer = running.ask("POST", "routes", model, "rollback", body={"reason": reason})
    _show_route(answer, running, as_json=as_json)


@command.command("shadow")
@click.argument("model")
@click.argument("version", required=False)
@click.option("--fraction", type=click.FloatRange(0, 1), default=1.0, show_default=True, help="Of the requests.")
@click.option("--off", is_flag=True, help="Let no version see copies any more.")
@common
def shadow(
    model: str, version: str | None, fraction: float, off: bool, server: str, token: str | None, as_json: bool
) -> None:
    """Report how a version that sees copies compares; with a VERSION, let it see them."""
    from vitrify.cli._render import show_json

    running = RunningServer(server, token)
    if version is None and not off:
        if as_json:
            show_json(running.ask("GET", "routes", model, "shadow"))
        else:
            click.echo(running.ask("GET", "routes", model, "shadow", accept="text/markdown"))
        return
    route = running.ask("GET", "routes", model)["route"]
    others = [] if off else [one for one in route.get("shadow", ()) if one["version"] != version]
    route["shadow"] = others if version is None else [*others, {"version": version, "fraction": fraction}]
    _show_route(running.ask("PUT", "routes", model, body=route), running, as_json=as_json)


@command.command("load")
@click.argument("reference", required=False)
@click.option("--name", help="The name that it is served by; by default the reference's.")
@click.option("--version", help="By default the registry's version, or the tag.")
@click.option("--batch", "rows", type=click.IntRange(1), help="Rows a batch at most.")
@click.option(
    "--ensembles",
    metavar="FILE",
    help="Load the ensembles of a TOML file instead: its [[ensembles]] are as in the server's settings.",
)
@common
def load(
    reference: str | None, ensembles: str | None, server: str, token: str | None, as_json: bool, **options: Any
) -> None:
    """Load a model, or load it again; or ensembles."""
    from vitrify.cli._render import show_json
    from vitrify.core.errors import UsageError

    options = {"reference": reference, **options}
    given = {name: value for name, value in options.items() if value is not None}
    if (ensembles is None) is (reference is None) or (ensembles is not None and given):
        msg = f"found {', '.join(given) or 'nothing'}{' and ensembles' if ensembles else ''}"
        raise UsageError(msg, remedy="name a reference and how it is served, or --ensembles FILE alone")
    running = RunningServer(server, token)
    bodies = [_model(**given)] if ensembles is None else _ensembles(ensembles)
    loaded = []
    for body in bodies:
        loaded.append(one := running.ask("POST", "models", body=body))
        if not as_json:
            note = f" ({one['reason']})" if one["reason"] else ""
            click.echo(f"{one['name']} {one['version']} is {one['state'].lower()}{note}")
    if as_json:
        show_json(loaded if ensembles is not None else loaded[0])


def _model(*, rows: int | None = None, **body: Any) -> dict[str, Any]:
    return body if rows is None else {**body, "batching": {"rows": rows}}


def _ensembles(path: str) -> list[Any]:
    """Return the ensembles of a file as JSON, each after those that it asks.

    Raises:
        UsageError: It cannot be read, has none, or they ask each other in a circle.
    """
    import msgspec

    from vitrify.core.errors import UsageError
    from vitrify.serve.models._graph import ordered
    from vitrify.serve.settings_file import read

    found = ordered(read(path).ensembles)
    if not found:
        msg = f"{path} has no ensembles"
        raise UsageError(msg, remedy="write them as [[ensembles]]: docs/how-to/serve.md")
    return [msgspec.to_builtins(one) for one in found]


@command.command("unload")
@click.argument("model")
@click.argument("version", required=False)
@common
def unload(model: str, version: str | None, server: str, token: str | None, as_json: bool) -> None:
    """Let go of a version, or of all, once what was taken is answered."""
    from vitrify.cli._render import show_json

    path = ("models", model) if version is None else ("models", model, "versions", version)
    RunningServer(server, token).ask("DELETE", *path)
    if as_json:
        show_json({"model": model, "version": version, "unloaded": True})
    else:
        click.echo(f"unloaded {model}{f' {version}' if version else ''}")


def _weight(text: str) -> tuple[str, float]:
    version, equals, weight = text.rpartition("=")
    if not equals or not version:
        from vitrify.core.errors import UsageError

        msg = f"not a version and its weight: {text!r}"
        raise UsageError(msg, remedy="write VERSION=WEIGHT, like 1.2.0=0.9")
    return version, _number(weight, "weight")


def _number(text: str, what: str) -> float:
    import math

    from vitrify.core.errors import UsageError

    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        msg = f"not a {what}: {text!r}"
        raise UsageError(msg, remedy="write a number from 0, like 0.25")
    return number


def _show_route(shown: dict[str, Any], running: RunningServer, *, as_json: bool) -> None:
    """Print who answers, how far a canary is, and what was decided last."""
    from vitrify.cli._render import show_facts, show_json, show_table

    if as_json:
        show_json(shown)
        return
    click.echo(click.style(shown["model"], bold=True))
    facts: list[tuple[str, object]] = [
        *((version, f"{share:.2%}") for version, share in shown["shares"].items()),
        *((one["version"], _copies(one)) for one in shown["route"].get("shadow", ())),
    ]
    canary = shown.get("canary")
    if canary is not None:
        step = "waits" if canary["step"] is None else f"step {canary['step'] + 1} of {len(canary['steps'])}"
        facts.append(("canary", f"{canary['version']}, {step}: {canary.get('reason', 'it has just begun')}"))
    show_facts(facts)
    events = [one for one in running.ask("GET", "events") if one["model"] == shown["model"]][-_SHOWN:]
    if events:
        rows = [(_when(one["time"]), one["what"], one.get("version", ""), one.get("reason", "")) for one in events]
        click.echo()
        show_table(("when", "what", "version", "why"), rows)


def _copies(shadow: dict[str, Any]) -> str:
    return f"sees copies of {shadow.get('fraction', 1.0):.0%} of the requests"


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
