"""Which format a file is of: asked of its content, never of its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.reading.files import LocalFiles, only

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.protocols import Files, Format
    from vitrify.core.row import Row


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


def identify(files: Files) -> tuple[Identity, ...]:
    """Return every format that the files are of; none where nothing knows them, several where they are several.

    Generic formats (a zip file, plain text) are asked only where no other knows them.
    """
    name = only(files)
    entry = {} if name is None else {"file": name}
    for generic in (False, True):
        rows = [row for row in catalog().rows("format") if row.generic is generic]
        if found := tuple(Identity(row, files, entry) for row in rows if row.look().detect(files)):
            return found
    return ()


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
    known = ", ".join(row.name for row in catalog().rows("format"))
    msg = f"{where}: its content is of no format that is known here ({known})"
    raise UnsupportedModelError(msg, remedy="name it with format=..., or --format, if you know better")


def files_at(path: Path) -> LocalFiles:
    """Return a file under its own name, or the files of a directory under their paths inside it.

    Raises:
        UsageError: There is no such file.
    """
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
        return LocalFiles({file.relative_to(path).as_posix(): file for file in found})
    if not path.is_file():
        msg = f"no such file: {path}"
        raise UsageError(msg)
    return LocalFiles({path.name: path})


def describe(path: Path) -> dict[str, Any]:
    """Return what a model file or directory says about itself, without running what is in it.

    Raises:
        UsageError: There is no such file.
        UnsupportedModelError: No format knows its content.
        MalformedError: It is not what its format allows.
    """
    one = identify_one(files_at(path), where=str(path))
    return {"format": one.row.name, **one.format.describe(one.files, one.entry)}
