"""Edges: which steps of the lineage an event tells of. The handlers write them, the audit expects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Step = tuple[str, str, str, dict[str, Any]]
"""Source, target, kind, facts."""


def of_version(model: str, version: str, facts: dict[str, Any]) -> Iterator[Step]:
    """Yield the edges that a ``version.created`` makes."""
    source = f"artifact:{facts['digest']}"
    yield source, f"version:{model}:{version}", "registered", {"format": facts["variants"][0].get("format", "")}
    yield from of_variants(facts)
    for name, where in facts["datasets"].items():
        yield f"dataset:{where}", source, "trained on", {"name": name}
    if facts["commit"]:
        yield f"commit:{facts['commit']}", source, "built from", {}


def of_variants(facts: dict[str, Any]) -> Iterator[Step]:
    """Yield what each artifact says of itself: what it was made from, and by which steps."""
    formats = {variant["digest"]: variant.get("format", "") for variant in facts["variants"]}
    for target, source, steps in facts["sources"]:
        said = {"steps": list(steps), "format": formats[target]}
        yield f"artifact:{source}", f"artifact:{target}", "converted", said


def of_deployment(model: str, version: str, facts: dict[str, Any]) -> Iterator[Step]:
    """Yield the edge that a ``deployment.started`` makes."""
    yield f"version:{model}:{version}", f"deployment:{facts['id']}", "deployed", {"target": facts["target"]}
