"""A SQLite database that this user may only read.

SQLite reads its write-ahead log by an index of it, a file beside it. Who uses the database makes both, and who leaves
it last takes both away. Whoever may make no files there can still read what is there: with the log, where somebody is
using it; else the database alone, as a file that does not change. So that this is true, writers are kept out for that
moment by the lock that each of them takes.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from vitrify.core.errors import StoreError
from vitrify.registry.database.prepared import told_to_driver
from vitrify.stores._durable import locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection, Engine

_TRIES = 3


class ReadOnly:
    """Connections for one transaction each: nothing that one of them has read is believed by the next.

    Args:
        path: The database's file.
        lock: What its writers lock.
    """

    def __init__(self, path: Path, lock: Path) -> None:
        """Connect to nothing yet."""
        self._path, self._lock = path, lock
        self._log = path.with_name(f"{path.name}-wal")
        self._shared = self._engine("mode=ro")
        self._alone = self._engine("mode=ro&immutable=1")

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Yield a connection.

        Raises:
            StoreError: What was written last is in a log that only who may write can take in.
        """
        with ExitStack() as stack:
            yield self._opened(stack)

    def refuse(self) -> StoreError:
        """Return the error of whoever wants to change something."""
        msg = f"{self._path} may only be read by this user: nothing in the registry can be changed"
        return StoreError(msg, remedy=f"ask the owner for the right to write in {self._path.parent}, or use a server")

    def _opened(self, stack: ExitStack) -> Connection:
        for _ in range(_TRIES):
            if self._log.exists():
                try:
                    return stack.enter_context(self._shared.connect())
                except OperationalError:  # who used it last may have left this moment
                    continue
            hold = stack.enter_context(ExitStack())
            if self._lock.exists():
                hold.enter_context(locked(self._lock, shared=True))
            if not self._log.exists():
                return stack.enter_context(self._alone.connect())
            hold.close()  # somebody came meanwhile
        msg = f"{self._log} holds what was written last, and this user may not take it in"
        raise StoreError(msg, remedy="let the registry's owner open it once: vitrify registry migrate")

    def _engine(self, how: str) -> Engine:
        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(f"{self._path.as_uri()}?{how}", uri=True, check_same_thread=False, timeout=60)
            try:
                _prepare(connection)
            except BaseException:
                connection.close()
                raise
            return connection

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
        return engine


def may_write(path: Path) -> bool:
    """Say whether this user may write to a SQLite database: to its file, and to files beside it."""
    return os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None
    for pragma in ("trusted_schema=OFF", "case_sensitive_like=ON", "query_only=ON"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.execute("SELECT count(*) FROM sqlite_schema").close()  # opens it


def _begin(connection: Connection) -> None:
    told_to_driver(connection, "BEGIN")
