"""Boosters and forests to Treelite, by Treelite's own importers.

They carry the trees. What the source does around them (rounding, numbering categories, naming classes) is written
into the entry, and the runtime does it.

Source: ``treelite.frontend``, ``treelite.sklearn``, https://treelite.readthedocs.io
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.transforms.convert._boosters.lightgbm import ZERO_WIDTH
from vitrify.transforms.convert._boosters.lightgbm import Model as LightGBMModel
from vitrify.transforms.convert._boosters.xgboost import LOGISTIC, SOFTMAX, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject
    from vitrify.core.signature import Signature

_FORESTS = {
    *("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"),
    *("GradientBoostingClassifier", "GradientBoostingRegressor"),
    *("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
}
_TO_ONNX = "convert it to onnx, which carries it"


@dataclass(frozen=True)
class Imported:
    """A Treelite model and what stands around it.

    Attributes:
        model: The trees.
        entry: For the runtime: see :mod:`vitrify.runtimes.treelite`.
    """

    model: Any
    entry: dict[str, Any] = field(default_factory=dict)


class ToTreelite(ABC):
    """A step that imports a live model; a source has to say what it cannot do, and how it is imported."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List what Treelite cannot carry; the last thing tried is to import it."""
        del step
        model, signature = _native(source), source.document.signature
        place = type(model).__name__
        if signature is None or not signature.outputs:
            remedy = "save the model with an example: save(model, name, example=X[:100])"
            return (Finding(place="signature", message="there is none: the inputs are unknown", remedy=remedy),)
        found = [*self._refusals(model, signature), *_of_signature(signature)]
        if not found:
            try:
                self._imported(model, signature)
            except UnsupportedModelError as error:
                found = [(error.message, error.remedy or _TO_ONNX)]
        return tuple(Finding(place=place, message=message, remedy=remedy) for message, remedy in found)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the trees as ``model.tl``.

        Raises:
            UnsupportedModelError: Treelite cannot carry it; everything is listed.
        """
        model, signature = _native(source), source.document.signature
        if problems := self.problems(source, step):
            msg = f"{type(model).__name__} cannot be converted to Treelite"
            raise UnsupportedModelError(msg, problems=problems)
        assert signature is not None
        imported = self._imported(model, signature)
        written: Written = catalog().load("format", "treelite").write(imported.model, sink, None)
        names = [item.name for item in signature.inputs]
        return Written(entry={**written.entry, "inputs": names, **imported.entry}, notes=written.notes)

    def _imported(self, model: Any, signature: Signature) -> Imported:
        from treelite import TreeliteError

        try:
            return self._import(model, signature)
        except (TreeliteError, NotImplementedError, AssertionError, AttributeError, TypeError) as error:
            text = str(error).strip().splitlines() or [type(error).__name__]
            msg = f"Treelite cannot import it: {text[0]}"
            raise UnsupportedModelError(msg, remedy=_TO_ONNX) from error

    @abstractmethod
    def _refusals(self, model: Any, signature: Signature) -> Iterable[tuple[str, str]]:
        """Yield what cannot be carried, each with a remedy."""

    @abstractmethod
    def _import(self, model: Any, signature: Signature) -> Imported:
        """Import a model of which nothing was refused."""


class XGBoostToTreelite(ToTreelite):
    """Boosters and the scikit-learn interface: compared in float32."""

    def _refusals(self, model: Any, signature: Signature) -> Iterable[tuple[str, str]]:
        booster = _booster(model)
        objective, kind = _kinds(booster)
        if kind == "gblinear":
            yield "is a linear booster (gblinear): there are no trees", _TO_ONNX
        if _is_classifier(model) and objective not in LOGISTIC | SOFTMAX - {"multi:softmax"}:
            yield f"classifies with the objective {objective}", _TO_ONNX
        if any(
            isinstance(text, str) and not text.isascii() for item in signature.inputs for text in item.categories or ()
        ):
            yield "has categories beyond ASCII, which XGBoost does not always find", "rename the categories"
        if objective in {"multi:softmax", "binary:hinge"}:
            yield f"has the objective {objective}, which answers with labels", _TO_ONNX

    def _import(self, model: Any, signature: Signature) -> Imported:
        from treelite import frontend

        booster = _booster(model)
        best = booster.attr("best_iteration")
        asked = best is not None and (booster is model or model.early_stopping_rounds is not None)
        kept = booster[: int(best) + 1] if asked else booster
        categories = read(kept, None, in_place=False).categories
        entry = {"through": "float32", **_categories(signature, categories), **_missing(model)}
        if categories:
            entry["unseen"] = "next"
        if _is_classifier(model):
            binary = _kinds(booster)[0] == "binary:logistic"
            several = len(signature.output("label").shape) > 1
            entry["answers"] = {
                "label": "above half" if binary else "largest",
                "probability": "shares" if binary and not several else "value",
            }
            width = signature.output("label").shape[1] if several else 1
            entry["classes"] = [[0.0, 1.0]] * int(width) if several else [np.asarray(model.classes_).tolist()]
        content = json.loads(kept.save_raw(raw_format="json"))
        _without_categories(content)
        return Imported(frontend.from_xgboost_json(json.dumps(content)), entry)


class LightGBMToTreelite(ToTreelite):
    """Boosters and the scikit-learn interface: compared in double."""

    def _refusals(self, model: Any, signature: Signature) -> Iterable[tuple[str, str]]:
        del signature
        booster = getattr(model, "booster_", model)
        try:
            found = LightGBMModel(booster)
        except UnsupportedModelError as error:
            yield error.message, error.remedy or _TO_ONNX
            return
        if found.linear:
            yield "has linear models in its leaves (linear_tree)", _TO_ONNX
        if found.zero_features:
            yield "treats zero as missing (zero_as_missing)", _TO_ONNX
        if booster is not model and model.get_params().get("pred_early_stop"):
            yield "stops adding trees where a row seems decided (pred_early_stop)", "set pred_early_stop=False"
        known = {"binary", "multiclass", "multiclassova", "cross_entropy"}
        if _is_classifier(model) and found.objective not in known:
            yield f"classifies with the objective {found.objective}", _TO_ONNX

    def _import(self, model: Any, signature: Signature) -> Imported:
        from treelite import frontend

        booster = getattr(model, "booster_", model)
        found = LightGBMModel(booster)
        entry: dict[str, Any] = {"through": _lightgbm_type(signature)}
        if found.whole_features:
            entry["truncate"] = sorted(found.whole_features)
        if found.splits_near_zero:
            entry["zero"] = ZERO_WIDTH
        if found.objective == "multiclass":
            entry["softmax"] = True
        columns = [place for place, item in enumerate(signature.inputs) if item.categories is not None]
        entry |= _categories(signature, dict(zip(columns, found.categories or [], strict=False)))
        if _is_classifier(model):
            several = found.width > 1
            entry["answers"] = {
                "label": "largest" if several else "above half",
                "probability": "value" if several else "shares",
            }
            entry["classes"] = [np.asarray(model.classes_).tolist()]
        return Imported(frontend.from_lightgbm(booster), entry)


class SklearnToTreelite(ToTreelite):
    """Forests, gradient boosting and its histogram kind: all but the last compare in float32."""

    def _refusals(self, model: Any, signature: Signature) -> Iterable[tuple[str, str]]:
        kind = type(model).__name__
        if kind not in _FORESTS:
            yield f"is no forest and no boosted trees ({kind})", _TO_ONNX
            return
        if any(item.categories is not None for item in signature.inputs):
            yield "numbers its columns of categories by itself", _TO_ONNX
        elif kind.startswith("Hist") and model.is_categorical_ is not None:
            yield "splits on categories (categorical_features), which it numbers by itself", _TO_ONNX
        if getattr(model, "loss", None) == "exponential":
            yield "has the exponential loss, whose scores Treelite does not double", _TO_ONNX

    def _import(self, model: Any, signature: Signature) -> Imported:
        import treelite.sklearn

        kind = type(model).__name__
        entry: dict[str, Any] = {} if kind.startswith("Hist") else {"through": "float32"}
        if kind.endswith("Classifier"):
            entry |= self._answers(model, kind, signature)
        if kind.endswith("BoostingClassifier") and len(model.classes_) > 2:  # noqa: PLR2004 (binary)
            entry["softmax"] = True
        return Imported(treelite.sklearn.import_model(model), entry)

    def _answers(self, model: Any, kind: str, signature: Signature) -> dict[str, Any]:
        targets = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
        label = "largest"
        if "Boosting" in kind and len(targets[0]) == 2:  # noqa: PLR2004 (binary)
            label = "positive" if kind.startswith("Hist") else "not negative"
        shares = "value" if label == "largest" else "shares"
        rules = {
            item.name: label if item.name == "label" else "target" if len(targets) > 1 else shares
            for item in signature.outputs
        }
        return {"answers": rules, "classes": [np.asarray(labels).tolist() for labels in targets]}


def _native(source: Subject) -> Any:
    if source.native is not None:
        return source.native
    document = source.document
    return catalog().load("format", document.format).read(source.files, document.entry, source.allow)


def _of_signature(signature: Signature) -> Iterable[tuple[str, str]]:
    for item in signature.inputs:
        if item.categories is None and np.dtype("O" if item.dtype == "string" else item.dtype).kind not in "biuf":
            yield f"input {item.name!r} is {item.dtype}, and Treelite compares numbers", "encode it before the model"


def _is_classifier(model: Any) -> bool:
    return hasattr(model, "predict_proba")


def _booster(model: Any) -> Any:
    return model.get_booster() if hasattr(model, "get_booster") else model


def _kinds(booster: Any) -> tuple[str, str]:
    """Return the names of XGBoost's objective and of its kind of booster."""
    learner = json.loads(booster.save_config())["learner"]
    return learner["objective"]["name"], learner["gradient_booster"]["name"]


def _without_categories(content: dict[str, Any]) -> None:
    """Take the training frame's categories out: Treelite refuses them, and our runtime numbers them itself."""
    gradient = content["learner"]["gradient_booster"]
    model = gradient.get("gbtree", gradient)["model"]
    if "cats" in model:
        model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}


def _categories(signature: Signature, known: dict[int, list[Any]]) -> dict[str, Any]:
    """Return the categories of each column that has some: the booster's own, or else the table's."""
    found = {
        item.name: list(known.get(place, item.categories))
        for place, item in enumerate(signature.inputs)
        if item.categories is not None
    }
    return {"categories": found} if found else {}


def _missing(model: Any) -> dict[str, Any]:
    missing = getattr(model, "missing", None)
    return {} if missing is None or np.isnan(missing) else {"missing": float(missing)}


def _lightgbm_type(signature: Signature) -> str:
    """Return the type that LightGBM's own wrapper gives the numbers: arrays of whole numbers go through float32."""
    kinds = {np.dtype(item.dtype) for item in signature.inputs if item.categories is None}
    if signature.is_table:
        return str(np.result_type(np.float32, *kinds, *([np.float64] if _some_missing(signature) else [])))
    kind = kinds.pop()
    return str(kind) if kind.kind == "f" else "float32"


def _some_missing(signature: Signature) -> bool:
    return any(item.nullable and np.dtype(item.dtype).kind in "iub" for item in signature.inputs)
