"""scikit-learn's trees and forests: compared in float32, added in float64, in the order of the trees.

Source: ``sklearn/tree/_tree.pyx``, ``ensemble/_forest.py``, ``_gb.py``, ``_hist_gradient_boosting/_predictor.pyx``,
``ensemble/_iforest.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, beside, matrix, select
from vitrify.transforms.convert._building.graph import F32, F64, I64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.elementary import logit
from vitrify.transforms.convert._sklearn.linear import both_shares, inlier
from vitrify.transforms.convert._sklearn.scale import clip
from vitrify.transforms.convert._trees.ensemble import Mode, Tree, add_in_order, leaf_numbers, negated

if TYPE_CHECKING:
    from collections.abc import Sequence


def grown(model: Any, value: Array, features: Array | None = None) -> Tree:
    """Return a fitted scikit-learn tree with other leaf values.

    Args:
        model: A decision tree.
        value: (nodes, outputs) in float64.
        features: Where the tree's columns stand in the whole; None for as they are.
    """
    tree = model.tree_
    feature = np.maximum(tree.feature, 0)
    return Tree(
        feature=feature if features is None else np.asarray(features)[feature],
        threshold=np.asarray(tree.threshold, np.float64),
        left=np.asarray(tree.children_left),
        right=np.asarray(tree.children_right),
        missing_left=np.asarray(tree.missing_go_to_left, bool),
        value=value.reshape(len(feature), -1),
        mode=np.full(len(feature), int(Mode.LESS_OR_EQUAL)),
    )


def _shares(model: Any, output: int) -> Array:
    """Return each node's class proportions, normalised as ``predict_proba`` normalises them."""
    count = int(np.ravel(model.n_classes_)[output])
    value: Array = model.tree_.value[:, output, :count]
    return value


def _classify(graph: Graph, models: Sequence[Any], x: Tensor, output: int, classes: Array, *, forest: bool) -> Outcome:
    shares = [_shares(model, output) for model in models]
    if forest and all(share.shape[1] == 2 for share in shares):  # noqa: PLR2004 (binary)
        return _classify_binary(graph, models, x, shares, classes)
    trees = [grown(model, share) for model, share in zip(models, shares, strict=True)]
    probability = add_in_order(graph, trees, x, None, mean=forest)
    return Outcome(index=graph.argmax(probability), classes=classes, probability=probability)


def _classify_binary(
    graph: Graph, models: Sequence[Any], x: Tensor, shares: Sequence[Array], classes: Array
) -> Outcome:
    """Add up the second class alone: of each leaf the first one has the rest, to the last bit of a sum."""
    trees = [grown(model, share[:, 1:]) for model, share in zip(models, shares, strict=True)]
    probability = both_shares(graph, add_in_order(graph, trees, x, None, mean=True))
    return Outcome(index=graph.argmax(probability), classes=classes, probability=probability)


def _classifier(steps: Steps, model: Any, members: Sequence[Any], data: Data, *, forest: bool) -> Outcome:
    x = matrix(steps.graph, data, F32)
    if model.n_outputs_ == 1:
        return _classify(steps.graph, members, x, 0, model.classes_, forest=forest)
    return Outcome(
        parts=tuple(
            _classify(steps.graph, members, x, output, model.classes_[output], forest=forest)
            for output in range(model.n_outputs_)
        )
    )


def _regressor(steps: Steps, model: Any, members: Sequence[Any], data: Data, *, forest: bool) -> Outcome:
    graph = steps.graph
    trees = [grown(member, member.tree_.value) for member in members]
    answer = add_in_order(graph, trees, matrix(graph, data, F32), None, mean=forest)
    return Outcome(prediction=graph.vector(answer) if model.n_outputs_ == 1 else answer)


@converts("sklearn.DecisionTreeClassifier", "sklearn.ExtraTreeClassifier")
def tree_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """One tree's class proportions."""
    return _classifier(steps, model, [model], data, forest=False)


@converts("sklearn.DecisionTreeRegressor", "sklearn.ExtraTreeRegressor")
def tree_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """One tree's values."""
    return _regressor(steps, model, [model], data, forest=False)


@converts("sklearn.RandomForestClassifier", "sklearn.ExtraTreesClassifier")
def forest_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean of the trees' class proportions."""
    return _classifier(steps, model, model.estimators_, data, forest=True)


@converts("sklearn.RandomForestRegressor", "sklearn.ExtraTreesRegressor")
def forest_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean of the trees' values."""
    return _regressor(steps, model, model.estimators_, data, forest=True)


@converts("sklearn.RandomTreesEmbedding")
def trees_embedding(steps: Steps, model: Any, data: Data) -> Outcome:
    """One column a leaf: 1 for the leaf that a row falls into."""
    graph = steps.graph
    trees = [grown(member, member.tree_.value) for member in model.estimators_]
    numbers = leaf_numbers(graph, trees, matrix(graph, data, F32))
    width = sum(len(tree.leaves) for tree in trees)
    hot = graph.op("OneHot", numbers, np.array(width), np.array([0, 1], F32), dtype=F32, axis=-1)
    return Outcome(features=graph.cast(graph.reduce("ReduceSum", hot, 1), F64))


def _boosted(steps: Steps, model: Any, data: Data, *, negative: bool = False) -> Tensor:
    """Return the raw score, or the same with the other sign."""
    graph, x = steps.graph, matrix(steps.graph, data, F32)
    sign = -1.0 if negative else 1.0
    trees = [grown(member, sign * model.learning_rate * member.tree_.value) for member in model.estimators_.ravel()]
    if isinstance(model.init_, str) or type(model.init_).__name__ in {"DummyClassifier", "DummyRegressor"}:
        # The constant start is what the source itself computes for any row.
        start = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0]  # noqa: SLF001
        return add_in_order(graph, trees, x, sign * start, groups=model.estimators_.shape[1])
    start = _start(graph, model, steps.run(model.init_, x, "init_"))
    start = graph.unary("Neg", start) if negative else start
    return add_in_order(graph, trees, x, start, groups=model.estimators_.shape[1])


def _start(graph: Graph, model: Any, outcome: Outcome) -> Tensor:
    """Return what another model starts the boosting from, through the link of the loss: (rows, groups)."""
    answer = outcome.probability if outcome.prediction is None else outcome.prediction
    if answer is not None and answer.dtype == F32:
        msg = "starts from a model that computes in single precision (init=), whose last bits depend on the processor"
        refuse(msg, "leave init at its default, or start from trees")
    if not hasattr(model, "classes_"):
        assert outcome.prediction is not None
        return graph.column(graph.cast(outcome.prediction, F64))
    if outcome.probability is None:
        refuse("starts from a classifier without probabilities (init=)", "use one that has predict_proba")
    least = np.finfo(np.float64).eps
    shares = clip(graph, graph.cast(outcome.probability, F64), least, 1 - least)
    if len(model.classes_) > 2:  # noqa: PLR2004 (binary)
        mean = graph.reduce("ReduceMean", graph.unary("Log", shares), 1, keep=True)
        return graph.unary("Log", graph.binary("Div", shares, graph.unary("Exp", mean)))
    positive = logit(graph, graph.gather(shares, np.array([1]), axis=1))
    return graph.binary("Mul", positive, 0.5) if model.loss == "exponential" else positive


@converts("sklearn.GradientBoostingRegressor")
def gradient_boosting_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The start plus every stage."""
    return Outcome(prediction=steps.graph.vector(_boosted(steps, model, data)))


@converts("sklearn.GradientBoostingClassifier")
def gradient_boosting_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The raw score, and its link."""
    graph = steps.graph
    if len(model.classes_) > 2:  # noqa: PLR2004 (binary)
        raw = _boosted(steps, model, data)
        probability = graph.unary("Softmax", raw, axis=1)
        return Outcome(index=graph.argmax(raw), classes=model.classes_, probability=probability, score=raw)
    negative = _boosted(steps, model, data, negative=True)
    scaled = graph.binary("Mul", negative, 2.0) if model.loss == "exponential" else negative
    return _of_two(graph, model, negative, scaled, "LessOrEqual")


def _of_two(graph: Graph, model: Any, negative: Tensor, scaled: Tensor, kind: str) -> Outcome:
    """Return what a logistic classifier answers, from its score with the other sign: no node has to turn it."""
    turned = graph.vector(negative)
    return Outcome(
        index=graph.cast(graph.compare(kind, turned, np.zeros((), turned.dtype)), I64),
        classes=model.classes_,
        probability=both_shares(graph, graph.sigmoid_of_negative(scaled)),
        score=graph.unary("Neg", turned),
    )


def _histogram(steps: Steps, model: Any, data: Data, *, negative: bool = False) -> Tensor:
    """Return the raw score, or the same with the other sign."""
    graph = steps.graph
    columns = model._preprocessor  # noqa: SLF001 (no public name)
    x = matrix(graph, data, F64) if columns is None else _categories_first(steps, columns, data)
    known, order = model._bin_mapper.make_known_categories_bitsets()  # noqa: SLF001
    categorical = np.flatnonzero(model.is_categorical_) if model.is_categorical_ is not None else np.array([], int)
    if model._is_categorical_remapped is not None:  # noqa: SLF001
        categorical = np.flatnonzero(model._is_categorical_remapped)  # noqa: SLF001
    if len(categorical):
        x = _known_categories(graph, x, {int(column): _members(known[order[column]]) for column in categorical})
    start = np.ravel(model._baseline_prediction)  # noqa: SLF001
    trees = []
    for predictors in model._predictors:  # noqa: SLF001
        trees += [_histogram_tree(predictor) for predictor in predictors]
    if negative:
        start, trees = -start, negated(trees)
    return add_in_order(graph, trees, x, start, groups=len(start))


def _categories_first(steps: Steps, columns: Any, data: Data) -> Tensor:
    """Return the model's own preprocessing: categories as numbers, then the other columns as they are."""
    parts: list[Data] = []
    names = getattr(columns, "feature_names_in_", None)
    for name, step, _ in columns.transformers_:
        places = list(columns._transformer_to_input_indices[name])  # noqa: SLF001 (what the mask came to)
        if places and name in {"encoder", "numerical"}:
            keys = None if names is None else [names[place] for place in places]
            part = select(steps.graph, data, places, keys, scalar=False)
            if name == "encoder":
                features = steps.run(step, part, "categories").features
                assert features is not None
                part = features
            parts.append(matrix(steps.graph, part, F64))
    return beside(steps.graph, parts)


def _known_categories(graph: Graph, x: Tensor, known: dict[int, list[int]]) -> Tensor:
    """Make a category that was never seen missing, as the source treats it."""
    parts = []
    for column in range(max(known) + 1):
        values = graph.gather(x, np.array([column]), axis=1)
        if column in known:
            whole = graph.unary("Floor", values)
            equal = graph.compare("Equal", whole, np.array([known[column] or [-1]], np.float64))
            seen = graph.op("ReduceMax", graph.cast(equal, np.int64), np.array([1]), dtype=np.int64, keepdims=1)
            values = graph.where(graph.cast(seen, bool), whole, np.array(np.nan))
        parts.append(values)
    rest = graph.op(
        "Slice", x, np.array([max(known) + 1]), np.array([np.iinfo(np.int64).max]), np.array([1]), dtype=x.dtype
    )
    return graph.concat([*parts, rest])


def _members(bits: Array) -> list[int]:
    """Return the numbers whose bits are set in a row of 32-bit words."""
    return [32 * word + bit for word, value in enumerate(bits.tolist()) for bit in range(32) if value >> bit & 1]


def _histogram_tree(predictor: Any) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    categorical = nodes["is_categorical"].astype(bool) & ~leaf
    members = {
        # Where only what is missing goes left the set is empty; ONNX wants one value, which here no row has.
        int(node): _members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]) or [-1]
        for node in np.flatnonzero(categorical)
    }
    return Tree(
        feature=nodes["feature_idx"].astype(np.int64),
        threshold=nodes["num_threshold"].astype(np.float64),
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        value=nodes["value"].astype(np.float64).reshape(-1, 1),
        mode=np.where(categorical, int(Mode.MEMBER), int(Mode.LESS_OR_EQUAL)),
        members=members,
    )


@converts("sklearn.HistGradientBoostingRegressor")
def histogram_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The baseline plus every tree, through the inverse link of the loss."""
    graph, raw = steps.graph, steps.graph.vector(_histogram(steps, model, data))
    link = type(model._loss.link).__name__  # noqa: SLF001 (the only place that says which link was taken)
    if link not in {"IdentityLink", "LogLink"}:
        refuse(f"has the link {link}", "use a loss with a log or identity link")
    return Outcome(prediction=graph.unary("Exp", raw) if link == "LogLink" else raw)


@converts("sklearn.HistGradientBoostingClassifier")
def histogram_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The raw score, logistic or softmax."""
    graph = steps.graph
    if len(model.classes_) > 2:  # noqa: PLR2004 (binary)
        raw = _histogram(steps, model, data)
        probability = graph.unary("Softmax", raw, axis=1)
        return Outcome(index=graph.argmax(raw), classes=model.classes_, probability=probability, score=raw)
    negative = _histogram(steps, model, data, negative=True)
    return _of_two(graph, model, negative, negative, "Less")


@converts("sklearn.IsolationForest")
def isolation_forest(steps: Steps, model: Any, data: Data) -> Outcome:
    """The mean depth of the leaves, as a power of two; 1 for an inlier and -1 for an outlier."""
    graph, x = steps.graph, matrix(steps.graph, data, F32)
    trees = []
    for index, (member, features) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        lengths = model._decision_path_lengths[index] + model._average_path_length_per_tree[index] - 1.0  # noqa: SLF001
        trees.append(grown(member, np.asarray(lengths, np.float64), features))
    depths = graph.vector(add_in_order(graph, trees, x, None))
    power = graph.binary("Pow", np.array(2.0), graph.binary("Div", depths, np.array(-_normal_depth(model))))
    score = graph.binary("Sub", -float(model.offset_), power)
    return Outcome(prediction=inlier(graph, score, "GreaterOrEqual"), score=score)


def _normal_depth(model: Any) -> float:
    from sklearn.ensemble._iforest import _average_path_length

    return float(len(model.estimators_) * _average_path_length([model._max_samples])[0])  # noqa: SLF001
