"""Hybrid artifacts: a pipeline in parts, each in a format of its own.

``hybrid.json`` is answered for here (:mod:`._hybrid.recipe`); the files of the parts, under ``steps/<n>/``, are looked
at as what they are. It is written by a transform, never from a live model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import VitrifyError
from vitrify.core.report import Finding
from vitrify.formats._hybrid import recipe as recipes
from vitrify.reading.json import peek

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.protocols import Files


class Hybrid:
    """The format of artifacts in parts."""

    def detect(self, files: Files) -> bool:
        """Say whether a folder has a recipe with steps."""
        try:
            return recipes.FILE in files.names() and "steps" in peek(files.map(recipes.FILE), "steps")
        except (VitrifyError, OSError):
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return the parts in order: format, runtime, what each is fed and fills."""
        recipe = recipes.read(files)
        names = sorted({name for _, _, document in recipes.models(recipe) for name in document.code.names})
        return {
            "producer": "vitrify",
            "versions": {"hybrid": recipe.version},
            "outputs": [{"name": name, "type": "", "shape": None} for name in recipe.outputs],
            "steps": recipes.facts(recipe),
            "needs": names,
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:  # noqa: ARG002 (the protocol's)
        """Yield files beside the parts that no part answers for; the parts answer for themselves."""
        recipe = recipes.read(files)
        for _, stage, document in recipes.models(recipe):
            for name in document.code.names:
                yield Finding(
                    place=f"{recipes.FILE}: {stage.name}",
                    message=f"would import and use {name} when it is loaded",
                    rule="untrusted-global",
                    subject=name,
                    remedy="read that code; if you trust it, allow it by its exact name",
                )

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:  # noqa: ARG002 (the protocol's)
        """Yield the files of each part."""
        recipe = recipes.read(files)
        for index, _, _ in recipes.models(recipe):
            yield f"{recipes.FOLDER}/{index}", recipes.files_of(files, recipe, index)
