"""One database: connections, transactions, migrations, and what its failures mean in words.

Writers come one after another: in SQLite they hold a file lock, which the kernel hands on in order, where SQLite's own
busy loop sleeps and starves; in PostgreSQL they lock the one row that is the head of the log. So a transaction sees
the state that the log says, and the log has no gap. Readers are never held up.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.pool import QueuePool

from vitrify.core.errors import ConflictError, ReferenceNotFoundError, StoreError, UnavailableError, UsageError
from vitrify.registry.database import schema
from vitrify.registry.database.prepared import told_to_driver
from vitrify.registry.database.reading import ReadOnly, may_write
from vitrify.stores._durable import locked, make_directory, storing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine

_POOL = 16
"""Connections of one process; a server has as many threads at most."""
_SWEEPING = 7308332190
"""PostgreSQL's number for the lock that whoever deletes content holds alone, and backups share."""
_TOO_MUCH = "54"
"""PostgreSQL's class of errors for what is beyond its own limits."""
_PASSWORD = re.compile(r"(?<=://)([^:/@]+):[^@/]*@")


class Database:
    """The rows of one registry.

    Args:
        url: ``sqlite:////absolute/path.db``, ``postgresql://user@host/name``, or the path of a SQLite file.
        create: Whether one that has no registry gets one.

    Raises:
        UsageError: It is no such URL.
        ReferenceNotFoundError: There is no registry, and none is to be made.
        StoreError: It cannot be made there, or may not be read.
        UnavailableError: The database does not answer.
    """

    def __init__(self, url: str | Path, *, create: bool = True) -> None:
        """Connect, and migrate what is older than this code."""
        self.url = _parse(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._path = Path(str(self.url.database)) if self.is_sqlite else None
        self._only: ReadOnly | None = None
        if self._path is not None:
            self._settle(self._path, create=create)
        self._writer: Connection | None = None
        self.engine = self._engine()
        try:
            with _translated():
                self._migrate(create=create)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Database({self.url.render_as_string()!r})"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database."""
        with _translated(), self._connected() as connection:
            yield connection

    @contextmanager
    def glance(self) -> Iterator[Connection]:
        """Yield a connection for one statement, which is a transaction of its own: nothing else is spent on it."""
        options = {"vitrify_glances": True} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        with _translated(), self._connected() as connection:
            yield connection.execution_options(**options)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection whose every statement sees the state of the first, whatever is written meanwhile."""
        with _translated(), self._connected() as connection:
            # A reading transaction of SQLite is one anyway.
            yield connection if self.is_sqlite else connection.execution_options(isolation_level="REPEATABLE READ")

    @contextmanager
    def backing_up(self) -> Iterator[Connection]:
        """Yield a snapshot, and let nobody delete content until the block ends."""
        with ExitStack() as stack:
            if self.is_sqlite:
                stack.enter_context(locked(self._sweeping, shared=True))
            connection = stack.enter_context(self.snapshot())
            if not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({_SWEEPING})"))
            yield connection

    @contextmanager
    def sweeping(self) -> Iterator[Connection]:
        """Yield a connection in a writing transaction in which content may be deleted.

        Raises:
            ConflictError: A backup is running.
        """
        with ExitStack() as stack:
            free = True
            if self.is_sqlite:
                try:
                    stack.enter_context(locked(self._sweeping, wait=False))
                except BlockingIOError:
                    free = False
            connection = stack.enter_context(self.write())
            if not self.is_sqlite:
                free = bool(connection.execute(text(f"SELECT pg_try_advisory_xact_lock({_SWEEPING})")).scalar())
            if not free:
                msg = "a backup is running, or another collector: no content is deleted meanwhile"
                raise ConflictError(msg, remedy="run it again when that has ended")
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in the one writing transaction; it is committed, durably, when the block ends well.

        Raises:
            StoreError: This user may only read.
        """
        if self._only is not None:
            raise self._only.refuse()
        with (
            _translated(),
            self._alone() if self.is_sqlite else self.engine.connect() as connection,
            connection.begin(),
        ):
            yield connection

    def close(self) -> None:
        """Give up all connections."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self.engine.dispose()

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        """Yield the connection that writes to SQLite: whoever holds the lock has it, so one is kept for all."""
        with locked(self._lock):
            writer = self._writer
            if writer is not None and (writer.invalidated or writer.in_transaction()):  # interrupted in the middle
                writer.close()
                writer = None
            if writer is None:
                writer = self._writer = self.engine.connect().execution_options(vitrify_writes=True)
            yield writer

    def _connected(self) -> AbstractContextManager[Connection]:
        return self.engine.connect() if self._only is None else self._only.connect()

    def _settle(self, path: Path, *, create: bool) -> None:
        """Find out what may be done with a SQLite file, and make what belongs beside it."""
        self._lock = path.with_name(f"{path.name}-writer")
        self._sweeping = path.with_name(f"{path.name}-sweeping")
        with storing(f"open the registry in {path.parent}"):
            if not path.exists():
                if not create:
                    raise self._nothing()
                make_directory(path.parent)
            elif not may_write(path):
                self._only = ReadOnly(path, self._lock)
                return
            self._lock.touch()
            self._sweeping.touch()

    def _nothing(self) -> ReferenceNotFoundError:
        where = self._path or self.url.render_as_string()
        msg = f"there is no registry yet: {where}"
        return ReferenceNotFoundError(
            msg, remedy="check the place (--registry); the first model makes one: vitrify register REFERENCE NAME"
        )

    def _engine(self) -> Engine:
        if not self.is_sqlite:
            return create_engine(
                self.url, poolclass=QueuePool, pool_size=_POOL, max_overflow=0, pool_pre_ping=False, pool_use_lifo=True
            )
        arguments = {"check_same_thread": False, "timeout": 60, "cached_statements": 512}
        engine = create_engine(  # and the one that writes
            self.url,
            poolclass=QueuePool,
            pool_size=_POOL + 1,
            max_overflow=0,
            connect_args=arguments,
            pool_use_lifo=True,
        )
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
        return engine

    def _migrate(self, *, create: bool) -> None:
        found = self._revision()
        if found == schema.REVISION:
            return
        if found is None and not create:
            raise self._nothing()
        if found is not None and found > schema.REVISION:
            msg = f"the database is at {found}, made by a newer Vitrify; this one knows up to {schema.REVISION}"
            raise StoreError(msg, remedy="upgrade Vitrify: a database is never taken back")
        if self._only is not None:
            msg = f"the database is at {found}, older than this Vitrify, and this user may only read it"
            raise StoreError(msg, remedy="let its owner run: vitrify registry migrate")
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        with self.write() as connection:
            if not self.is_sqlite:  # several servers that start at once: one migrates, the others wait
                connection.execute(text("SELECT pg_advisory_xact_lock(7308332189)"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def _revision(self) -> str | None:
        table = "SELECT version_num FROM alembic_version"
        with self._connected() as connection:
            if not connection.dialect.has_table(connection, "alembic_version"):
                return None
            return connection.execute(text(table)).scalar()


def _parse(url: str | Path) -> Any:
    given = str(url)
    if "://" not in given:
        given = f"sqlite:///{Path(given).expanduser().absolute()}"
    try:
        parsed = make_url(given.replace("postgres://", "postgresql://", 1))
    except (ArgumentError, ValueError):
        parsed = None
    shown = _PASSWORD.sub(r"\1:***@", given)
    if parsed is None or parsed.get_backend_name() not in {"sqlite", "postgresql"} or not parsed.database:
        msg = f"not a database of a registry: {shown!r}"
        raise UsageError(msg, remedy="name a file, or sqlite:////path/registry.db, or postgresql://user@host/name")
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.database == ":memory:":
        msg = "a registry in memory is no record: it is gone with the process"
        raise UsageError(msg, remedy="name a file, in a temporary directory if it may go")
    return parsed


def _prepare(connection: sqlite3.Connection, _: Any) -> None:
    """Make a SQLite connection durable and strict; ``BEGIN`` is ours to say."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "trusted_schema=OFF",
        "case_sensitive_like=ON",
        "cache_size=-16000",
        "wal_autocheckpoint=4000",  # 16 MB of log between two copies into the file, not 4
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("vitrify_glances"):
        told_to_driver(connection, "BEGIN IMMEDIATE" if options.get("vitrify_writes") else "BEGIN")


@contextmanager
def _translated() -> Iterator[None]:
    """Turn a database's error into one of ours; the transaction was rolled back, and nothing was changed."""
    try:
        yield
    except IntegrityError as error:
        msg = f"the database refused it: {_reason(error)}"
        raise ConflictError(msg, remedy="look at what is there now, then decide again") from error
    except DBAPIError as error:
        raise _failed(error) from error


def _failed(error: DBAPIError) -> Exception:
    reason = _reason(error)
    original = error.orig
    code = getattr(original, "sqlite_errorname", "") if isinstance(original, sqlite3.Error) else ""
    if code.startswith(("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN")):
        return StoreError(f"the registry's database could not be written: {reason}", remedy="check disk and rights")
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(
            f"the registry's database is damaged: {reason}", remedy="restore a backup: vitrify registry restore"
        )
    if str(getattr(original, "sqlstate", "")).startswith(_TOO_MUCH):
        return UsageError(f"the registry's database cannot hold it: {reason}", remedy="say it in fewer characters")
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return UnavailableError(f"the registry's database does not answer: {reason}", remedy="try again")
    return StoreError(f"the registry's database refused: {reason}")


def _reason(error: DBAPIError) -> str:
    return str(error.orig or error).strip().splitlines()[0]
