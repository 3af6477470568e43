"""Matrix products of traced values. The rows of a batch stay apart: they are never what is summed over."""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, TEXT
from vitrify.transforms.convert._trace.errors import untraceable
from vitrify.transforms.convert._trace.value import Rows, Value, finish, lift

_MATRIX = 2


def matmul(left: Value, right: Value) -> Value:
    """Return ``left @ right`` of vectors and matrices."""
    if not 0 < left.ndim <= _MATRIX or not 0 < right.ndim <= _MATRIX:
        untraceable(f"multiplies arrays of {left.ndim} and {right.ndim} dimensions", "multiply matrices and vectors")
    inner, other = left.shape[-1], right.shape[0]
    if isinstance(inner, Rows) or isinstance(other, Rows):
        untraceable(
            "sums over the rows of the batch in a product, so that a row's answer depends on the others",
            "multiply from the other side, or compute it in fit and keep it",
        )
    if inner != other:
        msg = f"matmul: the sizes do not fit: {left.shape} @ {right.shape}"
        raise ValueError(msg)
    kind = np.result_type(left.dtype, right.dtype)
    if kind in {BOOL, TEXT}:
        untraceable(f"multiplies matrices of {kind}", "cast them to numbers first")
    graph = left.graph
    parts = [finish(graph, value.tensor, kind, value.shape).work() for value in (left, right)]
    return finish(graph, graph.op("MatMul", *parts, dtype=parts[0].dtype), kind, (*left.shape[:-1], *right.shape[1:]))


def einsum(equation: str, *operands: Any) -> Value:
    """Return ``numpy.einsum``: the letters of the batch have to stand in the answer."""
    graph = next(operand.graph for operand in operands if isinstance(operand, Value))
    values = [lift(graph, operand) for operand in operands]
    equation = equation.replace(" ", "")
    if "." in equation:
        untraceable("uses an ellipsis in einsum", "write every axis as a letter")
    terms, arrow, answer = equation.partition("->")
    letters = terms.split(",")
    if not arrow:
        answer = "".join(sorted(letter for letter in set(terms) - {","} if terms.count(letter) == 1))
    sizes: dict[str, Any] = {}
    for term, value in zip(letters, values, strict=True):
        for letter, size in zip(term, value.shape, strict=True):
            if isinstance(size, Rows) and letter not in answer:
                untraceable("sums over the rows of the batch in einsum", "keep the letter of the rows in the answer")
            sizes[letter] = size if not isinstance(sizes.get(letter), Rows) else sizes[letter]
    kind = np.result_type(*(value.dtype for value in values))
    if kind.kind not in "iuf":
        untraceable(f"calls einsum on {kind}", "cast to numbers first")
    parts = [finish(graph, value.tensor, kind, value.shape).work() for value in values]
    tensor = graph.op("Einsum", *parts, dtype=parts[0].dtype, equation=f"{terms}->{answer}")
    return finish(graph, tensor, kind, tuple(sizes[letter] for letter in answer))
