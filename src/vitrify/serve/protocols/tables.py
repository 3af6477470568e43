"""Tables: columns by name, as data frames travel, into the inputs of a signature.

Columns that the signature does not know are dropped: frames often carry more. A model with one matrix takes the columns
in their order. What is missing (null, NaN, an empty cell) is missing in every column; whether it may be is what the
signature says. Text becomes numbers in CSV only, where everything is text.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.containers import no_rows
from vitrify.core.errors import LimitExceededError, MalformedError, NotOfferedError, SignatureError
from vitrify.serve.ports import BYTES
from vitrify.serve.protocols._tensorflow_json import from_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Served
    from vitrify.serve.ports import Port

    Array = np.ndarray[Any, Any]

MOST_CELLS = 10_000_000
"""Where a body need not hold every cell: records that leave names out, and Parquet files."""
MOST_BYTES = 256 * 1024 * 1024
"""Of a Parquet file: it may say in a few bytes what would fill the memory."""
BLOCK = 4096
"""Rows of CSV that are Python objects at a time."""

_MATRIX = 2
_NAN = float("nan")
_INTEGER = re.compile(r"([+-]?[0-9]{1,20})(?:\.0*)?")
_MISSING = frozenset({"", "NaN", "nan", "NA", "N/A", "null", "None"})
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


def from_columns(columns: Mapping[Any, Sequence[Any]], served: Served) -> Arrays:
    """Return the inputs that columns of Python values are.

    Args:
        columns: By label; a label that is no text stands for the field with that key.
        served: Whose signature it is.

    Raises:
        SignatureError: A value does not fit its field.
    """
    if (matrix := _matrix(served)) is not None and not any(_label(label) == matrix.name for label in columns):
        rows = [[_present(value, matrix) for value in row] for row in zip(*columns.values(), strict=True)]
        if not rows:
            return {matrix.name: no_rows(matrix.field)}
        return {matrix.name: from_values(rows, matrix, matrix.name, gaps=matrix.field.nullable)}
    by_label = {_label(label): values for label, values in columns.items()}
    found: Arrays = {}
    for port in served.inputs:
        key = port.field.key
        label = port.name if port.name in by_label or key is None else _label(key)
        if label in by_label:
            found[port.name] = _column(by_label[label], port, served)
    return found


def from_split(split: Any, served: Served) -> Arrays:
    """Return the inputs of ``dataframe_split``: columns, and rows of data.

    Raises:
        MalformedError: It is not of this form.
        SignatureError: It does not fit the signature.
    """
    data = split.get("data") if isinstance(split, dict) else None
    if not isinstance(data, list) or not all(isinstance(row, list) for row in data):
        msg = "dataframe_split: expected an object with columns (an array) and data (an array of arrays)"
        raise MalformedError(msg)
    names = split.get("columns")
    if names is None:
        names = [port.name for port in served.inputs]
        if (matrix := _matrix(served)) is not None:
            names = list(range(len(data[0]) if data else abs(matrix.shape[1])))
    if not isinstance(names, list) or not all(isinstance(name, str | int | float | list | None) for name in names):
        msg = "dataframe_split.columns: expected an array of labels"
        raise MalformedError(msg)
    for index, row in enumerate(data):
        if len(row) != len(names):
            msg = f"dataframe_split.data[{index}]: {len(row)} values, expected {len(names)}, one a column"
            raise SignatureError(msg)
    labels = [_label(name) for name in names]
    _refuse_twice(labels, "dataframe_split.columns")
    return from_columns({name: [row[index] for row in data] for index, name in enumerate(labels)}, served)


def from_records(records: Any, served: Served, where: str = "dataframe_records") -> Arrays:
    """Return the inputs of ``dataframe_records``: objects, one a row. What a row does not name is missing.

    Raises:
        MalformedError: It is not of this form.
        LimitExceededError: It would have more cells than are taken.
        SignatureError: It does not fit the signature.
    """
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        msg = f"{where}: expected an array of objects, one a row"
        raise MalformedError(msg)
    known = {port.name for port in served.inputs} | {_label(port.field.key) for port in served.inputs}
    wide = _matrix(served) is not None
    names = dict.fromkeys(name for record in records for name in record if wide or name in known)
    if not records:
        names = dict.fromkeys(port.name for port in served.inputs)
    if len(names) * len(records) > MOST_CELLS:
        msg = f"{where}: {len(records)} rows of {len(names)} columns; at most {MOST_CELLS} cells are taken"
        raise LimitExceededError(msg, remedy="send fewer rows at a time")
    return from_columns({name: [record.get(name) for record in records] for name in names}, served)


def from_csv(body: bytes, served: Served) -> Arrays:
    """Return the inputs of comma-separated values, whose first line has the names.

    Raises:
        MalformedError: It is no UTF-8, or no CSV.
        SignatureError: It does not fit the signature.
    """
    try:
        reader = csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True)
        header = next(reader, None)
        if header is None:
            msg = "the body is empty; expected CSV with the columns' names in its first line"
            raise MalformedError(msg)
        _refuse_twice(header, "the first line")
        return _joined(_blocks(reader, header, served))
    except (csv.Error, UnicodeDecodeError) as error:
        msg = f"the body is no CSV in UTF-8: {error}"
        raise MalformedError(msg) from error


def from_parquet(body: bytes, served: Served) -> Arrays:
    """Return the inputs of a Parquet file.

    Raises:
        NotOfferedError: The library that reads it is not installed.
        MalformedError: It is no Parquet file.
        LimitExceededError: It has more cells than are taken.
        SignatureError: It does not fit the signature.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        msg = "this server does not read Parquet"
        raise NotOfferedError(msg, remedy="send CSV or JSON; or, on the server: pip install pyarrow") from error
    try:
        file = parquet.ParquetFile(pa.BufferReader(body))
        names = file.schema_arrow.names
        _require_small(file)
        # Text stays a dictionary of its values, so that it is measured before there is one for each row.
        table = parquet.ParquetFile(pa.BufferReader(body), read_dictionary=names).read()
        columns = {name: _values(table.column(index)) for index, name in enumerate(names)}
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"the body is no Parquet file: {str(error)[:200]}"
        raise MalformedError(msg) from error
    _refuse_twice(names, "the columns")
    return from_columns(columns, served)


def _require_small(file: Any) -> None:
    """Refuse a Parquet file by what it says of itself: too many cells or bytes, or cells that are tables again."""
    about = file.metadata
    nested = [field.name for field in file.schema_arrow if field.type.num_fields]
    if nested:
        msg = f"column {nested[0][:100]!r} is nested; a table of plain columns is expected"
        raise MalformedError(msg)
    cells = about.num_rows * max(1, about.num_columns)
    size = sum(about.row_group(index).total_byte_size for index in range(about.num_row_groups))
    if cells > MOST_CELLS or size > MOST_BYTES:
        msg = f"the body has {cells} cells of {size} bytes; at most {MOST_CELLS} cells and {MOST_BYTES} bytes are taken"
        raise LimitExceededError(msg, remedy="send fewer rows at a time")


def _values(column: Any) -> list[Any]:
    """Return a column of Arrow's as Python values.

    Raises:
        LimitExceededError: Its texts are too long together.
    """
    found: list[Any] = []
    for chunk in column.chunks:
        if not hasattr(chunk, "dictionary"):
            found += map(_plain, chunk.to_pylist())
            continue
        known = [_plain(value) for value in chunk.dictionary.to_pylist()]
        indices = chunk.indices.to_pylist()
        sizes = [len(value) if isinstance(value, str | bytes) else 0 for value in known]
        if sum(sizes[index] for index in indices if index is not None) > MOST_BYTES:
            msg = f"the texts of a column have more than {MOST_BYTES} bytes together"
            raise LimitExceededError(msg, remedy="send fewer rows at a time")
        found += [None if index is None else known[index] for index in indices]
    return found


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _column(values: Sequence[Any], port: Port, served: Served) -> Array:
    present = [_present(value, port) for value in values]
    if port.datatype == BYTES:
        present = [_as_bytes(value, port) for value in present]
    return from_values(present, port, port.name, gaps=port.field.nullable or served.signature.is_table)


def _present(value: Any, port: Port) -> Any:
    """Return a value; what is missing is NaN where that is a number, else None."""
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 (NaN alone is unequal)
        return _NAN if port.datatype.startswith(("FP", "BF")) else None
    return value


def _as_bytes(value: Any, port: Port) -> Any:
    """Return bytes in the form that JSON has for them here; text in a column of bytes is base64."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, str) and port.field.dtype == "bytes":
        return {"b64": value}
    return value


def _matrix(served: Served) -> Port | None:
    """Return the only input where it is a matrix."""
    only = served.inputs[0] if len(served.inputs) == 1 else None
    return only if only is not None and len(only.shape) == _MATRIX else None


def _label(label: Any) -> str:
    return label if isinstance(label, str) else str(tuple(label) if isinstance(label, list) else label)


def _refuse_twice(names: Sequence[str], where: str) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        msg = f"{where}: the column {twice[:100]!r} is there twice"
        raise SignatureError(msg)


def _blocks(reader: Iterable[list[str]], header: list[str], served: Served) -> Iterable[Arrays]:
    """Yield the inputs of some thousand rows at a time."""
    ports = {port.name: port for port in served.inputs}
    matrix = _matrix(served)
    if matrix is not None and matrix.name not in header:
        ports = dict.fromkeys(header, matrix)
    chosen = [(index, name, ports[name]) for index, name in enumerate(header) if name in ports]
    block: dict[str, list[Any]] = {name: [] for _, name, _ in chosen}
    count = 0
    for number, row in enumerate(reader, start=1):
        if not row and len(header) > 1:
            continue  # an empty line
        cells = row or [""]
        if len(cells) != len(header):
            msg = f"row {number}: {len(cells)} cells, expected {len(header)}, one a column"
            raise SignatureError(msg)
        for index, name, port in chosen:
            block[name].append(_cell(cells[index], port, number, name))
        count += 1
        if count % BLOCK == 0:
            yield from_columns(block, served)
            block = {name: [] for name in block}
    if count % BLOCK or not count:
        yield from_columns(block, served)


def _cell(cell: str, port: Port, row: int, name: str) -> Any:
    """Return what the text of a cell is in its column."""
    if port.datatype == BYTES:
        return cell or None
    if (text := cell.strip()) in _MISSING:
        return None
    if port.datatype == "BOOL" and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    if found := _INTEGER.fullmatch(text):
        return int(found[1])
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    msg = f"row {row}, column {name[:100]!r}: {text[:40]!r} where {port.field.dtype} is expected"
    raise SignatureError(msg)


def _joined(blocks: Iterable[Arrays]) -> Arrays:
    parts = list(blocks)
    if len(parts) == 1:
        return parts[0]
    return {name: _concatenated([part[name] for part in parts]) for name in parts[0]}


def _concatenated(arrays: Sequence[Array]) -> Array:
    masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
    joined: Array = (np.ma if masked else np).concatenate(arrays)
    return joined
