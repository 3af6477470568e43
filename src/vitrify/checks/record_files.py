"""Files of prediction records: JSON lines, and the Parquet files that a server's prediction log writes.

A table has a column ``input.NAME`` or ``output.NAME`` for each field of the model, ``digest``, and ``request``: rows
that follow each other with the same number are one record, for a model may look at all rows of a request. ``time`` and
``request_id`` are told on; every other column is left alone. :mod:`vitrify.serve.observe` says how tables are written.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from vitrify.checks.records import Record, read_lines
from vitrify.core.errors import MalformedError, MissingDependencyError, UsageError, VitrifyError
from vitrify.core.wire import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Row = dict[str, Any]

_SCHEMA = "1"
_MOST_FILES = 1_000_000
_MOST_COLUMNS = 100_000
_MOST_GROUP_BYTES = 1024 * 1024 * 1024
_MOST_ROWS = 1_000_000
"""Of one record."""
_DEEPEST = 32
_BATCH = 1024
_ENDS = (".parquet", ".jsonl")
_INPUT, _OUTPUT = "input.", "output."
_NEEDED = ("digest",)


def read_records(path: str | Path) -> Iterator[tuple[str, Record]]:
    """Yield records, and where each stands: of a file, or of every file in a folder and the folders in it, by name.

    A file whose name begins with a dot is still being written, and is left out.

    Raises:
        MalformedError: A file holds something else; the message says where.
        MissingDependencyError: A file is Parquet, and the extra ``parquet`` is not installed.
        UsageError: A folder holds no records.
    """
    path = Path(path)
    if not path.is_dir():
        yield from _of_file(path, "")
        return
    none = True
    for one in _files(path):
        none = False
        yield from _of_file(one, f"{one.relative_to(path)}, ")
    if none:
        msg = f"{path} holds no file of records"
        raise UsageError(msg, remedy=f"name a folder with files that end in {' or '.join(_ENDS)}")


def _files(folder: Path) -> list[Path]:
    found = []
    for number, path in enumerate(folder.rglob("*")):
        if number >= _MOST_FILES:
            msg = f"{folder} holds more than {_MOST_FILES} files"
            raise UsageError(msg, remedy="replay the folders in it one after the other")
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in _ENDS and not hidden and path.is_file():
            found.append(path)
    return sorted(found)


def _of_file(path: Path, where: str) -> Iterator[tuple[str, Record]]:
    with path.open("rb") as stream:
        is_table = stream.read(4) == b"PAR1"
        stream.seek(0)
        if is_table:
            yield from _of_table(path, where)
        else:
            yield from ((where + place, record) for place, record in read_lines(stream))


def _of_table(path: Path, where: str) -> Iterator[tuple[str, Record]]:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError as error:
        msg = f"reading {path.name} needs {error.name}"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[parquet]'") from error
    try:
        with pq.ParquetFile(path) as table:
            yield from _of_rows(_rows(table), where, whole=_checked(table, path))
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
        msg = f"{path}: not a Parquet file of records ({error})"
        raise MalformedError(msg) from error


def _checked(table: Any, path: Path) -> bool:
    """Refuse a table that is not what it should be, before any row of it is read; return whether arrays are whole.

    Raises:
        MalformedError: It is.
    """
    schema, footer = table.schema_arrow, table.metadata
    told = {name.decode(): value.decode() for name, value in (schema.metadata or {}).items()}
    groups = [footer.row_group(at).total_byte_size for at in range(footer.num_row_groups)]
    largest = max(groups, default=0)
    missing = [name for name in _NEEDED if name not in schema.names]
    wrong = {
        f"the schema {told.get('vitrify.predictions')!r}, not {_SCHEMA!r}": told.get("vitrify.predictions") != _SCHEMA,
        f"{len(schema.names)} columns, more than {_MOST_COLUMNS}": len(schema.names) > _MOST_COLUMNS,
        "two columns of one name": len(set(schema.names)) != len(schema.names),
        f"no column {missing}": bool(missing),
        f"a row group of {largest} bytes, more than {_MOST_GROUP_BYTES}": largest > _MOST_GROUP_BYTES,
        f"lists more than {_DEEPEST} deep": any(_leaf(field.type)[1] > _DEEPEST for field in schema),
    }
    if found := [what for what, is_so in wrong.items() if is_so]:
        msg = f"{path}: a Parquet file with {found[0]}"
        raise MalformedError(msg, remedy="replay files that the prediction log of vitrify serve has written")
    return told.get("vitrify.whole") == "true"


def _rows(table: Any) -> Iterator[Row]:
    """Yield rows as plain values, times as the integers or dates that NumPy makes of them."""
    schema = table.schema_arrow
    told = (schema.metadata or {}).get(b"vitrify.dtypes", b"{}")
    dtypes = msgspec.json.decode(told, type=dict[str, str]) if len(told) <= MAX_DOCUMENT_BYTES else {}
    names = [name for name in schema.names if name.startswith((_INPUT, _OUTPUT))]
    kept = [name for name in ("digest", "request_id", "time", "request") if name in schema.names]
    units = {name: _time_of(schema.field(name).type) for name in names}
    for batch in table.iter_batches(batch_size=_BATCH, columns=kept + names):
        columns = {name: batch.column(name) for name in kept + names}
        if "time" in columns:
            columns["time"] = columns["time"].cast("string")
        values = {name: _plain(column, units.get(name), dtypes.get(name)) for name, column in columns.items()}
        for at in range(batch.num_rows):
            yield {name: column[at] for name, column in values.items()}


def _plain(column: Any, unit: str | None, dtype: str | None) -> list[Any]:
    if unit is None:
        plain: list[Any] = column.to_pylist()
        return plain
    stored = f"{unit[0]}8[{unit[1:]}]"
    own = dtype if dtype is not None and dtype.startswith(("datetime64", "timedelta64")) else stored
    integers = column.cast(_as_integers(column.type)).to_pylist()
    times = [np.array(value, object).astype(stored).astype(own) for value in integers]
    return [value.tolist() for value in times]


def _leaf(kind: Any) -> tuple[Any, int]:
    """Return the type at the end of lists in lists, and how deep it lies."""
    import pyarrow as pa

    deep = 0
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind, deep = kind.value_type, deep + 1
    return kind, deep


def _time_of(kind: Any) -> str | None:
    """Return ``M`` or ``m`` and the unit of a column of times; None for another one."""
    import pyarrow as pa

    leaf, _ = _leaf(kind)
    if pa.types.is_timestamp(leaf):
        return f"M{leaf.unit}"
    return f"m{leaf.unit}" if pa.types.is_duration(leaf) else None


def _as_integers(kind: Any) -> Any:
    import pyarrow as pa

    _, deep = _leaf(kind)
    found = pa.int64()
    for _ in range(deep):
        found = pa.list_(found)
    return found


def _of_rows(rows: Iterable[Row], where: str, *, whole: bool) -> Iterator[tuple[str, Record]]:
    """Yield a record for each run of rows of one request."""
    numbered = enumerate(rows, 1)
    for _, group in groupby(numbered, lambda row: (row[1].get("request", row[0]), row[1]["digest"])):
        columns: dict[str, list[Any]] = {}
        for number, row in group:
            if not columns:
                first, first_row = number, row
            if number - first >= _MOST_ROWS:
                msg = f"{where}row {number}: a request of more than {_MOST_ROWS} rows"
                raise MalformedError(msg)
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        id_ = str(first_row.get("request_id") or "")
        place = f"{where}row {first}" + (f" ({id_})" if id_ else "")
        yield place, _record(first_row, columns, place, whole=whole)


def _record(row: Row, columns: dict[str, list[Any]], place: str, *, whole: bool) -> Record:
    def side(prefix: str) -> dict[str, Any]:
        found = {name.removeprefix(prefix): values for name, values in columns.items() if name.startswith(prefix)}
        return {name: values[0] for name, values in found.items()} if whole else found

    try:
        return Record(
            digest=str(row["digest"]),
            inputs=side(_INPUT),
            outputs=side(_OUTPUT),
            id=str(row.get("request_id") or ""),
            time=str(row.get("time") or ""),
        )
    except VitrifyError as error:
        msg = f"{place}: {error.message}"
        raise MalformedError(msg) from error
