"""The proof that a model may be batched: batches give bit for bit what single rows give.

Many kernels do not: a matrix product of 32 rows adds up in another order than one of a single row. Such a model may
still hold in smaller batches; what held is said, and nothing beyond that is run together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.serve.lanes._batch import Joiner, chosen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Signature
    from vitrify.serve.lanes import Run

    Array = np.ndarray[Any, Any]
    Bools = np.ndarray[Any, np.dtype[np.bool_]]

_SAMPLES = 64
"""So many golden rows are looked at; each is one run by itself."""
_SHOWN = 60
_SEED = 6


@dataclass(frozen=True)
class Proof:
    """What held.

    Attributes:
        rows: Batches up to so many rows gave what single rows gave; 1 where the model must not be batched.
        reason: Why it is not more, in words; empty where everything that was asked for held.
    """

    rows: int
    reason: str = ""


class _Failed(Exception):  # noqa: N818 (it never leaves this module)
    """What did not hold; its text is the reason."""


def batch_proof(
    run: Run, inputs: Arrays, signature: Signature, rows: int, *, pad: Mapping[str, float] | None = None
) -> Proof:
    """Run golden rows in batches of several sizes with several neighbours, and compare with each row by itself.

    Sizes are two, three, the powers of two and their neighbours, up to ``rows``. The same samples make the same
    batches. Where there are fewer golden rows than a batch needs they are taken again.

    Args:
        run: The model.
        inputs: Golden samples, conformed.
        signature: The model's.
        rows: The largest batch that is wanted.
        pad: As in :class:`vitrify.serve.lanes.Batching`: then rows are cut to different lengths first, so that
            filling up is proven, too.

    Returns:
        ``rows`` and no reason, or the largest power of two that held and why not more.
    """
    joiner = Joiner(signature.inputs, signature.outputs, pad or {})
    if not joiner.batched:
        flat = [field.name for field in (*signature.inputs, *signature.outputs) if not field.batched]
        return Proof(1, f"{flat or 'the inputs'} have no batch dimension, so that there are no rows to put together")
    samples = _rows(joiner, inputs, signature)
    if not samples:
        return Proof(1, "there are no golden samples to prove it with")
    held = 1
    try:
        alone = [_alone(run, joiner, sample, index) for index, sample in enumerate(samples)]
        for size in _sizes(rows):
            for order in _orders(len(samples), size):
                _compare(run, joiner, [samples[index] for index in order], [alone[index] for index in order])
            held = size
    except _Failed as failed:
        return Proof(1 << (held.bit_length() - 1), str(failed))
    return Proof(max(rows, 1))


def _sizes(rows: int) -> list[int]:
    """Return the sizes to try, in order: every remainder that kernels treat apart is among them."""
    powers = [1 << power for power in range(1, max(rows, 1).bit_length())]
    wanted = {2, 3, *powers, *(power + 1 for power in powers), rows - 1, rows}
    return sorted(size for size in wanted if 1 < size <= rows)


def _orders(samples: int, size: int) -> list[list[int]]:
    """Return which samples are neighbours: in their own order, and shuffled."""
    indices = np.arange(max(size, samples)) % samples
    shuffled = np.random.default_rng(_SEED + size).permutation(indices)
    return [indices[:size].tolist(), shuffled[:size].tolist()]


def _rows(joiner: Joiner, inputs: Arrays, signature: Signature) -> list[Arrays]:
    """Return each golden row by itself; where lengths may differ, they do."""
    count = joiner.rows(inputs) or 0
    samples = [{name: array[row : row + 1] for name, array in inputs.items()} for row in range(min(count, _SAMPLES))]
    lengths = joiner.padding.sizes(inputs)
    if not lengths:
        return samples
    shapes = {field.name: field.shape for field in signature.inputs}
    for row, sample in enumerate(samples):
        short = {name: max(1, length - row % max(length, 1)) for name, length in lengths.items()}
        for name, array in sample.items():
            sizes = shapes[name][: array.ndim]
            sample[name] = array[tuple(slice(short.get(one) if isinstance(one, str) else None) for one in sizes)]
    return samples


def _alone(run: Run, joiner: Joiner, sample: Arrays, row: int) -> Arrays:
    try:
        outputs = run(sample)
        joiner.check(outputs, 1, [{}])
        return chosen(outputs, ())
    except Exception as error:
        msg = f"row {row} by itself failed: {error}"
        raise _Failed(msg) from error


def _compare(run: Run, joiner: Joiner, samples: Sequence[Arrays], alone: Sequence[Arrays]) -> None:
    """Run one batch; each row of it must be what it was by itself."""
    size, sizes = len(samples), [joiner.padding.sizes(sample) for sample in samples]
    if len({joiner.key(sample) for sample in samples}) > 1:
        return  # a lane would not put them together either
    try:
        outputs = run(joiner.join(samples))
        joiner.check(outputs, size, sizes)
        got = list(joiner.cut(outputs, [1] * size, sizes))
    except Exception as error:
        msg = f"a batch of {size} failed: {error}"
        raise _Failed(msg) from error
    for row, (one, expected) in enumerate(zip(got, alone, strict=True)):
        if list(one) != list(expected):
            msg = f"row {row} of a batch of {size} has the outputs {list(one)}, by itself {list(expected)}"
            raise _Failed(msg)
        for name, array in expected.items():
            if said := _difference(one[name], array):
                msg = f"output {name!r} differs in row {row} of a batch of {size}: {said}"
                raise _Failed(msg)


def _difference(got: Array, expected: Array) -> str:
    """Say in what two outputs differ; empty where they are the same to the last bit."""
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return f"{got.dtype}{list(got.shape)} against {expected.dtype}{list(expected.shape)}"
    hidden = [np.ma.getmaskarray(array).ravel() for array in (got, expected)]
    mine, theirs = (np.ma.getdata(array).ravel() for array in (got, expected))
    unlike = _unlike(mine, theirs) & ~(hidden[0] & hidden[1]) | (hidden[0] != hidden[1])
    if not unlike.any():
        return ""
    first = int(unlike.argmax())
    shown = [
        "missing" if mask[first] else str(side[first])[:_SHOWN]
        for mask, side in zip(hidden, (mine, theirs), strict=True)
    ]
    return " against ".join(shown)


def _unlike(mine: Array, theirs: Array) -> Bools:
    """Return which elements differ; minus zero is not zero, NaN is NaN, whatever its bits are."""
    if mine.dtype.kind == "O":
        return np.array([not _same(*pair) for pair in zip(mine.tolist(), theirs.tolist(), strict=True)], np.bool_)
    if not mine.size or not mine.itemsize:
        return np.zeros(mine.size, np.bool_)
    raw = [np.ascontiguousarray(side).view(np.uint8).reshape(side.size, -1) for side in (mine, theirs)]
    unlike: Bools = np.any(raw[0] != raw[1], axis=1)
    if mine.dtype.kind in "SUb":
        return unlike
    nan = (mine != mine) & (theirs != theirs)  # noqa: PLR0124 (NaN and NaT are not equal to themselves)
    return np.asarray(unlike & ~nan, np.bool_)


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and one != one:  # noqa: PLR0124 (NaN)
        return bool(other != other)  # noqa: PLR0124
    return repr(one) == repr(other) if isinstance(one, (list, dict, tuple, np.ndarray)) else bool(one == other)
