"""LightGBM to ONNX: compared and added in double.

Source: LightGBM's ``src/boosting/gbdt_prediction.cpp``, ``src/objective``, ``src/application/predictor.hpp``,
``python-package/lightgbm``
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vitrify.transforms.convert._boosters.codes import codes, is_categorical
from vitrify.transforms.convert._boosters.lightgbm import EXPONENTIAL, ZERO_WIDTH, Model
from vitrify.transforms.convert._boosters.lightgbm_linear import linear_values
from vitrify.transforms.convert._building.data import Column, Data, Frame, matrix
from vitrify.transforms.convert._building.estimator import EstimatorToOnnx
from vitrify.transforms.convert._building.graph import F32, F64, TEXT, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn.linear import both_shares
from vitrify.transforms.convert._trees.ensemble import Mode, Tree, add_in_order, negated

_LOGISTIC = frozenset({"binary", "multiclassova", "cross_entropy"})


class LightGBMToOnnx(EstimatorToOnnx):
    """Boosters and the scikit-learn interface."""


@converts("lightgbm.Booster")
def booster(steps: Steps, model: Any, data: Data) -> Outcome:
    """The rounds up to the best one."""
    read = Model(model)
    answer = _answer(steps, read, data)
    return Outcome(prediction=answer if read.width > 1 else steps.graph.vector(answer))


@converts("lightgbm.LGBMRegressor", "lightgbm.LGBMRanker")
def regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The booster inside."""
    _refuse_early_stop(model)
    return booster(steps, model.booster_, data)


@converts("lightgbm.LGBMClassifier")
def classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The largest probability."""
    _refuse_early_stop(model)
    graph, read = steps.graph, Model(model.booster_)
    if read.objective not in {"binary", "multiclass", "multiclassova", "cross_entropy"}:
        refuse(f"classifies with the objective {read.objective}", "use binary, multiclass or multiclassova")
    answer = _answer(steps, read, data)
    probability = answer if read.width > 1 else both_shares(graph, answer)
    return Outcome(index=graph.argmax(probability), classes=np.asarray(model.classes_), probability=probability)


def _refuse_early_stop(model: Any) -> None:
    if model.get_params().get("pred_early_stop"):
        msg = "stops adding trees where a row seems decided (pred_early_stop)"
        refuse(msg, "set_params(pred_early_stop=False), and save it again")


def _answer(steps: Steps, model: Model, data: Data) -> Tensor:
    """Return what the booster predicts: (rows, 1 or classes)."""
    graph = steps.graph
    if model.objective not in _LOGISTIC:
        return _transformed(graph, model, _raw(graph, model, data))
    slope = float(model.parameters.get("sigmoid", 1))
    power = _raw(graph, model, data, negative=True)
    return graph.sigmoid_of_negative(graph.binary("Mul", power, slope) if slope != 1 else power)


def _raw(graph: Graph, model: Model, data: Data, *, negative: bool = False) -> Tensor:
    """Return the score before the objective's own function, or the same with the other sign."""
    plain = _input(graph, model, data)
    x = _prepared(graph, model, plain)
    trees = [_without_zero(tree) for tree in model.trees]
    if model.linear:
        near = graph.compare("LessOrEqual", graph.unary("Abs", plain), ZERO_WIDTH)
        values = linear_values(graph.where(near, np.zeros(()), plain), model, trees)
        raw = add_in_order(graph, trees, x, None, groups=model.width, values_of=values)
        raw = graph.unary("Neg", raw) if negative else raw
    else:
        raw = add_in_order(graph, negated(trees) if negative else trees, x, None, groups=model.width)
    return graph.binary("Div", raw, float(model.rounds)) if model.average else raw


def _without_zero(tree: Tree) -> Tree:
    """Return a tree that divides all numbers as its own divides them once what is nearly zero is zero.

    All of ``[-w, w]`` goes where zero goes: left of a threshold in ``[0, w]``, right of one in ``[-w, 0)``.
    """
    near = (np.abs(tree.threshold) <= ZERO_WIDTH) & (tree.mode == Mode.LESS_OR_EQUAL)
    moved = np.where(tree.threshold >= 0, ZERO_WIDTH, np.nextafter(-ZERO_WIDTH, -np.inf))
    return replace(tree, threshold=np.where(near, moved, tree.threshold))


def _input(graph: Graph, model: Model, data: Data) -> Tensor:
    """Return the matrix that LightGBM makes of its input: arrays of whole numbers go through float32."""
    if isinstance(data, Tensor):
        return graph.cast(data if data.dtype in {F32, F64} else graph.cast(data, F32), F64)
    categorical = [column for column in data.columns if is_categorical(column)]
    if len(categorical) != len(model.categories or []):
        msg = f"was trained on {len(model.categories or [])} columns of categories and gets {len(categorical)}"
        refuse(msg, "save the model with the example it was trained on")
    categories = iter(model.categories or [])
    kinds = {column.tensor.dtype for column in data.columns if column not in categorical}
    target = np.result_type(F32, *(kind for kind in kinds if kind != TEXT))
    parts = []
    for column in data.columns:
        if column in categorical:
            parts.append(graph.column(codes(graph, column, next(categories))))
        else:
            parts.append(graph.column(graph.cast(matrix_vector(graph, column, target), F64)))
    return graph.concat(parts)


def matrix_vector(graph: Graph, column: Column, target: Any) -> Tensor:
    """Return one column in the type that the whole table is cast to."""
    return graph.vector(matrix(graph, Frame((column,)), np.dtype(target)))


def _prepared(graph: Graph, model: Model, x: Tensor) -> Tensor:
    """Make what is nearly zero missing where LightGBM takes it so, and cut categories to whole numbers."""
    if model.zero_features:
        zero = graph.compare("LessOrEqual", graph.unary("Abs", x), ZERO_WIDTH)
        missing = np.isin(np.arange(model.features), sorted(model.zero_features))
        x = graph.where(zero, np.where(missing, np.nan, 0.0), x)
    if model.whole_features:
        chosen = np.isin(np.arange(model.features), sorted(model.whole_features))
        whole = graph.binary("Mul", graph.unary("Sign", x), graph.unary("Floor", graph.unary("Abs", x)))
        x = graph.where(graph.constant(chosen), whole, x)
    return x


def _transformed(graph: Graph, model: Model, score: Tensor) -> Tensor:
    """Return what the objective makes of the score (``ConvertOutput``)."""
    name = model.objective
    if name == "multiclass":
        return graph.unary("Softmax", score, axis=1)
    if name == "cross_entropy_lambda":
        return _log1p(graph, graph.unary("Exp", score))
    if name in EXPONENTIAL:
        return graph.unary("Exp", score)
    if name == "regression" and "sqrt" in model.parameters:
        return graph.binary("Mul", graph.unary("Sign", score), graph.binary("Mul", score, score))
    return score


def _log1p(graph: Graph, x: Tensor) -> Tensor:
    """Return ``log1p(x)`` for x >= 0: what rounding took from 1 + x is given back (Kahan)."""
    whole = graph.binary("Add", x, 1.0)
    rounded = graph.binary("Sub", whole, 1.0)
    small = graph.compare("Equal", rounded, 0.0)
    share = graph.binary("Div", x, graph.where(small, np.ones(()), rounded))
    infinite = graph.compare("Equal", x, np.inf)
    scaled = graph.binary("Mul", graph.unary("Log", whole), graph.where(infinite, np.ones(()), share))
    return graph.where(small, x, scaled)
