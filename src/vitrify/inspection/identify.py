"""Which format a file is of: asked of its content, never of its name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.inspection.tree import Tree, tree
from vitrify.inspection.watched import Watched
from vitrify.reading.files import head, only

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vitrify.core.protocols import Files, Format
    from vitrify.core.row import Row

_LISTED = 6
"""Files of a folder that an error names."""
_ZIP = "zip"
"""The generic format whose readers begin at the end of a file, so that anything may stand before it."""
_ZIP_START, _ZIP_END, _ZIP_END_SIZE = b"PK\x03\x04", b"PK\x05\x06", 22
_ZIP_TAIL = _ZIP_END_SIZE + 0xFFFF
"""The end's comment has at most 65,535 bytes."""


@dataclass(frozen=True)
class Identity:
    """A file or directory, and one format that it is of.

    Attributes:
        row: The format's row in the catalog.
        files: Its bytes.
        entry: The least that the format needs to find its way: ``{"file": name}``, or empty for a directory.
    """

    row: Row
    files: Files
    entry: dict[str, Any]

    @property
    def format(self) -> Format:
        """The format, to look with: its library is not asked for."""
        found: Format = self.row.look()
        return found


@dataclass(frozen=True)
class Survey:
    """What the formats say about some files.

    Attributes:
        found: Every format that they are of; none where nothing knows them, several where they are several.
        failed: The formats that could not be asked, and what they raised: ``detect`` raises nothing, but a third
            party's may be broken, and what nobody asked is not known.
    """

    found: tuple[Identity, ...]
    failed: tuple[tuple[str, Exception], ...] = ()


def survey(files: Files) -> Survey:
    """Ask every format.

    Generic formats (plain text, a tar file) are asked only where no other knows the files. A zip file is found from
    its end, may stand behind any other content, and so is asked about wherever it may hide.
    """
    name = only(files)
    entry = {} if name is None else {"file": name}
    start = head(files)
    asked = files if name is not None else Watched(files)
    failed: list[tuple[str, Exception]] = []

    def ask(rows: Iterable[Row]) -> list[Identity]:
        found = []
        for row in rows:
            try:
                if (name is None or row.may_start(start)) and row.look().detect(asked):
                    found.append(Identity(row, files, entry))
            except Exception as error:  # noqa: BLE001 (a third party's plugin may raise anything; the caller is told)
                failed.append((row.name, error))
        return found

    rows = list(catalog().rows("format"))
    found = ask(row for row in rows if not row.generic)
    known = bool(found)
    found = found or ask(row for row in rows if row.generic and row.name != _ZIP)
    answered = any(one.row.appended for one in found)
    if not found or (name is not None and not answered and _may_be_a_zip_too(files.map(name), known=known)):
        found += ask(row for row in rows if row.name == _ZIP)
    return Survey(tuple(found), tuple(failed))


def _may_be_a_zip_too(view: memoryview, *, known: bool) -> bool:
    """Say whether a file that is something else may also be opened as a zip file.

    Where it begins as one, that is no second meaning of a known format: many are zip files. Where it does not, readers
    take the end of one with anything before it and behind it; but zeros behind it are no second meaning either: they
    end a tar file, whose last member may well be a zip file.
    """
    if bytes(view[:4]) == _ZIP_START:
        return not known
    tail = bytes(view[-_ZIP_TAIL:])
    _, end, behind = tail.rpartition(_ZIP_END)
    rest = behind[_ZIP_END_SIZE - len(_ZIP_END) :]
    return bool(end) and (not rest or any(rest))


def identify(files: Files) -> tuple[Identity, ...]:
    """Return every format that the files are of; none where nothing knows them, several where they are several.

    A folder is of the format that is around the others in it, if one is: a repository that holds an ONNX model is a
    repository. A scan asks all of them nevertheless.
    """
    found = survey(files).found
    return tuple(one for one in found if one.row.around) or found


def identify_one(files: Files, *, where: str, name: str | None = None) -> Identity:
    """Return the format that the files are of.

    Args:
        files: The files.
        where: What they are, for the error message.
        name: Catalog name, where the caller knows better.

    Raises:
        UnsupportedModelError: No format knows the content, or more than one does.
    """
    if name:
        file = only(files)
        return Identity(catalog().row("format", name), files, {} if file is None else {"file": file})
    found = identify(files)
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{where}: its content is of several formats at once: {', '.join(one.row.name for one in found)}"
        raise UnsupportedModelError(
            msg, remedy="no honest tool writes this; say which you mean: format=..., or --format"
        )
    raise _unknown(files, where)


def _unknown(files: Files, where: str) -> UnsupportedModelError:
    if (name := only(files)) is not None:
        msg = f"{where}: its content is of no format that is known here; it begins with {bytes(files.map(name)[:16])!r}"
        return UnsupportedModelError(msg, remedy="see vitrify formats; name one with --format if you know better")
    names = files.names()
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    msg = (
        f"{where}: its content is of no format that is known here: a folder of {len(names)} files ({listed or 'none'})"
    )
    return UnsupportedModelError(msg, remedy="name one of its files, or go through all: vitrify scan")


def files_at(path: Path) -> Tree:
    """Return a file under its own name, or the files of a directory under their paths inside it.

    Of a directory, :mod:`vitrify.inspection.tree` says which links are followed; ``left_out`` of what it returns are
    the findings about those that are not.

    Raises:
        UsageError: There is no such file.
    """
    if path.is_dir():
        return tree(path)
    if not path.is_file():
        if not os.path.lexists(path):
            msg = f"no such file: {path}"
            raise UsageError(msg)
        msg = f"{path} is a pipe, a socket, a device, or a link that leads nowhere; a file or a folder was expected"
        raise UsageError(msg)
    return Tree({path.name: path})


def describe(path: Path) -> dict[str, Any]:
    """Return what a model file or directory says about itself, without running what is in it.

    Raises:
        UsageError: There is no such file.
        UnsupportedModelError: No format knows its content, or more than one does.
        MalformedError: It is not what its format allows.
    """
    return told(identify_one(files_at(path), where=str(path)))


def describe_all(path: Path, name: str | None = None) -> tuple[dict[str, Any], ...]:
    """Return what each format that a file or directory is of says about it; at least one does.

    Args:
        path: The file or directory.
        name: Catalog name of the one format to ask, where the caller knows better.

    Raises:
        UsageError: There is no such file.
        UnsupportedModelError: No format knows its content.
        MalformedError: It is not what one of its formats allows.
    """
    files = files_at(path)
    found = () if name else identify(files)
    return tuple(map(told, found)) if len(found) > 1 else (told(identify_one(files, where=str(path), name=name)),)


def told(one: Identity) -> dict[str, Any]:
    """Return what a format says about its files; what the files do not say has no key.

    Raises:
        MalformedError: They are not what their format allows.
    """
    said = {key: value for key, value in one.format.describe(one.files, one.entry).items() if not _is_nothing(value)}
    return {"format": one.row.name, **said}


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)
