"""SARIF 2.1.0: findings as code-scanning pages and editors read them.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. What was found is an error, what was not
checked a warning, what a policy allows a suppressed result; a clean file has none. A model file has no lines: each
result points at line 1, as some readers ask for one, and tells the place within the file as a logical location.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from hashlib import sha256
from importlib import metadata
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from vitrify.checks.scan.rules import rule
from vitrify.inspection.place import file_of, under

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.report import Finding, Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"found": "error", "not checked": "warning"}
_SEVERITIES = {"error": "8.0", "warning": "4.0"}
"""What GitHub shows as high and medium: whoever loads a model that runs code is on its author's side of the fence."""
_OFFSET = re.compile(r"\b(?:opcode|offset|byte) (\d+)\b")


def to_sarif(reports: Iterable[tuple[str, Report]], *, directories: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return one SARIF log with one run.

    Args:
        reports: Each path as the user named it, and what was found there.
        directories: Those of the paths that are directories: their findings lie in files below them.
    """
    results: list[dict[str, Any]] = []
    used: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for path, report in reports:
        for finding, reason in _all(report):
            index = used.setdefault(finding.rule, len(used))
            results.append(_result(path, finding, reason, index, seen, inside=path in directories))
    driver = {
        "name": "Vitrify",
        "version": metadata.version("vitrify"),
        "informationUri": "https://vitrify.readthedocs.io",
        "rules": [_rule(name) for name in used],
    }
    run = {"tool": {"driver": driver}, "invocations": [{"executionSuccessful": True}], "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _all(report: Report) -> Iterable[tuple[Finding, str | None]]:
    """Yield the findings, then those that a policy allows with its reason."""
    from vitrify.core.report import Finding

    for finding in report.findings:
        yield finding, None
    for one in report.details.get("allowed", []):
        message = f"{one['subject']} is allowed by the policy: {one['reason']}"
        yield Finding(place=one["place"], message=message, rule=one["rule"], subject=one["subject"]), one["reason"]


def _result(
    path: str, finding: Finding, reason: str | None, index: int, seen: Counter[str], *, inside: bool
) -> dict[str, Any]:
    file, inner = file_of(finding.place)
    uri = _uri(under(path, file) if inside else path)
    message = f"{finding.place}: {finding.message}" if finding.place else finding.message
    parts = (finding.rule, finding.subject, uri, re.sub(r"\d+", "#", inner))
    print_ = sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()
    seen[print_] += 1
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}
    if finding.place:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.place, "kind": "member"}]
    result: dict[str, Any] = {
        "ruleId": finding.rule or "finding",
        "ruleIndex": index,
        "level": _LEVELS[finding.verdict],
        "message": {"text": f"{message}. To do: {finding.remedy}" if finding.remedy else message},
        "locations": [location],
        "partialFingerprints": {"vitrify/v1": f"{print_}:{seen[print_]}"},
        "properties": {"subject": finding.subject, "verdict": finding.verdict},
    }
    if offset := _OFFSET.search(inner):
        result["properties"]["byteOffset"] = int(offset[1])
    if reason is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": reason}]
    return result


def _rule(name: str) -> dict[str, Any]:
    known = rule(name)
    level = _LEVELS[known.verdict]
    return {
        "id": name or "finding",
        "name": "".join(part.capitalize() for part in (name or "finding").split("-")),
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.meaning},
        "help": {
            "text": f"{known.meaning} {known.remedy}",
            "markdown": f"{known.meaning}\n\n**What to do:** {known.remedy}",
        },
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["security", "model"], "security-severity": _SEVERITIES[level]},
    }


def _uri(path: str) -> str:
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else quote(os.fsencode(pure.as_posix()))
