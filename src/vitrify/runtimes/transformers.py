"""Hugging Face models on PyTorch: named tensors in, all tensors of the answer out.

With a tokenizer and an example of text there is one input, ``string[batch]``, which the tokenizer pads to the longest
of the batch. A model that could keep a cache of what it has read is asked not to.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vitrify.core.errors import UsageError
from vitrify.formats._torch.call import evaluated, outputs_by_name
from vitrify.formats.hugging_face import HuggingFace
from vitrify.runtimes._sizes import output_fields, shapes
from vitrify.runtimes._torch_arrays import array, tensor
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field, Signature


class TransformersRuntime:
    """The runtime of models of transformers."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open a directory."""
        return self.wrap(HuggingFace().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a model, or over a tuple of a model and its tokenizer."""
        return _TransformersSession(model, signature_of(document, "a model"))

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return the shapes of the outputs, found by calling the model with every changeable size doubled.

        Raises:
            ModelError: The model rejects the example.
            UnsupportedModelError: It works for the example's own sizes only.
        """
        session = _TransformersSession(model, example.signature)
        found = shapes(session.run, example)
        if session.text:
            name = session.text
            longer = {name: np.array([f"{value} {value}" for value in example.arrays[name]], object)}
            before, after = session.run(example.arrays), session.run(longer)
            for output, sizes in found.items():
                pairs = zip(before[output].shape, after[output].shape, strict=True)
                grown = (old != new for old, new in pairs)
                found[output] = ["tokens" if more else size for size, more in zip(sizes, grown, strict=True)]
        return {"call_shapes": found}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change was found out by calling the model."""
        return output_fields(outputs, entry.get("call_shapes", {}))


class _TransformersSession(BaseSession):
    """A session; ``text`` is the name of its one input where that is text."""

    def __init__(self, model: Any, signature: Signature) -> None:
        super().__init__(signature)
        self._model, self._tokenizer = model if isinstance(model, tuple) else (model, None)
        fields = signature.inputs
        self.text = fields[0].name if len(fields) == 1 and fields[0].dtype in {"string", "object"} else ""
        if self.text and self._tokenizer is None:
            msg = "text was given, and the model has no tokenizer"
            raise UsageError(msg, remedy="save both: save((model, tokenizer), name, example=['some text'])")
        takes = inspect.signature(self._model.forward).parameters
        self._options = {"use_cache": False} if "use_cache" in takes else {}

    def _run(self, inputs: Arrays) -> Arrays:
        with evaluated(self._model), torch.inference_mode():
            given = self._tokens(inputs) if self.text else {name: tensor(value) for name, value in inputs.items()}
            answer = self._model(**given, **self._options, return_dict=True)
            return {name: array(value) for name, value in outputs_by_name(answer).items()}

    def _tokens(self, inputs: Arrays) -> dict[str, torch.Tensor]:
        texts = [str(value) for value in inputs[self.text]]
        return dict(self._tokenizer(texts, padding=True, truncation=True, return_tensors="pt"))
