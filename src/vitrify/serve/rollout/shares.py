"""Shares: the version that a request falls to, by the weights of the versions and the request's key.

The rule, which the native plane has too (``native/src/route.rs``): a key's position is ``(fnv1a64(key) >> 11) /
2**53``, from 0 to below 1. The weights, divided by their sum, are added up in their order; the first version whose sum
is above the position answers. Without a key the position is drawn by chance.

Source: http://www.isthe.com/chongo/tech/comp/fnv/ for the hash.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Weights = tuple[tuple[str, float], ...]
"""Versions and their weights, which need not add up to one."""

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1


def position(key: str) -> float:
    """Return where a key lies, from 0 to below 1."""
    value = _OFFSET
    for byte in key.encode(errors="surrogateescape"):
        value = ((value ^ byte) * _PRIME) & _MASK
    return (value >> 11) / 2**53


class Shares:
    """The weights of one model's versions, added up.

    Args:
        weights: One of them is above 0.
    """

    def __init__(self, weights: Weights) -> None:
        """Add them up one by one, as the native plane does: ``sum`` would round otherwise."""
        self.weights = tuple((version, weight) for version, weight in weights if weight > 0)
        sums, total = [], 0.0
        for _, weight in self.weights:
            total += weight
            sums.append(total)
        self._sums = [one / total for one in sums]

    def at(self, where: float) -> str:
        """Return the version at a position."""
        return self.weights[min(bisect_right(self._sums, where), len(self.weights) - 1)][0]

    def fractions(self) -> dict[str, float]:
        """Return each version's share of the requests."""
        total = sum(weight for _, weight in self.weights)
        return {version: weight / total for version, weight in self.weights}


def among(weights: Mapping[str, float], answering: Collection[str]) -> Weights:
    """Return the weights of those that answer; the shares of the others go to them. Empty where none answers."""
    return tuple((version, weight) for version, weight in weights.items() if weight > 0 and version in answering)


def with_canary(old: Mapping[str, float], version: str, fraction: float) -> dict[str, float]:
    """Return weights that give a new version its fraction, and the old ones the rest in their own proportions."""
    others = {name: weight for name, weight in old.items() if name != version and weight > 0}
    total = sum(others.values())
    return {**{name: weight / total * (1 - fraction) for name, weight in others.items()}, version: fraction}
