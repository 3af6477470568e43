"""From an exported function of JAX to a saved model: one call of XLA in a TensorFlow graph (``XlaCallModule``).

The module is compiled by XLA as JAX compiles it, for the sizes that it is called with.

Source: ``tensorflow/core/ops/xla_ops.cc`` and ``tensorflow/compiler/tf2xla/python/xla.py``
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError, VitrifyError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._jax import ports
from vitrify.formats._stablehlo.live import without_composites
from vitrify.formats._tensorflow.loaded import tf
from vitrify.formats._tensorflow.quiet import mute, quiet
from vitrify.formats._tensorflow.serving import unique
from vitrify.formats.saved_model import SavedModel
from vitrify.transforms.convert.stablehlo import CARRIED, JaxToStableHlo, exported_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jax import export

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_MAX_REASON = 400
_UNKNOWN = re.compile(r"unregistered operation '(?:\w+\.)?(\w+?)(?:_v\d+)?'")
_WHERE = re.compile(
    r"(?s)^Graph execution error:.*\n  File [^\n]*\n|note: .*$|\{\{[^}]*\}\} ?|\S+:\d+:\d+: error: |loc\(.*?\)+: ?"
    r"|\[\[.*?\]\]|\[Op:.*?\]"
)


class JaxToSavedModel:
    """The step from ``jax-export`` to ``saved-model``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List what the module calls that TensorFlow's XLA does not have; else try."""
        if found := JaxToStableHlo().problems(source, step):
            return found
        try:
            function, names = _traced(exported_of(source))
        except UnsupportedModelError as error:
            return error.problems or (Finding(place="module", message=error.message, remedy=error.remedy),)
        return _tried(function, names["inputs"], source)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the saved model."""
        del step
        entry = source.document.entry
        function, names = _traced(exported_of(source))
        SavedModel().write_function(function, function, sink)
        renamed = {
            side: {ours: names[side][port] for ours, port in entry[side].items()} for side in ("inputs", "outputs")
        }
        return Written(entry={**renamed, **{key: entry[key] for key in CARRIED if key in entry}})


def _traced(exported: export.Exported) -> tuple[Any, dict[str, dict[str, str]]]:
    """Return the function of named tensors, and the names that its ports have there.

    Raises:
        UnsupportedModelError: TensorFlow cannot take the module.
    """
    from tensorflow.compiler.tf2xla.python import xla  # not before TensorFlow itself, which is loaded quietly

    takes, gives = ports.takes(exported), ports.gives(exported)
    inputs = dict(zip(takes, unique(takes), strict=True))
    outputs = dict(zip(gives, unique(gives), strict=True))
    kept = [name for at, name in enumerate(takes) if at in set(exported.module_kept_var_idx)]
    module = without_composites(exported.mlir_module_serialized)  # TensorFlow's XLA is older, and knows none

    def serve(**given: Any) -> dict[str, Any]:
        answers = xla.call_module(
            [given[inputs[name]] for name in kept],
            version=exported.calling_convention_version,
            module=module,
            Tout=[_dtype(aval) for aval in gives.values()],
            Sout=[_shape(aval) for aval in gives.values()],
            platforms=[platform.upper() for platform in exported.platforms],
        )
        return {outputs[name]: tf.identity(answer) for name, answer in zip(gives, answers, strict=True)}

    specs = {inputs[name]: tf.TensorSpec(_shape(aval), _dtype(aval), name=inputs[name]) for name, aval in takes.items()}
    try:
        with quiet():
            function = tf.function(serve, autograph=False).get_concrete_function(**specs)
    except VitrifyError:
        raise
    except Exception as error:
        msg = f"TensorFlow cannot take this module: {type(error).__name__}: {str(error).strip()[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy="convert it to ONNX, and from there") from error
    return function, {"inputs": inputs, "outputs": outputs}


def _tried(function: Any, inputs: Mapping[str, str], source: Subject) -> tuple[Finding, ...]:
    """Return why TensorFlow's XLA cannot compile it, which it says only when the function is called."""
    entry, specs = source.document.entry["inputs"], function.structured_input_signature[1]
    given = {inputs[port]: source.golden[ours] for ours, port in entry.items() if ours in source.golden}
    if given.keys() != specs.keys():
        return ()
    try:
        with quiet(), mute():
            function(**{name: tf.cast(value, specs[name].dtype) for name, value in given.items()})
    except tf.errors.OpError as error:
        return (_explained(error.message),)
    return ()


def _explained(said: str) -> Finding:
    """Return what XLA says, by the operation where it names one that it does not know."""
    named = _UNKNOWN.search(said)
    place, reason = (named[1], "this operation is unknown") if named else ("module", _reason(said))
    message = f"the XLA in TensorFlow {tf.__version__} cannot compile it: {reason}"
    return Finding(place=place, message=message, remedy="let the road pass ONNX: --via onnx")


def _reason(text: str) -> str:
    """Return what is said, without TensorFlow's and MLIR's words about where."""
    return " ".join(_WHERE.sub("", text).split())[:_MAX_REASON]


def _dtype(aval: Any) -> tf.DType:
    return tf.as_dtype(aval.dtype)


def _shape(aval: Any) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in aval.shape]
