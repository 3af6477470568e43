"""The graph's inputs and outputs, as the source's signature names them.

Inputs keep the example's element types. Two things ONNX cannot say are said otherwise: an integer or boolean that
may be missing is a double with NaN, and missing text is a mark that no real text is likely to hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.report import Finding
from vitrify.transforms.convert._building.data import NAN_TEXT, NONE_TEXT, Column, Data, Frame, columns, matrix, merged
from vitrify.transforms.convert._building.graph import F64, I64, TEXT, Array, DType, Graph, Tensor
from vitrify.transforms.convert._building.steps import refuse

if TYPE_CHECKING:
    from vitrify.core.signature import Field, Signature
    from vitrify.transforms.convert._building.steps import Outcome

_NUMBERS = frozenset(
    {"bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
)

_TABLE = "transformed."
"""What stands before the names of the columns of a table of several element types."""


@dataclass
class Ports:
    """What the runtime must know to feed the graph and to read its answer.

    Attributes:
        inputs: Signature name to ONNX name, of what the outputs depend on.
        outputs: The same for outputs.
        casts: Element type to give an output back, where the graph's is another.
        missing_text: What stands for None and for NaN in the text that is fed.
    """

    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    casts: dict[str, str] = field(default_factory=dict)
    missing_text: dict[str, str] = field(default_factory=lambda: {"none": NONE_TEXT, "nan": NAN_TEXT})


def declare_inputs(graph: Graph, signature: Signature, ports: Ports) -> tuple[Data, dict[str, Finding]]:
    """Add the inputs, and return the data that the model is called with.

    With it, by name, what is wrong with inputs that cannot be fed: a table may have columns that the model ignores.
    The outputs get their names here too, before any node can take them.
    """
    unfit: dict[str, Finding] = {}
    tensors: list[Tensor] = []
    for item in signature.inputs:
        dtype = _input_type(item)
        if dtype is None:
            message = f"{item.dtype} is no element type that the graph can take"
            remedy = "turn the column into numbers or text before the model"
            unfit[item.name] = Finding(place=f"input {item.name!r}", message=message, remedy=remedy)
            dtype = F64
        tensors.append(graph.input(item.name, dtype, item.shape))
        ports.inputs[item.name] = item.name
    tensors = _one_mark(graph, signature, tensors, ports)
    ports.outputs = {item.name: graph.reserve(item.name) for item in signature.outputs}
    if signature.is_table and all(len(item.shape) == 1 for item in signature.inputs):
        pairs = zip(signature.inputs, tensors, strict=True)
        return Frame(tuple(Column(_label(item), tensor, item) for item, tensor in pairs)), unfit
    if len(tensors) != 1:
        message = f"{len(tensors)} arrays; an estimator is called with one array or one table"
        remedy = "save the model with an array or a data frame"
        unfit |= {item.name: Finding(place="signature", message=message, remedy=remedy) for item in signature.inputs}
    return tensors[0], unfit


def _one_mark(graph: Graph, signature: Signature, tensors: list[Tensor], ports: Ports) -> list[Tensor]:
    """Give None and NaN one mark in the columns whose container knows one kind of missing text only."""
    pairs = list(zip(signature.inputs, tensors, strict=True))
    text = [item for item, tensor in pairs if tensor.dtype == TEXT]
    if all(map(_knows_one, text)):
        ports.missing_text = {"none": NAN_TEXT, "nan": NAN_TEXT}
        return tensors
    return [merged(graph, tensor) if item in text and _knows_one(item) else tensor for item, tensor in pairs]


def _knows_one(item: Field) -> bool:
    native = (item.container_dtype or "").rpartition(":")[2]
    return item.categories is not None or native in {"str", "string"}


def _label(item: Field) -> Any:
    """Return what the table itself calls the column."""
    if item.key is None:
        return item.name
    return None if item.key == (None,) else item.key


def _input_type(item: Field) -> DType | None:
    if item.dtype == "string":
        return TEXT
    if item.dtype not in _NUMBERS:
        return None
    kind = np.dtype(item.dtype)
    return F64 if item.nullable and kind.kind in "iub" else kind


def declare_outputs(graph: Graph, signature: Signature, outcome: Outcome, ports: Ports) -> None:
    """Add the outputs that the signature has, each in its own element type and shape.

    Raises:
        UnsupportedModelError: The signature has one that the conversion does not give.
    """
    table = [item.name for item in signature.outputs if item.name.startswith(_TABLE)]
    for item in signature.outputs:
        if item.name in table:
            value = _column(graph, outcome, table.index(item.name), len(table))
        else:
            value = graph_output(graph, item, outcome)
        if item.dtype == "object":
            message = f"gives {item.name!r} as an array of objects of several kinds, which ONNX does not have"
            refuse(message, "call set_output(transform='pandas'), which gives an array a column")
        if graph.precision == "source" or value.dtype == TEXT or item.dtype == "bool":
            value = value if value.dtype == TEXT else graph.cast(value, item.dtype)
        elif value.dtype != np.dtype(item.dtype):
            ports.casts[item.name] = item.dtype
        graph.output(ports.outputs[item.name], value, item.shape)


def _column(graph: Graph, outcome: Outcome, place: int, count: int) -> Tensor:
    """Return one column of a table that ``transform`` returns."""
    if outcome.features is None:
        refuse("gives no table in ONNX", "save the model again with this version of Vitrify")
    return columns(graph, outcome.features, count)[place].tensor


def graph_output(graph: Graph, item: Field, outcome: Outcome) -> Tensor:
    """Return the tensor of one output, in the signature's shape.

    Raises:
        UnsupportedModelError: The conversion does not give it.
    """
    base, _, number = item.name.rpartition("_")
    if base in {"probability", "score"} and number.isdigit() and int(number) < len(outcome.parts):
        found = _value(graph, base, outcome.parts[int(number)])
    else:
        found = _value(graph, item.name, outcome)
        flat = not outcome.parts and outcome.prediction is None
        if found is not None and item.name == "label" and len(item.shape) > 1 and flat:
            found = graph.column(found)  # CatBoost's labels of more than two classes
    if found is None:
        remedy = "save the model again with this version of Vitrify"
        refuse(f"gives no output {item.name!r} in ONNX", remedy)
    return found


def _value(graph: Graph, name: str, outcome: Outcome) -> Tensor | None:
    match name:
        case "label":
            return _label_values(graph, outcome)
        case "prediction":
            return outcome.prediction if outcome.prediction is not None else _label_values(graph, outcome)
        case "probability":
            return outcome.probability
        case "score":
            return outcome.score
        case "transformed":
            return None if outcome.features is None else matrix(graph, outcome.features)
    return None


def _label_values(graph: Graph, outcome: Outcome) -> Tensor | None:
    if outcome.parts:
        labels = [_label_values(graph, part) for part in outcome.parts]
        known = [graph.column(label) for label in labels if label is not None]
        return graph.concat(known) if len(known) == len(outcome.parts) else None
    if outcome.prediction is not None or outcome.index is None or outcome.classes is None:
        return outcome.prediction  # of a traced class also labels that its classes do not have
    classes = plain_classes(outcome.classes)
    if classes.dtype == I64 and np.array_equal(classes, np.arange(len(classes))):
        return outcome.index  # each class is its own position
    return graph.gather(graph.constant(classes, "classes"), outcome.index)


def plain_classes(classes: Any) -> Array:
    """Return class labels as an array of one element type that ONNX has.

    Raises:
        UnsupportedModelError: They are of several kinds.
    """
    array = np.asarray(classes)
    if array.dtype.kind in "biufU":
        return array
    kinds = {type(value) for value in array.ravel().tolist()}
    if len(kinds) > 1 or not kinds <= {str, bool, int, float}:
        listed = ", ".join(sorted(kind.__name__ for kind in kinds))
        refuse(f"has class labels of several kinds ({listed})", "make all labels text, or all whole numbers")
    return array.astype(TEXT) if kinds == {str} else np.array(array.tolist())
