"""XGBoost to ONNX: everything in float32, the trees added in their order onto the base score.

Source: XGBoost's model schema, https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html, and
``src/predictor/cpu_predictor.cc``, ``src/common/math.h``
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._data import Data, Frame, matrix
from vitrify.transforms.convert._estimator import EstimatorToOnnx
from vitrify.transforms.convert._graph import F32, F64, I64, TEXT, Array, Graph, Tensor
from vitrify.transforms.convert._sklearn_linear import two_columns
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._trees import Mode, Tree, add_in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDENTITY = frozenset(
    {
        *("reg:squarederror", "reg:linear", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror"),
        *("reg:quantileerror", "rank:ndcg", "rank:map", "rank:pairwise", "binary:logitraw", "binary:hinge"),
    }
)
_LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
_EXPONENTIAL = frozenset({"count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"})
_SOFTMAX = frozenset({"multi:softprob", "multi:softmax"})


class XGBoostToOnnx(EstimatorToOnnx):
    """Boosters and the scikit-learn interface."""


@converts("xgboost.Booster")
def booster(steps: Steps, model: Any, data: Data) -> Outcome:
    """All rounds; NaN is missing."""
    return _outcome(steps, _Model(model, None), data, missing=float("nan"))


@converts("xgboost.XGBRegressor", "xgboost.XGBRFRegressor", "xgboost.XGBRanker")
def regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The rounds up to the best one."""
    return _outcome(steps, _of(model), data, missing=model.missing)


@converts("xgboost.XGBClassifier", "xgboost.XGBRFClassifier")
def classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Above one half, or the largest probability."""
    graph, read = steps.graph, _of(model)
    if read.objective not in _LOGISTIC | _SOFTMAX:
        refuse(f"classifies with the objective {read.objective}", "use binary:logistic or multi:softprob")
    answer = _outcome(steps, read, data, missing=model.missing, labels=False).prediction
    assert answer is not None
    classes = np.asarray(model.classes_)
    if read.groups > 1:
        return Outcome(index=graph.argmax(answer), classes=classes, probability=answer)
    index = graph.cast(graph.compare("Greater", answer, np.array(0.5, answer.dtype)), I64)
    return Outcome(index=index, classes=classes, probability=two_columns(graph, answer))


def _of(model: Any) -> _Model:
    best = getattr(model, "best_iteration", None) if model.early_stopping_rounds is not None else None
    return _Model(model.get_booster(), None if best is None else best + 1)


class _Model:
    """A booster, read.

    Args:
        native: The booster.
        rounds: How many rounds count; None for all.
    """

    def __init__(self, native: Any, rounds: int | None) -> None:
        learner = json.loads(native.save_raw(raw_format="json"))["learner"]
        gradient = learner["gradient_booster"]
        self.objective: str = learner["objective"]["name"]
        self.dart = gradient["name"] == "dart"
        self._refuse(gradient)
        inner = gradient["gbtree"] if self.dart else gradient
        forest = inner["model"]
        parameters = learner["learner_model_param"]
        self.groups = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
        ends = forest["iteration_indptr"]
        count = len(forest["trees"]) if rounds is None else ends[min(rounds, len(ends) - 1)]
        margin = self._margin(np.atleast_1d(np.array(json.loads(parameters["base_score"]), F32)))
        self.start = np.broadcast_to(margin, self.groups)
        weights = gradient["weight_drop"] if self.dart else [None] * count
        self.trees = [
            _tree(forest["trees"][place], weights[place], self.start[group])
            for place, group in _in_turns(forest["tree_info"][:count])
        ]

    def _refuse(self, gradient: Mapping[str, Any]) -> None:
        if gradient["name"] == "gblinear":
            refuse("is a linear booster (gblinear)", "use booster='gbtree'")
        inner = gradient["gbtree"] if self.dart else gradient
        trees = inner["model"]["trees"]
        if any(int(tree["tree_param"].get("size_leaf_vector", 1)) > 1 for tree in trees):
            refuse("has trees with several values a leaf (multi_output_tree)", "use one_output_per_tree")
        if any(tree["categories_nodes"] for tree in trees):
            remedy = "encode the categories before the model (OneHotEncoder, OrdinalEncoder)"
            refuse("splits on categories itself (enable_categorical)", remedy)
        if self.objective not in _IDENTITY | _LOGISTIC | _EXPONENTIAL | _SOFTMAX:
            refuse(f"has the objective {self.objective}", "use one of XGBoost's usual objectives")

    def _margin(self, base: Array) -> Array:
        """Return the base score on the scale that the trees are added on."""
        if self.objective in _LOGISTIC:
            return -np.log(np.float32(1.0) / base - np.float32(1.0))
        return np.log(base) if self.objective in _EXPONENTIAL else base


def _in_turns(groups: list[int]) -> list[tuple[int, int]]:
    """Return the trees' places and groups so that the groups take turns; within a group the order stays."""
    seen: Counter[int] = Counter()
    keys = []
    for place, group in enumerate(groups):
        keys.append((seen[group], group, place))
        seen[group] += 1
    return [(place, group) for _, group, place in sorted(keys)]


def _tree(tree: Mapping[str, Any], weight: float | None, start: np.float32) -> Tree:
    left = np.asarray(tree["left_children"], np.int64)
    conditions = np.asarray(tree["split_conditions"], F32)
    value = conditions
    if weight is not None:
        # DART predicts each tree on top of the base score, takes that off again, and weighs what is left.
        value = ((conditions + start) - start) * np.float32(weight)
    return Tree(
        feature=np.asarray(tree["split_indices"], np.int64),
        threshold=conditions,
        left=left,
        right=np.asarray(tree["right_children"], np.int64),
        missing_left=np.asarray(tree["default_left"], bool),
        value=value.reshape(-1, 1),
        mode=np.full(len(left), int(Mode.LESS)),
    )


def _outcome(steps: Steps, model: _Model, data: Data, *, missing: float, labels: bool = True) -> Outcome:
    graph = steps.graph
    if isinstance(data, Frame) and any(column.tensor.dtype == TEXT for column in data.columns):
        remedy = "encode the categories before the model (OneHotEncoder, OrdinalEncoder)"
        refuse("takes columns of categories (enable_categorical), which it numbers itself", remedy)
    x = matrix(graph, data, F32)
    if missing == missing:  # noqa: PLR0124 (not NaN)
        # XGBoost compares in float32 too.
        is_missing = graph.compare("Equal", x, np.array(missing, F32))
        x = graph.where(is_missing, np.array(np.nan, x.dtype), x)
    raw = add_in_order(graph, model.trees, x, model.start, groups=model.groups)
    answer = raw if model.groups > 1 else graph.vector(raw)
    return Outcome(prediction=_transformed(graph, model.objective, answer, labels=labels))


def _transformed(graph: Graph, objective: str, score: Tensor, *, labels: bool) -> Tensor:
    """Return what the objective makes of the score."""
    if objective in _LOGISTIC:
        power = _exp(graph, graph.unary("Neg", score))
        one = np.ones((), F32)
        return graph.binary("Div", one, graph.binary("Add", power, one))
    if objective in _EXPONENTIAL:
        return _exp(graph, score)
    if objective in _SOFTMAX:
        if objective == "multi:softmax" and labels:
            return graph.cast(graph.argmax(score), F32)
        return _softmax(graph, score)
    if objective == "binary:hinge":
        return graph.cast(graph.compare("Greater", score, np.zeros((), F32)), F32)
    return score


def _exp(graph: Graph, x: Tensor) -> Tensor:
    """Return the exponential, right to the last bit of float32 as the C library's is."""
    return graph.cast(graph.unary("Exp", graph.cast(x, F64)), F32)


def _softmax(graph: Graph, score: Tensor) -> Tensor:
    """Return the softmax as XGBoost adds it: terms in float32, their sum in double."""
    largest = graph.reduce("ReduceMax", score, 1, keep=True)
    terms = _exp(graph, graph.binary("Sub", score, largest))
    total = graph.reduce("ReduceSum", graph.cast(terms, F64), 1, keep=True)
    return graph.binary("Div", terms, graph.cast(total, F32))
