"""From ONNX to a saved model: the graph replayed on TensorFlow's operators.

Initialisers become variables of the same names; sizes that may change stay free; double precision and text are kept.
What is a port's name in the graph is its name here as far as TensorFlow takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from vitrify.core.errors import UnsupportedModelError, VitrifyError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._tensorflow.loaded import tf
from vitrify.formats._tensorflow.quiet import quiet
from vitrify.formats._tensorflow.serving import unique
from vitrify.formats.onnx import Onnx
from vitrify.formats.saved_model import SavedModel
from vitrify.transforms.replay._tensorflow_base import remembering, tensor
from vitrify.transforms.replay.tensorflow_ops import ops
from vitrify.transforms.replay.walk import Replay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_MAX_REASON = 400
_SMALL = 16
"""Elements of an integer constant that stays in the graph: shapes and axes are no weights."""
_CARRIED = ("missing_text", "casts", "labels")


class OnnxToSavedModel:
    """The step from ``onnx`` to ``saved-model``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List every operator that TensorFlow lacks; else whatever stops the replay."""
        model = Onnx().read(source.files, source.document.entry, source.allow)
        try:
            _traced(Replay(model, ops))
        except UnsupportedModelError as error:
            return error.problems or (_finding(error.message, error.remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the saved model."""
        entry = source.document.entry
        replay = Replay(Onnx().read(source.files, entry, source.allow), ops)
        function, variables, ports = _traced(replay)
        SavedModel().write_function(function, function, sink, variables)
        carried = {key: entry[key] for key in _CARRIED if key in entry}
        return Written(entry={**carried, **_renamed(source, replay, ports)})


def _traced(replay: Replay) -> tuple[Any, dict[str, Any], dict[str, str]]:
    """Return the traced function, its variables by name, and the graph's ports with their names in it.

    Raises:
        UnsupportedModelError: An operator cannot do what the graph asks of it.
    """
    takes, gives = replay.inputs, [value.name for value in replay.model.graph.output]
    ports = dict(zip([value.name for value in takes], unique(value.name for value in takes), strict=True))
    answers = dict(zip(gives, unique(gives), strict=True))
    constants = replay.constants
    weights = {
        name: tf.Variable(tensor(value), trainable=False, name=unique([name])[0])
        for name, value in constants.items()
        if _is_weight(value)
    }

    def serve(**given: Any) -> dict[str, Any]:
        read = {name: tf.convert_to_tensor(variable) for name, variable in weights.items()}
        with remembering((read[name], constants[name]) for name in read):
            found = replay({name: given[port] for name, port in ports.items()}, read)
        return {answers[name]: tf.identity(tensor(value)) for name, value in zip(gives, found, strict=True)}

    specs = {ports[value.name]: _specification(value, ports[value.name]) for value in takes}
    try:
        with quiet():
            function = tf.function(serve, autograph=False).get_concrete_function(**specs)
    except VitrifyError:
        raise
    except Exception as error:
        msg = f"TensorFlow cannot replay this graph: {type(error).__name__}: {str(error).strip()[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy="choose another target") from error
    read = {id(variable) for variable in function.graph.variables}
    kept = {name: variable for name, variable in weights.items() if id(variable) in read}
    return function, kept, {**ports, **answers}


def _is_weight(value: np.ndarray[Any, Any]) -> bool:
    """Say whether an initialiser becomes a variable.

    Each of floats does, also a single one: TensorFlow rewrites a division by a constant as a product with its inverse,
    and moves constants through sums, which rounds otherwise than the graph does.
    """
    return value.dtype.kind != "O" and (value.dtype.kind not in "biu" or value.size > _SMALL)


def _specification(value: onnx.ValueInfoProto, name: str) -> tf.TensorSpec:
    kind = value.type.tensor_type
    shape = None
    if kind.HasField("shape"):
        shape = [size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim]
    if value.type.WhichOneof("value") != "tensor_type":
        msg = f"the input {value.name!r} is no tensor"
        raise UnsupportedModelError(msg, remedy="convert the source without sequences and maps")
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return tf.TensorSpec(shape, tf.string if dtype.kind == "O" else tf.as_dtype(dtype), name=name)


def _renamed(source: Subject, replay: Replay, ports: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry's ``inputs`` and ``outputs``, with the function's names."""
    entry, signature = source.document.entry, source.document.signature
    takes = [value.name for value in replay.inputs]
    fields = [field.name for field in signature.inputs] if signature else takes
    inputs = entry.get("inputs") or dict(zip(fields, fields if set(fields) == set(takes) else takes, strict=False))
    outputs = entry.get("outputs") or {value.name: value.name for value in replay.model.graph.output}
    return {
        "inputs": {name: ports[port] for name, port in inputs.items()},
        "outputs": {name: ports[port] for name, port in outputs.items()},
    }


def _finding(message: str, remedy: str) -> Finding:
    return Finding(place="graph", message=message, remedy=remedy or "choose another target")
