"""Statements that every write and every resolution runs: compiled once, then handed to the driver as they are.

What SQLAlchemy does around one execution takes ten times as long as SQLite takes for the row. Whatever is asked for
rarely is asked for through SQLAlchemy.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.sql.expression import ClauseElement


class Prepared:
    """One statement, whose values are numbers, text and None.

    Args:
        statement: Every value that is not given when it runs stands in it.
    """

    __slots__ = ("_compiled", "_statement")

    def __init__(self, statement: ClauseElement) -> None:
        """Compile nothing yet: that differs from database to database."""
        self._statement = statement
        self._compiled: dict[str, tuple[str, tuple[str, ...] | None, Mapping[str, Any]]] = {}

    def run(self, connection: Connection, **values: Any) -> Any:
        """Return the driver's cursor; its rows are plain tuples.

        Raises:
            DBAPIError: As SQLAlchemy raises it.
        """
        if not connection.in_transaction():
            connection.begin()
        sql, order, fixed = self._compiled.get(connection.dialect.name) or self._compile(connection)
        given = {**fixed, **values} if fixed else values
        return told_to_driver(connection, sql, given if order is None else [given[name] for name in order])

    def _compile(self, connection: Connection) -> tuple[str, tuple[str, ...] | None, Mapping[str, Any]]:
        compiled = self._statement.compile(dialect=connection.dialect)
        order = compiled.positiontup if connection.dialect.positional else None  # type: ignore[attr-defined] # of SQL
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        made = str(compiled), None if order is None else tuple(order), fixed
        self._compiled[connection.dialect.name] = made
        return made


def told_to_driver(connection: Connection, sql: str, values: Mapping[str, Any] | Sequence[Any] = ()) -> Any:
    """Return the cursor of a statement in the driver's own words.

    Raises:
        DBAPIError: As SQLAlchemy raises it.
    """
    driver: Any = connection.connection.dbapi_connection
    try:
        return driver.execute(sql, values)
    except connection.dialect.loaded_dbapi.Error as error:
        raise _failed(connection, error) from error


@contextmanager
def together(connection: Connection) -> Iterator[None]:
    """Send what runs in the block in one journey, where the database is behind a network; rows come when it ends.

    Raises:
        DBAPIError: One of the statements failed.
    """
    driver: Any = connection.connection.dbapi_connection
    try:
        with driver.pipeline() if _has_pipeline(connection) else nullcontext():
            yield
    except connection.dialect.loaded_dbapi.Error as error:  # what a statement did shows when the block ends
        raise _failed(connection, error) from error


def _has_pipeline(connection: Connection) -> bool:
    driver: Any = connection.dialect.loaded_dbapi
    return connection.dialect.name == "postgresql" and driver.capabilities.has_pipeline()


def _failed(connection: Connection, error: Any) -> Exception:
    """Return the error as SQLAlchemy would raise it, and forget connections that are lost as it would."""
    dialect = connection.dialect
    lost: bool = dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
    if lost:
        connection.invalidate(error)
        connection.engine.dispose()
    base = dialect.loaded_dbapi.Error
    translated: Exception = DBAPIError.instance(None, None, error, base, connection_invalidated=lost, dialect=dialect)
    return translated
