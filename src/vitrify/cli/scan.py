"""``vitrify scan``: could these files hurt whoever loads them.

Text for a person is printed as it comes, without the library that draws tables: this command runs in hooks, thousands
of times a day.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import json_option
from vitrify.cli._plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from vitrify.artifacts.artifact import Artifact
    from vitrify.checks.scan.policy import Policy
    from vitrify.checks.scan.targets import Target
    from vitrify.core.report import Report

_COLORS = {"clean": "green", "found": "red", "not checked": "yellow", "skipped": "bright_black"}
_SEVERAL = 8
"""Fewer files are scanned faster than a second process starts."""


@click.command("scan")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--files-from", type=click.File("rb"), help="Read more names from a file or -, a line or a NUL each.")
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), help="By default ./vitrify-scan.toml.")
@click.option("--allow", multiple=True, metavar="NAME", help="Exact subject of a finding to take; repeat for more.")
@click.option("--sarif", type=click.File("w", lazy=True), help="Write SARIF 2.1.0 to a file, or - instead of text.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=1, help="Processes for many files.")
@click.option("--attest", is_flag=True, help="Keep the reports of artifacts beside them, as evidence for a policy.")
@click.option("-q", "--quiet", is_flag=True, help="Print only files that are not clean.")
@json_option
def command(
    files: tuple[Path, ...],
    files_from: Any,
    policy_file: Path | None,
    allow: tuple[str, ...],
    sarif: Any,
    jobs: int,
    attest: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say whether model files, or artifacts in the store, could hurt whoever loads them; nothing in them runs.

    A folder that is a model is one file here; any other is scanned file by file. With --json each file is one line.
    Exit status: 0 all clean, 1 something was found, 2 something could not be checked.
    """
    from vitrify.checks.scan.policy import FILE, find_policy, read_policy
    from vitrify.checks.scan.targets import targets

    policy = (read_policy(policy_file) if policy_file else find_policy(Path())).and_allow(allow)
    if policy_file is None and Path(FILE).is_file():
        # Whoever made this folder may have made the policy, too: it is never used in silence.
        click.echo(f"policy: {FILE} of this folder; --policy names another", err=True)
    named = [*files, *_names(files_from)]
    if not named:
        raise click.UsageError("name a file or a folder to scan")
    silent = sarif is not None and sarif.name == "-"
    reports: list[tuple[str, Report]] = []
    folders: set[str] = set()
    counts = dict.fromkeys(_COLORS, 0)
    kept = {name: artifact for name in named if (artifact := _artifact(name))}
    listed = list(targets([name for name in named if name not in kept], policy))
    for target, report in chain(_scanned(listed, policy, jobs), _in_store(kept, policy, keep=attest)):
        verdict = "skipped" if target.skipped else report.verdict
        counts[verdict] += 1
        path = target.path.as_posix()
        if sarif is not None:
            reports.append((path, report))
            folders |= {path} if target.path.is_dir() else set()
        if not silent:
            _print(path, report, verdict, as_json=as_json, quiet=quiet)
    if sarif is not None:
        from vitrify.checks.scan.sarif import to_sarif

        json.dump(to_sarif(reports, directories=frozenset(folders)), sarif, indent=1)
    if not as_json and not silent and (sum(counts.values()) > 1 or quiet):
        _summary(counts)
    sys.exit(_status(counts, policy))


def _status(counts: dict[str, int], policy: Policy) -> int:
    if counts["found"]:
        return 1
    return 2 if counts["not checked"] and policy.fail_on == "not checked" else 0


def _names(stream: Any) -> Iterator[Path]:
    if stream is not None:
        listed: bytes = stream.read()
        for name in listed.split(b"\0" if b"\0" in listed else b"\n"):
            if name:
                yield Path(name.decode(sys.getfilesystemencoding(), "surrogateescape"))


def _artifact(name: Path) -> Artifact | None:
    """Return the artifact of that name in the user's store, where no file lies."""
    if os.path.lexists(name):
        return None
    from vitrify.artifacts import open_artifact
    from vitrify.core.errors import ReferenceNotFoundError, UsageError

    try:
        return open_artifact(str(name))
    except (ReferenceNotFoundError, UsageError):
        return None  # that there is no such file, its report says


def _in_store(kept: dict[Path, Artifact], policy: Policy, *, keep: bool) -> Iterator[tuple[Target, Report]]:
    """Yield the report of each artifact: of its files, under the names that they have in it."""
    from vitrify.checks.scan import attest_scan, scan_artifact
    from vitrify.checks.scan.targets import Target

    for name, artifact in kept.items():
        yield Target(name), (attest_scan if keep else scan_artifact)(artifact, policy)


def _scanned(listed: list[Target], policy: Policy, jobs: int) -> Iterator[tuple[Target, Report]]:
    """Yield each target's report in their order; files that the policy skips are not opened."""
    from vitrify.core.progress import track

    many = len(listed) >= _SEVERAL
    with _bars() if many else nullcontext(), track("scanning", total=len(listed)) as bar:
        for pair in _each(listed, policy, jobs if many else 1):
            yield pair
            bar.advance()


def _each(listed: list[Target], policy: Policy, jobs: int) -> Iterator[tuple[Target, Report]]:
    work = [(target, policy) for target in listed]
    if jobs == 1:
        yield from zip(listed, map(_one, work), strict=True)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Started afresh, not forked: a fork copies whatever threads a plugin's library has started.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from zip(listed, pool.map(_one, work, chunksize=4), strict=True)


def _one(work: tuple[Target, Policy]) -> Report:
    from vitrify.checks.scan import scan_target
    from vitrify.core.report import Report
    from vitrify.inspection.scan import CHECK

    target, policy = work
    if target.skipped:
        return Report(check=CHECK, verdict="not checked")
    return Report.of(CHECK, [target.left_out]) if target.left_out else scan_target(target.path, policy)


def _bars() -> AbstractContextManager[None]:
    if not sys.stderr.isatty():
        return nullcontext()
    from vitrify.cli._render import progress_bars

    return progress_bars()


def _print(path: str, report: Report, verdict: str, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        from vitrify.core.wire import to_builtins

        known = to_builtins(report)
        skipped = {"skipped": True} if verdict == "skipped" else {}
        about = {"path": path, "verdict": report.verdict, **skipped, "findings": [], **known}
        click.echo(json.dumps(about))
    elif not quiet or verdict not in {"clean", "skipped"}:
        for line in _lines(path, report, verdict):
            click.echo(line)


def _lines(path: str, report: Report, verdict: str) -> Iterable[str]:
    formats = ", ".join(report.details.get("formats", {}))
    yield f"{click.style(verdict, fg=_COLORS[verdict], bold=True)}  {plain(path)}{f'  ({formats})' if formats else ''}"
    for finding in report.findings:
        what = "" if finding.verdict == "found" else " not checked:"
        about = f"  [{finding.rule}]" if finding.rule else ""
        yield f"  -{what} {plain(finding.place)}: {plain(finding.message)}{about}"
        if finding.remedy:
            yield f"    {click.style('->', fg='cyan')} {plain(finding.remedy)}"
    for one in report.details.get("allowed", []):
        yield f"  - allowed: {plain(one['place'])}: {plain(one['subject'])} ({plain(one['reason'])})"


def _summary(counts: dict[str, int]) -> None:
    told = [f"{click.style(str(count), bold=True)} {verdict}" for verdict, count in counts.items() if count]
    click.echo(f"{sum(counts.values())} scanned: {', '.join(told)}")
