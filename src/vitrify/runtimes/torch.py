"""PyTorch on the CPU: exported programs, and live modules in eval mode.

Nothing is recorded for gradients. bfloat16 comes out as float32, which holds it exactly: NumPy has no bfloat16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vitrify import containers
from vitrify.core.errors import UsageError
from vitrify.formats._torch.call import arguments, evaluated, outputs_by_name
from vitrify.formats.torch_export import TorchExport
from vitrify.runtimes.session import BaseSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field, Signature


class TorchRuntime:
    """The runtime of PyTorch modules."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open an exported program over its memory-mapped weights."""
        return self.wrap(TorchExport().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a module; each call runs it in eval mode and leaves its own mode as it was."""
        if document.signature is None:
            msg = "a module without a signature cannot be called with named arrays"
            raise UsageError(msg, remedy="save it with an example")
        return _TorchSession(model, document.signature)

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the signature says how the module is called."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the exported program says."""
        known = entry.get("shapes", {})
        return tuple(
            field.replace(shape=tuple(known.get(field.name, field.shape)))
            for field in containers.output_fields(outputs, None)
        )


class _TorchSession(BaseSession):
    def __init__(self, model: torch.nn.Module, signature: Signature) -> None:
        super().__init__(signature)
        self._model = model

    def _run(self, inputs: Arrays) -> Arrays:
        args, kwargs = arguments(containers.from_arrays(inputs, self.signature), self.signature)
        with evaluated(self._model), torch.inference_mode():
            outputs = outputs_by_name(self._model(*args, **kwargs))
            return {name: _array(tensor) for name, tensor in outputs.items()}


def _array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    dense = tensor.detach().cpu().resolve_conj().resolve_neg()
    array: np.ndarray[Any, Any] = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    return array
