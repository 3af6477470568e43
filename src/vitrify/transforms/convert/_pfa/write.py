"""From a graph to a document.

Source: https://onnx.ai/onnx/repo-docs/IR.html, https://dmg.org/pfa/docs/document_structure/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.formats.onnx import element_type, shape
from vitrify.transforms.convert._pfa import elementwise, encoders, groups, layout, normalise, trees
from vitrify.transforms.convert._pfa.document import TEXT, Document, Row, field_names, pfa_type
from vitrify.transforms.convert._pfa.rows import OPS, Sized
from vitrify.transforms.replay.walk import Replay

if TYPE_CHECKING:
    import onnx

FAMILIES = (elementwise, encoders, groups, layout, normalise, trees)
"""They register their operators when they are imported."""


@dataclass(frozen=True)
class Written:
    """A document, and what its fields are called for the graph's ports.

    Attributes:
        content: The document.
        inputs: Graph input to field.
        outputs: Graph output to field.
    """

    content: dict[str, Any]
    inputs: dict[str, str]
    outputs: dict[str, str]


def written(model: onnx.ModelProto) -> Written:
    """Return a graph as a document.

    Raises:
        UnsupportedModelError: It has what PFA, or a row alone, cannot do.
    """
    replay, document = Replay(model, OPS), Document()
    if problems := [found for value in replay.inputs if (found := _unfit(value))]:
        msg = f"{len(problems)} input(s) of this graph are no rows of numbers, truth values or text"
        raise UnsupportedModelError(msg, problems=problems)
    fields = field_names(value.name for value in replay.inputs)
    feeds, types = {}, {}
    for value in replay.inputs:
        feeds[value.name], types[fields[value.name]] = _read(document, value, fields[value.name])
    answers = {
        value.name: _answer(document, one) for value, one in zip(replay.model.graph.output, replay(feeds), strict=True)
    }
    names = field_names(answers)
    outputs = {names[name]: row for name, row in answers.items()}
    content = document.content(_name(model.graph.name), types, outputs)
    return Written(content, fields, names)


def _sizes(value: onnx.ValueInfoProto) -> list[Any]:
    return list(shape(value) or [])


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    if element_type(value) == "string":
        return TEXT
    dtype: np.dtype[Any] = np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    return dtype


def _unfit(value: onnx.ValueInfoProto) -> Finding | None:
    """Return what is wrong with an input, if something is."""
    sizes = _sizes(value)
    message = ""
    if not sizes or isinstance(sizes[0], int):
        message = "its first axis is none whose size may change: the rows"
    elif not all(isinstance(one, int) for one in sizes[1:]):
        message = f"sizes that may change beside the rows: {sizes[1:]}"
    else:
        try:
            pfa_type(_dtype(value))
        except UnsupportedModelError as error:
            message = error.message
    return Finding(place=value.name, message=message, remedy="fix those sizes in the graph") if message else None


def _read(document: Document, value: onnx.ValueInfoProto, field: str) -> tuple[Row, Any]:
    """Return an input as a flat row, and the type of its field."""
    sizes, dtype = tuple(_sizes(value)[1:]), _dtype(value)
    type_: Any = pfa_type(dtype)
    flat: Any = {"attr": "input", "path": [{"string": field}]}
    for depth in range(len(sizes)):
        type_ = {"type": "array", "items": type_}
        flat = {"a.flatten": flat} if depth else flat
    return document.let(flat, dtype, sizes), type_


def _answer(document: Document, value: Any) -> Row:
    if isinstance(value, Row):
        return value
    if isinstance(value, Sized):
        return document.row(value.row())
    msg = "an output that does not depend on the rows"
    raise UnsupportedModelError(msg, remedy="take that output out of the graph")


def _name(name: str) -> str:
    base = re.sub(r"\W", "_", name, flags=re.ASCII) or "model"
    return f"_{base}" if base[0].isdigit() else base
