"""Which sizes of a model's outputs may change: as its file says, or found by calling it where the file does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify import containers
from vitrify.core.errors import ModelError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vitrify.core.protocols import Arrays, Example
    from vitrify.core.signature import Field


def output_fields(outputs: Arrays, known: Mapping[str, Sequence[int | str]]) -> tuple[Field, ...]:
    """Return the fields of outputs, with the shapes that are known of them; one of another rank is not believed."""
    return tuple(
        field.replace(shape=tuple(shape)) if len(shape := known.get(field.name, ())) == len(field.shape) else field
        for field in containers.output_fields(outputs, None)
    )


def shapes(run: Callable[[Arrays], Arrays], example: Example) -> dict[str, list[int | str]]:
    """Return each output's shape; a size that grew with a named dimension has that name.

    Args:
        run: Calls the model.
        example: What it can be called with; each of its named dimensions is doubled in turn.

    Raises:
        ModelError: The model rejects the example.
        UnsupportedModelError: It rejects the example with a named dimension doubled.
    """
    before = {name: array.shape for name, array in run(example.arrays).items()}
    found: dict[str, list[int | str]] = {name: list(shape) for name, shape in before.items()}
    names = dict.fromkeys(size for field in example.signature.inputs for size in field.shape if isinstance(size, str))
    for dimension in names:
        try:
            after = {name: array.shape for name, array in run(_doubled(example, dimension)).items()}
        except ModelError as error:
            msg = f"the model works for the example's own size of {dimension!r} only: {error.message}"
            remedy = "make it work for any size of that dimension, or mark it as fixed: dynamic={input: {axis: size}}"
            raise UnsupportedModelError(msg, remedy=remedy) from error
        for name, shape in before.items():
            for axis, (old, new) in enumerate(zip(shape, after[name], strict=True)):
                if old != new:
                    found[name][axis] = dimension if new == 2 * old else f"{name}_{axis}"
    return found


def _doubled(example: Example, dimension: str) -> Arrays:
    arrays = dict(example.arrays)
    for field in example.signature.inputs:
        for axis, size in enumerate(field.shape):
            if size == dimension:
                arrays[field.name] = np.concatenate([arrays[field.name]] * 2, axis=axis)
    return arrays
