"""The data that flows between the steps of a model: a matrix, or the columns of a table.

Source: how scikit-learn turns input into arrays, ``sklearn.utils.validation.check_array``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.convert._graph import F32, F64, TEXT, Graph, Tensor

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
    """The columns of a table, in order."""

    columns: tuple[Column, ...]

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
            raise UnsupportedModelError(msg, remedy="send text and numbers to different steps of a ColumnTransformer")
        target = TEXT
    else:
        target = _target(np.result_type(*kinds), wanted)
    parts = [graph.column(graph.cast(column.tensor, target)) for column in data.columns]
    return graph.concat(parts)


def columns(graph: Graph, data: Data, count: int) -> tuple[Column, ...]:
    """Return the columns one by one, each a vector of its own element type."""
    if isinstance(data, Frame):
        return data.columns
    return tuple(Column(index, graph.gather(data, np.array(index), axis=1)) for index in range(count))


def select(graph: Graph, data: Data, places: list[int], keys: list[Any] | None, *, scalar: bool) -> Data:
    """Return some columns; one named alone is a vector.

    Args:
        graph: Where it is computed.
        data: All columns.
        places: The columns' positions in what the model was fitted on.
        keys: Their names there, if they had any: a table is then matched by name.
        scalar: Whether one column was named alone, and not in a list.
    """
    if isinstance(data, Tensor):
        return graph.gather(data, np.array(places[0] if scalar else places), axis=1)
    chosen = tuple(data.columns[place] for place in places) if keys is None else tuple(map(data.named, keys))
    return chosen[0].tensor if scalar else Frame(chosen)


def beside(graph: Graph, parts: list[Data]) -> Tensor:
    """Return the parts as one matrix, promoted as ``numpy.hstack`` promotes."""
    tensors = [matrix(graph, part) for part in parts]
    if len({tensor.dtype == TEXT for tensor in tensors}) > 1:
        msg = "puts text and numbers side by side in one array of objects, which ONNX does not have"
        raise UnsupportedModelError(msg, remedy="encode the text columns, or drop them")
    return graph.concat(tensors)


def _target(kind: np.dtype[Any], wanted: Wanted) -> np.dtype[Any]:
    if kind == TEXT and wanted is not None:
        msg = "text reaches a step that computes with numbers"
        raise UnsupportedModelError(
            msg, remedy="encode the text first (OneHotEncoder, OrdinalEncoder, TfidfVectorizer)"
        )
    if wanted is None:
        return kind
    if isinstance(wanted, str):
        return kind if kind in {F32, F64} else F64
    return wanted
