"""From a saved model to TFLite, by TensorFlow's own converter: in the model's own types, with TFLite's own operators.

Nothing is quantised, and TensorFlow's operators are never packed into the file: what TFLite lacks is refused.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._laid_out import lay_out
from vitrify.formats._tensorflow.exact import written_out
from vitrify.formats._tensorflow.live import saved
from vitrify.formats._tensorflow.quiet import mute, quiet
from vitrify.formats._tensorflow.serving import DEFAULT, declared
from vitrify.formats.saved_model import SavedModel
from vitrify.formats.tflite import TFLite, TfLiteModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Files, Sink, Subject

_MAX_REASON = 400
_CARRIED = ("inputs", "outputs", "missing_text", "casts", "labels")
_NAMED = re.compile(r"'(tf\.\w+)' op|\b(tf\.\w+)\(")
_DOUBLE = "convert to ONNX with precision float32 first, or write the model in float32: TFLite has hardly any double"
_OTHER = "replace it in the model by operators that TFLite has, or keep the saved model"


class SavedModelToTfLite:
    """The step from ``saved-model`` to ``tflite``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List every operator that TFLite lacks: only the converter itself can tell."""
        try:
            _converted(source)
        except UnsupportedModelError as error:
            return error.problems
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:  # noqa: ARG002 (the protocol's)
        """Write the TFLite model; its signature has the saved model's names."""
        written = TFLite().write(TfLiteModel(_converted(source)), sink, None)
        entry = source.document.entry
        return Written(entry={**{key: entry[key] for key in _CARRIED if key in entry}, **written.entry})


def _converted(source: Subject) -> bytes:
    """Return the TFLite model.

    Raises:
        UnsupportedModelError: TFLite lacks an operator; all that the converter names are listed.
    """
    model = SavedModel().read(source.files, source.document.entry, source.allow)
    function = declared(model)
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder, _written_out(source, model) as files:
        key = (
            next(name for name, one in model.signatures.items() if one is function)
            if files is source.files
            else DEFAULT
        )
        lay_out(files, Path(folder))
        try:
            with quiet(), mute():
                converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[key])
                converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
                return bytes(converter.convert())
        except Exception as error:
            problems = _problems(error, _has_double(model))
            msg = f"{len(problems)} part(s) of this model have no place in TFLite"
            raise UnsupportedModelError(msg, problems=problems) from error


@contextmanager
def _written_out(source: Subject, model: Any) -> Iterator[Files]:
    """Yield the saved model's files, with what only TensorFlow does written out."""
    function = declared(model)
    exact = written_out(function)
    if exact is function:
        yield source.files
    else:
        with saved(exact, model) as files:
            yield files


def _has_double(model: Any) -> bool:
    return any(tensor.dtype == tf.float64 for op in declared(model).graph.get_operations() for tensor in op.outputs)


def _problems(error: Exception, double: bool) -> tuple[Finding, ...]:  # noqa: FBT001 (a fact about the model)
    """Return what the converter says, an operator each; else its own words."""
    text = str(error)
    counts: Counter[str] = Counter()
    for one in getattr(error, "errors", ()):
        operator = getattr(getattr(one, "operator", None), "name", "")
        if operator:
            counts[operator] += 1
    for match in _NAMED.finditer(text):
        name = match[1] or match[2]
        counts[name] += name not in counts
    remedy = _DOUBLE if double else _OTHER
    if counts:
        return tuple(
            Finding(place=name, message="TFLite has no operator for it", remedy=remedy) for name in sorted(counts)
        )
    return (Finding(place="graph", message=f"{type(error).__name__}: {text.strip()[:_MAX_REASON]}", remedy=remedy),)
