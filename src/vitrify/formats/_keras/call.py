"""How a Keras model is called with named arrays, and how its answer becomes named tensors."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import ModelError, UnsupportedModelError, VitrifyError
from vitrify.formats._keras.loaded import keras
from vitrify.formats._named_outputs import outputs_by_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Example
    from vitrify.core.signature import Signature

_MATRIX = 2
_MAX_REASON = 400


def backend() -> str:
    """Return the name of the backend at hand."""
    return str(keras.backend.backend())


def named_outputs(value: Any) -> dict[str, Any]:
    """Return what a model declares to give, by name."""
    return outputs_by_name(value, lambda one: hasattr(one, "shape") and hasattr(one, "dtype"))


def inputs_of(model: Any) -> list[Any]:
    """Return the inputs that a model declares; none where it has to be called to know."""
    try:
        return list(model.inputs or ())
    except (AttributeError, ValueError):
        return []


def outputs_of(model: Any) -> Any:
    """Return what a model that declares its inputs gives: one tensor, or several in the structure that it returns."""
    try:
        return model.output
    except AttributeError:  # a Sequential that was not called from outside
        outputs = list(model.outputs)
        return outputs[0] if len(outputs) == 1 else outputs


def call(model: Any, tensors: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    """Call a model in inference mode; return the outputs by name.

    A model that declares its inputs gets them by name where the signature's are the same, else in order; the columns of
    a table are one matrix where it takes one. Any other is called as its user called it.

    Raises:
        UnsupportedModelError: It takes more or fewer inputs, or returns something other than tensors.
    """
    fields = [field.name for field in signature.inputs]
    declared = inputs_of(model)
    if not declared:
        passed: tuple[Any, ...] = _as_called(model, tensors, signature)
    elif len(declared) == 1 and len(fields) > 1 and signature.is_table:
        passed = (keras.ops.stack([tensors[name] for name in fields], axis=1),)
    else:
        names = [one.name for one in declared]
        if len(names) != len(fields):
            msg = f"the model takes {len(names)} inputs {names}, the example has {len(fields)}: {fields}"
            raise UnsupportedModelError(msg, remedy="give a dict with the model's own input names as the example")
        order = names if set(names) == set(fields) else fields
        flat = [_with_rank(tensors[name], one) for name, one in zip(order, declared, strict=True)]
        passed = (flat[0] if len(flat) == 1 else keras.tree.pack_sequence_as(model.input, flat),)
    return outputs_by_name(model(*passed, training=False), keras.ops.is_tensor)


def given(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays as tensors of the backend at hand.

    Raises:
        UnsupportedModelError: There is text, and the backend has none.
    """
    text = sorted(name for name, array in arrays.items() if array.dtype.kind == "O")
    if text and keras.backend.backend() != "tensorflow":
        msg = f"the inputs {text} are text, which {keras.backend.backend()} does not have"
        raise UnsupportedModelError(msg, remedy="use Keras on TensorFlow: KERAS_BACKEND=tensorflow")
    return {name: keras.ops.convert_to_tensor(_plain(array)) for name, array in arrays.items()}


def as_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of the backend as an array."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's variables and NumPy 2 do not agree on a keyword
        return np.asarray(keras.ops.convert_to_numpy(tensor))


def _plain(array: Any) -> Any:
    return array.tolist() if array.dtype.kind == "O" else np.ascontiguousarray(array).reshape(array.shape)


def build(model: Any, example: Example) -> None:
    """Call a model once, so that it has its weights.

    Raises:
        ModelError: It rejects the example.
    """
    try:
        call(model, given(example.arrays), example.signature)
    except VitrifyError:
        raise
    except Exception as error:
        msg = f"the model rejects the example: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
        raise ModelError(msg, remedy="give an example that the model itself can be called with") from error


def _as_called(model: Any, tensors: Mapping[str, Any], signature: Signature) -> tuple[Any, ...]:
    if signature.container == "dict" or signature.is_table:
        return (dict(tensors),)
    parts = tuple(tensors[field.name] for field in signature.inputs)
    takes = [
        parameter
        for name, parameter in inspect.signature(model.call).parameters.items()
        if name not in {"training", "mask"} and parameter.default is parameter.empty
    ]
    return parts if len(parts) == 1 or len(takes) > 1 else (parts,)


def _with_rank(tensor: Any, declared: Any) -> Any:
    """Make a vector a matrix of one column where the model takes that, as a table's column is."""
    wanted = len(declared.shape)
    if wanted == _MATRIX and len(tensor.shape) == 1 and declared.shape[-1] == 1:
        return keras.ops.expand_dims(tensor, -1)
    return tensor
