"""XGBoost: the booster as UBJSON, the Python object around it as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, ModelError
from vitrify.core.protocols import Written
from vitrify.formats import _native_file
from vitrify.formats._boosters import xgboost_model
from vitrify.formats._boosters.wrapper import Wrapper
from vitrify.reading.files import head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding

MODEL = "model.ubj"

_ESTIMATORS = ("XGBModel", "XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier", "XGBRFRegressor")
_WRAPPER = Wrapper(
    library="xgboost",
    own=frozenset({"xgboost.core:Booster", *(f"xgboost.sklearn:{name}" for name in _ESTIMATORS)}),
    made=frozenset({"_Booster", "handle"}),
)


class XGBoost:
    """Native boosters and the scikit-learn interface (XGBClassifier, XGBRegressor, XGBRanker, XGBRF*, subclasses).

    ``model.ubj`` is what XGBoost itself writes, so every XGBoost opens it: trees, feature names and types,
    categories, attributes such as the best iteration. ``state.json`` holds the wrapper: its class, parameters,
    ``missing``, number of classes, evaluation results. What only training needs and XGBoost's own files leave
    out too (a native booster's learning parameters) is not kept; ``get_params()`` of a wrapper is.
    """

    def detect(self, files: Files) -> bool:
        """Say whether a file is a model of XGBoost, UBJSON or JSON."""
        return xgboost_model.is_xgboost(head(files))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return trees, objective, features, classes and parameters; XGBoost is not needed."""
        name = _native_file.find(files, entry, (".ubj", ".json"))
        model = xgboost_model.parse(files.map(name), where=name)
        restored = _WRAPPER.read(files)
        attributes = restored.attributes if restored else {}
        return {
            "library": f"xgboost {model.version}",
            "class": restored.cls.replace(":", ".") if restored else "xgboost.core.Booster",
            "booster": model.booster,
            "objective": model.objective,
            "trees": model.trees,
            "features": model.features,
            "featureNames": list(model.names),
            "featureTypes": list(model.types),
            "classes": attributes.get("n_classes_") or model.classes or None,
            "attributes": model.attributes,
            "parameters": _native_file.shown({k: v for k, v in attributes.items() if not k.endswith("_")}),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield nothing: trees and numbers, whose bounds are checked by reading them."""
        self.describe(files, entry)
        return ()

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write the booster and its wrapper.

        Raises:
            ModelError: It was never fitted.
            UnsupportedModelError: A parameter is code (an objective, a metric, a callback): all are listed.
        """
        del example
        from xgboost import Booster

        if not isinstance(model, Booster) and not hasattr(model, "_Booster"):
            msg = f"this {type(model).__qualname__} was never fitted: it has no booster"
            raise ModelError(msg, remedy="call fit(...), then save it")
        names = _WRAPPER.write(sink, type(model), vars(model))
        booster = model if isinstance(model, Booster) else model.get_booster()
        with sink.open(MODEL, "weight") as stream:
            stream.write(booster.save_raw("ubj"))
        return Written(names=names)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the live model; the trees' structure is checked before XGBoost sees it.

        Raises:
            UntrustedCodeError: Its class is a user's, and not allowed.
            MalformedError: The files are not what XGBoost and :meth:`write` write.
        """
        from xgboost import Booster
        from xgboost.sklearn import XGBModel

        name = _native_file.find(files, entry, (".ubj", ".json"))
        data = files.read(name)
        xgboost_model.parse(data, where=name)
        restored = _WRAPPER.read(files)
        if restored is None:
            return _load(Booster(), data, name)
        cls = _WRAPPER.find_class(restored, (Booster, XGBModel), allow)
        if issubclass(cls, Booster):
            booster = cls.__new__(cls)
            Booster.__init__(booster)
            vars(booster).update(restored.attributes)
            return _load(booster, data, name)
        model = cls.__new__(cls)
        vars(model).update(restored.attributes)
        threads = {"n_jobs": restored.attributes.get("n_jobs")}
        model._Booster = _load(Booster(threads), data, name)  # noqa: SLF001 (XGBoost offers no other way in)
        return model


def _load(booster: Any, data: bytes, name: str) -> Any:
    from xgboost.core import XGBoostError

    try:
        booster.load_model(bytearray(data))
    except XGBoostError as error:
        msg = f"{name}: XGBoost cannot read it ({str(error).strip().splitlines()[-1]})"
        raise MalformedError(msg) from error
    return booster
