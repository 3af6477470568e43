"""Containers: what data comes in, and what a model is called with.

A frame, an array, a tensor, a dict, a tuple or a list of records becomes named arrays, and named arrays become the
container that the model was fitted on::

    example = containers.example(frame)                     # fields, arrays and signature from the user's example
    arrays = containers.to_arrays(other, example.signature)  # any container: matched by name, cast without loss
    native = containers.from_arrays(arrays, example.signature)  # a frame again, labels and dtypes as in the example

Names. A frame's columns, a dict's keys and a record's keys are names; one NumPy array or list is called ``X``, one
tensor ``x``, a tuple's parts ``input_0`` and so on. A label that is no text keeps itself in ``Field.key``.

Matching. Inputs are matched by name and brought into the signature's order. Columns that the signature does not
know are dropped: training frames often carry more. A matrix is matched with a table's columns by position.

Casting. Only where no value changes: int32 to int64, float64 that are integers to int64, float64 to float32 where
each is exact. Text is never read as numbers. Python's own numbers have no precision, so lists and records take
the field's.

Missing values. A column of integers or booleans may have them even if the example had none; it becomes a masked
array with exact values. In floats they are NaN, in times NaT, in text None or NaN, kept apart where the container can
tell. Categories that the example did not have are data and are passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vitrify.containers import _match
from vitrify.containers._values import describe, no_rows
from vitrify.core.catalog import catalog
from vitrify.core.errors import SignatureError
from vitrify.core.protocols import Example
from vitrify.core.signature import BATCH, Signature

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.row import Row
    from vitrify.core.signature import Field

__all__ = ["conform", "example", "from_arrays", "no_rows", "output_fields", "rows", "take", "to_arrays"]


def example(native: Any, *, dynamic: Mapping[str, Mapping[int, int | str]] | None = None) -> Example:
    """Return the user's example in both forms, with the signature that it shows.

    Args:
        native: What the model is called with: at least one row.
        dynamic: More axes that may change, by input and axis: ``{"tokens": {1: "length"}}``. The first axis is
            ``batch`` unless it is named otherwise here, or fixed by a number.

    Raises:
        SignatureError: It is empty, of no known container, or holds what no array can; or ``dynamic`` names what is
            not there.
    """
    row = _row(native)
    fields = _dynamic(row.load().fields(native), dynamic or {})
    signature = Signature(inputs=fields, container=row.name)
    arrays = row.load().to_arrays(native, fields)
    _refuse_empty(arrays, fields, type(native).__name__)
    _fix_sizes(arrays, fields)
    return Example(native=native, arrays=_match.conform(arrays, fields), signature=signature)


def to_arrays(data: Any, signature: Signature) -> Arrays:
    """Return any container's data as the inputs of a signature, whatever the signature's own container.

    Raises:
        SignatureError: It does not fit; the message is a table of expected against given.
    """
    return _match.conform(_row(data).load().to_arrays(data, signature.inputs), signature.inputs)


def conform(arrays: Arrays, fields: tuple[Field, ...]) -> Arrays:
    """Return arrays in the fields' order and types; see the module's text for what fits.

    Raises:
        SignatureError: Names, types, shapes or missing values do not fit; the message is a table with a line for
            each input that does not.
    """
    return _match.conform(arrays, fields)


def from_arrays(arrays: Arrays, signature: Signature) -> Any:
    """Return what the model is called with. ``arrays`` must fit the signature, as :func:`conform` makes them."""
    return catalog().load("container", signature.container).from_arrays(arrays, signature.inputs)


def output_fields(outputs: Arrays, batch: int | None) -> tuple[Field, ...]:
    """Return a field for each output array.

    Args:
        outputs: What the model gave.
        batch: Rows that went in; an output with as many in its first axis is batched. None where there is no batch.

    Raises:
        SignatureError: An output holds something that no field can.
    """
    fields = []
    for name, array in outputs.items():
        field = describe(name, array)
        batched = array.ndim > 0 and array.shape[0] == batch
        fields.append(field if batched else field.replace(shape=array.shape))
    return tuple(fields)


def rows(arrays: Arrays, fields: tuple[Field, ...]) -> int | None:
    """Return the size of the batch, or None where nothing has one."""
    return next((len(arrays[field.name]) for field in fields if field.batched), None)


def take(arrays: Arrays, fields: tuple[Field, ...], rows: Any) -> Arrays:
    """Return some rows of the batched fields, and the other fields whole.

    Args:
        arrays: At least one array a field.
        fields: Which arrays, and which of them are batched.
        rows: Positions, a slice or a boolean mask.
    """
    return {field.name: arrays[field.name][rows] if field.batched else arrays[field.name] for field in fields}


def _row(data: Any) -> Row:
    if row := catalog().for_object("container", data):
        return row
    if isinstance(data, Mapping):
        return catalog().row("container", "dict")
    if hasattr(data, "__array__"):
        return catalog().row("container", "numpy")
    known = ", ".join(row.name for row in catalog().rows("container"))
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    msg = f"data of type {kind}; expected one of the containers {known}"
    raise SignatureError(msg, remedy="convert it to a data frame, an array, or a dict of arrays")


def _dynamic(fields: tuple[Field, ...], dynamic: Mapping[str, Mapping[int, int | str]]) -> tuple[Field, ...]:
    """Name the axes that may change."""
    if unknown := set(dynamic) - {field.name for field in fields}:
        msg = f"dynamic axes of {sorted(unknown)}, but the inputs are {[field.name for field in fields]}"
        raise SignatureError(msg)
    result = []
    for field in fields:
        axes = dynamic.get(field.name, {})
        if wrong := [axis for axis in axes if not 0 <= axis < len(field.shape)]:
            msg = f"dynamic axes {wrong} of {field}: it has the axes 0 to {len(field.shape) - 1}"
            raise SignatureError(msg)
        shape = tuple(axes.get(axis, size) for axis, size in enumerate(field.shape))
        result.append(field.replace(shape=shape))
    return tuple(result)


def _refuse_empty(arrays: Arrays, fields: tuple[Field, ...], kind: str) -> None:
    if not fields or not all(array.size for array in arrays.values()):
        empty = [name for name, array in arrays.items() if not array.size]
        msg = f"an empty example: a {kind} {f'without values in {empty}' if empty else 'without columns'}"
        raise SignatureError(msg, remedy="give at least one row, as the model is called with; a few are better")


def _fix_sizes(arrays: Arrays, fields: tuple[Field, ...]) -> None:
    """Say how to name axes when the first axes differ: which of them is the batch is not ours to guess."""
    sizes = {field.name: len(arrays[field.name]) for field in fields if field.shape and field.shape[0] == BATCH}
    if len(set(sizes.values())) > 1:
        name, size = list(sizes.items())[-1]
        msg = f"the inputs differ in their first axis, the batch: {sizes}"
        raise SignatureError(msg, remedy=f"name the one that is not the batch: dynamic={{{name!r}: {{0: {size}}}}}")
