"""XGBoost: compared and added in float32, tree by tree onto the base score.

Source: ``src/predictor/cpu_predictor.cc``, ``python-package/xgboost/sklearn.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._boosters.xgboost import EXPONENTIAL, IDENTITY, LOGISTIC, SOFTMAX, Model, read
from vitrify.transforms.convert._pmml.categories import numbered, whole
from vitrify.transforms.convert._pmml.decisions import shared
from vitrify.transforms.convert._pmml.elements import apply, constant, reference
from vitrify.transforms.convert._pmml.fields import F32
from vitrify.transforms.convert._pmml.functions import known
from vitrify.transforms.convert._pmml.linear import predicted
from vitrify.transforms.convert._pmml.matrices import matrix
from vitrify.transforms.convert._pmml.models import FLOAT
from vitrify.transforms.convert._pmml.trees import added
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Column, Fields, Table
    from vitrify.transforms.convert._pmml.models import Model as Predictor


@writes("xgboost.Booster")
def booster(walk: Walk, model: Any, table: Table) -> Answer:
    """The rounds up to the best one, as our runtime calls it; NaN is missing."""
    best = model.attr("best_iteration")
    found = read(model, None if best is None else int(best) + 1, in_place=False)
    return _predicted(walk, found, table, float("nan"))


@writes("xgboost.XGBRegressor", "xgboost.XGBRFRegressor", "xgboost.XGBRanker")
def regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The rounds up to the best one."""
    return _predicted(walk, _of(model), table, model.missing)


@writes("xgboost.XGBClassifier", "xgboost.XGBRFClassifier")
def classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """Above one half, or the largest probability."""
    found = _of(model)
    if found.objective not in LOGISTIC | SOFTMAX or (found.width > 1 and found.objective in LOGISTIC):
        refuse(f"classifies with the objective {found.objective}", "use binary:logistic or multi:softprob")
    chain, scores = _score(walk, found, table, model.missing, "score")
    return shared(walk.fields, chain, scores, model.classes_, attributes=FLOAT)


def _of(model: Any) -> Model:
    best = getattr(model, "best_iteration", None) if model.early_stopping_rounds is not None else None
    return read(model.get_booster(), None if best is None else best + 1, in_place=True)


def _predicted(walk: Walk, model: Model, table: Table, missing: float) -> Answer:
    method = "logit" if model.objective in LOGISTIC else "exp" if model.objective in EXPONENTIAL else None
    if model.objective not in IDENTITY - {"binary:hinge"} and method is None:
        refuse(f"answers as the objective {model.objective} does", "use the scikit-learn interface's classifier")
    plain = method is None
    chain, given = _score(walk, model, table, missing, "prediction" if plain else "score")
    if not plain:
        tables = [([float(at == place) for at in range(len(given))], 0.0) for place in range(len(given))]
        last, given = predicted(walk.fields, given, tables, many=len(tables) > 1, method=method)
        chain = [*chain, *last]
    return Answer(chain=tuple(chain), outputs={"prediction": given if len(given) > 1 else given[0]})


def _score(walk: Walk, model: Model, table: Table, missing: float, name: str) -> tuple[list[Predictor], list[str]]:
    """Return the margin of each class or target."""
    if model.weights is not None:
        refuse("is a linear booster (gblinear)", "convert it to onnx, which carries it")
    if model.vector:
        refuse("holds a number for each target in every leaf", "train with multi_strategy='one_output_per_tree'")
    columns = matrix(walk.fields, numbered(walk.fields, table, model.categories, next_larger=True), F32)
    if missing == missing:  # noqa: PLR0124 (not NaN)
        columns = [_without(walk.fields, column, missing) for column in columns]
    columns = [
        whole(walk.fields, column) if place in model.categorical else column for place, column in enumerate(columns)
    ]
    return added(walk, model.trees, columns, np.asarray(model.start, F32), name, attributes=FLOAT)


def _without(fields: Fields, column: Column, missing: float) -> Column:
    """Return a column in which one number is missing too: ``if`` without an else gives nothing."""
    value = reference(column.name)
    other = apply("if", apply("notEqual", value, constant(np.float32(missing))), value)
    return fields.derive(f"known({column.name})", F32, known(value, other))
