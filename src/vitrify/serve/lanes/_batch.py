"""Batches: which requests may be run together, and how their rows are put together and taken apart again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import ModelError
from vitrify.serve.lanes._padding import Padding

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field
    from vitrify.serve.lanes._padding import Sizes

    Array = np.ndarray[Any, Any]


class Joiner:
    """What one model's signature says about batches of it.

    Args:
        inputs: The model's.
        outputs: Likewise; every field needs a batch dimension for anything to be joined.
        pad: As in :class:`vitrify.serve.lanes.Batching`.

    Raises:
        UsageError: ``pad`` cannot be meant.
    """

    def __init__(self, inputs: Sequence[Field], outputs: Sequence[Field], pad: Mapping[str, float]) -> None:
        self._outputs = tuple(field.name for field in outputs)
        self.batched = bool(inputs) and all(field.batched for field in (*inputs, *outputs))
        self.padding = Padding(inputs, outputs, pad)

    def rows(self, arrays: Arrays) -> int | None:
        """Return the number of rows; None where the model knows none, or the inputs do not agree in it."""
        if not self.batched:
            return None
        counts = {array.shape[0] if array.ndim else None for array in arrays.values()}
        return counts.pop() if len(counts) == 1 else None

    def key(self, arrays: Arrays) -> Hashable:
        """Return what two requests must have in common to be put together.

        A masked array and a plain one are kept apart: a model may take a column without missing values for one of
        another type.
        """
        named = ((name, arrays[name]) for name in sorted(arrays))
        return tuple(
            (name, isinstance(array, np.ma.MaskedArray), array.dtype, self.padding.trailing(name, array))
            for name, array in named
        )

    def join(self, pieces: Sequence[Arrays]) -> Arrays:
        """Return the rows of all pieces, one after the other. A single piece is returned as it is."""
        first = pieces[0]
        if len(pieces) == 1:
            return first
        joined = {}
        for name in first:
            arrays = [piece[name] for piece in pieces]
            filled = self.padding.fill(name, arrays)
            joined[name] = concatenate(arrays) if filled is None else filled
        return joined

    def check(self, outputs: Any, rows: int | None, sizes: Sequence[Sizes]) -> None:
        """Refuse outputs that cannot be of these inputs.

        Args:
            outputs: What the model gave.
            rows: How many went in; None where the model knows none.
            sizes: Of each piece, from :meth:`Padding.sizes`.

        Raises:
            ModelError: They are no named arrays, one is missing, or they have another number of rows, or another
                length where they were filled up.
        """
        if not isinstance(outputs, dict) or not all(isinstance(array, np.ndarray) for array in outputs.values()):
            msg = "the model gave something else than named arrays"
            raise ModelError(msg)
        if missing := [name for name in self._outputs if name not in outputs]:
            msg = f"the model gave no output {missing[0]!r} (it gave: {list(outputs)})"
            raise ModelError(msg)
        if rows is None:
            return
        longest = _filled(sizes)
        for name, array in outputs.items():
            given = array.shape[0] if array.ndim else None
            if given != rows:
                msg = f"the model gave {'no' if given is None else given} rows in output {name!r}, expected {rows}"
                raise ModelError(msg)
            if longest and (misfit := self.padding.misfit(name, array, longest)):
                msg = f"the model gave output {name!r} {misfit}"
                raise ModelError(msg)

    def cut(self, outputs: Arrays, counts: Sequence[int], sizes: Sequence[Sizes]) -> Iterator[Arrays]:
        """Yield the rows of each piece of a batch, without what was filled up; they are views.

        Args:
            outputs: Of all rows; :meth:`check` has passed them.
            counts: Rows of each piece.
            sizes: Likewise, from :meth:`Padding.sizes`.
        """
        filled = _filled(sizes)
        start = 0
        for count, own in zip(counts, sizes, strict=True):
            rows = {name: array[start : start + count] for name, array in outputs.items()}
            yield {name: self.padding.cut(name, array, own) for name, array in rows.items()} if filled else rows
            start += count


def chosen(outputs: Arrays, names: Sequence[str]) -> Arrays:
    """Return the outputs that were asked for, all for no names, as copies: a model may use its own memory again.

    Raises:
        ModelError: One that was asked for is not there.
    """
    wanted = tuple(names) or tuple(outputs)
    if missing := [name for name in wanted if name not in outputs]:
        msg = f"the model gave no output {missing} (it gave: {list(outputs)})"
        raise ModelError(msg)
    return {name: outputs[name].copy() for name in wanted}


def concatenate(arrays: Sequence[Array]) -> Array:
    """Return the rows of all arrays, which agree in element type; masks are kept."""
    if any(isinstance(array, np.ma.MaskedArray) for array in arrays):
        masked: Array = np.ma.concatenate(arrays)  # type: ignore[no-untyped-call]
        return masked
    dtypes = {array.dtype for array in arrays}
    return np.concatenate(arrays, dtype=dtypes.pop() if len(dtypes) == 1 else None)  # else NumPy turns the bytes around


def rejoin(parts: Sequence[Arrays]) -> Arrays:
    """Return the outputs of a request whose pieces were run apart.

    Raises:
        ModelError: The pieces do not fit together, because a dimension after the batch depends on the data.
    """
    try:
        return {name: concatenate([part[name] for part in parts]) for name in parts[0]}
    except (KeyError, ValueError) as error:
        shapes = [{name: array.shape for name, array in part.items()} for part in parts[:3]]
        msg = f"the model's outputs for the pieces of one large request do not fit together: {shapes}"
        raise ModelError(msg, remedy="ask with fewer rows at a time") from error


def size(arrays: Arrays) -> int:
    """Return the bytes that inputs hold; text and other objects with what Python needs for each."""
    return sum(_size(array) for array in arrays.values())


def _size(array: Array) -> int:
    held = array.nbytes
    if array.dtype.kind == "O":
        held += sum(value.__sizeof__() for value in array.ravel().tolist())
    if isinstance(array, np.ma.MaskedArray) and array.mask is not np.ma.nomask:
        held += array.mask.nbytes
    return int(held)


def _filled(sizes: Sequence[Sizes]) -> Sizes:
    """Return the longest of each dimension, where any was filled up; nothing where all agree."""
    first = sizes[0]
    if all(one == first for one in sizes):
        return {}
    return {name: max(one[name] for one in sizes) for name in first}
