"""A directory that appears whole or not at all: made beside its place, synced, renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import CheckFailedError, UnsupportedModelError, UsageError
from vitrify.core.manifest import check_filepath
from vitrify.core.report import Report
from vitrify.inspection.identify import files_at, identify
from vitrify.reading.files import LocalFiles
from vitrify.stores._durable import make_directory, storing, sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files
    from vitrify.inspection.tree import Tree

_CHUNK = 1 << 20
_MOST, _LISTED = 1000, 6
_BESIDE = (".json", ".md", ".txt", ".py", ".jinja", ".yaml", ".yml", ".npy", ".npz", ".csv")
"""How files are called that describe a model, or how to use it, and are none."""


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty directory beside ``path``; when the block ends well, it durably takes that place.

    Raises:
        UsageError: Something is there already, other than an empty directory.
        StoreError: The disk would not take it; nothing is left behind.
    """
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir())):
        msg = f"{path} is there already"
        raise UsageError(msg, remedy="name a directory that is not there yet, or an empty one")
    place = path.absolute()
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    with storing(f"write {path}"):
        make_directory(place.parent)
        temporary.mkdir()
        try:
            yield temporary
            for folder, _, names in os.walk(temporary):
                for name in names:
                    sync(Path(folder, name))
                sync(Path(folder))
            temporary.rename(place)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync(place.parent)


def put(folder: Path, name: str, data: bytes | memoryview) -> None:
    """Write one file of a directory that is being made, and the folders above it.

    Raises:
        MalformedError: The name is no safe relative path.
        UsageError: There is such a file already, or one where a folder has to be.
    """
    check_filepath(name)
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            view = memoryview(data)
            for start in range(0, view.nbytes, _CHUNK):
                stream.write(view[start : start + _CHUNK])
    except (FileExistsError, NotADirectoryError) as error:
        msg = f"two files want the place of {name!r}"
        raise UsageError(msg, remedy="export it in another layout: --as archive keeps everything") from error


def copy(files: Files, folder: Path) -> None:
    """Write files under their own names into a directory that is being made."""
    for name in files.names():
        put(folder, name, files.map(name))


def opened(path: Path) -> Tree:
    """Return the files of a stranger's directory, all of them.

    Raises:
        UsageError: There is no such directory.
        CheckFailedError: It has a link that leads out of it, or a pipe, a socket or a device.
    """
    files = files_at(path)
    if files.left_out:
        report = Report(check="import", verdict="found", findings=files.left_out)
        listed = "\n".join(f"  - {finding}" for finding in files.left_out[:10])
        msg = f"{path} was not imported, because of what is in it:\n{listed}"
        raise CheckFailedError(msg, report=report, remedy="remove these, or get the directory from its maker again")
    return files


def only_model(files: Files, folder: Path) -> Path:
    """Return the one model among a directory's files.

    Raises:
        UnsupportedModelError: There is none, or there are several.
    """
    found = []
    for name in files.names()[:_MOST]:
        rows = [one.row for one in identify(LocalFiles({name.rpartition("/")[2]: files.path(name)}))]
        if len(rows) == 1 and not rows[0].generic and not name.endswith(_BESIDE):
            found.append(name)
    if len(found) != 1:
        listed = ", ".join(found[:_LISTED])
        msg = f"{folder} holds {len(found)} models, not one{f': {listed}' if listed else ''}"
        raise UnsupportedModelError(msg, remedy="pack the one that you mean: vitrify pack FILE NAME")
    return files.path(found[0])
