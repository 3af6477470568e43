"""LightGBM: the booster as text, the Python object around it as data.

Source: ``GBDT::SaveModelToString``, https://github.com/microsoft/LightGBM/blob/master/src/boosting/gbdt_model_text.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, ModelError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _facts, _native_file
from vitrify.formats._boosters.wrapper import Wrapper
from vitrify.reading.files import head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.formats._boosters.lightgbm_model import LightGBMModel

MODEL = "model.lgb.txt"

_HEAD = b"tree\nversion="
_SUFFIXES = (".txt",)
_SHOWN_CLASSES = 10_000
_OBJECTIVES = frozenset(
    {
        *("binary", "cross_entropy", "cross_entropy_lambda", "custom", "fair", "gamma", "huber", "lambdarank", "mape"),
        *("multiclass", "multiclassova", "poisson", "quantile", "rank_xendcg", "regression", "regression_l1"),
        "tweedie",
    }
)
"""The words that LightGBM itself writes; for a custom objective it writes none."""
_ALL_ITERATIONS = -1
_ESTIMATORS = ("LGBMModel", "LGBMClassifier", "LGBMRegressor", "LGBMRanker")
_WRAPPER = Wrapper(
    library="lightgbm",
    own=frozenset({"lightgbm.basic:Booster", *(f"lightgbm.sklearn:{name}" for name in _ESTIMATORS)}),
    made=frozenset({"_Booster", "_le"}),
)
_TRAINING = frozenset({"train_set", "train_set_version", "valid_sets", "name_valid_sets", "pandas_categorical"})
"""Public attributes of a booster that only training needs, or that are in the model file."""


class LightGBM:
    """Native boosters and the scikit-learn interface (LGBMClassifier, LGBMRegressor, LGBMRanker, subclasses).

    ``model.lgb.txt`` is what LightGBM itself writes, so every LightGBM opens it: all trees (also those after the
    best iteration), and the categories of the training frame's columns. ``state.json`` holds the wrapper: its
    class, parameters, class labels in their own type, scores and best iteration.
    """

    def detect(self, files: Files) -> bool:
        """Say whether a file is a text model of LightGBM."""
        return head(files).startswith(_HEAD)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return trees, objective, features, classes and settings; LightGBM is not needed."""
        model = _parse(files, _native_file.find(files, entry, _SUFFIXES))
        restored = _WRAPPER.read(files)
        attributes = restored.attributes if restored else {}
        labels = attributes.get("_classes")
        written = {"lightgbm": restored.library.partition(" ")[2]} if restored else {}
        best = attributes.get("_best_iteration", (restored.native if restored else {}).get("best_iteration"))
        return _native_file.said(
            {
                "library": "lightgbm",
                "versions": {**written, "format": model.version},
                "class": restored.cls.replace(":", ".") if restored else "lightgbm.basic.Booster",
                "booster": model.boosting,
                "objective": model.objective,
                "trees": model.trees,
                "parameters": 2 * model.leaves - model.trees,
                "best_iteration": best,
                "inputs": [
                    _facts.port(name, _type_of(seen), [None])
                    for name, seen in zip(model.names, model.ranges, strict=True)
                ],
                "categories": model.categories,
                "classes": _classes(model) if labels is None else [str(label) for label in labels],
                "settings": _native_file.shown({k: v for k, v in attributes.items() if not k.startswith("_")}),
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield an objective that LightGBM does not have; trees and numbers are checked by reading them."""
        name = _native_file.find(files, entry, _SUFFIXES)
        objective = _parse(files, name).objective.partition(" ")[0]
        _WRAPPER.read(files)
        if objective and objective not in _OBJECTIVES:
            yield _native_file.custom_objective(name, objective, "LightGBM")

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write the booster and its wrapper.

        Raises:
            ModelError: It was never fitted.
            UnsupportedModelError: A parameter is code, or a category has no JSON form: all are listed.
        """
        del example
        from lightgbm import Booster

        booster = model if isinstance(model, Booster) else model._Booster  # noqa: SLF001 (None where not fitted)
        if booster is None:
            msg = f"this {type(model).__qualname__} was never fitted: it has no booster"
            raise ModelError(msg, remedy="call fit(...), then save it")
        native = {
            name: value for name, value in vars(booster).items() if not name.startswith("_") and name not in _TRAINING
        }
        names = _WRAPPER.write(sink, type(model), {} if booster is model else vars(model), native)
        with sink.open(MODEL, "weight") as stream:
            stream.write(_text(booster))
        return Written(names=names)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the live model; the trees' structure is checked before LightGBM sees it.

        Raises:
            UntrustedCodeError: Its class is a user's, and not allowed.
            MalformedError: The files are not what LightGBM and :meth:`write` write.
        """
        from lightgbm import Booster, LGBMModel

        name = _native_file.find(files, entry, _SUFFIXES)
        data = files.read(name)
        _parse(files, name)
        restored = _WRAPPER.read(files)
        if restored is None:
            return _load(Booster, data, name)
        cls = _WRAPPER.find_class(restored, (Booster, LGBMModel), allow)
        booster = _load(cls if issubclass(cls, Booster) else Booster, data, name)
        vars(booster).update(restored.native)
        if issubclass(cls, Booster):
            return booster
        model = cls.__new__(cls)
        vars(model).update(restored.attributes)
        model._Booster = booster  # noqa: SLF001 (LightGBM offers no other way in)
        if restored.attributes.get("_classes") is not None:
            model._le = _label_encoder(restored.attributes["_classes"])  # noqa: SLF001 (as above)
        return model


def _parse(files: Files, name: str) -> LightGBMModel:
    from vitrify.formats._boosters import lightgbm_model

    return lightgbm_model.parse(files.read(name), where=name)


def _type_of(seen: str) -> str:
    """Return a feature's type, from what the training saw of it: a range, a list of categories, or nothing."""
    return "float64" if seen.startswith("[") else "none" if seen == "none" else "category"


def _classes(model: LightGBMModel) -> list[int] | None:
    """Return the classes, where the file says that there are any."""
    kind = model.objective.partition(" ")[0]
    count = {"binary": 2, "multiclass": model.classes, "multiclassova": model.classes}.get(kind, 0)
    return list(range(count)) if 0 < count <= _SHOWN_CLASSES else None


def _text(booster: Any) -> bytes:
    """Return LightGBM's text, with every tree and with the categories as JSON, where those survive it."""
    from vitrify.formats._boosters import lightgbm_model

    problem = "cannot be written as JSON, as LightGBM's text wants it"
    try:
        data: bytes = booster.model_to_string(num_iteration=_ALL_ITERATIONS).encode()
        kept = lightgbm_model.categories(data) == booster.pandas_categorical
    except (TypeError, ValueError) as error:
        kept, problem = False, f"{problem} ({error})"
    if not kept:
        finding = Finding(place="categories of the training frame", message=problem)
        msg = "a LightGBM model whose categories its own format cannot keep"
        raise UnsupportedModelError(msg, problems=[finding], remedy="train on categories that are text or numbers")
    return data


def _load(cls: Any, data: bytes, name: str) -> Any:
    from lightgbm import Booster
    from lightgbm.basic import LightGBMError

    booster = cls.__new__(cls)
    try:
        Booster.__init__(booster, model_str=data.decode())
    except (LightGBMError, ValueError) as error:
        msg = f"{name}: LightGBM cannot read it ({error})"
        raise MalformedError(msg) from error
    return booster


def _label_encoder(classes: Any) -> Any:
    from sklearn.preprocessing import LabelEncoder

    encoder = LabelEncoder()
    encoder.classes_ = classes
    return encoder
