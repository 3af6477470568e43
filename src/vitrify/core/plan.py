"""Plan: the steps from one format to another, as a value."""

from __future__ import annotations

from typing import Any, Literal

from vitrify.core.wire import Value

Fidelity = Literal["exact", "numeric", "lossy"]
"""What a step may change: no bit that matters; only rounding; what the user agreed to lose."""

FIDELITIES: tuple[Fidelity, ...] = ("exact", "numeric", "lossy")


class Step(Value, frozen=True, kw_only=True):
    """One edge of the map: a transform between two formats."""

    transform: str
    source: str
    target: str
    fidelity: Fidelity
    options: dict[str, Any] = {}


class Plan(Value, frozen=True, kw_only=True):
    """The steps in order. An empty plan means that the artifact already has the target format."""

    source: str
    target: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        """Return the road as text."""
        if not self.steps:
            return f"{self.source} (nothing to do)"
        return self.source + "".join(f" --{step.transform} ({step.fidelity})--> {step.target}" for step in self.steps)
