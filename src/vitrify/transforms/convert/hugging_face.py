"""From a model of transformers to an exported PyTorch program: the model's own ``forward``, over the golden samples.

Every dimension that the signature names may change, lengths of sequences among them; what a model keeps as a cache is
left out. Text is not carried: a program takes what the tokenizer makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Example, Written
from vitrify.core.report import Finding
from vitrify.formats._torch.quiet import quiet
from vitrify.formats.hugging_face import HuggingFace
from vitrify.formats.torch_export import TorchExport
from vitrify.runtimes._torch_arrays import tensor

if TYPE_CHECKING:
    import torch

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject


class HuggingFaceToTorch:
    """The step from ``hugging-face`` to ``torch-export``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List inputs that are text, and what torch.export cannot follow."""
        signature = source.document.signature
        found = [
            Finding(
                place=field.name,
                message="is text, which the tokenizer turns into numbers before the model",
                remedy="save the model with an example of tensors: tokenizer(texts, return_tensors='pt')",
            )
            for field in (signature.inputs if signature else ())
            if field.dtype in {"string", "object"}
        ]
        if not found and not source.golden:
            remedy = "pack it with an example of what it is called with"
            found.append(Finding(place="forward", message="there are no samples to export it with", remedy=remedy))
        return tuple(found)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Export the model with its own attention, or where that cannot be exported, with the plain one."""
        attention = source.document.entry.get("attention")
        kinds = dict.fromkeys([attention, "eager"])
        refusal: UnsupportedModelError | None = None
        for kind in kinds:
            model = _model(source, kind)
            try:
                with quiet():
                    written = TorchExport().write(model, sink, _example(source))
            except UnsupportedModelError as error:
                refusal = refusal or error
            else:
                notes = (*written.notes, f"exported with attention {kind!r}") if kind != attention else written.notes
                return Written(entry=written.entry, names=written.names, notes=notes)
        assert refusal is not None
        raise refusal


def _model(source: Subject, attention: str | None) -> torch.nn.Module:
    entry = {**source.document.entry, "attention": attention}
    found = HuggingFace().read(source.files, entry, source.allow)
    model: Any = found[0] if isinstance(found, tuple) else found
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    plain: torch.nn.Module = model
    return plain


def _example(source: Subject) -> Example:
    signature = source.document.signature
    assert signature is not None
    arrays = {field.name: source.golden[field.name] for field in signature.inputs}
    native = {name: tensor(value) for name, value in arrays.items()}
    return Example(native=native, arrays=arrays, signature=signature.replace(container="dict"))
