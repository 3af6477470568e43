"""Estimators: objects with ``predict``, ``predict_proba`` or ``transform``, as scikit-learn has them.

What is called is decided once, on the fitted model, and kept in the document's entry under ``call_methods``:

* classifiers: ``label`` (predict), and ``probability`` (predict_proba) or else ``score`` (decision_function);
* outlier detectors: ``label`` and ``score``; clusterers: ``label``; mixtures: ``label`` and ``probability``;
* regressors, rankers and boosters: ``prediction``; transformers: ``transformed``; densities: ``score``.

Outputs are plain arrays. Sparse results become dense. Where a method gives a list (probabilities of several
targets), each part is an output: ``probability_0``, ``probability_1``. A frame of one element type is one array;
one of several is an output a column: ``transformed.age``. Labels keep their own type, text is an array of ``str``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.catalog import catalog
from vitrify.core.errors import ModelError
from vitrify.runtimes._picking import one_thread, picking_first
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files
    from vitrify.core.signature import Field, Scalar, Signature

METHODS = "call_methods"
"""The entry's key: output name to method name, in the order of the outputs."""

_LABELLED = frozenset({"classifier", "clusterer", "outlier_detector", "density_estimator"})
_SCORES = {"probability": "predict_proba", "score": "decision_function"}


class Estimator:
    """The runtime of everything that is called as scikit-learn's estimators are."""

    def open(self, files: Files, document: Document, allow: Allow) -> EstimatorSession:
        """Read the model with its own format, and predict with it."""
        return self.wrap(catalog().load("format", document.format).read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> EstimatorSession:
        """Return a session over a live model."""
        signature = signature_of(document, "an estimator")
        return EstimatorSession(model, signature, document.entry.get(METHODS) or methods(model))

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return which methods give which outputs.

        Raises:
            ModelError: The model was never fitted, or has no method for new rows.
        """
        _require_fitted(model)
        return {METHODS: methods(model)}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return a field an output; labels, probabilities and scores have the class labels in order."""
        batch = next((len(array) for array in outputs.values()), None)
        called = entry.get(METHODS) or methods(model)
        fields = containers.output_fields(outputs, batch)
        return tuple(field.replace(classes=_classes(model, field, called)) for field in fields)


class EstimatorSession(BaseSession):
    """An open estimator."""

    def __init__(self, model: Any, signature: Signature, called: Mapping[str, str]) -> None:
        """Predict with ``model`` by calling ``called``: output name to method name."""
        super().__init__(signature)
        self._model = model
        self._called = called

    def picking_first(self) -> EstimatorSession | None:
        """Return a session of a copy that takes the first of equally far rows; None if it never picks among them."""
        model = picking_first(self._model)
        return None if model is None else _PickingFirst(model, self.signature, self._called)

    def _run(self, inputs: Arrays) -> Arrays:
        native = containers.from_arrays(inputs, self.signature)
        outputs: Arrays = {}
        for name, method in self._called.items():
            outputs.update(_arrays(name, getattr(self._model, method)(native)))
        alone = all(len(array) == 1 for array in inputs.values() if array.ndim)
        declared = {field.name: field for field in self.signature.outputs}
        return {name: _as_declared(array, declared.get(name), alone=alone) for name, array in outputs.items()}


class _PickingFirst(EstimatorSession):
    """The same on one thread: several search some of the points each, and their picks among equals meet by chance."""

    def _run(self, inputs: Arrays) -> Arrays:
        with one_thread():
            return super()._run(inputs)


def _as_declared(array: np.ndarray[Any, Any], field: Field | None, *, alone: bool) -> np.ndarray[Any, Any]:
    """Return an answer as it was when the model was saved, where the rows at hand would show it otherwise.

    The answer to one row is one row, also from an estimator that gives the row's values alone; and text that is
    missing in every row is still text.
    """
    if field is None:
        return array
    if alone and array.ndim == len(field.shape) - 1:
        array = array[np.newaxis]
    return array.astype(object) if field.dtype == "string" and array.dtype.kind == "f" else array


def methods(model: Any) -> dict[str, str]:
    """Return which method gives which output, for the methods that this model has.

    Raises:
        ModelError: It has none that takes new rows.
    """
    if hasattr(model, "predict"):
        if _kind(model) not in _LABELLED:
            return {"prediction": "predict"}
        score = next(({name: method} for name, method in _SCORES.items() if hasattr(model, method)), {})
        return {"label": "predict", **score}
    if hasattr(model, "transform"):
        return {"transformed": "transform"}
    if hasattr(model, "score_samples"):
        return {"score": "score_samples"}
    msg = f"a {type(model).__name__} has no predict, transform or score_samples for new rows"
    remedy = "save a model that predicts: refit=True for a search, novelty=True for LocalOutlierFactor"
    raise ModelError(msg, remedy=remedy)


def _kind(model: Any) -> str:
    """Return scikit-learn's word for what the estimator is, asked in the new way or else in the old one."""
    try:
        kind = model.__sklearn_tags__().estimator_type
    except AttributeError:  # no BaseEstimator, or one that was written for an older scikit-learn
        kind = getattr(model, "_estimator_type", None)
    return kind or ("classifier" if hasattr(model, "classes_") or hasattr(model, "predict_proba") else "")


def _require_fitted(model: Any) -> None:
    if not (model.is_fitted() if hasattr(model, "is_fitted") else _is_fitted(model)):  # the first is CatBoost's
        msg = f"this {type(model).__name__} was never fitted"
        raise ModelError(msg, remedy="call fit(...), then save it")


def _is_fitted(model: Any) -> bool:
    if "sklearn.base" not in sys.modules:  # then the model is none of scikit-learn's
        return True
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        if isinstance(model, BaseEstimator):
            check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _arrays(name: str, result: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the plain arrays of what a method gave."""
    if isinstance(result, list) and result and all(isinstance(part, np.ndarray) and part.ndim > 1 for part in result):
        for index, part in enumerate(result):
            yield f"{name}_{index}", _plain(part)
    elif hasattr(result, "columns") and len(set(result.dtypes)) > 1:
        for column in result.columns:
            yield f"{name}.{column}", _plain(result[column].to_numpy())
    elif hasattr(result, "to_numpy"):
        yield name, _plain(result.to_numpy())
    elif hasattr(result, "toarray"):
        yield name, _plain(result.toarray())
    else:
        yield name, _plain(np.asarray(result))


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return text as objects, and objects that are all numbers or all booleans as what they are."""
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.kind == "O":
        kinds = {type(value) for value in array.flat}
        for dtype, kind in ((np.bool_, (bool, np.bool_)), (np.int64, (int, np.integer)), (np.float64, (float,))):
            if kinds and all(issubclass(cls, kind) for cls in kinds) and not (bool in kinds and dtype is not np.bool_):
                return array.astype(dtype)
    return array


def _classes(model: Any, field: Field, called: Mapping[str, str]) -> tuple[Scalar, ...] | None:
    """Return the class labels of an output: of its columns, or of the values it can have."""
    base, _, index = field.name.rpartition("_") if field.name not in called else (field.name, "", "")
    if base not in {"label", "probability", "score"} or (found := getattr(model, "classes_", None)) is None:
        return None
    several = isinstance(found, list)
    if several != bool(index):
        return None
    labels = _plain(np.asarray(found[int(index)] if several else found))
    width = field.shape[-1] if len(field.shape) > 1 else None
    if labels.ndim != 1 or (base != "label" and width != len(labels)):
        return None
    scalars = tuple(labels.tolist())
    return scalars if all(isinstance(label, str | int | float | bool) for label in scalars) else None
