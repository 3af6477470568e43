"""Parity: does this model predict what the model that it was made from predicts?

Proof by trying hard to break it: the samples, rows near them, and probes made from the signature and from the model
itself (missing values, unseen categories, values on tree thresholds and one unit in the last place beside them,
integers that float32 cannot hold, the ends of every type, empty and odd batches)::

    report = Parity(Tolerance(rtol=1e-5), rows=20_000).run(converted, original)
    report = compare_sessions(converted_session, original_session, samples)     # without artifacts
    picture.svg(report); picture.html(report); picture.text(report)             # the error distribution

What may differ is in :mod:`.tolerance`, what is forgiven in :mod:`.judge`, what is tried in :mod:`.probes`.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from vitrify.checks.parity.compare import ROWS, compare_sessions
from vitrify.checks.parity.generated import generated
from vitrify.checks.parity.tolerance import Tolerance
from vitrify.core.catalog import catalog
from vitrify.core.errors import UsageError, VitrifyError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vitrify.core.protocols import Session, Subject
    from vitrify.core.report import Report

__all__ = ["Parity", "Tolerance", "compare_sessions", "open_session"]

_TREES = frozenset({"skops", "xgboost", "lightgbm", "catboost", "pickle"})
"""Formats whose live model may hold trees."""


class Parity:
    """The check that gates every step from one model to another."""

    def __init__(
        self,
        tolerance: Tolerance | None = None,
        rows: int = ROWS,
        *,
        without: Collection[str] = (),
        state: Mapping[str, str] | None = None,
        stochastic: bool = False,
        seed: int = 0,
    ) -> None:
        """Keep what counts as the same and how many rows to compare.

        Args:
            tolerance: By default chosen from the precision that takes part.
            rows: Rows compared in all, about.
            without: Names of probes that mean nothing to this model, as the report names them; it says so.
            state: For a model with a memory that goes in and out: input to the output whose last value it takes.
                Several calls in a row are then compared, too; so are those of a session that can ``reset``.
            stochastic: Compare distributions instead of values: the model draws at random.
            seed: The same seed makes the same probes.

        Raises:
            UsageError: Fewer than one row.
        """
        if rows < 1:
            msg = f"rows={rows}: nothing would be compared (expected 1 or more)"
            raise UsageError(msg)
        self.tolerance, self.rows, self.without, self.seed = tolerance, rows, frozenset(without), seed
        self.state, self.stochastic = dict(state or {}), stochastic

    def run(self, subject: Subject, reference: Subject | None) -> Report:
        """Compare ``subject`` with the ``reference`` that it was made from, over the golden inputs and probes.

        Raises:
            UsageError: There is no reference, or one of them is not a model that predicts.
        """
        if reference is None:
            msg = "parity compares two models: the reference that this one was made from is missing"
            raise UsageError(msg)
        samples, made = reference.golden or subject.golden, False
        if not samples and reference.document.signature is not None:
            samples, made = generated(reference.document.signature, seed=self.seed), True
        with closing(open_session(reference)) as source, closing(open_session(subject)) as candidate:
            report = compare_sessions(
                candidate,
                source,
                samples,
                self.tolerance,
                row_count=self.rows,
                model=_model(reference),
                without=self.without,
                state=self.state,
                stochastic=self.stochastic,
                seed=self.seed,
            )
        return report.replace(details={**report.details, "samples": "generated"}) if made and samples else report


def open_session(subject: Subject, runtime: str | None = None) -> Session:
    """Open an artifact, or wrap its live model, in the runtime that its document names or another one.

    Raises:
        UsageError: It names none, and none was given.
    """
    name = runtime or subject.document.runtime
    if name is None:
        msg = f"a model of format {subject.document.format!r} that names no runtime cannot predict"
        raise UsageError(msg, remedy="save it from a live model with an example, or name a runtime")
    plugin = catalog().load("runtime", name)
    if subject.native is not None and runtime is None:
        session: Session = plugin.wrap(subject.native, subject.document)
    else:
        session = plugin.open(subject.files, subject.document, subject.allow)
    return session


def _model(subject: Subject) -> Any:
    """Return the live model, for its thresholds; None where it has none or cannot be read."""
    document = subject.document
    if subject.native is not None or document.format not in _TREES:
        return subject.native
    try:
        return catalog().load("format", document.format).read(subject.files, document.entry, subject.allow)
    except VitrifyError:
        return None
