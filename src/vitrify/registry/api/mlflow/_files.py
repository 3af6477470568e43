"""Artifact files: a path leads to content by digest.

To overwrite a file is to lead its path elsewhere; the content that a version pinned stays.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, select

from vitrify.core.digest import Digest
from vitrify.core.errors import ConflictError, LimitExceededError, ReferenceNotFoundError, UsageError
from vitrify.registry import requests as r
from vitrify.registry.api.mlflow import _notes
from vitrify.registry.api.mlflow._file import File
from vitrify.registry.api.mlflow._paths import below, check_path, pinned
from vitrify.registry.api.mlflow._shown import shown
from vitrify.registry.blobs.disk import DiskBlobs
from vitrify.registry.blobs.uploads import MOST_BYTES
from vitrify.registry.database.mlflow_schema import files
from vitrify.stores._durable import storing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from vitrify.registry.api.mlflow._paths import Pinned
    from vitrify.registry.local import LocalBackend

MAX_FILES = 10_000
"""Of one model: a manifest lists them all."""
_MAX_LISTED = 100_000
_BATCH = 500
_BEHIND_ALL = "\U0010ffff"

_BELOW = (
    select(files.c.path, files.c.digest, files.c.size)
    .where(files.c.path >= bindparam("first"), files.c.path < bindparam("behind"))
    .order_by(files.c.path)
    .limit(bindparam("most"))
)
_ONE = select(files.c.digest, files.c.size).where(files.c.path == bindparam("path"))


def working_copy(backend: LocalBackend, folder: str) -> dict[str, File]:
    """Return the files of a model that was logged here, few enough to be sealed.

    Raises:
        ReferenceNotFoundError: There are none.
        LimitExceededError: There are too many.
    """
    with backend.database.read() as connection:
        found = _tree(connection, folder)
        if not found and (row := connection.execute(_ONE, {"path": folder}).first()):
            found = {folder.rpartition("/")[2]: File(row.size, row.digest)}
    if not found:
        msg = f"no file lies below {folder[:200]!r}"
        raise ReferenceNotFoundError(msg, remedy="log the model first: mlflow.<flavour>.log_model")
    return found


def one(backend: LocalBackend, path: str) -> File:
    """Return one file.

    Raises:
        ReferenceNotFoundError: There is none.
    """
    if (place := pinned(path)) is not None:
        file = contents(backend, place).get(place.inner)
    else:
        with backend.database.read() as connection:
            row = connection.execute(_ONE, {"path": path}).first()
        file = File(row.size, row.digest) if row else None
    if file is None:
        msg = f"no file lies at {path[:200]!r}"
        raise ReferenceNotFoundError(msg)
    return file


def contents(backend: LocalBackend, place: Pinned) -> Mapping[str, File]:
    """Return everything that MLflow's clients see of a version, by path."""
    version: Any = backend.do(r.GetVersion(model=place.model, version=place.number))
    if version.status == "deleted":
        msg = f"{version.model}:{version.version} was deleted: {version.reason}"
        raise ReferenceNotFoundError(msg)
    return shown(backend, version)


def keep(backend: LocalBackend, path: str, pieces: Iterable[bytes]) -> None:
    """Take a file: its content first, whole and checked, then the path that leads there.

    Raises:
        UsageError: The path is none.
        DeniedError: It lies in a version.
        ConflictError: It is a folder, or lies below a file.
        LimitExceededError: It is too large.
    """
    check_path(path, writing=True)
    with ExitStack() as stack:
        blobs = backend.blobs
        if isinstance(blobs, DiskBlobs):
            here = stack.enter_context(blobs.temporary())  # on the same disk, so that it is moved and not copied
        else:
            here = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "file"
        size, digest = _received(here, pieces)
        backend.upload(digest, here)
    parts = path.split("/")
    parents = ["/".join(parts[:count]) for count in range(1, len(parts))]
    first, behind = below(path)
    with backend.database.write() as connection:
        inside = connection.execute(_BELOW, {"first": first, "behind": behind, "most": 1}).first()
        above = parents and connection.execute(select(files.c.path).where(files.c.path.in_(parents))).first()
        if inside or above:
            msg = f"{path[:200]!r} cannot be a file: {above[0]!r} is one" if above else f"{path[:200]!r} is a folder"
            raise ConflictError(msg, remedy="choose another path")
        statement = _notes.insert_or(connection, files)
        row = {"digest": str(digest), "size": size, "updated": _notes.now(), "by": backend.actor.who}
        connection.execute(statement.on_conflict_do_update(index_elements=("path",), set_=row), {"path": path, **row})


def remove(backend: LocalBackend, path: str) -> None:
    """Take away a file, or everything below a folder; what is not there is no error.

    Raises:
        DeniedError: It lies in a version.
    """
    check_path(path, writing=True)
    first, behind = below(path)
    inside = (files.c.path >= first) & (files.c.path < behind)
    with backend.database.write() as connection:
        connection.execute(delete(files).where((files.c.path == path) | inside))


def listed(backend: LocalBackend, folder: str) -> list[dict[str, Any]]:
    """Return what lies directly in a folder, sorted, as MLflow's ``FileInfo`` with names relative to it.

    Raises:
        LimitExceededError: It is too much.
    """
    if (place := pinned(folder)) is not None:
        inside = f"{place.inner}/" if place.inner else ""
        found = {path: file.size for path, file in contents(backend, place).items() if path.startswith(inside)}
        return _children(found, len(inside))
    start, behind = below(folder) if folder else ("", _BEHIND_ALL)
    first = start
    paths: dict[str, int] = {}
    with backend.database.read() as connection:
        while rows := connection.execute(_BELOW, {"first": first, "behind": behind, "most": _BATCH}).all():
            paths.update((row.path, row.size) for row in rows)
            name, deeper, _ = rows[-1].path[len(start) :].partition("/")
            # Of what lies deeper, one file says that there is a folder: on behind it.
            first = f"{start}{name}0" if deeper else f"{rows[-1].path}\x01"
            if len(paths) > _MAX_LISTED:
                msg = f"more than {_MAX_LISTED} entries in {folder[:200]!r}"
                raise LimitExceededError(msg, remedy="name a folder further down")
    return _children(paths, len(start))


def _children(paths: Mapping[str, int], start: int) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path, size in paths.items():
        name, deeper, _ = path[start:].partition("/")
        found[name] = {"path": name, "is_dir": True} if deeper else {"path": name, "is_dir": False, "file_size": size}
    return [found[name] for name in sorted(found)]


def _tree(connection: Connection, folder: str) -> dict[str, File]:
    first, behind = below(folder)
    rows = connection.execute(_BELOW, {"first": first, "behind": behind, "most": MAX_FILES + 1}).all()
    if len(rows) > MAX_FILES:
        msg = f"more than {MAX_FILES} files lie below {folder[:200]!r}"
        raise LimitExceededError(msg, remedy="register a folder further down")
    return {row.path[len(first) :]: File(row.size, row.digest) for row in rows}


def _received(path: Path, pieces: Iterable[bytes]) -> tuple[int, Digest]:
    size = 0
    with storing("keep an artifact that comes in"), path.open("wb") as stream:
        for piece in _bounded(pieces):
            size += stream.write(piece)
    path.chmod(0o444)  # nobody writes to it any more: it may be linked to
    return size, Digest.of_file(path)


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    left = MOST_BYTES
    for piece in pieces:
        if (left := left - len(piece)) < 0:
            msg = f"an artifact of more than {MOST_BYTES} bytes"
            raise UsageError(msg)
        yield piece
