"""statsmodels: fitted results, live or as they were kept, predict for new rows.

The model is called as ``results.predict`` is: with a matrix, with a table where a formula was fitted, or with a dict of
``exog``, ``offset`` and ``exposure``. It gives ``prediction``, the mean of each row, or ``probability`` where there
are several classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.formats._statsmodels.capture import capture
from vitrify.formats.statsmodels import Statsmodels as Format
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field, Signature

PREDICTION, PROBABILITY = "prediction", "probability"


class Statsmodels:
    """The runtime of fitted results."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open what was kept."""
        return self.wrap(Format().read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over fitted results."""
        return _StatsmodelsSession(model, signature_of(document, "a fitted result"))

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the signature says how the model is called."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return the field of the prediction; of probabilities, with the classes in order."""
        del entry
        labels = capture(model).labels or None
        fields = containers.output_fields(outputs, len(next(iter(outputs.values()))))
        return tuple(field.replace(classes=labels) if field.name == PROBABILITY else field for field in fields)


class _StatsmodelsSession(BaseSession):
    def __init__(self, model: Any, signature: Signature) -> None:
        super().__init__(signature)
        self._model = model

    def _run(self, inputs: Arrays) -> Arrays:
        native = containers.from_arrays(inputs, self.signature)
        if isinstance(native, dict) and "exog" in native:
            result = self._model.predict(**native)
        elif isinstance(native, tuple):
            result = self._model.predict(*native)
        else:
            result = self._model.predict(native)
        array = np.asarray(result, np.float64)
        return {PROBABILITY if array.ndim > 1 else PREDICTION: array}
