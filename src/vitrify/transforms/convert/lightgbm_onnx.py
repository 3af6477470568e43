"""LightGBM to ONNX: compared and added in double.

Source: LightGBM's ``src/io/tree.cpp`` and ``include/LightGBM/tree.h`` (``NumericalDecision``, ``CategoricalDecision``),
``src/objective``, ``python-package/lightgbm/basic.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._data import Column, Data, Frame, matrix
from vitrify.transforms.convert._estimator import EstimatorToOnnx
from vitrify.transforms.convert._graph import F32, F64, TEXT, Array, Graph, Tensor
from vitrify.transforms.convert._sklearn_encode import category_index
from vitrify.transforms.convert._sklearn_linear import two_columns
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._trees import Mode, Tree, add_in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NONE, _ZERO, _NAN = 0, 1, 2
_ZERO_WIDTH = float(np.float32(1e-35))
"""LightGBM's ``kZeroThreshold``: what is no farther from zero is zero."""

_IDENTITY = frozenset(
    {
        *(
            "regression",
            "regression_l1",
            "huber",
            "fair",
            "quantile",
            "mape",
            "lambdarank",
            "rank_xendcg",
            "custom",
            "none",
        ),
    }
)
_EXPONENTIAL = frozenset({"poisson", "gamma", "tweedie"})


class LightGBMToOnnx(EstimatorToOnnx):
    """Boosters and the scikit-learn interface."""


@converts("lightgbm.Booster")
def booster(steps: Steps, model: Any, data: Data) -> Outcome:
    """The rounds up to the best one."""
    return Outcome(prediction=_answer(steps, _Model(model), data))


@converts("lightgbm.LGBMRegressor", "lightgbm.LGBMRanker")
def regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The booster inside."""
    return booster(steps, model.booster_, data)


@converts("lightgbm.LGBMClassifier")
def classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The largest probability."""
    graph, read = steps.graph, _Model(model.booster_)
    if read.objective not in {"binary", "multiclass", "multiclassova", "cross_entropy"}:
        refuse(f"classifies with the objective {read.objective}", "use binary, multiclass or multiclassova")
    answer = _answer(steps, read, data)
    probability = answer if read.width > 1 else two_columns(graph, answer)
    return Outcome(index=graph.argmax(probability), classes=np.asarray(model.classes_), probability=probability)


class _Model:
    """A booster's text, read."""

    def __init__(self, native: Any) -> None:
        header, *blocks = native.model_to_string().split("\n\nTree=")
        fields = _fields(header)
        self.width = int(fields["num_tree_per_iteration"])
        self.average = "average_output" in header.splitlines()
        self.objective, self.parameters = _objective(fields.get("objective", "none"))
        self.features = int(fields["max_feature_idx"]) + 1
        self.categories: list[list[Any]] | None = native.pandas_categorical
        known = (
            _IDENTITY
            | _EXPONENTIAL
            | {"binary", "multiclass", "multiclassova", "cross_entropy", "cross_entropy_lambda"}
        )
        if self.objective not in known:
            refuse(f"has the objective {self.objective}", "use one of LightGBM's usual objectives")
        self._raw = [_fields(block.split("\n\n\n")[0]) for block in blocks]
        if any(tree.get("is_linear", "0") == "1" for tree in self._raw):
            refuse("has linear models in its leaves (linear_tree)", "train with linear_tree=False")
        self.zero_features: set[int] = set()
        self.whole_features: set[int] = set()
        self.trees = self._trees()

    def _trees(self) -> list[Tree]:
        kinds: dict[int, set[int]] = {}
        trees = [_tree(tree, kinds) for tree in self._raw]
        for feature, found in kinds.items():
            if _ZERO in found:
                if len(found) > 1:
                    msg = f"treats zero in feature {feature} as missing in some trees and not in others"
                    refuse(msg, "train all trees with one zero_as_missing")
                self.zero_features.add(feature)
            if -1 in found:
                self.whole_features.add(feature)
        return trees

    @property
    def splits_near_zero(self) -> bool:
        """Whether a threshold lies among the values that LightGBM reads as zero."""
        return any(np.any((np.abs(tree.threshold) <= _ZERO_WIDTH) & (tree.threshold != 0)) for tree in self.trees)

    @property
    def rounds(self) -> int:
        """Number of boosting rounds."""
        return max(len(self.trees) // self.width, 1)


def _fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _objective(text: str) -> tuple[str, dict[str, str]]:
    name, *rest = text.split(" ")
    return name, {key: value for key, _, value in (part.partition(":") for part in rest)}


def _numbers(tree: Mapping[str, str], key: str, dtype: Any) -> Array:
    return np.array([dtype(value) for value in tree.get(key, "").split()])


def _tree(tree: Mapping[str, str], kinds: dict[int, set[int]]) -> Tree:
    """Return one tree: inner nodes first, then leaves; and note how each feature treats what is missing."""
    leaf_value = np.array([float(value) for value in tree["leaf_value"].split()])
    inner = len(leaf_value) - 1
    end = np.full(len(leaf_value), -1)

    def children(key: str) -> Array:
        found = _numbers(tree, key, int) if inner else np.array([], int)
        return np.append(np.where(found < 0, inner + ~found, found), end).astype(np.int64)

    decisions = _numbers(tree, "decision_type", int) if inner else np.array([], int)
    feature = _numbers(tree, "split_feature", int) if inner else np.array([], int)
    threshold = _numbers(tree, "threshold", float) if inner else np.array([])
    categorical = (decisions & _CATEGORICAL) > 0
    missing = (decisions >> 2) & 3
    for node in range(inner):
        kinds.setdefault(int(feature[node]), set()).add(-1 if categorical[node] else int(missing[node]))
    # Without a missing type NaN is zero; with one it takes the default; a category that is NaN goes right.
    left = np.where(missing == _NONE, threshold >= 0, (decisions & _DEFAULT_LEFT) > 0) & ~categorical
    pad = np.zeros(len(leaf_value), int)
    return Tree(
        feature=np.append(feature, pad).astype(np.int64),
        threshold=np.append(threshold, pad).astype(np.float64),
        left=children("left_child"),
        right=children("right_child"),
        missing_left=np.append(left, pad).astype(bool),
        value=np.append(np.zeros(inner), leaf_value).reshape(-1, 1),
        mode=np.append(np.where(categorical, int(Mode.MEMBER), int(Mode.LESS_OR_EQUAL)), pad),
        members=_members(tree, threshold, categorical),
    )


def _members(tree: Mapping[str, str], threshold: Array, categorical: Array) -> dict[int, list[float]]:
    """Return the categories that go left at each categorical node, from LightGBM's bit sets."""
    if not categorical.any():
        return {}
    bounds = _numbers(tree, "cat_boundaries", int)
    words = _numbers(tree, "cat_threshold", int)
    members = {}
    for node in np.flatnonzero(categorical).tolist():
        which = int(threshold[node])
        bits = words[bounds[which] : bounds[which + 1]].tolist()
        members[node] = [
            float(32 * word + bit) for word, value in enumerate(bits) for bit in range(32) if value >> bit & 1
        ]
    return members


def _answer(steps: Steps, model: _Model, data: Data) -> Tensor:
    graph = steps.graph
    x = _prepared(graph, model, _input(graph, model, data))
    raw = add_in_order(graph, model.trees, x, None, groups=model.width)
    if model.average:
        raw = graph.binary("Div", raw, float(model.rounds))
    return _transformed(graph, model, raw if model.width > 1 else graph.vector(raw))


def _input(graph: Graph, model: _Model, data: Data) -> Tensor:
    """Return the matrix that LightGBM makes of its input: arrays of whole numbers go through float32."""
    if isinstance(data, Tensor):
        return graph.cast(data if data.dtype in {F32, F64} else graph.cast(data, F32), F64)
    categorical = [
        column for column in data.columns if column.field is not None and column.field.categories is not None
    ]
    if len(categorical) != len(model.categories or []):
        msg = f"was trained on {len(model.categories or [])} columns of categories and gets {len(categorical)}"
        refuse(msg, "save the model with the example it was trained on")
    codes = iter(model.categories or [])
    kinds = {column.tensor.dtype for column in data.columns if column not in categorical}
    target = np.result_type(F32, *(kind for kind in kinds if kind != TEXT))
    parts = []
    for column in data.columns:
        if column in categorical:
            parts.append(graph.column(_codes(graph, column, next(codes))))
        else:
            parts.append(graph.column(graph.cast(matrix_vector(graph, column, target), F64)))
    return graph.concat(parts)


def matrix_vector(graph: Graph, column: Column, target: Any) -> Tensor:
    """Return one column in the type that the whole table is cast to."""
    return graph.vector(matrix(graph, Frame((column,)), np.dtype(target)))


def _codes(graph: Graph, column: Column, categories: list[Any]) -> Tensor:
    """Return the number of each category, NaN where it is none of the training data's."""
    index = graph.cast(category_index(graph, column, categories), F64)
    unknown = graph.compare("Equal", index, float(len(categories)))
    return graph.where(unknown, np.array(np.nan), index)


def _prepared(graph: Graph, model: _Model, x: Tensor) -> Tensor:
    """Make what is nearly zero zero, or missing where LightGBM takes it so, and cut categories to whole numbers."""
    if model.zero_features or model.splits_near_zero:
        zero = graph.compare("LessOrEqual", graph.unary("Abs", x), _ZERO_WIDTH)
        missing = np.isin(np.arange(model.features), sorted(model.zero_features))
        x = graph.where(zero, np.where(missing, np.nan, 0.0), x)
    if model.whole_features:
        chosen = np.isin(np.arange(model.features), sorted(model.whole_features))
        whole = graph.binary("Mul", graph.unary("Sign", x), graph.unary("Floor", graph.unary("Abs", x)))
        x = graph.where(graph.constant(chosen), whole, x)
    return x


def _transformed(graph: Graph, model: _Model, score: Tensor) -> Tensor:
    """Return what the objective makes of the score (``ConvertOutput``)."""
    name = model.objective
    if name in {"binary", "multiclassova", "cross_entropy"}:
        slope = float(model.parameters.get("sigmoid", 1))
        return graph.sigmoid(graph.binary("Mul", score, slope) if slope != 1 else score)
    if name == "multiclass":
        return graph.unary("Softmax", score, axis=1)
    if name == "cross_entropy_lambda":
        return graph.unary("Log", graph.binary("Add", graph.unary("Exp", score), 1.0))
    if name in _EXPONENTIAL:
        return graph.unary("Exp", score)
    if name == "regression" and "sqrt" in model.parameters:
        return graph.binary("Mul", graph.unary("Sign", score), graph.binary("Mul", score, score))
    return score
