"""Files of predictions: Parquet where pyarrow is installed, else lines of JSON. Each is there whole, or not at all.

A table has a row for each row that a model was asked, and these columns: ``time``, ``model``, ``version``, ``digest``,
``request_id`` and ``client`` as the caller has them, ``request`` (rows of one request have the same number, which is
its own in the file), and a column ``input.NAME`` or ``output.NAME`` for each field: a list where a row is a tensor,
null where a value is missing. Numbers, booleans and times have their own types; BF16 is stored as float; an object that
is neither text nor bytes as the text that it prints. :mod:`vitrify.checks.record_files` reads them.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vitrify.core.protocols import Arrays
    from vitrify.serve.observe._kept import Kept

    Array = np.ndarray[Any, Any]

SCHEMA = "1"
"""Of the columns and the metadata; a reader refuses another one."""
PARTIAL = ".partial"
_MODE = 0o640
"""What was asked is nobody else's business."""
_LONGEST_NAME = 100
_UNITS = ("ms", "us", "ns")
_numbers = count(1)


def write_file(folder: Path, kept: Sequence[Kept]) -> Path:
    """Write rows of one kind into a new file, and return its path.

    Args:
        folder: Where; a folder of the model and one of the version are made in it.
        kept: One or more, of the same key.

    Raises:
        OSError: It cannot be written; nothing is left of it.
    """
    end, write = ("parquet", _write_table) if find_spec("pyarrow") else ("jsonl", _write_lines)
    first = kept[0]
    place = folder / _safe(first.model) / _safe(first.version)
    place.mkdir(mode=0o750, parents=True, exist_ok=True)
    moment = datetime.fromtimestamp(first.time, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    name = f"{moment}Z-{os.getpid()}-{next(_numbers)}.{end}"
    _whole(place, name, lambda path: write(path, kept))
    return place / name


def remove_partial(folder: Path, *, older: float = 24 * 3600.0) -> int:
    """Remove what processes that were killed have left half written, and return how many files that was.

    Args:
        folder: Of the log.
        older: In seconds: what is younger may still be written.
    """
    removed = 0
    for path in folder.glob(f"*/*/.*{PARTIAL}"):
        try:
            if path.stat().st_mtime < time.time() - older:
                path.unlink()
                removed += 1
        except FileNotFoundError:  # another process was faster
            continue
    return removed


def _whole(place: Path, name: str, write: Callable[[Path], None]) -> None:
    """Write under another name, and rename when every byte is on the disk."""
    temporary = place / f".{name}{PARTIAL}"
    try:
        write(temporary)
        temporary.chmod(_MODE)
        _sync(temporary)
        temporary.rename(place / name)
        _sync(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _safe(name: str) -> str:
    """Return a name of one folder."""
    text = quote(name, safe=" ")[:_LONGEST_NAME] or "%"
    return f"%2E{text[1:]}" if text.startswith(".") else text


def _write_table(path: Path, kept: Sequence[Kept]) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    first = kept[0]
    parts = [(one.time, part, 1 if one.whole else part.rows) for one in kept for part in one.parts]
    rows = [each for _, _, each in parts]
    columns: dict[str, Any] = {
        "time": pa.array(np.repeat([round(at * 1e6) for at, _, _ in parts], rows), pa.timestamp("us", tz="UTC")),
        **{name: pa.repeat(getattr(first, name), sum(rows)) for name in ("model", "version", "digest")},
        "request_id": pa.array(np.repeat(np.array([part.id for _, part, _ in parts], object), rows), pa.string()),
        "client": pa.array(np.repeat(np.array([part.client for _, part, _ in parts], object), rows), pa.string()),
        "request": pa.array(np.repeat(np.arange(len(parts), dtype=np.int64), rows)),
    }
    dtypes: dict[str, str] = {}
    for side in ("inputs", "outputs"):
        for name in getattr(first, side):
            column = f"{side[:-1]}.{name}"
            columns[column] = _column([getattr(one, side)[name] for one in kept], whole=first.whole)
            dtypes[column] = str(getattr(first, side)[name].dtype)
    told = {
        "vitrify.predictions": SCHEMA,
        "vitrify.whole": "true" if first.whole else "false",
        "vitrify.dtypes": msgspec.json.encode(dtypes).decode(),
    }
    table = pa.table(columns).replace_schema_metadata(told)
    pq.write_table(table, path, compression="zstd", row_group_size=64 * 1024)


def _column(arrays: Sequence[Array], *, whole: bool) -> Any:
    """Return the column of one field, a chunk each batch."""
    import pyarrow as pa

    arrays = [array[None] for array in arrays] if whole else arrays
    flat, kind = _values(arrays)
    return pa.chunked_array([_nested(values, array.shape) for values, array in zip(flat, arrays, strict=True)], kind)


def _values(arrays: Sequence[Array]) -> tuple[list[Any], Any]:
    """Return each array's values, flat, as Arrow has them, and the type of the whole column."""
    import pyarrow as pa

    flat = []
    if arrays[0].dtype.kind in "OUST":
        objects = [_objects(array) for array in arrays]
        held = _object_type([value for values in objects for value in values])
        if held == "other":
            objects = [[None if value is None else str(value) for value in values] for values in objects]
        of = pa.binary() if held == "bytes" else pa.string()
        flat = [pa.array(values, of, from_pandas=True) for values in objects]
    else:
        for array in _timed(arrays):
            mask = np.ma.getmaskarray(array).ravel() if isinstance(array, np.ma.MaskedArray) else None
            flat.append(pa.array(_plain(np.ma.getdata(array).ravel()), mask=mask))
    nested = flat[0].type
    for _ in arrays[0].shape[1:]:
        nested = pa.list_(nested)
    return flat, nested


def _timed(arrays: Sequence[Array]) -> Sequence[Array]:
    """Return times in a unit that Parquet has; those that lie too far for it as integers, anything else as it is."""
    kind = arrays[0].dtype.kind
    if kind not in "mM" or np.datetime_data(arrays[0].dtype)[0] in _UNITS:
        return arrays
    converted = [array.astype(f"{kind}8[ms]") for array in arrays]
    back = [one.astype(array.dtype) for one, array in zip(converted, arrays, strict=True)]
    exact = all(
        np.array_equal(np.ma.getdata(one).view(np.int64), np.ma.getdata(array).view(np.int64))
        for one, array in zip(back, arrays, strict=True)
    )
    return converted if exact else [array.view(np.int64) for array in arrays]


def _plain(values: Array) -> Array:
    """Return values as a dtype that Arrow has."""
    kind = values.dtype.kind
    if kind == "c":
        return np.array([str(value) for value in values.tolist()], object)
    if kind == "V" or values.dtype.name == "bfloat16":
        return values.astype(np.float32)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _objects(array: Array) -> list[Any]:
    values = [None if _is_missing(value) else value for value in array.ravel().tolist()]
    if isinstance(array, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(array).ravel().tolist()
        return [None if mask else value for value, mask in zip(values, hidden, strict=True)]
    return values


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124 (NaN)


def _object_type(values: Sequence[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str, np.str_}:
        return "text"
    return "bytes" if kinds <= {bytes, np.bytes_} else "other"


def _nested(values: Any, shape: tuple[int, ...]) -> Any:
    """Return flat values as one value a row: lists of lists, the innermost first."""
    import pyarrow as pa

    for at in range(len(shape) - 1, 0, -1):
        lists = int(np.prod(shape[:at]))
        offsets = np.arange(lists + 1, dtype=np.int32) * shape[at]
        values = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return values


def _write_lines(path: Path, kept: Sequence[Kept]) -> None:
    from vitrify.checks.records import Record
    from vitrify.core.digest import Digest

    with path.open("wb") as stream:
        for one in kept:
            at = datetime.fromtimestamp(one.time, UTC).isoformat(timespec="microseconds")
            start = 0
            for part in one.parts:
                inputs, outputs = (_rows(side, None if one.whole else (start, part.rows)) for side in _sides(one))
                start += part.rows
                record = Record.of(
                    Digest.parse(one.digest),
                    *(inputs, outputs),
                    id=part.id,
                    time=at,
                    model=one.model,
                    version=one.version,
                    client=part.client,
                )
                stream.write(record.to_json() + b"\n")


def _sides(kept: Kept) -> tuple[Arrays, Arrays]:
    return kept.inputs, kept.outputs


def _rows(arrays: Arrays, which: tuple[int, int] | None) -> Arrays:
    if which is None:
        return arrays
    start, rows = which
    return {name: array[start : start + rows] for name, array in arrays.items()}
