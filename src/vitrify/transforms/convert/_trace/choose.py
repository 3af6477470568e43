"""Choosing between traced values: what stands for an ``if`` in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, TEXT
from vitrify.transforms.convert._trace.errors import untraceable
from vitrify.transforms.convert._trace.value import Value, astype, broadcast, constant, finish, graph_of, lift, truth

if TYPE_CHECKING:
    from collections.abc import Sequence


def where(condition: Any, yes: Any, no: Any) -> Value:
    """Return ``numpy.where(condition, yes, no)``; ONNX Runtime makes a minus zero that it chooses a plain one."""
    graph = graph_of([condition, yes, no])
    flag = lift(graph, condition)
    kind = result_type(yes, no)
    left, right = (typed(graph, side, kind) for side in (yes, no))
    shape = broadcast(flag.shape, left.shape, right.shape)
    test = truth(flag)
    if kind == BOOL:
        chosen = graph.op("And", test, left.tensor, dtype=BOOL)
        other = graph.op("And", graph.op("Not", test, dtype=BOOL), right.tensor, dtype=BOOL)
        return Value(graph, graph.op("Or", chosen, other, dtype=BOOL), BOOL, shape)
    sides = [side.work(modular=True) for side in (left, right)]
    return finish(graph, graph.op("Where", test, *sides, dtype=sides[0].dtype), kind, shape)


def select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Value:
    """Return ``numpy.select``: the first choice whose condition is true."""
    graph = graph_of([*conditions, *choices])
    kind = result_type(*choices, default)
    answer = typed(graph, default, kind)
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        answer = where(condition, typed(graph, choice, kind), answer)
    return answer


def result_type(*operands: Any) -> np.dtype[Any]:
    """Return ``numpy.result_type``; text is an array of objects here."""
    kinds = [operand.dtype if isinstance(operand, Value) else operand for operand in operands]
    arrays = [np.asarray(kind) if isinstance(kind, list | tuple | str) else kind for kind in kinds]
    dtypes = [getattr(array, "dtype", array) for array in arrays]
    text = [getattr(dtype, "kind", "") in {"O", "U", "S"} for dtype in dtypes]
    if any(text):
        if not all(text):
            untraceable("mixes text and numbers in one array", "keep text and numbers in columns of their own")
        return TEXT
    return np.result_type(*arrays)


def typed(graph: Any, operand: Any, kind: np.dtype[Any]) -> Value:
    """Return an operand as a value of one element type."""
    if isinstance(operand, Value):
        return astype(operand, kind)
    return constant(graph, operand, None if kind == TEXT else kind)
