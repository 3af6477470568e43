"""XGBoost: native boosters, which are called with a matrix of XGBoost's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify import containers
from vitrify.core.catalog import catalog
from vitrify.runtimes.session import BaseSession, signature_of
from vitrify.runtimes.threads import wanted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files
    from vitrify.core.signature import Field, Signature

ITERATIONS = "call_iterations"
"""The entry's key: how many iterations predict, 0 for all."""

OUTPUT = "prediction"


class XGBoostRuntime:
    """The runtime of ``xgboost.Booster``; of an estimator it takes the booster inside.

    The output is ``prediction``: what ``Booster.predict`` gives by default, one value a row, or one column a class
    or target where there are several. Where training stopped early, the best iteration is the last one used, as
    XGBoost's estimators do and a bare ``Booster.predict`` does not: that decision is in the entry.
    """

    def open(self, files: Files, document: Document, allow: Allow) -> XGBoostSession:
        """Read the booster with its format, and predict with it."""
        return self.wrap(catalog().load("format", document.format).read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> XGBoostSession:
        """Return a session over a live booster or estimator."""
        signature = signature_of(document, "a booster")
        iterations = document.entry.get(ITERATIONS, _iterations(model))
        return XGBoostSession(model, signature, iterations)

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return how many iterations predict."""
        del example
        return {ITERATIONS: _iterations(model)}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return the field of the prediction; a booster knows no class labels."""
        del model, entry
        return containers.output_fields(outputs, len(outputs[OUTPUT]))


class XGBoostSession(BaseSession):
    """An open booster."""

    def __init__(self, model: Any, signature: Signature, iterations: int) -> None:
        """Predict with the first ``iterations`` iterations of ``model``; 0 for all."""
        # XGBoost's matrices take arrays and frames: everything named is given as a frame, which can hold categories.
        super().__init__(signature)
        named = signature.container in {"pandas", "polars", "records", "dict"}
        self._call = signature.replace(container="pandas" if named else "numpy")
        self._booster = _booster(model)
        self._missing = getattr(model, "missing", None)
        self._iterations = iterations
        self._threads = wanted() or None
        if self._threads:
            self._booster.set_param({"nthread": self._threads})

    def _run(self, inputs: Arrays) -> Arrays:
        from xgboost import DMatrix

        data = containers.from_arrays(inputs, self._call)
        if self._call.container == "pandas":
            matrix = DMatrix(data, missing=self._missing, enable_categorical=True, nthread=self._threads)
        else:
            names, types = self._booster.feature_names, self._booster.feature_types
            about = {"feature_names": names, "feature_types": types}
            matrix = DMatrix(data, missing=self._missing, nthread=self._threads, **about)
        return {OUTPUT: self._booster.predict(matrix, iteration_range=(0, self._iterations))}


def _booster(model: Any) -> Any:
    return model.get_booster() if hasattr(model, "get_booster") else model


def _iterations(model: Any) -> int:
    best = _booster(model).attr("best_iteration")
    return 0 if best is None else int(best) + 1
