"""What a model returned, as named tensors: the same while saving and while predicting."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OUTPUT = "output"
"""The name of the one output of a model that returns a tensor; of several, ``output_0`` and so on."""


def outputs_by_name(value: Any, is_tensor: Callable[[Any], bool]) -> dict[str, Any]:
    """Return the tensors that a model returned, by name.

    A tensor is ``output``; the parts of a tuple or list are ``output_0``, ``output_1``; a mapping, a dataclass or a
    named tuple gives its own names. Parts of parts are joined with ``_``. What is None is left out.

    Raises:
        UnsupportedModelError: A part is something else, there is none, or two have one name.
    """
    if is_tensor(value):
        return {OUTPUT: value}
    found = list(leaves("", value, is_tensor))
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        found = [(f"{OUTPUT}_{position}", tensor) for position, (_, tensor) in enumerate(found)]
    if not found or len(dict(found)) != len(found):
        returned = f"outputs called {[name for name, _ in found]}" if found else "no output"
        msg = f"the model returns {returned}; expected at least one, each with a name of its own"
        raise UnsupportedModelError(msg, remedy="return a flat dict of tensors")
    return dict(found)


def leaves(name: str, value: Any, is_tensor: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors inside a value, each with the path of names that leads to it.

    Raises:
        UnsupportedModelError: Something in it is no tensor, and holds none.
    """
    if is_tensor(value):
        yield name, value
        return
    match value:
        case None:
            return
        case Mapping():
            parts = [(str(key), part) for key, part in value.items()]
        case tuple() if hasattr(value, "_fields"):
            parts = list(zip(value._fields, value, strict=True))
        case tuple() | list():
            parts = [(str(position), part) for position, part in enumerate(value)]
        case _ if dataclasses.is_dataclass(value):
            parts = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        case _:
            msg = f"the model returns a {type(value).__name__}{f' as {name!r}' if name else ''}, expected dense tensors"
            raise UnsupportedModelError(msg, remedy="return tensors, or a tuple, dict or dataclass of them")
    for key, part in parts:
        yield from leaves(f"{name}_{key}" if name else key, part, is_tensor)
