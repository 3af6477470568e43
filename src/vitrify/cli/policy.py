"""``vitrify policy``: what has to be proven before a model is used, and whether it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from vitrify.cli._options import REFERENCE, common, json_option, open_store
from vitrify.cli._registry import registry_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.report import Report
    from vitrify.trust.policy import Policy

_DENIED = 15
"""What the command line returns where a policy says no, as for the error of that kind."""


@click.group("policy")
def command() -> None:
    """Ask, check and start the file that says what a model must have before it is used."""


@command.command("explain")
@click.argument("reference", type=REFERENCE)
@click.option("--for", "action", required=True, metavar="ACTION", help="load, serve, ship or promote:STAGE.")
@click.option("--policy", "file", metavar="FILE", help="By default this machine's.  [env: VITRIFY_POLICY]")
@click.option("--version", "registered", is_flag=True, help="REF is a version of the registry, which is asked.")
@registry_option
@common
def explain(
    reference: str,
    action: str,
    file: str | None,
    registered: bool,
    place: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Say of every rule whether it holds for an artifact in the store, and what was found.

    With --version it is the registry's policy that answers, and its approvals, metrics, tags and stages count too.

    Exit status: 0 allowed, 15 not allowed.
    """
    from vitrify.artifacts import open_artifact
    from vitrify.artifacts.permit import facts_of
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins
    from vitrify.trust.policy import Policy, default_policy, evaluate

    if registered:
        _explain_version(reference, action, place, as_json=as_json)
    policy = Policy.load(file) if file else default_policy()
    artifact = open_artifact(reference, store=open_store(store))
    reports = [evaluate(policy, facts) for facts in facts_of(artifact, action, policy)] if policy else []
    allowed = all(report.passed for report in reports)
    if as_json:
        show_json({"allowed": allowed, "reports": [to_builtins(report) for report in reports]})
    elif policy is None:
        click.echo("no policy on this machine: everything is allowed")
    else:
        for report in reports:
            _show(report)
    sys.exit(0 if allowed else _DENIED)


def _explain_version(reference: str, action: str, place: str | None, *, as_json: bool) -> NoReturn:
    from vitrify.cli._registry import opened, split
    from vitrify.cli._render import show_json
    from vitrify.core.report import Report
    from vitrify.core.wire import to_builtins

    with opened(place) as registry:
        answer = registry.explain(*split(reference), action)
    if as_json:
        show_json({"allowed": answer.allowed, "reports": [to_builtins(answer.report)]})
    elif "details" not in answer.report:
        click.echo("the registry has no policy: everything is allowed")
    else:
        _show(Report.from_builtins(answer.report, where="the registry's answer"))
    sys.exit(0 if answer.allowed else _DENIED)


@command.command("check")
@click.argument("file", metavar="FILE")
@json_option
def check(file: str, as_json: bool) -> None:
    """Read a policy and the keys that it names, and say what it requires."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.trust.policy import Policy

    policy = Policy.load(file)
    keys, rules = list(_keys(policy)), list(_rules(policy))
    if as_json:
        show_json({"policy": file, "keys": keys, "rules": rules})
        return
    if keys:
        columns = ("key", "id", "names", "purposes", "counts until")
        show_table(columns, [(key["name"], key["id"], key["names"], key["purposes"], key["until"]) for key in keys])
        click.echo()
    if not rules:
        click.echo(f"{file} requires nothing")
    else:
        show_table(("place", "for", "names", "rule"), [tuple(rule.values()) for rule in rules])


@command.command("init")
@click.argument("file", type=click.Path(path_type=Path), default="policy.toml")
def init(file: Path) -> None:
    """Write a policy to start from, with comments; nothing is replaced."""
    from vitrify.trust.policy import start

    start.write(file)
    click.echo(file)


def _show(report: Report) -> None:
    from vitrify.cli._plain import plain
    from vitrify.cli._render import show_table

    details = report.details
    verdict, color = ("allowed", "green") if report.passed else ("not allowed", "red")
    about = f"to {details['action']} {plain(details['name'])} by {plain(details['policy'])}"
    click.echo(f"{click.style(verdict, fg=color, bold=True)} {about}")
    if details["signed_evidence"]:
        click.echo(f"evidence counts if signed by: {', '.join(details['keys']) or 'no key that counts here'}")
    rules: list[dict[str, Any]] = details["rules"]
    if not rules:
        click.echo("nothing is required for this action and name")
        return
    words = {"clean": "holds", "found": "fails"}
    rows = [
        (one["rule"], words[one["verdict"]], plain(one["found"]), plain(one["expected"]), _place(report, one["place"]))
        for one in rules
    ]
    show_table(("rule", "verdict", "found", "expected", "place"), rows)
    remedies = dict.fromkeys(finding.remedy for finding in report.findings if finding.remedy)
    for remedy in remedies:
        click.echo(f"{click.style('->', fg='cyan', bold=True)} {plain(remedy)}")


def _place(report: Report, place: str) -> str:
    return place.removeprefix(f"{report.details['policy']}: ")


def _keys(policy: Policy) -> Iterator[dict[str, str]]:
    for name, trusted in policy.keys.items():
        until = trusted.not_after.isoformat() if trusted.not_after else "always"
        about = {"names": ", ".join(trusted.names), "purposes": ", ".join(trusted.purposes), "until": until}
        yield {"name": name, "id": trusted.key.keyid, **about}


def _rules(policy: Policy) -> Iterator[dict[str, str]]:
    for requirement in policy.requirements:
        names = ", ".join(requirement.names)
        names += f" but not {', '.join(requirement.exceptions)}" if requirement.exceptions else ""
        for place, rule in requirement.rules:
            where = place.removeprefix(f"{policy.place}: ")
            yield {"place": where, "for": ", ".join(requirement.actions), "names": names, "rule": rule.name}
