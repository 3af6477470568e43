"""Tensors that an ONNX model keeps in other files: do they lie where they may, and only there.

A location is the path of a file below the model's own directory. Another path, a link in its way or a second name of
the same file would make a loader read (and a tool that saves the model again, write) what is not the model's.

Source: https://github.com/onnx/onnx/blob/main/docs/ExternalData.md.
"""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.formats._onnx.model import Stored, offset_and_length
from vitrify.reading.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vitrify.core.protocols import Files
    from vitrify.formats._onnx.model import Model

KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})
_SHOWN = 60


class External:
    """The external tensors of one model, looked at one by one and then together."""

    def __init__(self, model: Model, files: Files, name: str) -> None:
        """Take the model and the files that it came with."""
        self._model = model
        self._files = files
        self._folder = _folder(files, name)
        self._inner = PurePosixPath(name).parent
        self._sizes: dict[str, int | None] = {}
        self._ranges: dict[str, set[tuple[int, int]]] = {}

    def tensor(self, stored: Stored) -> Iterator[Finding]:
        """Yield what is wrong with where one tensor is said to lie."""
        facts = self._model.place(stored)
        if not facts:
            return
        place = f"{self._model.where}: {stored.place}, tensor {stored.name!r}"
        location = facts["location"]
        for key in sorted(set(facts) - KEYS):
            yield Finding(
                place=place,
                rule="external-data-key",
                subject=key[:_SHOWN],
                message=f"says {key[:_SHOWN]!r} about its external data, which the standard does not have: a reader"
                " that sets attributes by name would take it",
            )
        if _leaves(location) or _leaves(facts.get("basepath", ".")):
            yield Finding(
                place=place,
                rule="external-data-path",
                subject=location,
                message=f"is said to lie in {location!r}, outside the model's directory: loading it would read that",
                remedy="do not load it; ask whoever made it for a model with its data beside it",
            )
            return
        if location not in self._sizes:
            yield from self._file(place, location)
        yield from self._range(place, stored, location, facts)

    def together(self) -> Iterator[Finding]:
        """Yield what is wrong with where all of them lie: two may share all of their bytes, but not some."""
        for location, ranges in self._ranges.items():
            end = 0
            for start, stop in sorted(ranges):
                if start < end:
                    yield Finding(
                        place=f"{self._model.where}: {location}",
                        rule="external-data-overlap",
                        subject=location,
                        message=f"two tensors overlap at byte {start}: no honest writer shares a part of a tensor",
                    )
                    break
                end = max(end, stop)

    def _file(self, place: str, location: str) -> Iterator[Finding]:
        """Look once at the file that is named; remember its size."""
        links = () if self._folder is None else tuple(_links(self._folder, location))
        for subject, message in links:
            yield Finding(place=place, rule="external-data-link", subject=subject, message=message)
        inside = (self._inner / location).as_posix()
        if inside in self._files.names():
            self._sizes[location] = len(self._files.map(inside))
            return
        self._sizes[location] = None if links else self._beside(location)
        if self._sizes[location] is None and not links:
            yield Finding(
                place=place,
                rule="external-data-missing",
                subject=location,
                message=f"lies in {location!r}, which is not here: the model cannot be looked at as a whole",
                remedy="name the directory that holds the model and its data",
                verdict="not checked",
            )

    def _beside(self, location: str) -> int | None:
        if self._folder is None:
            return None
        try:
            found = (self._folder / location).lstat()
        except (OSError, ValueError):
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def _range(self, place: str, stored: Stored, location: str, facts: dict[str, str]) -> Iterator[Finding]:
        whole = self._sizes[location]
        found = offset_and_length(facts)
        needed = self._model.bytes(stored)
        if found is None:
            said = "an offset or length that is no number"
        else:
            start, length = found
            stop = start + (needed if length is None else length)
            if 0 <= start <= stop and (whole is None or stop <= whole) and (length is None or length >= needed):
                self._ranges.setdefault(location, set()).add((start, stop))
                return
            said = (
                f"bytes {start} to {stop} of {'a missing file' if whole is None else whole} for {needed} bytes of data"
            )
        yield Finding(
            place=place,
            rule="external-data-range",
            subject=location,
            message=f"has {said}: a reader that trusts it would read past the end",
        )


def locations(model: Model) -> tuple[str, ...]:
    """Return the files that tensors are said to lie in, but for those that are outside the model's folder.

    Raises:
        MalformedError: A part of the model is not what it should be.
    """
    named = {model.place(one).get("location", "") for one in model.walk() if isinstance(one, Stored)}
    return tuple(sorted(location for location in named if location and not _leaves(location)))


def _leaves(location: str) -> bool:
    """Say whether a path is none that stays below its directory, on any system."""
    windows = PureWindowsPath(location)
    if "://" in location:
        return True
    if windows.drive or windows.root or PurePosixPath(location).is_absolute() or "\0" in location:
        return True
    return ".." in windows.parts or (not windows.parts and location != ".")


def _folder(files: Files, name: str) -> Path | None:
    """Return the directory that the model lies in, where it lies there under its own name."""
    if not isinstance(files, LocalFiles):
        return None
    path = files.path(name)
    return path.parent if path.name == PurePosixPath(name).name else None


def _links(folder: Path, location: str) -> Iterator[tuple[str, str]]:
    """Yield each link on the way to a file, and whether the file has a second name; none is followed."""
    path = folder
    for part in PurePosixPath(location).parts:
        path = path / part
        try:
            found = path.lstat()
        except (OSError, ValueError):
            return
        if stat.S_ISLNK(found.st_mode):
            yield location, f"lies behind a link to {os.fspath(path.readlink())!r}: loading it would read that file"
            return
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        yield location, "lies in a file that has a second name elsewhere: it may be any file of this machine"
