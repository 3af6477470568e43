"""A pickled estimator as data: read from trusted and allowed constructors, written as ``.skops``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._skops.capture import Capture
from vitrify.runtimes.estimator import METHODS, methods

if TYPE_CHECKING:
    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject


class PickleToSkops:
    """The same estimator, in a format that is no code."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """List what a ``.skops`` file cannot keep, each by its path in the model."""
        model = _model(source)
        try:
            source.document.entry.get(METHODS) or methods(model)
        except ModelError as error:
            return (Finding(place=type(model).__name__, message=error.message, remedy=error.remedy),)
        capture = Capture()
        capture.node(model, "")
        return tuple(capture.problems)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write ``model.skops``; how the estimator is called stays what it was.

        Raises:
            UnsupportedModelError: It holds what such a file cannot keep; everything is listed.
        """
        if problems := self.problems(source, step):
            msg = "the pickled model cannot be kept as a .skops file"
            raise UnsupportedModelError(msg, problems=problems, remedy="keep it as a pickle")
        model = _model(source)
        written: Written = catalog().load("format", "skops").write(model, sink, None)
        called = {METHODS: source.document.entry.get(METHODS) or methods(model)}
        return Written(entry={**called, **written.entry}, names=written.names, notes=written.notes)


def _model(source: Subject) -> Any:
    if source.native is not None:
        return source.native
    document = source.document
    return catalog().load("format", document.format).read(source.files, document.entry, source.allow)
