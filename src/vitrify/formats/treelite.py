"""Treelite: the trees of any booster or forest in one checkpoint.

Source: https://treelite.readthedocs.io/en/latest/serialization/v4.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _facts, _native_file
from vitrify.formats._boosters import treelite_model
from vitrify.reading.files import head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.formats._boosters.treelite_model import TreeliteModel

MODEL = "model.tl"
_SUFFIXES = (".tl",)
_SHOWN_CLASSES = 10_000
_POSTPROCESSORS = frozenset(
    {
        *("identity", "signed_square", "hinge", "sigmoid", "exponential", "exponential_standard_ratio"),
        *("logarithm_one_plus_exp", "identity_multiclass", "softmax", "multiclass_ova"),
    }
)


class Treelite:
    """Models of Treelite. Nothing in such a file can run: it is numbers, and a name of a function of Treelite's."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a checkpoint of version 4."""
        return treelite_model.looks_like(head(files))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return trees, task, features and outputs; Treelite is not needed."""
        model = _parse(files, entry)
        targets, widest = len(model.classes), max(model.classes)
        return _native_file.said(
            {
                "library": "treelite",
                "versions": {"treelite": model.version},
                "task": model.task,
                "objective": model.postprocessor,
                "average": model.average,
                "trees": model.trees,
                "parameters": model.nodes,
                "inputs": [_facts.port("X", model.threshold, [None, model.features])],
                "outputs": [_facts.port("prediction", model.leaf, [None, targets, widest])],
                "classes": list(range(widest)) if targets == 1 < widest <= _SHOWN_CLASSES else None,
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield a function of the sum that Treelite does not have; trees and numbers are checked by reading them."""
        model = _parse(files, entry)
        if model.postprocessor not in _POSTPROCESSORS:
            yield Finding(
                place=_native_file.find(files, entry, _SUFFIXES),
                message=f"the function {model.postprocessor!r} of the trees' sum is none of Treelite's own",
                rule="custom-objective",
                subject=model.postprocessor,
                verdict="not checked",
            )

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write the checkpoint."""
        del example
        with sink.open(MODEL, "weight") as stream:
            stream.write(model.serialize_bytes())
        return Written()

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the live model; its structure is checked before Treelite sees it.

        Raises:
            MalformedError: It is no checkpoint, or one whose prediction would leave its own memory or never end.
        """
        del allow
        from treelite import Model, TreeliteError

        name = _native_file.find(files, entry, _SUFFIXES)
        _parse(files, entry)
        try:
            return Model.deserialize_bytes(files.read(name))
        except TreeliteError as error:
            msg = f"{name}: Treelite cannot read it ({error})"
            raise MalformedError(msg) from error


def _parse(files: Files, entry: Mapping[str, Any]) -> TreeliteModel:
    name = _native_file.find(files, entry, _SUFFIXES)
    return treelite_model.parse(files.map(name), where=name)
