"""Asking: what a model answers to rows, and which rows it refuses."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.checks.parity import rows
from vitrify.core.errors import ModelError, SignatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitrify.core.protocols import Arrays, Session

_CALLS = 200
"""Calls spent on finding out which rows of one batch are refused; what is then undecided counts as refused."""


@dataclass(frozen=True)
class Answer:
    """What a model said.

    Attributes:
        outputs: The answers to the accepted rows, in order; None where it accepted none.
        accepted: Indices of those rows.
        refusal: The first error's text, where rows were refused.
    """

    outputs: Arrays | None
    accepted: NDArray[np.intp]
    refusal: str = ""


def ask(session: Session, arrays: Arrays, *, rowwise: bool) -> Answer:
    """Run a batch; where the model refuses it, halve it until the refused rows are known.

    Args:
        session: The model.
        arrays: Its inputs.
        rowwise: Whether the batch may be split; else it is one row.
    """
    total = rows.count(arrays) if rowwise else 1
    pending, parts, accepted = [np.arange(total)], [], []
    refusal, calls = "", 0
    while pending:
        indices = pending.pop()
        if calls >= _CALLS:
            break
        calls += 1
        try:
            parts.append(run(session, arrays if len(indices) == total else rows.take(arrays, indices)))
        except (ModelError, SignatureError) as error:
            refusal = refusal or error.message
            if len(indices) > 1:
                middle = len(indices) // 2
                pending += [indices[middle:], indices[:middle]]
        else:
            accepted.append(indices)
    if not parts:
        return Answer(None, np.arange(0), refusal)
    if rowwise and len(parts) > 1 and (broken := _not_rowwise(parts, accepted)):
        return Answer(None, np.arange(0), broken)
    return Answer(rows.join(parts), np.concatenate(accepted), refusal)


def run(session: Session, arrays: Arrays) -> Arrays:
    """Run a batch and keep quiet: probes are there to provoke what libraries warn about."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session.run(arrays)


def per_row(output: NDArray[Any], *, rowwise: bool) -> NDArray[Any]:
    """Return an output with one flattened row a line."""
    count = output.shape[0] if rowwise and output.ndim else 1
    width = math.prod(output.shape[1:] if rowwise else output.shape)
    lines: NDArray[Any] = output.reshape(count, width)
    return lines


def _not_rowwise(parts: list[Arrays], accepted: list[NDArray[np.intp]]) -> str:
    """Say why the parts cannot be joined, if they cannot."""
    for part, indices in zip(parts, accepted, strict=True):
        for name, array in part.items():
            if array.ndim == 0 or array.shape[0] != len(indices) or array.shape[1:] != parts[0][name].shape[1:]:
                return f"output {name!r} has shape {array.shape} for {len(indices)} rows"
    return ""
