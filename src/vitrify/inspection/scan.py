"""Scan: could these files hurt whoever loads them. Asked of every byte that somebody might take for a model.

Every format that a file is of is asked, and what it holds is looked at in its turn: archives in archives, with limits.
What no format knows, what is larger or deeper than the limits and what a broken plugin could not tell is said to be
``not checked``. A directory's format answers for the files that it opens while it looks for hazards; all others are
scanned on their own, as are those of a directory that no format knows.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vitrify.core.catalog import catalog
from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.core.protocols import Holds
from vitrify.core.report import Report
from vitrify.inspection import note
from vitrify.inspection.identify import Identity, files_at, survey
from vitrify.inspection.place import part, under, within
from vitrify.inspection.watched import Watched, branches, single
from vitrify.reading.files import head, only

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_T = TypeVar("_T")

CHECK = "scan"


@dataclass(frozen=True)
class Limits:
    """How far a scan goes; what lies beyond is ``not checked``.

    Attributes:
        depth: Levels of files within files.
        parts: Files within files, in all.
        expanded: Bytes of files within files, in all; a large file may have ``ratio`` times its size instead.
        ratio: See ``expanded``.
        findings: Findings that are listed.
    """

    depth: int = 8
    parts: int = 100_000
    expanded: int = 256 * 1024 * 1024
    ratio: int = 100
    findings: int = 1_000


def scan(path: Path, *, limits: Limits | None = None) -> Report:
    """Return what was found in a file or a directory.

    The report's ``details`` are ``formats`` (how many files of each), ``files`` and ``bytes`` that were looked at,
    those inside other files included. The same files give the same report.

    Raises:
        UsageError: There is no such file.
    """
    files = files_at(path)
    return scan_files(files, limits=limits, left_out=files.left_out)


def scan_files(files: Files, *, limits: Limits | None = None, left_out: Iterable[Finding] = ()) -> Report:
    """Return what was found in files, wherever they are: on disk, in an artifact, in memory.

    Args:
        files: One file, or a directory.
        limits: How far to look.
        left_out: What of the directory is not among the files, and why: links that lead out of it.
    """
    scanner = _Scanner(limits or Limits(), left_out)
    scanner.run(files)
    details = {
        "formats": dict(sorted(scanner.formats.items())),
        "files": scanner.files,
        "bytes": scanner.bytes,
    }
    return Report.of(CHECK, scanner.findings.values(), details)


class _Full(Exception):  # noqa: N818 (it ends a scan, nobody sees it)
    """As many findings as are listed."""


class _Scanner:
    """One scan: what it found, and how much of its limits is used up."""

    def __init__(self, limits: Limits, left_out: Iterable[Finding]) -> None:
        self.limits = limits
        self.left_out = left_out
        self.findings: dict[tuple[str, str, str, str], Finding] = {}
        self.formats: Counter[str] = Counter()
        self.files = self.bytes = 0
        self._parts = self._expanded = self._most = 0

    def run(self, files: Files) -> None:
        """Look at all, or until as much is found as is listed."""
        with suppress(_Full):
            for finding in self.left_out:
                self._add(finding)
            self._look(files, "", 0)

    def _look(self, files: Files, place: str, depth: int) -> None:
        """Look at the one file in a place, or at the directory that is the place."""
        name = only(files)
        if name is None:
            self._directory(files, place, depth)
        else:
            self._file(files, name, under(place, name), depth)

    def _file(self, files: Files, name: str, place: str, depth: int) -> None:
        size = next(self._guard(place, "", lambda: [len(files.map(name))]), None)
        if size is None:
            return
        self._count([size], depth)
        if size == 0:
            self.formats["empty"] += 1
            return
        found = self._identities(files, place)
        if len(found) != 1:
            self._add(note.several(place, [one.row.name for one in found]) if found else note.unknown(place))
        for one in found:
            self._hazards(one, place)
            self._held(one, place, depth)

    def _directory(self, files: Files, place: str, depth: int) -> None:
        answered: set[str] = set()
        for one in self._identities(files, place):
            watched = Watched(files)
            asked = replace(one, files=watched)
            self._hazards(asked, place)
            opened = watched.opened()
            self._held(asked, place, depth)
            handed_on = watched.opened()
            self._meant_otherwise(files, sorted(opened | handed_on), place)
            self._count([len(watched.map(name)) for name in opened - handed_on - answered], depth)
            answered |= opened | handed_on
        rest = [name for name in files.names() if name not in answered]
        for name, branch in branches(files, rest, place.count("/")):
            self._look(branch, under(place, name), depth)

    def _meant_otherwise(self, files: Files, names: Iterable[str], place: str) -> None:
        """Look for code in what a directory's format takes for numbers or settings: a loader may take it for that."""
        rows = [row for row in catalog().rows("format") if row.anywhere]
        for name in names:
            alone, where = single(files, name), under(place, name)
            start = head(alone)
            for row in (row for row in rows if row.may_start(start)):
                one = Identity(row, alone, {"file": only(alone)})
                if next(self._guard(where, row.name, partial(_detected, one)), False):
                    self._hazards(one, where)

    def _identities(self, files: Files, place: str) -> tuple[Identity, ...]:
        seen = survey(files)
        for name, error in seen.failed:
            self._add(note.failed(place, name, error))
        return seen.found

    def _hazards(self, one: Identity, place: str) -> None:
        """Ask a format what could hurt."""
        self.formats[one.row.name] += 1
        name = only(one.files)

        def placed() -> Iterator[Finding]:
            for finding in one.format.hazards(one.files, one.entry):
                yield finding.replace(place=within(place, name, finding.place))

        for finding in self._guard(place, one.row.name, placed):
            self._add(finding)

    def _held(self, one: Identity, place: str, depth: int) -> None:
        """Look at what a format holds; the files of a directory lie beside each other, not within one another."""
        if not isinstance(one.format, Holds):
            return
        format_, name, beside = one.format, only(one.files), isinstance(one.files, Watched)

        def parts() -> Iterator[tuple[str, Files]]:
            for inner, files in format_.parts(one.files, one.entry):  # noqa: UP028 (a plugin's mistake shows here)
                yield inner, files

        for inner, files in self._guard(place, one.row.name, parts):
            if not beside and not self._admit(files, place, depth):
                return
            inside = part(place, name, inner)
            if (file := only(files)) is None:
                self._directory(files, inside, depth if beside else depth + 1)
            else:
                self._file(files, file, inside, depth if beside else depth + 1)

    def _admit(self, files: Files, place: str, depth: int) -> bool:
        """Count a part, and say whether the limits let it be looked at."""
        limits, most = self.limits, max(self.limits.expanded, self._most)
        self._parts += 1
        self._expanded += sum(len(files.map(name)) for name in files.names())
        if depth >= limits.depth:
            self._add(note.limit(place, f"files within files, more than {limits.depth} levels deep"))
        elif self._parts > limits.parts:
            self._add(note.limit(place, f"more than {limits.parts} files within files"))
        elif self._expanded > most:
            self._add(note.limit(place, f"files within files of more than {most} bytes in all"))
        else:
            return True
        return False

    def _count(self, sizes: Collection[int], depth: int) -> None:
        self.files += len(sizes)
        self.bytes += sum(sizes)
        if depth == 0:
            self._most += sum(sizes) * self.limits.ratio

    def _guard(self, place: str, name: str, call: Callable[[], Iterable[_T]]) -> Iterator[_T]:
        """Yield what a format says; what it raises is a finding. This is the boundary to third parties' formats."""
        try:
            yield from call()
        except LimitExceededError as error:
            self._add(note.limit(place, error.message, error.remedy))
        except MalformedError as error:
            self._add(note.malformed(place, name, error))
        except (OSError, VitrifyError) as error:
            self._add(note.unread(place, error))
        except Exception as error:  # noqa: BLE001 (a third party's plugin may raise anything; it is told, not hidden)
            self._add(note.failed(place, name, error))

    def _add(self, finding: Finding) -> None:
        """Keep a finding, once."""
        finding = note.sound(finding)
        self.findings.setdefault((finding.place, finding.rule, finding.subject, finding.message), finding)
        if len(self.findings) >= self.limits.findings:
            last = note.limit("", f"{self.limits.findings} findings or more; the rest was not looked at")
            self.findings["", last.rule, "", last.message] = last
            raise _Full


def _detected(one: Identity) -> Iterator[bool]:
    yield one.format.detect(one.files)
