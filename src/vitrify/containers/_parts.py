"""Parts: the arrays, tensors, lists and numbers inside a dict or a tuple, each by its own container.

``container_dtype`` of such a field says what the part was: ``torch``, ``list``, ``scalar``, or else an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.containers._values import as_array, describe, from_list
from vitrify.containers.numpy import native, native_dtype, plain
from vitrify.core.catalog import catalog
from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    import numpy as np

    from vitrify.containers._labels import Key
    from vitrify.core.signature import Field

    Array = np.ndarray[Any, Any]

_SCALARS = (bool, int, float, complex, str, bytes)


def describe_part(name: str, value: Any, *, key: Key = None) -> Field:
    """Return the field of one part.

    Raises:
        SignatureError: It is no array, tensor, list or number.
    """
    kind = _kind(name, value)
    if kind == "torch":
        field: Field = catalog().load("container", "torch").fields(value)[0]
        return field.replace(name=name, key=key, container_dtype="torch")
    if kind == "numpy":
        array = as_array(value)
        return describe(name, array).replace(key=key, container_dtype=native_dtype(array))
    return describe(name, part_array(name, value, None)).replace(key=key, container_dtype=kind)


def part_array(name: str, value: Any, field: Field | None) -> Array:
    """Return one part as an array."""
    match _kind(name, value):
        case "torch":
            [array] = catalog().load("container", "torch").to_arrays(value, ()).values()
            return as_array(array)
        case "list" | "scalar":
            return from_list(value, name=name, dtype=field.dtype if field else None)
        case _:
            return plain(as_array(value))


def native_part(array: Array, field: Field) -> Any:
    """Return one part as the example had it."""
    match field.container_dtype:
        case "torch":
            return catalog().load("container", "torch").from_arrays({field.name: array}, (field,))
        case "list" | "scalar":
            return array.tolist()
        case _:
            return native(array, field)


def _kind(name: str, value: Any) -> str:
    row = catalog().for_object("container", value)
    if row and row.name in {"numpy", "torch"}:
        return row.name
    if isinstance(value, list):
        return "list"
    if isinstance(value, _SCALARS) or value is None:
        return "scalar"
    if hasattr(value, "__array__") and len(getattr(value, "shape", (0, 0, 0))) <= 1:
        return "numpy"
    msg = f"{name}: a {type(value).__name__} where an array, a tensor, a list or a number is expected"
    raise SignatureError(msg, remedy="convert it with numpy.asarray")
