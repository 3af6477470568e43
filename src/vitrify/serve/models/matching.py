"""Matching: a request's arrays against a signature, at no cost where they already are what it says.

What is not, :func:`vitrify.containers.conform` brings into the fields' types where no value changes; it has the last
word, and the table of everything that does not fit. Two things are said before it, because on the wire they are
mistakes: an input that the model does not have, and an output that it does not have. A column that comes as a matrix
of one column, as the codecs of other servers write it, is a column.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.errors import SignatureError
from vitrify.core.signature import BATCH
from vitrify.serve.ports import DATATYPES

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field, Signature
    from vitrify.serve.values import Infer

    Array = np.ndarray[Any, Any]

_SHOWN = 20


class Matcher:
    """Brings requests into the form that a session takes."""

    def __init__(self, signature: Signature) -> None:
        """Note what has to be looked at in each request."""
        self._fields = signature.inputs
        self._names = frozenset(field.name for field in signature.inputs)
        self._outputs = frozenset(field.name for field in signature.outputs)
        self._quick = [_quick(field) for field in signature.inputs if _is_quick(field)]
        self._all_quick = len(self._quick) == len(self._fields) > 0
        self._nothing = {field.name: containers.no_rows(field) for field in signature.outputs}
        self._empty = bool(self._nothing) and not any(array.size for array in self._nothing.values())

    def match(self, request: Infer) -> Infer:
        """Return the request with inputs that fit; the same object where they did.

        Raises:
            SignatureError: They do not, or an output is asked for that there is none of.
        """
        if request.outputs and not self._outputs.issuperset(request.outputs):
            unknown = [name for name in request.outputs if name not in self._outputs]
            msg = f"no output is called {unknown[0][:200]!r} (there are: {_listed(self._outputs)})"
            raise SignatureError(msg, remedy="ask for outputs by these names, or for none to get all")
        if self._fits(request.inputs):
            return request
        if unknown := [name for name in request.inputs if name not in self._names]:
            msg = f"no input is called {unknown[0][:200]!r} (there are: {_listed(self._names)})"
            raise SignatureError(msg, remedy="give the inputs by these names")
        given = {field.name: _column(request.inputs[field.name], field) for field in self._given(request.inputs)}
        return dataclasses.replace(request, inputs=containers.conform(given, self._fields))

    def without_rows(self, request: Infer) -> Arrays | None:
        """Return the outputs of a matched request that has no rows; None where it has some, or only the model knows."""
        if not self._empty or containers.rows(request.inputs, self._fields) != 0:
            return None
        return {name: self._nothing[name] for name in request.outputs or self._nothing}

    def _given(self, inputs: Arrays) -> list[Field]:
        return [field for field in self._fields if field.name in inputs]

    def _fits(self, inputs: Arrays) -> bool:
        """Say whether every array is a plain one with exactly the field's type and sizes."""
        if not self._all_quick or len(inputs) != len(self._quick):
            return False
        sizes: dict[str, int] = {}
        for name, dtype, rank, fixed, free in self._quick:
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != rank:
                return False
            shape = array.shape
            for axis, size in fixed:
                if shape[axis] != size:
                    return False
            for axis, symbol in free:
                if sizes.setdefault(symbol, shape[axis]) != shape[axis]:
                    return False
        return True


def is_plain(field: Field) -> bool:
    """Say whether a field is a tensor of numbers whose first dimension is the batch, and nothing is said beside it."""
    return _is_quick(field) and field.shape[:1] == (BATCH,) and not field.nullable and field.categories is None


def _is_quick(field: Field) -> bool:
    """Say whether an array of the field's own type needs no work: none of its values has to be looked at."""
    return field.dtype in DATATYPES and field.dtype != "bfloat16" and not (field.nullable and field.dtype[0] in "uib")


def _quick(field: Field) -> tuple[str, np.dtype[Any], int, list[tuple[int, int]], list[tuple[int, str]]]:
    fixed = [(axis, size) for axis, size in enumerate(field.shape) if isinstance(size, int)]
    free = [(axis, size) for axis, size in enumerate(field.shape) if isinstance(size, str)]
    return field.name, np.dtype(field.dtype), len(field.shape), fixed, free


def _column(array: Array, field: Field) -> Array:
    if array.ndim == len(field.shape) + 1 and array.shape[-1] == 1:
        return array[..., 0]
    return array


def _listed(names: frozenset[str]) -> str:
    shown = ", ".join(map(repr, sorted(names)[:_SHOWN]))
    return f"{shown}, ..." if len(names) > _SHOWN else shown or "none"
