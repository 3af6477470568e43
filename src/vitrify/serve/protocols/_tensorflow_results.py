"""Classify and regress: which output of a model is meant, and what TensorFlow Serving makes of it.

A model of TensorFlow has signatures of its own for them; ours has one signature, so the output is found by its type:

* classify takes the first output that has a number for each class label, else the first with two dimensions of
  floats, whose labels are empty; a model that gives labels only is sure of them: one class, with the score 1;
* regress takes the first output with one number a row.

Source: https://github.com/tensorflow/serving, ``apis/classification.proto`` and ``apis/regression.proto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import SignatureError
from vitrify.serve.protocols._data import doubles, is_missing

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field, Signature

    Array = np.ndarray[Any, Any]

_MATRIX = 2


def classified_output(signature: Signature) -> Field:
    """Return the output that classify is about.

    Raises:
        SignatureError: The model does not classify.
    """
    outputs = signature.outputs
    matrices = [field for field in outputs if len(field.shape) == _MATRIX and field.batched and _is_float(field)]
    labels = [field for field in outputs if len(field.shape) == 1 and field.batched and field.classes is not None]
    texts = [field for field in outputs if len(field.shape) == 1 and field.batched and field.dtype == "string"]
    with_classes = [field for field in matrices if field.classes is not None]
    if chosen := [*with_classes, *matrices, *labels, *texts]:
        return chosen[0]
    msg = f"no output holds classes (there are: {', '.join(map(str, outputs))})"
    raise SignatureError(msg, remedy="ask predict")


def regressed_output(signature: Signature) -> Field:
    """Return the output that regress is about.

    Raises:
        SignatureError: The model gives no number a row.
    """
    for field in signature.outputs:
        if field.batched and field.shape[1:] in {(), (1,)} and field.dtype not in {"string", "object", "bytes"}:
            return field
    msg = f"no output holds one number a row (there are: {', '.join(map(str, signature.outputs))})"
    raise SignatureError(msg, remedy="ask predict")


def classes(outputs: Arrays, field: Field) -> list[list[tuple[str, float]]]:
    """Return, for each row, every class's label and score."""
    array = np.ma.getdata(outputs[field.name])
    if len(field.shape) == 1:
        return [[("" if is_missing(value) else _label(value), 1.0)] for value in array.tolist()]
    labels = [_label(value) for value in field.classes or ()]
    named = [*labels, *[""] * array.shape[1]][: array.shape[1]]
    return [list(zip(named, row, strict=True)) for row in doubles(array).tolist()]


def regressions(outputs: Arrays, field: Field) -> list[float]:
    """Return one number a row."""
    array = np.ma.getdata(outputs[field.name])
    found: list[float] = doubles(array).astype(np.float64).reshape(len(array)).tolist()
    return found


def _is_float(field: Field) -> bool:
    return field.dtype.startswith(("float", "bfloat"))


def _label(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
