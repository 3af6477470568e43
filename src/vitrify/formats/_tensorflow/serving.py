"""The one function of a TensorFlow model that is kept: named tensors in, named tensors out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.core.signature import BATCH, Field
from vitrify.formats._named_outputs import outputs_by_name
from vitrify.formats._tensorflow.loaded import tf
from vitrify.formats._tensorflow.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vitrify.core.signature import Signature

DEFAULT = "serving_default"
_MAX_REASON = 600
_TEXT = frozenset({"string", "object"})


@dataclass(frozen=True)
class Serving:
    """A traced function and the signature's names of its ports.

    Attributes:
        function: Takes tensors by name, and returns a dict of them.
        inputs: Signature name to the function's.
        outputs: The same for outputs.
    """

    function: Any
    inputs: dict[str, str]
    outputs: dict[str, str]

    def entry(self) -> dict[str, Any]:
        """Return what the runtime needs to know."""
        shapes = {name: sizes(name, self.function.structured_outputs[port]) for name, port in self.outputs.items()}
        return {"inputs": self.inputs, "outputs": self.outputs, "shapes": shapes}


def declared(model: Any) -> Any:
    """Return the function that a loaded model's default signature, or its only one, calls.

    Raises:
        UnsupportedModelError: It has none, or several of which none is the default.
    """
    functions = dict(getattr(model, "signatures", None) or {})
    if DEFAULT not in functions and len(functions) != 1:
        msg = f"a TensorFlow model with the signatures {sorted(functions)}; expected one, or one called {DEFAULT!r}"
        raise UnsupportedModelError(msg, remedy="save it with tf.saved_model.save(model, path, signatures=function)")
    function = functions.get(DEFAULT) or next(iter(functions.values()))
    if not isinstance(function.structured_outputs, dict):
        msg = "its signature was not kept as named tensors"
        raise UnsupportedModelError(msg, remedy="save it with tf.saved_model.save(model, path, signatures=function)")
    return function


def serving(model: Any, signature: Signature | None) -> Serving:
    """Return the function of a model, traced for a signature whose named sizes may change.

    Without a signature, and for a loaded model in any case, it is the function that the model itself declares.

    Raises:
        UnsupportedModelError: The model cannot be called with such tensors, or returns something else.
        ModelError: It rejects the example.
    """
    if signature is None or getattr(model, "signatures", None):
        return _declared(declared(model), signature)
    return traced(_caller(model, signature), signature)


def traced(call: Callable[[dict[str, Any]], Any], signature: Signature) -> Serving:
    """Trace a function of a signature's named tensors.

    Raises:
        UnsupportedModelError: It cannot be called with such tensors, or returns something else.
        ModelError: It rejects the example.
    """
    _require_tensors(signature.inputs)
    fields = signature.inputs
    ports = dict(zip((field.name for field in fields), unique(field.name for field in fields), strict=True))
    specs = {ports[field.name]: specification(field, ports[field.name]) for field in fields}
    outputs: dict[str, str] = {}

    def serve(**tensors: Any) -> dict[str, Any]:
        given = outputs_by_name(call({name: tensors[port] for name, port in ports.items()}), tf.is_tensor)
        if unfit := sorted(name for name, value in given.items() if not isinstance(value, (tf.Tensor, tf.Variable))):
            msg = f"the outputs {unfit} are ragged or sparse, expected dense tensors"
            raise UnsupportedModelError(msg, remedy="return to_tensor() or tf.sparse.to_dense() of them")
        outputs.clear()
        outputs.update(zip(given, unique(given), strict=True))
        return {outputs[name]: tf.identity(value) for name, value in given.items()}

    try:
        with quiet():
            function = tf.function(serve).get_concrete_function(**specs)
    except (ModelError, UnsupportedModelError):
        raise
    except Exception as error:
        raise _explained(error, specs) from error
    return Serving(function, ports, outputs)


def specification(field: Field, name: str) -> tf.TensorSpec:
    """Return TensorFlow's own word for a field."""
    dtype = tf.string if field.dtype in _TEXT else tf.as_dtype(field.dtype)
    return tf.TensorSpec([None if isinstance(size, str) else size for size in field.shape], dtype, name=name)


def field_of(name: str, spec: tf.TensorSpec) -> Field:
    """Return the field that a function declares; a first size that may change is the batch.

    Raises:
        UnsupportedModelError: It does not even say how many dimensions there are, or NumPy lacks its type.
    """
    kind = "string" if spec.dtype == tf.string else spec.dtype.name
    if spec.shape.rank is None or spec.dtype in {tf.resource, tf.variant} or spec.dtype.is_quantized:
        msg = f"{name!r} is declared as {spec.dtype.name}{spec.shape}; expected a tensor of known rank"
        raise UnsupportedModelError(msg, remedy="give an example")
    return Field(name=name, dtype="float32" if kind == "bfloat16" else kind, shape=tuple(sizes(name, spec)))


def sizes(name: str, spec: Any) -> list[int | str]:
    """Return a shape in a signature's words; nothing for one of unknown rank."""
    if spec.shape.rank is None:
        return []
    may_change = [BATCH, *(f"{name}_{axis}" for axis in range(1, spec.shape.rank))]
    return [may_change[axis] if size is None else size for axis, size in enumerate(spec.shape.as_list())]


def unique(names: Iterable[str]) -> list[str]:
    """Return a name that TensorFlow takes for each of these, in order, each once."""
    taken: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        plain = plain if plain[0].isalpha() else f"x{plain}"
        same = sum(other == plain for other in taken)
        while same and f"{plain}_{same}" in taken:
            same += 1
        taken.append(f"{plain}_{same}" if same else plain)
    return taken


def _declared(function: Any, signature: Signature | None) -> Serving:
    takes, gives = list(function.structured_input_signature[1]), list(function.structured_outputs)
    fields = [field.name for field in signature.inputs] if signature else takes
    if len(fields) != len(takes):
        msg = f"the model takes {len(takes)} inputs {takes}, the example has {len(fields)}: {fields}"
        raise UnsupportedModelError(msg, remedy="give a dict with the model's own input names as the example")
    inputs = zip(fields, fields if set(fields) == set(takes) else takes, strict=True)
    return Serving(function, dict(inputs), {name: name for name in gives})


def _require_tensors(fields: Iterable[Field]) -> None:
    problems = []
    for field in fields:
        try:
            specification(field, "x")
        except TypeError:
            remedy = "turn it into numbers or text before the model"
            problems.append(Finding(place=f"input {field.name!r}", message=f"{field.dtype}", remedy=remedy))
    if problems:
        msg = "TensorFlow has no such element types"
        raise UnsupportedModelError(msg, problems=problems)


def _caller(model: Any, signature: Signature) -> Callable[[dict[str, Any]], Any]:
    """Return a function of named tensors that calls the model as its user does.

    Raises:
        UnsupportedModelError: The model cannot be called.
    """
    if not callable(model):
        kind = type(model)
        functions = sorted(name for name in dir(kind) if hasattr(getattr(kind, name, None), "python_function"))
        msg = f"{kind.__name__} cannot be called (its functions: {', '.join(functions) or 'none'})"
        raise UnsupportedModelError(msg, remedy="give it a __call__, or save one of its functions")
    if signature.container == "dict" or signature.is_table:
        return lambda tensors: model(**tensors)
    return lambda tensors: model(*tensors.values())


def _explained(error: Exception, specs: dict[str, tf.TensorSpec]) -> ModelError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[-1] if lines else ""
    asked = ", ".join(f"{name}: {spec.dtype.name}{list(spec.shape)}" for name, spec in specs.items())
    msg = f"the model cannot be called with {asked} (None may change): {type(error).__name__}: {told[:_MAX_REASON]}"
    return ModelError(
        msg, remedy="give an example of the model's own types; write the model for any size of what may change"
    )
