"""Feature hashing: a token's hash says which column it is counted in, and with which sign.

Source: ``sklearn/feature_extraction/_hashing_fast.pyx``; MurmurHash3,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MurmurHash3
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.graph import F64, I64, MS, Graph, Tensor
from vitrify.transforms.convert._building.steps import refuse

_WIDEST = 2**16
"""Columns up to which hashed tokens are counted: the graph's answer is dense."""


def check_width(model: Any) -> None:
    """Refuse more columns than a dense answer should have.

    Raises:
        UnsupportedModelError: There are.
    """
    if model.n_features > _WIDEST:
        refuse(f"has n_features={model.n_features}, and the graph's answer is dense", f"use {_WIDEST} or fewer")


def hashed_place(graph: Graph, model: Any, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the column of each token, and 1 or -1 in the type that is counted in."""
    value = graph.cast(graph.op("MurmurHash3", tokens, dtype=np.int32, domain=MS, positive=0, seed=0), I64)
    place = graph.op("Mod", graph.unary("Abs", value), np.array(int(model.n_features)), dtype=I64)
    kind = counted(model)
    one = np.ones((), kind)
    below = graph.compare("Less", value, np.array(0))
    return place, graph.where(below, -one if model.alternate_sign else one, one)


def counted(model: Any) -> np.dtype[Any]:
    """Return the type to count in: the model's, or double if that is whole numbers."""
    kind = np.dtype(model.dtype)
    return kind if kind.kind == "f" else F64


def added(graph: Graph, model: Any, place: Tensor, values: Tensor) -> Tensor:
    """Return (rows, n_features): the sum of each column's values."""
    width = graph.constant(np.array([int(model.n_features)]))
    shape = graph.concat([graph.rows(place), width], axis=0)
    empty = graph.op("ConstantOfShape", shape, dtype=values.dtype, value=np.zeros(1, values.dtype))
    return graph.op("ScatterElements", empty, place, values, dtype=values.dtype, axis=1, reduction="add")
