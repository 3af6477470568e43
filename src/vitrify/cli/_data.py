"""Data files that the command line reads and writes: CSV, JSON records, Parquet, .npy and .npz."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays

SUFFIXES = (".csv", ".json", ".parquet", ".npy", ".npz")


def read(path: str) -> Any:
    """Return a file's rows as a frame, an array, a dict of arrays or records; ``-`` is JSON on standard input.

    Raises:
        UsageError: The file is not there, or its ending is not one of ``SUFFIXES``.
        MissingDependencyError: Its ending needs pandas.
    """
    if path == "-":
        return _records(sys.stdin.read(), "standard input")
    file = Path(path)
    if not file.is_file():
        msg = f"no such data file: {path}"
        raise UsageError(msg)
    match file.suffix:
        case ".json":
            return _records(file.read_text(encoding="utf-8"), path)
        case ".npy" | ".npz":
            return _numpy(file)
        case ".csv" | ".parquet":
            return _frame(file)
    msg = f"cannot read {path}: its ending is none of {', '.join(SUFFIXES)}"
    raise UsageError(msg)


def write(path: str, arrays: Arrays) -> None:
    """Write named arrays as .npz; text becomes NumPy's own text type, which needs no pickle."""
    import numpy as np

    savable: dict[str, Any] = {name: a.astype(str) if a.dtype == object else a for name, a in arrays.items()}
    np.savez(path, allow_pickle=False, **savable)


def to_records(arrays: Arrays) -> list[dict[str, Any]]:
    """Return one JSON-ready dict a row; NaN and infinities become null and text, which JSON has."""
    columns = {name: [_plain(value) for value in array.tolist()] for name, array in arrays.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _records(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        msg = f"{where}: not valid JSON ({error})"
        raise UsageError(msg) from error


def _numpy(file: Path) -> Any:
    import numpy as np

    try:
        loaded = np.load(io.BytesIO(file.read_bytes()), allow_pickle=False)
    except ValueError as error:
        msg = f"{file}: not a NumPy file of plain arrays ({error})"
        raise UsageError(msg) from error
    return loaded if isinstance(loaded, np.ndarray) else dict(loaded)


def _frame(file: Path) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        msg = f"reading {file.suffix} files needs pandas, which is not installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[pandas]'") from error
    try:
        return pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
    except (ValueError, ImportError) as error:
        msg = f"{file}: cannot be read ({error})"
        raise UsageError(msg) from error
