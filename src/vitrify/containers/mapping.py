"""A dict of arrays, tensors, lists or numbers: one field a key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from vitrify.containers._labels import label, named, names
from vitrify.containers._match import gather
from vitrify.containers._parts import describe_part, native_part, part_array
from vitrify.containers._values import all_fields

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field


class MappingContainer:
    """Named arrays or tensors."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """See :class:`vitrify.core.protocols.Container`."""
        pairs = zip(named(example), example.values(), strict=True)
        return all_fields(partial(describe_part, name, value, key=key) for (name, key), value in pairs)

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """See :class:`vitrify.core.protocols.Container`."""
        by_label = names(data, fields)
        return gather(((by_label[key], value) for key, value in data.items()), fields, part_array)

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return a dict with the example's own keys."""
        return {label(field): native_part(arrays[field.name], field) for field in fields}
