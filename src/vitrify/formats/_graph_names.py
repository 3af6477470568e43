"""How the names of a signature and those of a graph belong together, for every format that is a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Example


def match(inputs: Sequence[str], outputs: Sequence[str], example: Example) -> dict[str, dict[str, str]]:
    """Return ``inputs`` and ``outputs`` of an entry: by name where all names are the same, else by position.

    Raises:
        UnsupportedModelError: The graph takes more or fewer inputs than the example has.
    """
    fields = [field.name for field in example.signature.inputs]
    if len(inputs) != len(fields):
        msg = f"the graph takes {len(inputs)} inputs {list(inputs)}, the example has {len(fields)}: {fields}"
        raise UnsupportedModelError(msg, remedy="give a dict with the graph's own input names as the example")
    pairs = zip(fields, fields if set(fields) == set(inputs) else inputs, strict=True)
    return {"inputs": dict(pairs), "outputs": {name: name for name in outputs}}
