"""Values of a stranger's JSON or YAML, taken for what they should be: what is something else is taken for nothing."""

from __future__ import annotations

from typing import Any


def items(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
