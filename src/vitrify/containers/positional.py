"""A tuple of arrays, tensors, lists or numbers: fields called ``input_0``, ``input_1`` in order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from vitrify.containers._parts import describe_part, native_part, part_array
from vitrify.containers._values import all_fields

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field


class PositionalContainer:
    """Positional arrays or tensors."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """See :class:`vitrify.core.protocols.Container`."""
        return all_fields(partial(describe_part, f"input_{position}", value) for position, value in enumerate(example))

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """See :class:`vitrify.core.protocols.Container`."""
        return positions(data, fields)

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return a tuple."""
        return tuple(native_part(arrays[field.name], field) for field in fields)


def positions(data: Any, fields: tuple[Field, ...]) -> Arrays:
    """Return parts by the field at their position; those behind the last field are called ``input_<position>``."""
    result = {}
    for position, value in enumerate(data):
        field = fields[position] if position < len(fields) else None
        name = field.name if field else f"input_{position}"
        result[name] = part_array(name, value, field)
    return result
