"""Operators on rows: registered by ONNX's names, and what they have in common.

The number of rows is not known. What a graph computes from it (shapes, and what is filled by shapes) is computed twice,
for two numbers of rows: what is the same both times does not depend on it, and what is one row repeated is a constant.

Source: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper

from vitrify.transforms.convert._pfa.document import Array, Document, Row, refuse
from vitrify.transforms.replay.walk import OPSET, Ops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.transforms.replay.walk import Node

BATCHES = (2, 3)
"""Numbers of rows that are tried."""

OPS = Ops("PFA")
_VERSIONS = {"": OPSET, "ai.onnx.ml": 5}


@dataclass(frozen=True)
class Sized:
    """What depends on nothing but the number of rows.

    Attributes:
        values: It, for each of BATCHES.
    """

    values: tuple[Array, ...]

    def settled(self) -> Sized | Array:
        """Return it as a constant where it does not depend on the number of rows after all."""
        first = self.values[0]
        return first if all(_same(first, one) for one in self.values[1:]) else self

    def row(self) -> Array:
        """Return what every row has.

        Raises:
            UnsupportedModelError: Rows differ, or it is none.
        """
        rows = [one for value, batch in zip(self.values, BATCHES, strict=True) for one in _rows(value, batch)]
        if all(_same(rows[0], one) for one in rows[1:]):
            return np.asarray(rows[0])
        message = "it computes with the number of rows, or with a row's own number"
        raise refuse(message)


def _rows(value: Array, batch: int) -> list[Array]:
    if value.ndim == 0 or len(value) != batch:
        message = "it computes with the number of rows"
        raise refuse(message)
    return list(value)


def _same(left: Array, right: Array) -> bool:
    left, right = np.asarray(left), np.asarray(right)
    return left.shape == right.shape and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


def op(*kinds: str, domain: str = "", sizes: tuple[int, ...] = ()) -> Callable[[Any], Any]:
    """Register a function for operators that have at least one row among their inputs.

    Args:
        kinds: The operators' names.
        domain: Their domain.
        sizes: Which inputs are shapes and may depend on the number of rows; others become what every row has.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(node: Node, *given: Any) -> Any:
            if not any(isinstance(one, Row) for one in given):
                return twice(node, given)
            ready = [
                one.row()[np.newaxis] if isinstance(one, Sized) and at not in sizes else one
                for at, one in enumerate(given)
            ]
            try:
                return function(node, *ready)
            except RowError as error:
                message = f"{node.kind} ({node.name or node.outputs[0]}): {error}"
                raise refuse(message) from error

        OPS.op(*kinds, domain=domain)(run)
        return function

    return register


class RowError(Exception):
    """What an operator cannot do with a row alone; :func:`op` says which operator it was."""


@op("Shape", "Size")
def _shape(node: Node, x: Row) -> Sized | Array:
    tensors = [np.zeros((batch, *x.shape), np.int8) for batch in BATCHES]
    return Sized(tuple(reference(node, (one,))[0] for one in tensors)).settled()


@op("ConstantOfShape", "Range", "EyeLike", "NonZero")
def _made_of_sizes(node: Node, *_: Any) -> Any:
    message = f"{node.kind} of values that are only known when it runs"
    raise RowError(message)


def twice(node: Node, given: Sequence[Any]) -> Any:
    """Compute what depends on the number of rows only."""
    found = [
        reference(node, [one.values[at] if isinstance(one, Sized) else one for one in given])
        for at in range(len(BATCHES))
    ]
    return tuple(Sized(tuple(ones)).settled() for ones in zip(*found, strict=True))


def reference(node: Node, given: Sequence[Any]) -> tuple[Array, ...]:
    """Return what ONNX's reference answers.

    Raises:
        UnsupportedModelError: It cannot tell.
    """
    from onnx.reference import ReferenceEvaluator

    names = ["" if one is None else f"i{at}" for at, one in enumerate(given)]
    attributes = {
        key: numpy_helper.from_array(one) if isinstance(one, np.ndarray) else one
        for key, one in node.attributes.items()
    }
    proto = helper.make_node(
        node.kind, names, [name or f"o{at}" for at, name in enumerate(node.outputs)], domain=node.domain, **attributes
    )
    feeds = {name: np.asarray(one) for name, one in zip(names, given, strict=True) if name}
    try:
        with np.errstate(all="ignore"):
            answers = ReferenceEvaluator(proto, opsets=_VERSIONS).run(None, feeds)
    except Exception as error:
        message = f"{node.kind} ({node.name or node.outputs[0]}): rows cannot be told apart in it ({str(error)[:120]})"
        raise refuse(message) from error
    return tuple(np.asarray(one) for one in answers)


def document_of(given: Sequence[Any]) -> Document:
    """Return the document that some values are in."""
    return next(one.document for one in given if isinstance(one, Row))
