"""The one file of a library's own kind in an artifact, next to what Vitrify adds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.core.document import DOCUMENT, GOLDEN
from vitrify.core.errors import MalformedError
from vitrify.formats._boosters.wrapper import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Files

_OURS = frozenset({STATE, DOCUMENT, GOLDEN})


def find(files: Files, entry: Mapping[str, Any], suffixes: tuple[str, ...]) -> str:
    """Return the name of the model's native file: the entry's, or else the only one with such an ending.

    Raises:
        MalformedError: There is none, or more than one.
    """
    if "file" in entry:
        return str(entry["file"])
    found = [name for name in files.names() if name not in _OURS and name.endswith(suffixes)]
    if len(found) != 1:
        msg = f"one file {' or '.join(suffixes)} was expected, not {found or 'none'} (there are: {files.names()})"
        raise MalformedError(msg)
    return found[0]


def shown(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that were set, those that are no JSON as text."""
    return {key: value if _is_json(value) else str(value) for key, value in parameters.items() if value is not None}


def _is_json(value: Any) -> bool:
    return type(value) in {bool, int, str} or (type(value) is float and math.isfinite(value))
