"""Policy: what somebody decided about scans, written down: exact names, each with a reason and an end.

``vitrify-scan.toml``::

    fail-on = "not checked"              # or "found": what was not checked is then shown, and does not fail
    skip = ["docs/**", "*.ipynb"]        # not opened; listed as skipped, never as clean

    [[allow]]
    rule = "untrusted-global"
    subject = "acme.steps.Scale"         # exact, no patterns: what the finding says
    path = "models/*.pkl"                # optional
    reason = "ours, read on 2026-03-01"
    expires = 2027-01-01                 # optional; from that day on it is not allowed

    [limits]
    depth = 8
    expanded = 268435456
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from vitrify.core.errors import UsageError
from vitrify.core.report import Report
from vitrify.inspection.place import file_of, under
from vitrify.inspection.scan import Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from vitrify.core.report import Finding

FILE = "vitrify-scan.toml"
SKIPPED = (".git", ".hg", ".svn")
"""Version control's own folders: they hold every file again, packed, and hooks that only it runs."""

FailOn = Literal["found", "not checked"]


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """One finding that somebody has read and takes.

    Attributes:
        subject: The finding's subject, exactly.
        rule: Its rule; any, where empty.
        path: Pattern of the files it holds for, as they are named; ``*`` crosses folders.
        reason: Why.
        expires: The first day on which it no longer holds.
    """

    subject: str
    rule: str = ""
    path: str = "*"
    reason: str = ""
    expires: date | None = None

    def covers(self, finding: Finding, path: str) -> bool:
        """Say whether it is about this finding; what could not be checked cannot be allowed."""
        about = finding.subject == self.subject and self.rule in {"", finding.rule}
        return about and finding.verdict == "found" and fnmatchcase(path, self.path)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a scan takes, skips and fails on.

    Attributes:
        allow: Findings that are taken; each one that is used is shown in the report.
        skip: Patterns of paths that are not opened.
        fail_on: The least verdict that fails.
        limits: How far a scan goes.
    """

    allow: tuple[Allowance, ...] = ()
    skip: tuple[str, ...] = ()
    fail_on: FailOn = "not checked"
    limits: Limits = field(default_factory=Limits)

    def skips(self, path: str) -> bool:
        """Say whether a path is not opened: by a pattern of the whole, or of one of its parts."""
        parts = path.split("/")
        whole = any(fnmatchcase(path, pattern) for pattern in self.skip)
        return whole or any(fnmatchcase(part, pattern) for part in parts for pattern in (*self.skip, *SKIPPED))

    def apply(self, report: Report, path: str, *, today: date) -> Report:
        """Return the report without the findings that are allowed, which its details list under ``allowed``.

        A finding whose allowance has expired stays, and its remedy says so.
        """
        kept: list[Finding] = []
        allowed: list[dict[str, str]] = []
        for finding in report.findings:
            file = under(path, file_of(finding.place)[0])
            matching = [one for one in self.allow if one.covers(finding, path) or one.covers(finding, file)]
            valid = [one for one in matching if one.expires is None or today < one.expires]
            if valid:
                about = {"place": finding.place, "rule": finding.rule, "subject": finding.subject}
                allowed.append({**about, "reason": valid[0].reason})
            elif matching:
                kept.append(finding.replace(remedy=f"it was allowed until {matching[0].expires}; look again"))
            else:
                kept.append(finding)
        details = {**report.details, **({"allowed": allowed} if allowed else {})}
        return Report.of(report.check, kept, details)

    def and_allow(self, names: Collection[str]) -> Policy:
        """Return a policy that takes these subjects too, wherever they are found."""
        more = tuple(Allowance(subject=name, reason="allowed by the caller") for name in names)
        return Policy(allow=(*self.allow, *more), skip=self.skip, fail_on=self.fail_on, limits=self.limits)


def read_policy(path: Path) -> Policy:
    """Return the policy in a file.

    Raises:
        UsageError: It cannot be read, is no TOML, or has a key or a value that means nothing: a policy that says
            something else than its author thinks is worse than none.
    """
    import tomllib

    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path}: not a policy ({error})"
        raise UsageError(msg) from error
    _known(raw, ("allow", "skip", "fail-on", "limits"), f"{path}")
    fail_on = raw.get("fail-on", "not checked")
    if fail_on not in {"found", "not checked"}:
        msg = f"{path}: fail-on = {fail_on!r}, expected 'found' or 'not checked'"
        raise UsageError(msg)
    listed = _typed(raw, "allow", list, str(path), [])
    return Policy(
        allow=tuple(_allowance(one, f"{path}: allow {number + 1}") for number, one in enumerate(listed)),
        skip=tuple(_text(pattern, f"{path}: skip") for pattern in _typed(raw, "skip", list, str(path), [])),
        fail_on=fail_on,
        limits=_limits(_typed(raw, "limits", dict, str(path), {}), f"{path}: limits"),
    )


def find_policy(folder: Path) -> Policy:
    """Return the policy of a folder: that of its ``vitrify-scan.toml``, or one that allows nothing."""
    path = folder / FILE
    return read_policy(path) if path.is_file() else Policy()


def _allowance(raw: Any, where: str) -> Allowance:
    if not isinstance(raw, dict):
        msg = f"{where}: expected a table, [[allow]]"
        raise UsageError(msg)
    _known(raw, ("rule", "subject", "path", "reason", "expires"), where)
    for key in ("rule", "subject", "reason"):
        if not _text(raw.get(key, ""), f"{where}: {key}"):
            msg = f"{where}: it has no {key}"
            raise UsageError(msg, remedy="an allowance says which rule, which exact subject and for which reason")
    expires = raw.get("expires")
    if expires is not None and type(expires) is not date:
        msg = f"{where}: expires = {expires!r}, expected a day, as in 2027-01-01"
        raise UsageError(msg)
    path = _text(raw.get("path", "*"), f"{where}: path")
    return Allowance(rule=raw["rule"], subject=raw["subject"], path=path, reason=raw["reason"], expires=expires)


def _limits(raw: dict[str, Any], where: str) -> Limits:
    _known(raw, [one.name for one in fields(Limits)], where)
    for key, value in raw.items():
        if type(value) is not int or value < 1:
            msg = f"{where}: {key} = {value!r}, expected a number above 0"
            raise UsageError(msg)
    return Limits(**raw)


def _known(raw: Mapping[str, Any], known: Collection[str], where: str) -> None:
    if unknown := sorted(set(raw) - set(known)):
        msg = f"{where}: unknown key {unknown[0]!r} (there are: {', '.join(known)})"
        raise UsageError(msg)


def _typed(raw: Mapping[str, Any], key: str, kind: type, where: str, default: Any) -> Any:
    value = raw.get(key, default)
    if not isinstance(value, kind):
        msg = f"{where}: {key} = {value!r}, expected a {'list' if kind is list else 'table'}"
        raise UsageError(msg)
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        msg = f"{where}: {value!r}, expected text"
        raise UsageError(msg)
    return value
