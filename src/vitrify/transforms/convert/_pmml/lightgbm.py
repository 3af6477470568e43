"""LightGBM: compared and added in double.

Source: ``include/LightGBM/tree.h``, ``src/objective``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._boosters.lightgbm import EXPONENTIAL, ZERO_WIDTH, Model
from vitrify.transforms.convert._pmml.categories import numbered, whole
from vitrify.transforms.convert._pmml.decisions import against_the_rest, shared
from vitrify.transforms.convert._pmml.elements import apply, constant, reference
from vitrify.transforms.convert._pmml.fields import F32, F64, TEXT
from vitrify.transforms.convert._pmml.functions import known
from vitrify.transforms.convert._pmml.linear import predicted
from vitrify.transforms.convert._pmml.trees import added
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Column, Fields, Table
    from vitrify.transforms.convert._pmml.models import Model as Predictor

_LOGISTIC = frozenset({"binary", "cross_entropy"})
_IDENTITY = frozenset(
    {
        *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
        *("lambdarank", "rank_xendcg", "custom", "none"),
    }
)


@writes("lightgbm.Booster")
def booster(walk: Walk, model: Any, table: Table) -> Answer:
    """The rounds up to the best one."""
    read = Model(model)
    method = "logit" if read.objective in _LOGISTIC else "exp" if read.objective in EXPONENTIAL else None
    if (method is None and read.objective not in _IDENTITY) or "sqrt" in read.parameters:
        refuse(f"answers as the objective {read.objective} does", "use the scikit-learn interface, or convert to onnx")
    chain, given = _score(walk, read, table, "prediction" if method is None else "score")
    if method is not None:
        slope = _slope(read) if method == "logit" else 1.0
        last, given = predicted(walk.fields, given, [([slope], 0.0)], many=False, method=method)
        chain = [*chain, *last]
    return Answer(chain=tuple(chain), outputs={"prediction": given if len(given) > 1 else given[0]})


@writes("lightgbm.LGBMRegressor", "lightgbm.LGBMRanker")
def regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The booster inside."""
    _refuse_early_stop(model)
    return booster(walk, model.booster_, table)


@writes("lightgbm.LGBMClassifier")
def classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """The largest probability."""
    _refuse_early_stop(model)
    read = Model(model.booster_)
    if read.objective not in _LOGISTIC | {"multiclass", "multiclassova"} or _slope(read) != 1:
        refuse(
            f"classifies with the objective {read.objective}", "use binary, multiclass or multiclassova, with sigmoid=1"
        )
    chain, scores = _score(walk, read, table, "score")
    if read.objective == "multiclassova":
        return against_the_rest(walk.fields, chain, scores, model.classes_, whole=False)
    return shared(walk.fields, chain, scores, model.classes_)


def _slope(read: Model) -> float:
    return float(read.parameters.get("sigmoid", 1))


def _refuse_early_stop(model: Any) -> None:
    if model.get_params().get("pred_early_stop"):
        msg = "stops adding trees where a row seems decided (pred_early_stop)"
        refuse(msg, "set_params(pred_early_stop=False), and save it again")


def _score(walk: Walk, read: Model, table: Table, name: str) -> tuple[list[Predictor], list[str]]:
    if read.linear:
        refuse("has linear models in its leaves (linear_tree)", "convert it to onnx, which carries them")
    columns = _prepared(walk.fields, read, _input(walk.fields, read, table))
    return added(walk, read.trees, columns, np.zeros(read.width), name, mean=read.average)


def _input(fields: Fields, read: Model, table: Table) -> list[Column]:
    """Return the matrix that LightGBM makes of its input: arrays of whole numbers go through float32."""
    if not table.frame:
        dtype = table.columns[0].dtype
        through = [column if dtype in {F32, F64} else fields.cast(column, F32) for column in table.columns]
        return [fields.cast(column, F64) for column in through]
    places = [
        at
        for at, column in enumerate(table.columns)
        if column.field is not None and column.field.categories is not None
    ]
    trained = read.categories or []
    if len(places) != len(trained):
        refuse(
            f"was trained on {len(trained)} columns of categories and gets {len(places)}",
            "save the model with the example it was trained on",
        )
    kinds = {column.dtype for at, column in enumerate(table.columns) if at not in places}
    target = np.result_type(F32, *(kind for kind in kinds if kind != TEXT))
    given = numbered(fields, table, dict(zip(places, trained, strict=True))).columns
    cast = [column if at in places else fields.cast(column, target) for at, column in enumerate(given)]
    return [fields.cast(column, F64) for column in cast]


def _prepared(fields: Fields, read: Model, columns: list[Column]) -> list[Column]:
    """Make what is nearly zero zero, or missing where LightGBM takes it so, and cut categories to whole numbers."""
    near = bool(read.zero_features) or read.splits_near_zero
    prepared = []
    for place, column in enumerate(columns):
        far = _far(fields, column, missing=place in read.zero_features) if near else column
        prepared.append(whole(fields, far, towards_zero=True) if place in read.whole_features else far)
    return prepared


def _far(fields: Fields, column: Column, *, missing: bool) -> Column:
    """Return a column in which what is nearly zero is zero, or missing."""
    value = reference(column.name)
    far = apply("greaterThan", apply("abs", value), constant(ZERO_WIDTH))
    kept = apply("if", far, value, *([] if missing else [constant(0.0)]))
    return fields.derive(f"far({column.name})", F64, known(value, kept))
