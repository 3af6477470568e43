"""Hugging Face directories: a repository of transformers, diffusers, peft or sentence-transformers, or its cache.

The format answers for what only makes sense together: configuration, chat templates, the shards of one set of
weights. Every other file is looked at as what it is. A model of transformers, alone or in a tuple with its tokenizer,
is written as ``save_pretrained`` does and read with the library's own classes only.

Entry: ``attention``, the implementation that the model was saved with.

Source: https://huggingface.co/docs/transformers/main/en/main_classes/configuration, and for the cache
https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.protocols import Written
from vitrify.formats._hugging_face import layout
from vitrify.reading.files import HeldFiles
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
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

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a model, or a tuple of a model and its tokenizer.

        Raises:
            UnsupportedModelError: Its class is not one of transformers, or the library cannot write it.
        """
        from vitrify.formats._hugging_face import live
        from vitrify.formats._torch.call import training

        network, tokenizer = model if isinstance(model, tuple) else (model, None)
        live.write(network, tokenizer, sink)
        attention = getattr(network.config, "_attn_implementation", None)
        notes = ("the model was in training mode; it is loaded in eval mode",) if training(network) else ()
        return Written(entry={"attention": attention} if attention else {}, notes=notes)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the model, or a tuple of the model and its tokenizer.

        Raises:
            UntrustedCodeError: The directory asks for code, and ``allow`` does not name it.
            MalformedError: It does not fit together, or has no weights as safetensors.
            UnsupportedModelError: Its class is not one of transformers.
        """
        from vitrify.formats._hugging_face import live

        allow.require([found.subject for found in self.hazards(files, entry) if found.subject], what="this directory")
        model, tokenizer = live.load(files, _base(files), entry.get("attention"))
        return model if tokenizer is None else (model, tokenizer)


def _base(files: Files) -> str:
    base = layout.find(files)
    return refuse("this directory", "no configuration of Hugging Face's") if base is None else base
