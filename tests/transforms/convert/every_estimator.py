"""Every estimator of scikit-learn that answers for new rows: made, fitted, saved, converted, proven.

The data follow from the estimator's own tags, the arguments that it must be given from their names. The page
``docs/reference/scikit-learn.md`` is written from these rows, and a test asserts that it still is.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators
from transforms.convert.proving import problems, proof, saved

from vitrify.core.errors import UnsupportedModelError, VitrifyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vitrify.core.protocols import Subject

ROWS = 90
COMPARED = 2000
"""Rows that a proof compares."""

PROVEN, HYBRID, REFUSED, UNSAVED, DIFFERENT = "proven", "hybrid", "refused", "cannot be saved", "differs"


@dataclass(frozen=True)
class Row:
    """What became of one estimator.

    Attributes:
        name: Its class.
        answers: The outputs of the saved artifact.
        format: Of the saved artifact: ``skops``, or ``pickle`` for what that cannot keep.
        verdict: ``proven``, ``hybrid``, ``refused``, ``cannot be saved`` or ``differs``.
        reason: Why it is not proven.
        remedy: What to do then.
        compared: Rows compared by the proof.
        excused: Rows of outputs that the proof does not hold against the graph: ties, overflow, ill-conditioned.
        error: What the errors stay below, relative to the value and the output's scale; 0 for equal to the bit.
    """

    name: str
    answers: tuple[str, ...] = ()
    format: str = "skops"
    verdict: str = ""
    reason: str = ""
    remedy: str = ""
    compared: int = 0
    excused: int = 0
    error: float = 0.0

    @property
    def predicts(self) -> bool:
        """Whether it answers with anything but transformed features."""
        return any(not name.startswith("transformed") for name in self.answers)


def estimators() -> dict[str, type]:
    """Return every public estimator that can predict or transform new rows, by name."""
    return {
        name: kind
        for name, kind in all_estimators()
        if (name == "FrozenEstimator" or any(hasattr(kind, method) for method in _ANSWERS))
        and name not in _EXPERIMENTAL
    }


_EXPERIMENTAL = {"IterativeImputer", "HalvingGridSearchCV", "HalvingRandomSearchCV"}
"""Public only where somebody has enabled them in this process."""

_ANSWERS = ("predict", "predict_proba", "decision_function", "score_samples", "transform")

_CLASSIFIER, _REGRESSOR = LogisticRegression(), Ridge()
_ARGUMENTS: dict[str, Any] = {
    "dictionary": np.random.default_rng(3).normal(size=(3, 4)),
    "param_grid": {"C": [0.1, 1.0]},
    "param_distributions": {"C": [0.1, 1.0]},
    "steps": [("scale", StandardScaler()), ("model", _CLASSIFIER)],
    "transformers": [("scale", StandardScaler(), [0, 1]), ("keep", "passthrough", [2])],
    "transformer_list": [("scale", StandardScaler()), ("keep", "passthrough")],
}
"""Arguments that a constructor must be given."""

_SETTINGS: dict[str, dict[str, Any]] = {
    "FrozenEstimator": {"estimator": LogisticRegression()},
    "IsotonicRegression": {"out_of_bounds": "clip"},
    "KernelPCA": {"n_components": 2},
    "LocalOutlierFactor": {"novelty": True},
    "PatchExtractor": {"patch_size": (2, 2)},
    "SelectFdr": {"alpha": 0.5},
    "SelectFpr": {"alpha": 0.5},
    "SelectFwe": {"alpha": 0.5},
    "SelectKBest": {"k": 2},
    "SparseRandomProjection": {"n_components": 2},
    "GaussianRandomProjection": {"n_components": 2},
    "TransformedTargetRegressor": {"regressor": Ridge(), "func": np.log, "inverse_func": np.exp},
    "FunctionTransformer": {"func": np.tanh},
    "SelfTrainingClassifier": {"estimator": LogisticRegression()},
    "BernoulliRBM": {"n_iter": 2},
}
"""Settings without which an estimator answers for no new row, or has nothing to do."""


_SMALL = {"random_state": 0, "n_estimators": 10}
"""Settings that every estimator that has them gets."""


def make(kind: type) -> Any:
    """Return an estimator that was never fitted, with its default settings but for few trees and a fixed seed."""
    settings = dict(_SETTINGS.get(kind.__name__, {}))
    parameters = inspect.signature(kind).parameters
    regresses = "Regress" in kind.__name__
    for name, parameter in parameters.items():
        if name in settings:
            continue
        if name in _SMALL:
            settings[name] = _SMALL[name]
        elif parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            settings[name] = _argument(name, regresses=regresses)
    return kind(**settings)


def _argument(name: str, *, regresses: bool) -> Any:
    if name == "estimator":
        return _REGRESSOR if regresses else _CLASSIFIER
    if name == "estimators":
        tree = DecisionTreeRegressor(max_depth=3) if regresses else DecisionTreeClassifier(max_depth=3)
        return [("linear", _REGRESSOR if regresses else _CLASSIFIER), ("tree", tree)]
    return _ARGUMENTS[name]


def fitted(kind: type) -> tuple[Any, Any]:
    """Return the estimator fitted on generated data, and those data."""
    model = make(kind)
    tags = model.__sklearn_tags__()
    data, target = _data(kind, tags), _target(kind, tags)
    if kind.__name__ == "FrozenEstimator":
        model.estimator.fit(data, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of too few rows, too few iterations, old defaults
        if not tags.input_tags.two_d_array and (tags.target_tags.one_d_labels or tags.target_tags.two_d_labels):
            return model.fit(data), data
        return model.fit(data, target), data


def _data(kind: type, tags: Any) -> Any:
    """Return what the estimator's tags say that it is called with."""
    wanted, labels, rng = tags.input_tags, tags.target_tags, np.random.default_rng(0)
    insects = np.array(["ant", "bee", "cat", "dog", "eel"])
    counts = wanted.categorical and wanted.positive_only
    made: list[tuple[bool, Callable[[], Any]]] = [
        (labels.one_d_labels, lambda: rng.choice(insects, ROWS)),
        (labels.two_d_labels, lambda: [tuple(rng.choice(insects, 2, replace=False)) for _ in range(ROWS)]),
        (wanted.dict, lambda: [{"ant": float(value), "bee": 1.0} for value in rng.normal(size=ROWS)]),
        (wanted.three_d_array, lambda: rng.normal(size=(ROWS, 5, 5))),
        (wanted.one_d_array and not wanted.two_d_array, lambda: rng.normal(size=ROWS)),
        (
            wanted.string and not wanted.two_d_array,
            lambda: np.array([" ".join(rng.choice(insects, 4)) for _ in range(ROWS)], object),
        ),
        (counts, lambda: rng.integers(0, 3, (ROWS, 4))),
        (
            wanted.categorical and "HistGradient" not in kind.__name__,
            lambda: pd.DataFrame({name: rng.choice(insects, ROWS) for name in ("a", "b")}),
        ),
        (wanted.pairwise, lambda: _numbers() @ _numbers().T),
        (wanted.positive_only or kind.__name__ == "SkewedChi2Sampler", lambda: np.abs(_numbers())),
        ("Imput" in kind.__name__ or kind.__name__ == "MissingIndicator", _with_holes),
    ]
    return next((make_ for fits, make_ in made if fits), _numbers)()


def _with_holes() -> np.ndarray[Any, Any]:
    numbers = _numbers()
    numbers[::7, 1] = np.nan
    return numbers


def _numbers() -> np.ndarray[Any, Any]:
    """Return rows around three centres."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0, 0, 0], [3, 1, -2, 0.5], [-2, 3, 1, -0.5]])
    return centres[np.arange(ROWS) % 3] + rng.normal(size=(ROWS, 4)) * [1.0, 1.2, 0.8, 0.6]


def _target(kind: type, tags: Any) -> Any:
    """Return three classes, or a number, or as many as the estimator wants."""
    if kind.__name__ in {"MultiOutputClassifier", "ClassifierChain"}:
        return np.stack([np.arange(ROWS) % 3 > 0, np.arange(ROWS) % 2], axis=1).astype(int)
    if kind.__name__ in {"FixedThresholdClassifier", "TunedThresholdClassifierCV"}:
        return (np.arange(ROWS) % 3 > 0).astype(int)
    numbers = _numbers()
    real = numbers[:, 0] * 2 + np.sin(numbers[:, 1]) + np.random.default_rng(1).normal(size=ROWS) * 0.1
    chained = kind.__name__ in {"MultiOutputRegressor", "RegressorChain", "PLSCanonical", "PLSSVD", "CCA"}
    if chained or (tags.estimator_type == "regressor" and not tags.target_tags.single_output):
        return np.stack([real, numbers[:, 2] - numbers[:, 1]], axis=1)
    if tags.estimator_type == "regressor":
        return real - real.min() + 1
    return np.arange(ROWS) % 3


def attempt(kind: type, folder: Path) -> Row:
    """Fit, save, convert and prove one estimator.

    It is written and read back by its own format, all in one process: the trial in a clean process, which
    ``vitrify.save`` makes too, would take minutes for them all and says nothing of the conversion.

    Args:
        kind: Its class.
        folder: An empty one, for the files.
    """
    model, data = fitted(kind)
    row = Row(kind.__name__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that are called
        try:
            source = _saved(model, data, folder)
        except VitrifyError as error:
            return replace(row, verdict=UNSAVED, **_why(error))
        assert source.document.signature is not None
        answers = tuple(field.name for field in source.document.signature.outputs)
        row = replace(row, answers=answers, format=source.document.format)
        if found := problems(source):
            row = replace(row, verdict=REFUSED, reason=found[0].message, remedy=found[0].remedy)
            return replace(row, verdict=HYBRID) if _in_a_hybrid(kind, model, data, folder) else row
        report = proof(source, folder / "onnx", COMPARED)
    if report.verdict != "clean":
        return replace(row, verdict=DIFFERENT, reason="; ".join(found.message for found in report.findings))
    outputs = report.details["outputs"].values()
    excused = sum(output[key] for output in outputs for key in ("ties", "ill_conditioned", "overflowed", "unanswered"))
    return replace(
        row,
        verdict=PROVEN,
        compared=report.details["rows"]["compared"],
        excused=excused,
        error=max((_error(output) for output in outputs), default=0.0),
    )


def _error(output: dict[str, Any]) -> float:
    """Return a power of ten that no row's error reaches, relative to the value and the output's scale."""
    decades = [int(decade) for decade in output.get("histogram", {}).get("decades", {})]
    return 10.0 ** (max(decades) + 1) if decades else 0.0


def _in_a_hybrid(kind: type, model: Any, data: Any, folder: Path) -> bool:
    """Say whether a pipeline of a scaler and this step goes to a hybrid artifact, and is proven there."""
    if not isinstance(data, np.ndarray) or data.dtype.kind != "f" or data.ndim != 2:
        return False
    try:
        pipeline = make_pipeline(MinMaxScaler((0.1, 1.0)), make(kind))
        pipeline.fit(data, _target(kind, model.__sklearn_tags__()))
        source = saved(pipeline, data, folder / "pipeline")
        return (
            not problems(source, "hybrid") and proof(source, folder / "hybrid", COMPARED, "hybrid").verdict == "clean"
        )
    except VitrifyError:
        return False


def _saved(model: Any, data: Any, folder: Path) -> Subject:
    """Return the model as its file holds it; what only pickle can keep is a pickle, as if the user had asked for it."""
    try:
        return saved(model, data, folder / "skops")
    except UnsupportedModelError as error:
        try:
            return saved(model, data, folder / "pickle", "pickle")
        except VitrifyError:
            raise error from None


def _why(error: VitrifyError) -> dict[str, str]:
    problems = getattr(error, "problems", ())
    if problems:
        return {"reason": problems[0].message, "remedy": problems[0].remedy}
    return {"reason": error.message, "remedy": error.remedy or ""}
