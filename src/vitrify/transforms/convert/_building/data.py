"""The data that flows between the steps of a model: a matrix, or the columns of a table.

Source: how scikit-learn turns input into arrays, ``sklearn.utils.validation.check_array``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.convert._building.graph import F32, F64, TEXT, Graph, Tensor

if TYPE_CHECKING:
    from vitrify.core.signature import Field, Scalar

FLOATS: Literal["floats"] = "floats"
"""Wanted type: single and double precision as they are, all else as double (``FLOAT_DTYPES``)."""

NONE_TEXT, NAN_TEXT = "\ue000none", "\ue000nan"
"""What stands for None and for NaN among text, as ONNX has no missing text; private-use characters come first."""

Wanted = np.dtype[Any] | Literal["floats"] | None
"""A type; ``FLOATS``; or None for whatever the values promote to."""


@dataclass(frozen=True)
class Column:
    """One column: its original name, its values (a vector), and what the signature says of it."""

    key: Scalar | tuple[Scalar, ...]
    tensor: Tensor
    field: Field | None = None


@dataclass(frozen=True)
class Frame:
    """The columns of a table, in order.

    Attributes:
        columns: Each of its own element type.
        made: Whether a step of the model made it: its columns are then found by place, not by name.
        objects: Whether the source holds it as one array of objects: what computes with it reads it as double.
    """

    columns: tuple[Column, ...]
    made: bool = False
    objects: bool = False

    def named(self, key: object) -> Column:
        """Return one column by its name."""
        for column in self.columns:
            if column.key == key:
                return column
        msg = f"the model asks for a column {key!r}, which the signature does not have"
        raise UnsupportedModelError(msg, remedy="save the model with an example that has the columns it was fitted on")


Data = Frame | Tensor


def matrix(graph: Graph, data: Data, wanted: Wanted = None) -> Tensor:
    """Return one matrix of one element type, cast as scikit-learn casts.

    Each column of a table is cast to the type of the whole on its own, as pandas does: a large integer
    that becomes float32 is rounded once, not twice.
    """
    if isinstance(data, Tensor):
        return graph.cast(data, _target(data.dtype, wanted))
    kinds = [column.tensor.dtype for column in data.columns]
    if TEXT in kinds:
        if any(kind != TEXT for kind in kinds):
            names = ", ".join(repr(column.key) for column in data.columns if column.tensor.dtype == TEXT)
            msg = f"text in {names} and numbers in other columns go into one array of objects, which ONNX does not have"
            raise UnsupportedModelError(
                msg,
                remedy="send them to different steps of a ColumnTransformer, or call set_output(transform='pandas')",
            )
        target = _target(TEXT, wanted)
    else:
        target = _target(F64 if data.objects else np.result_type(*kinds), wanted)
    parts = [graph.column(graph.cast(column.tensor, target)) for column in data.columns]
    return graph.concat(parts)


def columns(graph: Graph, data: Data, count: int) -> tuple[Column, ...]:
    """Return the columns one by one, each a vector of its own element type."""
    if isinstance(data, Frame):
        return data.columns
    return tuple(Column(index, graph.gather(data, np.array(index), axis=1)) for index in range(count))


def width(data: Data, model: Any) -> int:
    """Return the number of columns that a fitted step takes."""
    return len(data.columns) if isinstance(data, Frame) else int(model.n_features_in_)


def made(tensors: list[Tensor], *, objects: bool = False) -> Frame:
    """Return what a step gives as a table: a vector a column."""
    return Frame(tuple(Column(index, tensor) for index, tensor in enumerate(tensors)), made=True, objects=objects)


def is_mixed(data: Data) -> bool:
    """Return whether there are text and numbers, which only a table can hold."""
    return isinstance(data, Frame) and len({column.tensor.dtype == TEXT for column in data.columns}) > 1


def select(graph: Graph, data: Data, places: list[int], keys: list[Any] | None, *, scalar: bool) -> Data:
    """Return some columns; one named alone is a vector.

    Args:
        graph: Where it is computed.
        data: All columns.
        places: The columns' positions in what the model was fitted on.
        keys: Their names there, if they had any: the user's table is then matched by name.
        scalar: Whether one column was named alone, and not in a list.
    """
    if isinstance(data, Tensor):
        return graph.gather(data, np.array(places[0] if scalar else places), axis=1)
    by_place = keys is None or data.made
    chosen = tuple(data.columns[place] for place in places) if by_place else tuple(map(data.named, keys or []))
    return chosen[0].tensor if scalar else Frame(chosen, data.made, data.objects)


def beside(graph: Graph, parts: list[Data]) -> Tensor:
    """Return the parts as one matrix, promoted as ``numpy.hstack`` promotes."""
    if len({_is_text(part) for part in parts}) > 1:
        msg = "puts text and numbers side by side in one array of objects, which ONNX does not have"
        raise UnsupportedModelError(msg, remedy="encode the text columns, or drop them")
    return graph.concat([matrix(graph, part) for part in parts])


def joined(graph: Graph, parts: list[Data], counts: list[int], *, table: bool) -> Data:
    """Return the parts side by side: one matrix where that can be, else a table.

    Args:
        graph: Where it is computed.
        parts: What the parts of a step gave.
        counts: How many columns each has.
        table: Whether the source makes a table, in which each column keeps its own type.
    """
    mixed = len({_is_text(part) for part in parts}) > 1 or any(map(is_mixed, parts))
    if not table and not mixed:
        objects = any(isinstance(part, Frame) and _is_objects(part) for part in parts)
        return Frame(split(graph, parts, counts), made=True, objects=True) if objects else beside(graph, parts)
    return Frame(split(graph, parts, counts), made=True, objects=not table)


def _is_objects(frame: Frame) -> bool:
    """Return whether the table as an array is one of objects: pandas has no common type for booleans and numbers."""
    kinds = {column.tensor.dtype.kind for column in frame.columns}
    return frame.objects or ("b" in kinds and len(kinds) > 1)


def split(graph: Graph, parts: list[Data], counts: list[int]) -> tuple[Column, ...]:
    """Return the columns of all parts, numbered."""
    found = [column for part, count in zip(parts, counts, strict=True) for column in columns(graph, part, count)]
    return tuple(replace(column, key=index) for index, column in enumerate(found))


def merged(graph: Graph, text: Tensor) -> Tensor:
    """Return text in which what is None has the mark of NaN, as where a container knows one kind of missing only."""
    gone = graph.compare("Equal", text, np.array(NONE_TEXT, TEXT))
    return graph.where(gone, np.array(NAN_TEXT, TEXT), text)


def _is_text(data: Data) -> bool:
    return (data.columns[0].tensor if isinstance(data, Frame) else data).dtype == TEXT


def _target(kind: np.dtype[Any], wanted: Wanted) -> np.dtype[Any]:
    if kind == TEXT and wanted is not None and wanted != TEXT:
        msg = "text reaches a step that computes with numbers"
        raise UnsupportedModelError(
            msg, remedy="encode the text first (OneHotEncoder, OrdinalEncoder, TfidfVectorizer)"
        )
    if wanted is None:
        return kind
    if isinstance(wanted, str):
        return kind if kind in {F32, F64} else F64
    return wanted
