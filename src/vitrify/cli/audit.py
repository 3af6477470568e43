"""``vitrify audit``: the registry's log: read it, check it, sign its end, ask it about the past."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._keys import key_option, passphrase, passphrase_option
from vitrify.cli._registry import common, opened
from vitrify.cli._registry_local import opened_here

if TYPE_CHECKING:
    from vitrify.core.report import Report
    from vitrify.registry.values import Event, InProduction

_MAX_CHECKPOINT = 1024 * 1024
_WIDE = 90


@click.group("audit")
def command() -> None:
    """Read the registry's log, check it, sign its end, and ask it about the past."""


@command.command("log")
@click.option("--model", default="", help="Of this model only.")
@click.option("--kind", default="", help="Of this kind only: version.staged, promotion.decided, ...")
@click.option("--after", type=click.IntRange(0), default=0, help="Begin after the event with this number.")
@click.option("--limit", type=click.IntRange(1), default=100, help="At most so many.  [default: 100]")
@click.option("--all", "everything", is_flag=True, help="All of it, with --json a document a line.")
@common
def log(model: str, kind: str, after: int, limit: int, everything: bool, place: str | None, as_json: bool) -> None:
    """Print what happened, in its order."""
    from itertools import islice

    from vitrify.cli._render import show_json, show_table
    from vitrify.core.wire import to_builtins

    with opened(place) as registry:
        events = registry.events(model, kind, after)
        if everything and as_json:
            for event in events:
                click.echo(event.to_json())
            return
        found = list(events if everything else islice(events, limit))
    if as_json:
        show_json([to_builtins(event) for event in found])
    else:
        show_table(("event", "time", "who", "what", "of", "facts"), map(_line, found))


def _line(event: Event) -> tuple[Any, ...]:
    facts = {key: value for key, value in event.facts.items() if value not in ("", None, {}, [])}
    shortest = sorted((f"{key}={value}" for key, value in facts.items()), key=len)  # a digest tells least
    text = ", ".join(shortest)
    subject = ":".join(part for part in (event.model, event.version) if part)
    shown = text if len(text) <= _WIDE else f"{text[:_WIDE]}…"
    return event.seq, f"{event.time:%Y-%m-%d %H:%M:%S}", event.actor, event.kind, subject, shown


@command.command("verify")
@click.option(
    "--checkpoint", type=click.Path(dir_okay=False, exists=True), help="A signed head of the log (audit sign)."
)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="The public key of who signed it, by name or path.")
@common
def verify(checkpoint: str | None, keys: tuple[str, ...], place: str | None, as_json: bool) -> None:
    """Compute the whole chain again, and compare every row of the registry with what the log says.

    Leaves with 11 where anything differs. With --checkpoint, also says whether the log still is the one that was
    signed then: that finds what somebody changed who may write to the database and made the whole chain anew.
    """
    from vitrify.cli._render import show_json
    from vitrify.core.errors import UsageError
    from vitrify.core.wire import to_builtins
    from vitrify.registry.audit import verify as check

    if bool(checkpoint) != bool(keys):
        raise UsageError("a checkpoint counts with the key of who signed it", remedy="--checkpoint FILE --key KEY")
    heads = _heads(checkpoint, keys) if checkpoint else {}
    with opened_here(place, "rows are compared") as backend:
        report = check(backend.database, heads)
    if as_json:
        show_json(to_builtins(report))
    else:
        _show_report(report)
    sys.exit(0 if report.passed else 11)


def _heads(checkpoint: str, keys: tuple[str, ...]) -> dict[int, str]:
    from vitrify.registry.audit.checkpoint import read
    from vitrify.trust._private_file import read_small
    from vitrify.trust.keyring import Keyring

    ring = Keyring()
    found, _ = read(read_small(Path(checkpoint), _MAX_CHECKPOINT), [ring.verifier(key) for key in keys])
    return found.heads


def _show_report(report: Report) -> None:
    color = "green" if report.passed else "red"
    click.echo(f"{report.check}: {click.style(report.verdict, fg=color, bold=True)}")
    for finding in report.findings:
        click.echo(f"  - {finding.place}: {finding.message}")
    for key, value in report.details.items():
        click.echo(f"  {key}: {value}")


@command.command("sign")
@key_option(required=True)
@passphrase_option
@click.option("-o", "--output", type=click.Path(dir_okay=False), required=True, help="The file to write.")
@common
def sign(key: str, passphrase_file: str | None, output: str, place: str | None, as_json: bool) -> None:
    """Sign the log's end into a file; keep it where nobody reaches who may write to the database."""
    from vitrify.cli._render import show_facts, show_json
    from vitrify.registry.audit import checkpoint
    from vitrify.trust._private_file import replace
    from vitrify.trust.keyring import Keyring

    signer = Keyring().signer(key, passphrase=passphrase(passphrase_file))
    with opened(place) as registry:
        envelope = checkpoint.sign(registry, [signer])
    replace(Path(output), envelope.to_json())
    found = checkpoint.Checkpoint.from_json(envelope.content, where="checkpoint")
    facts = {"seq": found.seq, "hash": found.hash, "registry": found.registry, "keyid": signer.keyid, "file": output}
    show_json(facts) if as_json else show_facts(facts.items())


@command.command("production")
@click.argument("model", metavar="NAME")
@click.option("--at", help="A date or a time, UTC where it says no zone: 2026-03-01, 2026-03-01T12:00.  [default: now]")
@common
def production(model: str, at: str | None, place: str | None, as_json: bool) -> None:
    """Say what was in production at a time, who put it there, who approved it, and on which evidence."""
    from vitrify.cli._render import show_json
    from vitrify.core.wire import to_builtins

    with opened(place) as registry:
        found = registry.production_at(model, _time(at))
    if as_json:
        show_json(to_builtins(found))
    else:
        _show_production(found)


def _time(text: str | None) -> datetime | None:
    from datetime import UTC

    from vitrify.core.errors import UsageError

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"not a time: {text!r}"
        raise UsageError(msg, remedy="for example 2026-03-01 or 2026-03-01T12:00+01:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _show_production(found: InProduction) -> None:
    from vitrify.cli._render import show_facts

    click.echo(click.style(f"{found.model}:{found.version}", bold=True))
    until = f"{found.until:%Y-%m-%d %H:%M:%S} UTC" if found.until else "now"
    facts = [
        ("digest", found.digest),
        ("in production", f"{found.since:%Y-%m-%d %H:%M:%S} UTC until {until}"),
        ("put there by", f"{found.by}, event {found.event}"),
    ]
    said = [("approved by", f"{one.who}, {one.when:%Y-%m-%d %H:%M:%S} UTC  {one.comment}") for one in found.approvals]
    show_facts([*facts, *(said or [("approved by", "nobody: the policy asked for no approval")])])
    show_facts(("evidence", digest) for digest in found.evidence)
