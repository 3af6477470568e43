"""From a model to its weights alone: the tensors by name, in their own element types. How to compute with them is lost.

What was written is read again and compared with the source, tensor by tensor; tied tensors are stored once, and the
file says which they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_KEPT = "weights/"


class _Weights(ABC):
    """The step from a format to ``safetensors``; a subclass says which tensors there are."""

    @abstractmethod
    def tensors(self, source: Subject) -> Mapping[str, Any]:
        """Return arrays or tensors by name."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List what is no dense tensor of numbers."""
        try:
            tensors = self.tensors(source)
        except UnsupportedModelError as error:
            return error.problems or (Finding(place="model", message=error.message, remedy=error.remedy),)
        if not tensors:
            return (Finding(place="model", message="it has no weights", remedy="convert it to another format"),)
        remedy = "keep the format that it has: text is no weight"
        return tuple(
            Finding(place=name, message=f"{value.dtype}", remedy=remedy)
            for name, value in tensors.items()
            if isinstance(value, np.ndarray) and value.dtype.kind in "OSU"
        )

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the tensors."""
        from vitrify.formats._safetensors.write import write_tensors

        tensors = dict(self.tensors(source))
        entry, notes = write_tensors(tensors, sink)
        _require_same(tensors, entry, sink)
        return Written(entry=entry, notes=("the weights alone: how to compute with them was left behind", *notes))


def _require_same(tensors: Mapping[str, Any], entry: Mapping[str, Any], sink: Any) -> None:
    """Compare what was written with what there was, where the sink shows it.

    Raises:
        UnsupportedModelError: A tensor is not what it was; each is listed.
    """
    from vitrify.formats._safetensors.read import read_tensors

    if not hasattr(sink, "files"):
        return
    found = read_tensors(sink.files(), entry)
    wrong = [name for name, value in tensors.items() if name not in found or not _same(value, found[name])]
    if wrong:
        problems = [Finding(place=name, message="is not the same in the file") for name in wrong]
        msg = f"{len(wrong)} tensor(s) could not be kept"
        raise UnsupportedModelError(msg, problems=problems, remedy="please report this: it is a fault of the writer")


def _same(left: Any, right: Any) -> bool:
    if str(left.dtype) != str(right.dtype) or tuple(left.shape) != tuple(right.shape):
        return False
    return _bytes(left) == _bytes(right)


def _bytes(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    import torch

    dense = value.detach().cpu().contiguous().resolve_conj().resolve_neg()
    return bytes(dense.reshape(-1).view(torch.uint8).numpy().tobytes()) if dense.numel() else b""


class TorchWeights(_Weights):
    """The step from ``torch-export``: its parameters and buffers."""

    def tensors(self, source: Subject) -> Mapping[str, Any]:
        """Return the program's tensors; tied ones are the same tensor."""
        from vitrify.formats._torch.program import tensors
        from vitrify.formats.torch_export import read_program

        found: Mapping[str, Any] = tensors(read_program(source.files, source.document.entry, source.allow))
        return found


class HuggingFaceWeights(_Weights):
    """The step from ``hugging-face``: the state of the model."""

    def tensors(self, source: Subject) -> Mapping[str, Any]:
        """Return the state dict of the model that the format reads."""
        from vitrify.core.catalog import catalog
        from vitrify.core.protocols import Live

        format_ = catalog().load("format", "hugging-face")
        if not isinstance(format_, Live):
            msg = "models of Hugging Face are looked at here, not loaded"
            raise UnsupportedModelError(msg, remedy="take the .safetensors files of the model themselves")
        model = format_.read(source.files, source.document.entry, source.allow)
        state: Mapping[str, Any] = getattr(model, "model", model).state_dict()
        return state


class KerasWeights(_Weights):
    """The step from ``keras``: the variables by their paths."""

    def tensors(self, source: Subject) -> Mapping[str, Any]:
        """Return every variable that counts for predictions, by its path."""
        from vitrify.formats.keras import Keras

        model = Keras().read(source.files, source.document.entry, source.allow)
        from vitrify.formats._keras.live import variables

        return variables(model)


class TensorFlowWeights(_Weights):
    """The step from ``saved-model``: the variables by their names in the checkpoint."""

    def tensors(self, source: Subject) -> Mapping[str, Any]:
        """Return what the checkpoint holds; nothing of the graph is run."""
        import tempfile
        from pathlib import Path

        from vitrify.formats._laid_out import lay_out
        from vitrify.formats._tensorflow.loaded import tf

        if not any(name.startswith("variables/") for name in source.files.names()):
            return {}
        with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
            lay_out(source.files, Path(folder))
            reader = tf.train.load_checkpoint(str(Path(folder, "variables", "variables")))
            names = [name for name in reader.get_variable_to_shape_map() if name.endswith(_SUFFIX)]
            return {_plain(name): reader.get_tensor(name) for name in sorted(names)}


def _plain(name: str) -> str:
    """Return a variable's own name: what stands in front of it in the checkpoint is where it was held."""
    held = name.removesuffix(_SUFFIX).removeprefix(_KEPT)
    return held.replace(".S", "/").replace("..", ".")


class OnnxWeights(_Weights):
    """The step from ``onnx``: the initialisers."""

    def tensors(self, source: Subject) -> Mapping[str, Any]:
        """Return the initialisers of the graph by name."""
        from onnx import numpy_helper

        from vitrify.formats.onnx import Onnx

        model = Onnx().read(source.files, source.document.entry, source.allow)
        arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        return {name: array for name, array in arrays.items() if array.dtype.kind != "O"}
