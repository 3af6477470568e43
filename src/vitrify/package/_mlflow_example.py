"""Input examples of MLflow directories: read into what the model is called with, and written from golden samples.

A frame stands as ``{"columns": [...], "data": [[...]]}``, an array as nested lists, several arrays as an object. The
types are those of the signature: JSON has only numbers and text.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.errors import MalformedError
from vitrify.package import _mlflow_types
from vitrify.package._folder import put
from vitrify.reading import json as strict

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Files
    from vitrify.package._mlflow_types import Port

EXAMPLE, SERVING = "input_example.json", "serving_input_example.json"
_MAX_BYTES, _ROWS = 16 * 1024 * 1024, 5
_MADE_UP = (0.0, 1.0, 2.0)
_MAX_MADE_UP = 1_000_000


def read_example(files: Files, model: dict[str, Any], ports: tuple[Port, ...] | None) -> Any:
    """Return the directory's input example; None where it has none, or one in a form that is not read here.

    Raises:
        MalformedError: It is no JSON, or does not fit the signature.
    """
    info = model.get("saved_input_example_info")
    if not isinstance(info, dict) or EXAMPLE not in files.names() or info.get("artifact_path") != EXAMPLE:
        return None
    value = strict.parse(files.map(EXAMPLE), where=EXAMPLE, most=_MAX_BYTES)
    try:
        match info.get("type"):
            case "dataframe" if isinstance(value, dict) and {"columns", "data"} <= value.keys():
                return _frame(value, ports or ())
            case "ndarray" if isinstance(value, dict):
                return {str(name): _array(one, _named(ports, name)) for name, one in value.items()}
            case "ndarray" if isinstance(value, list):
                return _array(value, ports[0] if ports and len(ports) == 1 else None)
    except (ValueError, TypeError, OverflowError) as error:
        msg = f"{EXAMPLE}: it does not fit the signature beside it ({str(error)[:200]})"
        raise MalformedError(msg, remedy="give an example of your own: --example DATA") from error
    return None


def made_up(ports: tuple[Port, ...] | None) -> Any:
    """Return three rows of numbers that a signature describes; None where it asks for text, times or unknown sizes."""
    if not ports or any(np.dtype(_numpy(port.dtype)).kind not in "biuf" for port in ports):
        return None
    if all(port.shape is None for port in ports):
        import pandas as pd

        columns = [(port.name, np.asarray(_MADE_UP).astype(port.dtype)) for port in ports]
        frame = pd.DataFrame({index: values for index, (_, values) in enumerate(columns)})
        frame.columns = pd.Index([index if name is None else name for index, (name, _) in enumerate(columns)])
        return frame
    arrays = {}
    for port in ports:
        if port.shape is None or not port.shape or port.shape[0] != -1 or any(size < 1 for size in port.shape[1:]):
            return None
        shape = (len(_MADE_UP), *port.shape[1:])
        if math.prod(shape) > _MAX_MADE_UP:
            return None
        column = np.reshape(np.asarray(_MADE_UP), (-1, *(1 for _ in port.shape[1:])))
        arrays[port.name] = np.broadcast_to(column, shape).astype(port.dtype)
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    return arrays if len(arrays) == len(ports) and None not in arrays else None


def write_example(artifact: Artifact, new: Path) -> dict[str, Any] | None:
    """Write the first golden rows as an input example, and return what MLmodel says about it; None where there is none.

    Only what JSON keeps exactly is written: text, booleans and finite numbers.
    """
    signature = artifact.document.signature
    inputs, _ = artifact.golden()
    if signature is None or not inputs or not signature.batched or _mlflow_types.written(signature) is None:
        return None
    rows = containers.take(inputs, signature.inputs, slice(0, _ROWS))
    if any(not _exact(array) for array in rows.values()):
        return None
    if signature.is_table:
        lists = [rows[field.name].tolist() for field in signature.inputs]
        example: Any = {"columns": [field.name for field in signature.inputs], "data": list(zip(*lists, strict=True))}
        info = {"artifact_path": EXAMPLE, "type": "dataframe", "pandas_orient": "split"}
        served = {"dataframe_split": example}
    else:
        arrays = {name: array.tolist() for name, array in rows.items()}
        example = arrays if signature.container == "dict" else next(iter(arrays.values()))
        info = {"artifact_path": EXAMPLE, "type": "ndarray"}
        served = {"inputs": example}
    put(new, EXAMPLE, json.dumps(example, ensure_ascii=False).encode())
    put(new, SERVING, json.dumps(served, ensure_ascii=False, indent=2).encode())
    return {**info, "serving_input_path": SERVING}


def _frame(value: dict[str, Any], ports: tuple[Port, ...]) -> Any:
    import pandas as pd

    frame = pd.DataFrame(value["data"], columns=value["columns"])
    for port in ports:
        if port.name in frame.columns and not frame[port.name].isna().any():
            kind = "object" if port.dtype in {"string", "bytes"} else port.dtype
            frame[port.name] = frame[port.name].astype(kind)
    return frame


def _array(value: Any, port: Port | None) -> np.ndarray[Any, Any]:
    array = np.asarray(value, dtype=_numpy(port.dtype) if port else None)
    if array.dtype.kind not in "biufUO":
        msg = f"an array of {array.dtype}"
        raise ValueError(msg)
    return array


def _named(ports: tuple[Port, ...] | None, name: str) -> Port | None:
    return next((port for port in ports or () if port.name == name), None)


def _numpy(dtype: str) -> str:
    return "object" if dtype in {"string", "bytes", "bfloat16"} else dtype


def _exact(array: np.ndarray[Any, Any]) -> bool:
    if isinstance(array, np.ma.MaskedArray) or array.dtype.kind not in "biufO":
        return False
    if array.dtype.kind == "O":
        return all(isinstance(one, str) for one in array.ravel())
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
