"""From a saved model to TFLite, by TensorFlow's own converter: in the model's own types, with TFLite's own operators.

Nothing is quantised, and TensorFlow's operators are never packed into the file: what TFLite lacks is refused.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._laid_out import lay_out
from vitrify.formats._tensorflow.exact import written_out
from vitrify.formats._tensorflow.live import saved
from vitrify.formats._tensorflow.loaded import tf
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
_TYPED = re.compile(r"op (?:operand|result) #\d+ must be (.*?), but got '(.*?)'")
_OF_DOUBLE = re.compile(r"tensor<[^>]*f64>")
_DOUBLE = "ask for precision float32 on a road through ONNX, or write the model in float32: TFLite has hardly a double"
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
    graph = declared(model).graph.as_graph_def()
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    return any(value.type == tf.float64.as_datatype_enum for node in nodes for value in node.attr.values())


def _problems(error: Exception, double: bool) -> tuple[Finding, ...]:  # noqa: FBT001 (a fact about the model)
    """Return what the converter says, an operator each; else its own words."""
    text = str(error)
    found: dict[str, str] = {}
    for one in getattr(error, "errors", ()):
        if operator := getattr(getattr(one, "operator", None), "name", ""):
            found[operator] = _reason(one.error_message)
    for match in _NAMED.finditer(text):
        found.setdefault(match[1] or match[2], "TFLite has no operator for it")
    remedy = _DOUBLE if double else _OTHER
    if found:
        return tuple(Finding(place=name, message=reason, remedy=remedy) for name, reason in sorted(found.items()))
    return (Finding(place="graph", message=f"{type(error).__name__}: {text.strip()[:_MAX_REASON]}", remedy=remedy),)


def _reason(said: str) -> str:
    """Return what the converter says of one operator: which of its types TFLite does not have, if it is that."""
    if match := _TYPED.search(said):
        return f"TFLite's own takes {match[1]}, but got '{match[2]}'"
    return f"TFLite has no operator for it{' in float64' if _OF_DOUBLE.search(said) else ''}"
