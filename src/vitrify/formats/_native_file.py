"""The one file of a library's own kind in an artifact, next to what Vitrify adds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.core.document import DOCUMENT, GOLDEN
from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
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


def said(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts without those of which the file says nothing; a number that JSON cannot say is text."""
    found = {key: _sayable(value) if key != "tensors" else value for key, value in facts.items()}
    return {key: value for key, value in found.items() if value is not None and value not in ("", [], {})}


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _sayable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def custom_objective(name: str, objective: str, library: str) -> Finding:
    """Return the finding about an objective that the library itself does not have."""
    return Finding(
        place=name,
        message=f"the objective {objective!r} is none of {library}'s own: what it makes of the trees is code elsewhere",
        rule="custom-objective",
        subject=objective,
        verdict="not checked",
    )


def _is_json(value: Any) -> bool:
    return type(value) in {bool, int, str} or (type(value) is float and math.isfinite(value))
