"""Calling the model: pieces become one batch, and its outputs become each piece's again. What it raises ends here."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from vitrify.core.errors import ModelError, VitrifyError
from vitrify.serve.lanes._batch import chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Run
    from vitrify.serve.lanes._batch import Joiner
    from vitrify.serve.lanes._queue import Piece

_LOG = logging.getLogger(__name__)
_SHOWN = 500
"""Characters of a model's own error text that are passed on."""

_Error = TypeVar("_Error", bound=VitrifyError)


@dataclass(slots=True, eq=False)
class Outcome:
    """What came of a batch.

    Attributes:
        inputs: Of all rows.
        outputs: Of all rows, as the model gave them.
        parts: The outputs of each piece, or why it has none; empty where the whole batch failed.
        error: Why the whole batch failed; None where it did not.
    """

    inputs: Arrays = field(default_factory=dict)
    outputs: Arrays = field(default_factory=dict)
    parts: list[Arrays | ModelError] = field(default_factory=list)
    error: VitrifyError | None = None


def call(run: Run, joiner: Joiner, pieces: Sequence[Piece], name: str) -> Outcome:
    """Run one batch.

    Args:
        run: The model.
        joiner: How pieces are put together.
        pieces: At least one; all of one key.
        name: What the log calls the model.
    """
    outcome = Outcome()
    known = pieces[0].ticket.rows is not None
    try:
        outcome.inputs = joiner.join([piece.inputs() for piece in pieces])
        outcome.outputs = run(outcome.inputs)
        rows, sizes = [piece.rows for piece in pieces], [piece.ticket.sizes for piece in pieces]
        joiner.check(outcome.outputs, sum(rows) if known else None, sizes)
        cut = joiner.cut(outcome.outputs, rows, sizes) if known else [outcome.outputs]
        outcome.parts = [_part(piece, outputs) for piece, outputs in zip(pieces, cut, strict=True)]
    except VitrifyError as error:
        if error.__cause__ is not None:
            _LOG.warning("%s raised", name, exc_info=True)
        outcome.error = bare(error)
    except BaseException as error:  # noqa: BLE001 (a model that calls sys.exit must not end the lane)
        _LOG.warning("%s raised", name, exc_info=True)
        outcome.error = ModelError(f"the model raised {type(error).__name__}: {error}"[:_SHOWN])
    return outcome


def _part(piece: Piece, outputs: Arrays) -> Arrays | ModelError:
    try:
        return chosen(outputs, piece.ticket.request.outputs)
    except ModelError as error:
        return bare(error)


def bare(error: _Error) -> _Error:
    """Return an error without the frames that it went through: they hold the batch's arrays."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
