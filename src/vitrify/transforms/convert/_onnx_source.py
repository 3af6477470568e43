"""What every step that starts from an ONNX artifact carries on of its entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PORTS = ("inputs", "outputs", "casts", "missing_text")
"""How the signature's names and the graph's belong together; see :mod:`vitrify.runtimes._ports`."""


def ports(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return those keys of an entry that are there, for a target whose graph has the same names."""
    return {key: entry[key] for key in PORTS if key in entry}
