"""CatBoost: the model as cbm, the Python object around it as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import MalformedError, ModelError
from vitrify.core.protocols import Written
from vitrify.formats import _native_file
from vitrify.formats._boosters import catboost_model
from vitrify.formats._boosters.wrapper import Wrapper
from vitrify.reading.files import head

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding

MODEL = "model.cbm"

_ESTIMATORS = ("CatBoost", "CatBoostClassifier", "CatBoostRegressor", "CatBoostRanker")
_WRAPPER = Wrapper(
    library="catboost",
    own=frozenset(f"catboost.core:{name}" for name in _ESTIMATORS),
    made=frozenset({"_object", "_canonized_params"}),
)


class CatBoost:
    """CatBoost, CatBoostClassifier, CatBoostRegressor, CatBoostRanker, subclasses.

    ``model.cbm`` is what CatBoost itself writes, so every CatBoost opens it: trees, feature names, class labels in
    their own type, tables of categories and text, metrics of the training (to 16 digits). ``state.json`` holds the
    wrapper: its class and the parameters as they were given.

    Writing one object twice gives the same bytes. A cbm holds the time and a random number of its *training*, so
    two trainings differ; and CatBoost orders the training's notes by a hash table, so an object that was loaded may
    be written in another order than the one that was saved.
    """

    def detect(self, files: Files) -> bool:
        """Say whether a file is a binary model of CatBoost."""
        return head(files).startswith(catboost_model.MAGIC)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return trees, objective, features, classes and parameters; CatBoost is not needed."""
        name = _native_file.find(files, entry, (".cbm",))
        model = catboost_model.parse(files.map(name), where=name)
        restored = _WRAPPER.read(files)
        attributes = restored.attributes if restored else {}
        return {
            "library": restored.library if restored else "catboost",
            "class": restored.cls.replace(":", ".") if restored else "catboost.core.CatBoost",
            "objective": _noted(model, "params", "loss_function", "type"),
            "trees": model.trees,
            "features": model.features,
            "classes": _noted(model, "class_params", "class_names"),
            "bestIteration": _noted(model, "training", "metrics", "best_iteration"),
            "trained": model.info.get("train_finish_time"),
            "parameters": _native_file.shown(attributes.get("_init_params", {})),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield nothing: trees and numbers, whose bounds are checked by reading them."""
        self.describe(files, entry)
        return ()

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write the model and its wrapper.

        Raises:
            ModelError: It was never fitted.
            UnsupportedModelError: A parameter is code (an objective, a metric): all are listed.
        """
        del example
        if not model.is_fitted():
            msg = f"this {type(model).__qualname__} was never fitted: it has no trees"
            raise ModelError(msg, remedy="call fit(...), then save it")
        names = _WRAPPER.write(sink, type(model), vars(model))
        with sink.path(MODEL, "weight") as path:
            model.save_model(str(path), format="cbm")
        return Written(names=names)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the live model; the trees' structure is checked before CatBoost sees it.

        Raises:
            UntrustedCodeError: Its class is a user's, and not allowed.
            MalformedError: The files are not what CatBoost and :meth:`write` write.
        """
        import catboost

        name = _native_file.find(files, entry, (".cbm",))
        catboost_model.parse(files.map(name), where=name)
        restored = _WRAPPER.read(files)
        cls = _WRAPPER.find_class(restored, (catboost.CatBoost,), allow) if restored else catboost.CatBoost
        model = cls.__new__(cls)
        catboost.CatBoost.__init__(model)
        try:
            catboost.CatBoost.load_model(model, str(files.path(name)), format="cbm")
        except catboost.CatBoostError as error:
            msg = f"{name}: CatBoost cannot read it ({error})"
            raise MalformedError(msg) from error
        vars(model).update(restored.attributes if restored else {})
        return model


def _noted(model: catboost_model.CatBoostModel, name: str, *keys: str) -> Any:
    """Return a part of what the training wrote down as JSON; None where it is not there."""
    try:
        note = msgspec.json.decode(model.info.get(name, "null"))
    except msgspec.DecodeError:
        return None
    for key in keys:
        note = note.get(key) if isinstance(note, dict) else None
    return note
