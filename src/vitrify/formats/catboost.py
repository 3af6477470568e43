"""CatBoost: the model as cbm, the Python object around it as data; the model as JSON is read too.

Source: https://catboost.ai/docs/en/concepts/python-reference_catboost_save_model, and for cbm the schemas in
https://github.com/catboost/catboost/tree/master/catboost/libs/model/flatbuffers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import MalformedError, ModelError
from vitrify.core.nesting import shallow
from vitrify.core.protocols import Written
from vitrify.formats import _facts, _native_file, _tail
from vitrify.formats._boosters.wrapper import Wrapper
from vitrify.reading.files import head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._boosters.catboost_model import CatBoostModel

MODEL = "model.cbm"

_MAGIC = b"CBM1"
_JSON = re.compile(rb'\s*\{\s*"(?:ctr_data|features_info)"\s*:\s*\{')
"""CatBoost writes the members of its JSON in the order of their names; one of these is the first."""
_BUILT = re.compile(r"tags/v([\d.]+)")
_CUSTOM = ("PythonUserDefined", "UserPerObj", "UserQuerywise")
_SUFFIXES = (".cbm", ".json")

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
        """Say whether a file is a model of CatBoost, binary or JSON."""
        start = head(files)
        return start.startswith(_MAGIC) or bool(_JSON.match(start))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return trees, objective, features, classes and settings; CatBoost is not needed."""
        model = _parse(files, _native_file.find(files, entry, _SUFFIXES))
        restored = _WRAPPER.read(files)
        attributes = restored.attributes if restored else {}
        build = _BUILT.search(model.info.get("catboost_version_info", ""))
        written = restored.library.partition(" ")[2] if restored else build[1] if build else ""
        return _native_file.said(
            {
                "library": "catboost",
                "versions": {"catboost": written} if written else {},
                "class": restored.cls.replace(":", ".") if restored else "catboost.core.CatBoost",
                "objective": _noted(model, "params", "loss_function", "type"),
                "trees": model.trees,
                "parameters": model.values,
                "inputs": [_facts.port(name, kind, [None]) for kind, name in model.features],
                "features": _facts.counts(kind for kind, _ in model.features),
                "classes": _noted(model, "class_params", "class_names"),
                "best_iteration": _noted(model, "training", "metrics", "best_iteration"),
                "trained": model.info.get("train_finish_time"),
                "settings": _native_file.shown(attributes.get("_init_params", {})),
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield an objective that is Python code elsewhere; trees and numbers are checked by reading them."""
        name = _native_file.find(files, entry, _SUFFIXES)
        objective = _noted(_parse(files, name), "params", "loss_function", "type")
        _WRAPPER.read(files)
        if isinstance(objective, str) and objective.startswith(_CUSTOM):
            yield _native_file.custom_objective(name, objective, "CatBoost")
        if (end := _parse(files, name).end) is not None:
            yield from _tail.hidden(files.map(name), end, name)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterator[tuple[str, Files]]:
        """Yield what stands behind the model, where that is known."""
        name = _native_file.find(files, entry, _SUFFIXES)
        end = _parse(files, name).end
        yield from () if end is None else _tail.parts(files.map(name), end)

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

        name = _native_file.find(files, entry, _SUFFIXES)
        _parse(files, name)
        kind = "cbm" if bytes(files.map(name)[:4]) == _MAGIC else "json"
        restored = _WRAPPER.read(files)
        cls = _WRAPPER.find_class(restored, (catboost.CatBoost,), allow) if restored else catboost.CatBoost
        model = cls.__new__(cls)
        catboost.CatBoost.__init__(model)
        try:
            catboost.CatBoost.load_model(model, str(files.path(name)), format=kind)
        except catboost.CatBoostError as error:
            msg = f"{name}: CatBoost cannot read it ({error})"
            raise MalformedError(msg) from error
        vars(model).update(restored.attributes if restored else {})
        return model


def _parse(files: Files, name: str) -> CatBoostModel:
    from vitrify.formats._boosters import catboost_json, catboost_model

    data = files.map(name)
    parse = catboost_model.parse if bytes(data[:4]) == _MAGIC else catboost_json.parse
    return parse(data, where=name)


def _noted(model: CatBoostModel, name: str, *keys: str) -> Any:
    """Return a part of what the training wrote down as JSON; None where it is not there."""
    try:
        note = msgspec.json.decode(shallow(model.info.get(name, "null").encode()))
    except (msgspec.DecodeError, RecursionError):
        return None
    for key in keys:
        note = note.get(key) if isinstance(note, dict) else None
    return note
