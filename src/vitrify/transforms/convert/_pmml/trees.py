"""scikit-learn's trees and forests as ``TreeModel`` and ``MiningModel``.

Trees compare in float32. A threshold is rounded down to that: no float32 lies between the two, so that nothing changes.

Source: ``sklearn/tree/_tree.pyx``, ``ensemble``, https://dmg.org/pmml/v4-4-1/TreeModel.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.decisions import chosen, shared
from vitrify.transforms.convert._pmml.elements import apply, constant, reference
from vitrify.transforms.convert._pmml.fields import F32, F64
from vitrify.transforms.convert._pmml.grown import classifying, regressing, stump
from vitrify.transforms.convert._pmml.linear import predicted
from vitrify.transforms.convert._pmml.matrices import matrix
from vitrify.transforms.convert._pmml.models import Model, answered, combined, labels, output
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes
from vitrify.transforms.convert._sklearn.trees import _histogram_tree, grown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.transforms.convert._pmml.fields import Column, Table
    from vitrify.transforms.convert._trees.ensemble import Tree


def _one_target(model: Any) -> None:
    if model.n_outputs_ > 1:
        refuse("predicts several targets", "train one model a target, or convert to onnx")


def _classify(walk: Walk, members: Sequence[Any], table: Table, classes: Any, *, forest: bool) -> Answer:
    columns, known = matrix(walk.fields, table, F32), labels(classes)
    made, outputs = answered(walk.fields, known)
    trees = [classifying(grown(member, member.tree_.value[:, 0, : len(known)]), columns, known) for member in members]
    if not forest:
        (tree,) = trees
        return Answer(chain=(replace(tree, output=made),), outputs=outputs)
    return Answer(chain=(combined(trees, "average", output=made, classes=known),), outputs=outputs)


@writes("sklearn.DecisionTreeClassifier", "sklearn.ExtraTreeClassifier")
def tree_classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """One tree's class proportions."""
    _one_target(model)
    return _classify(walk, [model], table, model.classes_, forest=False)


@writes("sklearn.RandomForestClassifier", "sklearn.ExtraTreesClassifier")
def forest_classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """The mean of the trees' class proportions."""
    _one_target(model)
    return _classify(walk, model.estimators_, table, model.classes_, forest=True)


@writes("sklearn.DecisionTreeRegressor", "sklearn.ExtraTreeRegressor")
def tree_regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """One tree's values."""
    return _regress(walk, [model], table, forest=False)


@writes("sklearn.RandomForestRegressor", "sklearn.ExtraTreesRegressor")
def forest_regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The mean of the trees' values."""
    return _regress(walk, model.estimators_, table, forest=True)


def _regress(walk: Walk, members: Sequence[Any], table: Table, *, forest: bool) -> Answer:
    """Return a model for each target; each tree stands in all of them, with other leaves."""
    columns, count = matrix(walk.fields, table, F32), members[0].n_outputs_
    chain, given = [], []
    for place in range(count):
        given.append(walk.fields.reserve("prediction" if count == 1 else f"prediction_{place}"))
        trees = [regressing(grown(member, member.tree_.value[:, place]), columns) for member in members]
        made = (output(given[-1], "predictedValue"),)
        chain.append(combined(trees, "average", output=made) if forest else replace(trees[0], output=made))
    return Answer(chain=tuple(chain), outputs={"prediction": given[0] if count == 1 else list(given)})


@writes("sklearn.IsolationForest")
def isolation_forest(walk: Walk, model: Any, table: Table) -> Answer:
    """The mean depth of the leaves, as a power of two; 1 for an inlier and -1 for an outlier."""
    from sklearn.ensemble._iforest import _average_path_length

    columns, trees = matrix(walk.fields, table, F32), []
    for index, (member, features) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        depths = model._decision_path_lengths[index] + model._average_path_length_per_tree[index] - 1.0  # noqa: SLF001
        trees.append(regressing(grown(member, np.asarray(depths, np.float64), features), columns))
    depth, score = walk.fields.reserve("depth"), walk.fields.reserve("score")
    normal = len(model.estimators_) * float(_average_path_length([model._max_samples])[0])  # noqa: SLF001
    share = apply("/", reference(depth), constant(normal))
    power = apply("pow", constant(2.0), apply("-", constant(0.0), share))
    value = apply("-", apply("-", constant(0.0), power), constant(float(model.offset_)))
    made = (output(depth, "predictedValue"), output(score, "transformedValue", value))
    return chosen(walk.fields, [combined(trees, "sum", output=made)], [score], [-1, 1], "greaterOrEqual")


def added(
    walk: Walk, trees: Sequence[Tree], columns: Sequence[Column], start: Any, name: str, **about: Any
) -> tuple[list[Model], list[str]]:
    """Return a sum of trees for each number that is predicted, and its field.

    Args:
        walk: Of the model.
        trees: The predicted numbers take turns.
        columns: What they look at.
        start: What each sum starts from.
        name: Of the fields.
        about: More of :class:`Model`; ``mean`` takes the mean of the trees instead, and no start.
    """
    mean = about.pop("mean", False)
    starts = np.ravel(start)
    models, given = [], []
    for place, first in enumerate(starts):
        given.append(walk.fields.reserve(name if len(starts) == 1 else f"{name}_{place}"))
        attributes = about.get("attributes", {})
        members = [regressing(tree, columns, attributes) for tree in trees[place :: len(starts)]]
        members = members if mean else [stump(first), *members]
        made = (output(given[-1], "predictedValue", dtype="float" if attributes else "double"),)
        models.append(combined(members, "average" if mean else "sum", output=made, **about))
    return models, given


def _boosted(walk: Walk, model: Any, table: Table, name: str) -> tuple[list[Model], list[str]]:
    if model.init_ != "zero" and type(model.init_).__name__ not in {"DummyClassifier", "DummyRegressor"}:
        refuse("starts from another model (init=)", "leave init at its default")
    trees = [grown(one, model.learning_rate * one.tree_.value) for stage in model.estimators_ for one in stage]
    # The constant start is what the source itself computes for any row.
    start = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0]  # noqa: SLF001
    return added(walk, trees, matrix(walk.fields, table, F32), start, name)


@writes("sklearn.GradientBoostingRegressor")
def gradient_boosting_regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The start plus every stage."""
    chain, given = _boosted(walk, model, table, "prediction")
    return Answer(chain=tuple(chain), outputs={"prediction": given[0]})


@writes("sklearn.GradientBoostingClassifier")
def gradient_boosting_classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """The raw score, and its link."""
    if model.loss == "exponential":
        refuse("has the exponential loss", "use log_loss, or convert to onnx")
    chain, scores = _boosted(walk, model, table, "score")
    return shared(walk.fields, chain, scores, model.classes_, operator="greaterOrEqual")


def _histogram(walk: Walk, model: Any, table: Table, name: str) -> tuple[list[Model], list[str]]:
    if model._preprocessor is not None:  # noqa: SLF001 (no public name)
        refuse("numbers its categories by itself (categorical_features)", "encode them before the model")
    start = np.ravel(model._baseline_prediction)  # noqa: SLF001
    trees = [_histogram_tree(one) for predictors in model._predictors for one in predictors]  # noqa: SLF001
    return added(walk, trees, matrix(walk.fields, table, F64), start, name)


@writes("sklearn.HistGradientBoostingRegressor")
def histogram_regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The baseline plus every tree, through the inverse link of the loss."""
    link = type(model._loss.link).__name__  # noqa: SLF001 (the only place that says which link was taken)
    if link not in {"IdentityLink", "LogLink"}:
        refuse(f"has the link {link}", "use a loss with a log or identity link")
    if link == "IdentityLink":
        chain, given = _histogram(walk, model, table, "prediction")
        return Answer(chain=tuple(chain), outputs={"prediction": given[0]})
    chain, scores = _histogram(walk, model, table, "score")
    last, given = predicted(walk.fields, scores, [([1.0], 0.0)], many=False, method="exp")
    return Answer(chain=(*chain, *last), outputs={"prediction": given[0]})


@writes("sklearn.HistGradientBoostingClassifier")
def histogram_classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """The raw score, logistic or softmax."""
    chain, scores = _histogram(walk, model, table, "score")
    return shared(walk.fields, chain, scores, model.classes_)
