"""A column of categories as a booster numbers it: each value's place among those of its training data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import F64
from vitrify.transforms.convert._sklearn.encode import category_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.transforms.convert._building.data import Column
    from vitrify.transforms.convert._building.graph import Graph, Tensor


def codes(graph: Graph, column: Column, categories: Sequence[Any]) -> Tensor:
    """Return each value's place among the categories, in float64; NaN for one that is not there."""
    index = graph.cast(category_index(graph, column, categories), F64)
    unknown = graph.compare("Equal", index, float(len(categories)))
    return graph.where(unknown, np.array(np.nan), index)


def is_categorical(column: Column) -> bool:
    """Return whether the column is one of categories in the source's own table."""
    return column.field is not None and column.field.categories is not None
