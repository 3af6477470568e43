"""Backup: all of a registry in one directory, which any registry of either database can be made from.

In it are ``backup.json`` (what it is a backup of, with the log's head and a hash of every file), ``rows/<table>.jsonl``
(an array a row, in the order of the columns that ``backup.json`` names) and ``content/``, an OCI image layout. The rows
are one snapshot of the database while others go on writing, and no content is collected until it is copied.

A restored registry is not seen before every row was read, every hash compared, the log verified and the tables compared
with it: that is one transaction. Content is checked against its digest on its way.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import func, insert, select, text, update

from vitrify.core.digest import Digest
from vitrify.core.errors import CheckFailedError, ConflictError, CorruptError, MalformedError, UsageError
from vitrify.core.progress import track
from vitrify.core.wire import Value
from vitrify.registry.audit import audit
from vitrify.registry.blobs.disk import DiskBlobs
from vitrify.registry.database.mlflow_schema import TABLES as MLFLOW_TABLES
from vitrify.registry.database.schema import REVISION, blobs, head, metadata, uploads
from vitrify.stores._durable import make_directory, storing, sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection, Table

    from vitrify.registry.blobs import Blobs
    from vitrify.registry.database import Database

FORMAT = 1
MAX_ROW = 64 * 1024 * 1024
"""Bytes of one row; the largest column is an attestation."""
_MANIFEST = "backup.json"
_MAX_MANIFEST = 1024 * 1024
_MOST_TABLES = 200
_BATCH = 500


class TableFile(Value, frozen=True, kw_only=True):
    """The rows of one table.

    Attributes:
        columns: Their names, in the order of each row's values.
        sha256: The file's hash, in hex.
    """

    name: str
    columns: tuple[str, ...]
    rows: int
    sha256: str


class Backup(Value, frozen=True, kw_only=True):
    """What is in a backup.

    Attributes:
        format: The layout's version.
        revision: The migration that the tables were at.
        created: When the snapshot was taken.
        seq: The number of the log's last event.
        hash: Its hash.
        content: How many blobs.
        bytes: Their sizes together.
    """

    format: int = FORMAT
    revision: str
    created: datetime
    seq: int
    hash: str
    tables: tuple[TableFile, ...]
    content: int
    bytes: int


def back_up(database: Database, content: Blobs, target: Path, *, link: bool = False) -> Backup:
    """Write a registry into a new directory; others may read and write it meanwhile.

    Args:
        database: Its rows.
        content: Its content.
        target: A directory that does not exist; it appears when all of it is durable.
        link: Share the files of content on the same file system instead of copying them: quick, and no help against a
            damaged disk.

    Raises:
        UsageError: There is something at ``target``.
        CorruptError: Content is not what its digest promises.
        ReferenceNotFoundError: Content is not there.
        StoreError: The directory could not be written; nothing is left of it.
        UnavailableError: The database or the object storage does not answer.
    """
    target = target.absolute()
    if target.exists():
        msg = f"there is something at {target}"
        raise UsageError(msg, remedy="name a directory that does not exist yet")
    part = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        with storing(f"write {target}"):
            make_directory(part.parent)
            (part / "rows").mkdir(parents=True)
            with database.backing_up() as connection:
                made = _write(connection, content, part, link=link)
            (part / _MANIFEST).write_bytes(msgspec.json.format(made.to_json(), indent=2))
            for path in (part / _MANIFEST, part / "rows", part):
                sync(path)
            part.rename(target)
            sync(target.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return made


def _write(connection: Connection, content: Blobs, part: Path, *, link: bool) -> Backup:
    streamed = connection.execution_options(yield_per=_BATCH)
    tables = tuple(_dump(streamed, table, part / "rows" / f"{table.name}.jsonl") for table in _tables())
    end = connection.execute(select(head)).one()
    kept = DiskBlobs(part / "content")
    count = size = 0
    rows = connection.execute(select(blobs.c.digest, blobs.c.size).where(blobs.c.state == "live")).all()
    with track("copying content", len(rows)) as bar:
        for row in rows:
            digest = Digest.parse(row.digest)
            if link and isinstance(content, DiskBlobs):
                kept.link(digest, content.path(digest))
            else:
                kept.put(digest, row.size, content.read(digest))
            count, size = count + 1, size + row.size
            bar.advance()
    now = datetime.now(UTC)
    return Backup(revision=REVISION, created=now, seq=end.seq, hash=end.hash, tables=tables, content=count, bytes=size)


def _dump(connection: Connection, table: Table, path: Path) -> TableFile:
    count, sha256 = 0, hashlib.sha256()
    query = select(table).order_by(*table.primary_key)
    if table is blobs:
        query = query.where(blobs.c.state == "live")
    with path.open("wb") as stream:
        for row in connection.execute(query):
            line = msgspec.json.encode(list(row)) + b"\n"
            sha256.update(line)
            stream.write(line)
            count += 1
    sync(path)
    return TableFile(
        name=str(table.name), columns=tuple(map(str, table.columns.keys())), rows=count, sha256=sha256.hexdigest()
    )


def _tables() -> list[Table]:
    """Return what is kept, in the order in which rows can be inserted; an upload in flight is no part of the past."""
    assert all(table.metadata is metadata for table in MLFLOW_TABLES)  # importing them adds them
    return [table for table in metadata.sorted_tables if table is not uploads]


def read(source: Path) -> Backup:
    """Return what a directory says that it is a backup of.

    Raises:
        UsageError: It is no backup.
        MalformedError: Its description is none, or of a newer layout.
    """
    path = source / _MANIFEST
    if not path.is_file():
        msg = f"{source} is no backup: it has no {_MANIFEST}"
        raise UsageError(msg, remedy="name the directory that vitrify registry backup wrote")
    with path.open("rb") as stream:
        data = stream.read(_MAX_MANIFEST + 1)
    if len(data) > _MAX_MANIFEST:
        msg = f"{path} has more than {_MAX_MANIFEST} bytes"
        raise MalformedError(msg)
    found = Backup.from_json(data, where=str(path))
    known = {table.name: set(table.columns.keys()) for table in _tables()}
    strange = [table.name for table in found.tables if not set(table.columns) <= known.get(table.name, set())]
    if found.format != FORMAT or strange or len(found.tables) > _MOST_TABLES or found.revision > REVISION:
        what = f"table {strange[0]}" if strange else f"layout {found.format}, revision {found.revision}"
        msg = f"{source} is a backup of another version of Vitrify ({what}; this one knows {FORMAT}, {REVISION})"
        raise MalformedError(msg, remedy="restore it with that version or a newer one")
    return found


def restore(source: Path, database: Database, content: Blobs) -> Backup:
    """Make a registry from a backup, in a new database and a place for its content.

    Args:
        source: What :func:`back_up` wrote.
        database: Migrated and empty.
        content: Where the content goes; what is there already stays.

    Raises:
        UsageError: It is no backup.
        ConflictError: The database is not empty.
        CorruptError: A file is not the one that was written; nothing is seen of it.
        MalformedError: A row is none; nothing is seen of it.
        CheckFailedError: The log does not hold, or the tables are not as it says; nothing is seen of it.
        StoreError: It could not be written.
        UnavailableError: The database or the object storage does not answer.
    """
    with storing(f"read {source}"):
        found = read(source)
        with database.read() as connection:
            _require_empty(connection)
        _restore_content(source, content, found)
        with database.write() as connection:
            _require_empty(connection)
            for table in found.tables:
                _load(connection, metadata.tables[table.name], table, source / "rows" / f"{table.name}.jsonl")
            if not database.is_sqlite:
                _count_on(connection)
                connection.execute(text("ANALYZE"))  # else it knows nothing of the rows for as long as a minute
            report = audit(connection, {found.seq: found.hash} if found.seq else None)
            if not report.passed:
                msg = f"{source} does not hold together; nothing was restored"
                raise CheckFailedError(msg, report=report, remedy="use another backup")
    return found


def _require_empty(connection: Connection) -> None:
    for table in _tables():
        first = connection.execute(select(*table.primary_key).limit(2)).all()
        if first and (table is not head or connection.execute(select(head.c.seq)).scalar()):
            msg = f"the database is not empty: {table.name} has rows"
            raise ConflictError(msg, remedy="restore into a new database; then let the servers use that one")


def _restore_content(source: Path, content: Blobs, found: Backup) -> None:
    kept = DiskBlobs(source / "content")
    count = 0
    with track("restoring content", found.content) as bar:
        for digest in kept.digests():
            size = kept.size(digest)
            assert size is not None
            content.put(digest, size, kept.read(digest))
            count += 1
            bar.advance()
    if count < found.content:
        msg = f"{source} has {count} of {found.content} blobs"
        raise CorruptError(msg, remedy="use another backup")


def _load(connection: Connection, table: Table, file: TableFile, path: Path) -> None:
    """Insert a table's rows, and compare its file's hash when all were read: before that nothing is committed."""
    sha256, count = hashlib.sha256(), 0
    batch: list[dict[str, Any]] = []
    for line in _lines(path):
        sha256.update(line)
        batch.append(_row(line, file, path))
        count += 1
        if len(batch) == _BATCH:
            _insert(connection, table, batch)
            batch = []
    _insert(connection, table, batch)
    if (sha256.hexdigest(), count) != (file.sha256, file.rows):
        msg = f"{path} is not the file that was written: {count} of {file.rows} rows, hash {sha256.hexdigest()[:16]}"
        raise CorruptError(msg, remedy="use another backup")


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while line := stream.readline(MAX_ROW + 1):
            if len(line) > MAX_ROW:
                msg = f"{path}: a row of more than {MAX_ROW} bytes"
                raise MalformedError(msg)
            yield line


_decode = msgspec.json.Decoder(list[str | int | float | None]).decode


def _row(line: bytes, file: TableFile, path: Path) -> dict[str, Any]:
    try:
        values = _decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        msg = f"{path}: a row is no array of texts and numbers ({error})"
        raise MalformedError(msg, remedy="use another backup") from error
    if len(values) != len(file.columns):
        msg = f"{path}: a row of {len(values)} values, for {len(file.columns)} columns"
        raise MalformedError(msg, remedy="use another backup")
    return dict(zip(file.columns, values, strict=True))


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if table is head:
        for row in rows[:1]:
            connection.execute(update(head), {name: row[name] for name in ("seq", "hash", "time")})
    elif rows:
        connection.execute(insert(table), rows)


def _count_on(connection: Connection) -> None:
    """Let PostgreSQL number the next row of each table after the last; SQLite does so by itself."""
    for table in _tables():
        key = next(iter(table.primary_key))
        asked = {"table": f'"{table.name}"', "column": key.name}
        sequence = connection.execute(text("SELECT pg_get_serial_sequence(:table, :column)"), asked).scalar()
        last = connection.execute(select(func.max(key))).scalar() if sequence else None
        if last is not None:
            connection.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})
