"""The index of weights in several files, as JSON: which tensor, or layer, is in which file beside it.

transformers and Keras open whatever file it names, as a pickle if need be; so each has to be a name in its own folder.

Specification: https://huggingface.co/docs/transformers/main/en/big_models#sharded-checkpoints
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._archives import one_file
from vitrify.reading import json
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files

_KEY = "weight_map"
_MAX_INDEX = 32 * 1024 * 1024


class WeightsIndex:
    """Indices of transformers, diffusers and Keras, whatever their weights are."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a JSON object with a map of weights."""
        name = only(files)
        return name is not None and _KEY in json.peek(files.map(name), _KEY)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return how many tensors are in which file."""
        from collections import Counter

        return {"files": dict(sorted(Counter(_locations(files, entry)).items()))}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield each file that is not beside the index."""
        place = f"{entry.get('file', only(files))}: {_KEY}"
        for location in dict.fromkeys(_locations(files, entry)):
            if _leaves(location):
                yield Finding(
                    place=place,
                    message=f"weights are said to lie in {location[:200]!r}, which is not beside it",
                    remedy="do not load it: no honest tool writes this",
                    rule="path",
                    subject=location,
                )


def _locations(files: Files, entry: Mapping[str, Any]) -> Iterator[str]:
    view, where = one_file(files, entry)
    found = json.parse(view, where=where, most=_MAX_INDEX)
    listed = found.get(_KEY) if isinstance(found, dict) else None
    if not isinstance(listed, dict):
        refuse(where, "no map of weights")
    for value in listed.values():
        for location in value if isinstance(value, list) else [value]:
            yield location if isinstance(location, str) else refuse(where, "a file of weights whose name is no text")


def _leaves(location: str) -> bool:
    """Say whether a location is more than a file's name, on any system; a folder below is none that a tool writes."""
    plain = location.replace("\\", "/")
    return not plain or "\0" in plain or ":" in plain or plain.startswith(("/", "~")) or ".." in plain.split("/")
