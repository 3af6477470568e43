"""What an array of indices points at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def within(index: NDArray[Any], end: int) -> bool:
    """Say whether every index is at least 0 and below ``end``."""
    return not index.size or bool(index.min() >= 0 and index.max() < end)


def behind(children: NDArray[Any], index: NDArray[Any], end: int) -> bool:
    """Say whether each node's child stands behind the node and below ``end``, so that every path ends."""
    return not children.size or bool((children > index).all() and children.max() < end)
