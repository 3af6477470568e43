"""XGBoost: the booster as UBJSON, the Python object around it as data.

Also looked at: the JSON that XGBoost writes, and the binary files of its versions before 3.1, which no newer one reads.

Source: https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, ModelError
from vitrify.core.protocols import Written
from vitrify.formats import _facts, _native_file, _tail
from vitrify.formats._boosters import xgboost_binary
from vitrify.formats._boosters.wrapper import Wrapper
from vitrify.reading.files import HEAD, head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._boosters.xgboost_model import XGBoostModel

MODEL = "model.ubj"

_SUFFIXES = (".ubj", ".json")
_PREFIX = 128
_START = re.compile(
    rb"\{(?:L\0{7}\x07version.{1,24})?L\0{7}\x07learner\{"
    rb'|\s*\{\s*(?:"version"\s*:\s*\[[\d,\s]*\]\s*,\s*)?"learner"\s*:\s*\{',
    re.DOTALL,
)
"""How UBJSON and JSON start, whichever of the two members comes first."""
_SHOWN_CLASSES = 10_000
_OBJECTIVES = frozenset(
    {
        *("binary:hinge", "binary:logistic", "binary:logitraw", "count:poisson", "multi:softmax", "multi:softprob"),
        *("rank:map", "rank:ndcg", "rank:pairwise", "reg:absoluteerror", "reg:expectileerror", "reg:gamma"),
        *("reg:linear", "reg:logistic", "reg:pseudohubererror", "reg:quantileerror", "reg:squarederror"),
        *("reg:squaredlogerror", "reg:tweedie", "survival:aft", "survival:cox"),
    }
)

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
        """Say whether a file is a model of XGBoost: UBJSON, JSON or the old binary format."""
        start = head(files)
        return bool(_START.match(start[:_PREFIX])) or xgboost_binary.is_binary(start)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return trees, objective, features, classes and settings; XGBoost is not needed."""
        model = _parse(files, _native_file.find(files, entry, _SUFFIXES))
        restored = _WRAPPER.read(files)
        attributes = restored.attributes if restored else {}
        return _native_file.said(
            {
                "library": "xgboost",
                "versions": {"xgboost": model.version} if model.version else {},
                "class": restored.cls.replace(":", ".") if restored else "xgboost.core.Booster",
                "booster": model.booster,
                "objective": model.objective,
                "trees": model.trees,
                "parameters": model.nodes,
                "inputs": _inputs(model),
                "classes": _classes(attributes.get("n_classes_") or model.classes),
                "attributes": model.attributes,
                "settings": _native_file.shown({k: v for k, v in attributes.items() if not k.endswith("_")}),
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield an objective that XGBoost does not have; trees and numbers are checked by reading them."""
        name = _native_file.find(files, entry, _SUFFIXES)
        model = _parse(files, name)
        _WRAPPER.read(files)
        if model.objective not in _OBJECTIVES:
            yield _native_file.custom_objective(name, model.objective, "XGBoost")
        if model.end is not None:
            yield from _tail.hidden(files.map(name), model.end, name)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterator[tuple[str, Files]]:
        """Yield what stands behind a binary model."""
        name = _native_file.find(files, entry, _SUFFIXES)
        end = _parse(files, name).end
        yield from () if end is None else _tail.parts(files.map(name), end)

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

        name = _native_file.find(files, entry, _SUFFIXES)
        data = files.read(name)
        _parse(files, name)
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


def _parse(files: Files, name: str) -> XGBoostModel:
    from vitrify.formats._boosters import xgboost_model

    data = files.map(name)
    parse = xgboost_binary.parse if xgboost_binary.is_binary(bytes(data[:HEAD])) else xgboost_model.parse
    return parse(data, where=name)


def _inputs(model: XGBoostModel) -> list[dict[str, Any]]:
    """Return the features, one by one where they have names or types; else all of them as one matrix."""
    if not model.names and not model.types:
        return [_facts.port("data", "float", [None, model.features])]
    blank = [""] * model.features
    pairs = zip(model.names or map(str, range(model.features)), model.types or blank, strict=False)
    return [_facts.port(name, kind, [None]) for name, kind in pairs]


def _classes(count: int) -> list[int] | None:
    return list(range(count)) if 0 < count <= _SHOWN_CLASSES else None


def _load(booster: Any, data: bytes, name: str) -> Any:
    from xgboost.core import XGBoostError

    try:
        booster.load_model(bytearray(data))
    except XGBoostError as error:
        msg = f"{name}: XGBoost cannot read it ({str(error).strip().splitlines()[-1]})"
        raise MalformedError(msg) from error
    return booster
