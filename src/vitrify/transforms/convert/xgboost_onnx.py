"""XGBoost to ONNX: everything in float32, the trees added in their order onto the base score.

Source: ``src/predictor/cpu_predictor.cc``, ``src/gbm/gblinear.cc``, ``src/objective``, ``src/common/math.h``,
``python-package/xgboost/sklearn.py``
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._boosters.codes import codes, is_categorical
from vitrify.transforms.convert._boosters.xgboost import EXPONENTIAL, LOGISTIC, SOFTMAX, Model, read
from vitrify.transforms.convert._boosters.xgboost_categories import next_codes
from vitrify.transforms.convert._building.data import Data, Frame, matrix
from vitrify.transforms.convert._building.estimator import EstimatorToOnnx
from vitrify.transforms.convert._building.graph import F32, F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn.linear import both_shares, two_columns
from vitrify.transforms.convert._trees.ensemble import add_in_order, constant_tree, negated

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.data import Column

_BINARY = LOGISTIC | {"binary:logitraw", "binary:hinge"}
_HALF = np.array(0.5, F32)
_LARGEST_POWER = np.array(88.7, F32)
"""Where XGBoost's sigmoid cuts the exponent off, so that its float32 never overflows."""


class XGBoostToOnnx(EstimatorToOnnx):
    """Boosters and the scikit-learn interface."""


@converts("xgboost.Booster")
def booster(steps: Steps, model: Any, data: Data) -> Outcome:
    """The rounds up to the best one, as our runtime calls it; NaN is missing."""
    best = model.attr("best_iteration")
    found = read(model, None if best is None else int(best) + 1, in_place=False)
    if found.objective == "multi:softmax":
        score = _raw(steps.graph, found, data, float("nan"))
        return Outcome(prediction=steps.graph.cast(steps.graph.argmax(score), F32))
    return Outcome(prediction=_predicted(steps.graph, found, data, float("nan")))


@converts("xgboost.XGBRegressor", "xgboost.XGBRFRegressor", "xgboost.XGBRanker")
def regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The rounds up to the best one."""
    return Outcome(prediction=_predicted(steps.graph, _of(model), data, model.missing))


@converts("xgboost.XGBClassifier", "xgboost.XGBRFClassifier")
def classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Above one half, or the largest probability."""
    graph, found = steps.graph, _of(model)
    if found.objective not in _BINARY | SOFTMAX:
        refuse(f"classifies with the objective {found.objective}", "use binary:logistic or multi:softprob")
    classes = np.asarray(model.classes_)
    if found.objective == "multi:softmax":
        score = _raw(graph, found, data, model.missing)
        return Outcome(index=graph.argmax(score), classes=classes, probability=_softmax_of_scipy(graph, score))
    answer = _answer(graph, found, data, model.missing)
    if found.objective in SOFTMAX:
        return Outcome(index=graph.argmax(answer), classes=classes, probability=answer)
    if found.objective in LOGISTIC and found.width == 1:
        # Above one half is the larger of the two: 1 - p is rounded, but never past one half.
        probability = both_shares(graph, answer)
        return Outcome(index=graph.argmax(probability), classes=classes, probability=probability)
    index = graph.cast(graph.compare("Greater", answer, _HALF), I64)
    if found.width == 1:
        probability = two_columns(graph, graph.vector(answer))
        return Outcome(index=graph.vector(index), classes=classes, probability=probability)
    targets = tuple(
        Outcome(index=graph.gather(index, np.array(target), axis=1), classes=np.arange(2.0))
        for target in range(found.width)
    )
    return Outcome(parts=targets, probability=answer)


def _of(model: Any) -> Model:
    best = getattr(model, "best_iteration", None) if model.early_stopping_rounds is not None else None
    return read(model.get_booster(), None if best is None else best + 1, in_place=True)


def _predicted(graph: Graph, model: Model, data: Data, missing: float) -> Tensor:
    """Return what the objective makes of the margin: (rows,), or (rows, classes or targets)."""
    answer = _answer(graph, model, data, missing)
    return answer if model.width > 1 else graph.vector(answer)


def _answer(graph: Graph, model: Model, data: Data, missing: float) -> Tensor:
    """Return the same as a matrix."""
    if model.objective in LOGISTIC:
        return _logistic(graph, model, _raw(graph, model, data, missing, -1.0))
    return _transformed(graph, model, _raw(graph, model, data, missing))


def _raw(graph: Graph, model: Model, data: Data, missing: float, sign: float = 1.0) -> Tensor:
    """Return the margin, or the same with the other sign: (rows, 1, or classes or targets)."""
    x = _input(graph, model, data, missing)
    if model.weights is not None:
        raw = _linear(graph, model, x)
        return graph.unary("Neg", raw) if sign < 0 else raw
    trees = list(model.trees) or [constant_tree(np.zeros(1, F32))] * model.width  # no rounds at all: the base score
    trees = negated(trees) if sign < 0 else trees
    return add_in_order(graph, trees, x, sign * model.start, groups=1 if model.vector else model.width)


def _input(graph: Graph, model: Model, data: Data, missing: float) -> Tensor:
    """Return XGBoost's matrix: float32, with NaN for what is missing and categories by their numbers."""
    if isinstance(data, Frame):
        data = Frame(tuple(_numbered(graph, model, place, column) for place, column in enumerate(data.columns)))
    x = matrix(graph, data, F32)
    if missing == missing:  # noqa: PLR0124 (not NaN)
        # XGBoost compares in float32 too.
        is_missing = graph.compare("Equal", x, np.array(missing, F32))
        x = graph.where(is_missing, np.array(np.nan, x.dtype), x)
    if model.categorical:
        # A category is cut to a whole number; what is below zero is in no set, and stays below when rounded down.
        chosen = np.isin(np.arange(max(model.categorical) + 1), sorted(model.categorical))
        x = _floored(graph, x, chosen)
    return x


def _floored(graph: Graph, x: Tensor, chosen: Array) -> Tensor:
    """Return the matrix with some of its first columns rounded down."""
    first = graph.gather(x, np.arange(len(chosen)), axis=1)
    rounded = graph.where(graph.constant(chosen), graph.unary("Floor", first), first)
    return graph.concat([rounded, _after(graph, x, len(chosen))])


def _after(graph: Graph, x: Tensor, start: int) -> Tensor:
    end = np.array([np.iinfo(np.int64).max])
    return graph.op("Slice", x, np.array([start]), end, np.array([1]), dtype=x.dtype)


def _numbered(graph: Graph, model: Model, place: int, column: Column) -> Column:
    """Return a column of categories as numbers: the booster's own, or else those of the table."""
    if not is_categorical(column):
        return column
    assert column.field is not None
    assert column.field.categories is not None
    if place in model.categories:
        numbers = next_codes(graph, column, model.categories[place])
    else:
        numbers = codes(graph, column, column.field.categories)
    return replace(column, tensor=numbers, field=None)


def _linear(graph: Graph, model: Model, x: Tensor) -> Tensor:
    """Return ``bias + base score + w1 x1 + w2 x2 + ...`` in that order; what is missing adds nothing."""
    assert model.weights is not None
    *weights, bias = model.weights
    first = np.zeros((len(weights), model.width), F32)
    first[:1] = bias + model.start
    cells = graph.op("Unsqueeze", x, np.array([2]), dtype=x.dtype)
    products = graph.binary("Mul", cells, np.stack(weights))
    known = graph.where(graph.op("IsNaN", cells, dtype=np.bool_), np.zeros((), F32), products)
    sums = graph.op("CumSum", graph.binary("Add", known, first), np.array(1), dtype=x.dtype)
    return graph.reshape(graph.gather(sums, np.array([-1]), axis=1), -1, model.width)


def _transformed(graph: Graph, model: Model, score: Tensor) -> Tensor:
    """Return what the objective makes of the score (``PredTransform``)."""
    if model.objective in EXPONENTIAL:
        return _exp(graph, score)
    if model.objective in SOFTMAX:
        return _softmax(graph, score)
    if model.objective == "binary:hinge":
        return graph.cast(graph.compare("Greater", score, np.zeros((), F32)), F32)
    return score


def _logistic(graph: Graph, model: Model, power: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(power))``; the power is the margin with the other sign."""
    if not _largest(model) < _LARGEST_POWER:
        power = graph.binary("Min", power, _LARGEST_POWER)
    one = np.ones((), F32)
    return graph.binary("Div", one, graph.binary("Add", _exp(graph, power), one))


def _largest(model: Model) -> float:
    """Return a bound of the margin with the other sign, rounding included; infinite where nothing bounds it."""
    if model.weights is not None or model.width > 1:
        return np.inf
    held = [tree.value[tree.leaves].astype(F64) for tree in model.trees]
    terms = [-float(model.start[0]), *(-float(value.min()) for value in held)]
    sizes = abs(float(model.start[0])) + sum(float(np.abs(value).max()) for value in held)
    return sum(terms) + len(terms) * float(np.finfo(np.float32).eps) * sizes


def _exp(graph: Graph, x: Tensor) -> Tensor:
    """Return the exponential, right to the last bit of float32 as the C library's is."""
    return graph.cast(graph.unary("Exp", graph.cast(x, F64)), F32)


def _softmax(graph: Graph, score: Tensor) -> Tensor:
    """Return the softmax as XGBoost adds it: terms in float32, their sum in double."""
    largest = graph.reduce("ReduceMax", score, 1, keep=True)
    terms = _exp(graph, graph.binary("Sub", score, largest))
    total = graph.reduce("ReduceSum", graph.cast(terms, F64), 1, keep=True)
    return graph.binary("Div", terms, graph.cast(total, F32))


def _softmax_of_scipy(graph: Graph, score: Tensor) -> Tensor:
    """Return the softmax that XGBoost's estimators leave to SciPy: in float32 throughout."""
    terms = _exp(graph, graph.binary("Sub", score, graph.reduce("ReduceMax", score, 1, keep=True)))
    return graph.binary("Div", terms, graph.reduce("ReduceSum", terms, 1, keep=True))
