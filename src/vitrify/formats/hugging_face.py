"""Hugging Face directories: a repository of transformers, diffusers, peft or sentence-transformers, or its cache.

The format answers for what only makes sense together: configuration, chat templates, the shards of one set of
weights. Every other file is looked at as what it is.

Source: https://huggingface.co/docs/transformers/main/en/main_classes/configuration, and for the cache
https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats._hugging_face import layout
from vitrify.reading.files import HeldFiles
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding


class HuggingFace:
    """The format of model directories that have Hugging Face's configuration."""

    def detect(self, files: Files) -> bool:
        """Say whether a directory has a configuration of transformers, diffusers or peft."""
        return layout.find(files) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return architecture, versions, weights, tokenizer, licence and needs; no weight is read."""
        from vitrify.formats._hugging_face import facts

        return facts.describe(files, _base(files))

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:  # noqa: ARG002 (the protocol's)
        """Yield code that the configuration asks for, what templates would do, and paths out of the directory."""
        from vitrify.formats._hugging_face import hazards

        yield from hazards.hazards(files, _base(files))

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterator[tuple[str, Files]]:  # noqa: ARG002 (the protocol's)
        """Yield each set of safetensors shards with its index; they are one model, not many."""
        for names in layout.shards(files, _base(files)).values():
            yield "", HeldFiles({name: files.map(name) for name in names})


def _base(files: Files) -> str:
    base = layout.find(files)
    return refuse("this directory", "no configuration of Hugging Face's") if base is None else base
