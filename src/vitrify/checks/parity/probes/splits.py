"""Splits: the thresholds of trees that read the inputs as they are, taken from the live model.

Nothing is imported: a model is recognised by what it has, so that no framework is loaded for another's sake.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


def splits(model: Any) -> dict[int, NDArray[np.float64]]:
    """Return the thresholds by position of the input column; empty for a model that has no trees.

    Scikit-learn trees and ensembles (also inside a search), XGBoost, LightGBM and CatBoost are understood. Trees
    behind a scaler or an encoder are not: what they compare is no input (see :mod:`.jumps`).
    """
    found: dict[int, set[float]] = {}
    for feature, threshold in _pairs(model):
        found.setdefault(int(feature), set()).add(float(threshold))
    return {feature: np.array(sorted(values)) for feature, values in sorted(found.items()) if feature >= 0}


def _pairs(model: Any) -> Iterator[tuple[int, float]]:
    root = type(model).__module__.partition(".")[0]
    if root == "xgboost":
        yield from _xgboost(model.get_booster() if hasattr(model, "get_booster") else model)
    elif root == "lightgbm":
        yield from _lightgbm(getattr(model, "booster_", model))
    elif root == "catboost":
        yield from ((f, t) for f, borders in (model.get_borders() or {}).items() for t in borders)
    elif root == "sklearn":
        yield from _sklearn(model)


def _sklearn(model: Any) -> Iterator[tuple[int, float]]:
    if hasattr(model, "best_estimator_"):
        yield from _pairs(model.best_estimator_)
    elif hasattr(getattr(model, "tree_", None), "children_left"):  # KernelDensity calls something else a tree
        inner = model.tree_.children_left >= 0
        yield from zip(model.tree_.feature[inner], model.tree_.threshold[inner], strict=True)
    elif hasattr(model, "_predictors"):
        for tree in (tree for stage in model._predictors for tree in stage):  # noqa: SLF001 (no public way in)
            inner = (tree.nodes["is_leaf"] == 0) & (tree.nodes["is_categorical"] == 0)
            yield from zip(tree.nodes["feature_idx"][inner], tree.nodes["num_threshold"][inner], strict=True)
    elif hasattr(model, "estimators_"):
        for part in np.asarray(model.estimators_, dtype=object).reshape(-1):
            yield from _pairs(part)
    elif hasattr(model, "calibrated_classifiers_"):
        for part in model.calibrated_classifiers_:
            yield from _pairs(part.estimator)


def _xgboost(booster: Any) -> Iterator[tuple[int, float]]:
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
    for tree in learner.get("gbtree", learner).get("model", {}).get("trees", []):
        numeric = tree.get("split_type") or [0] * len(tree["left_children"])
        nodes = zip(tree["left_children"], tree["split_indices"], tree["split_conditions"], numeric, strict=True)
        for left, feature, threshold, kind in nodes:
            if left >= 0 and kind == 0:
                yield feature, float(np.float32(threshold))  # the shortest text that reads back as the float32


def _lightgbm(booster: Any) -> Iterator[tuple[int, float]]:
    lines: dict[str, list[str]] = {}
    for line in booster.model_to_string().splitlines():
        key, _, value = line.partition("=")
        lines[key] = value.split()
        if key == "decision_type":
            yield from _numerical(lines["split_feature"], lines["threshold"], lines["decision_type"])


def _numerical(
    features: Iterable[str], thresholds: Iterable[str], decisions: Iterable[str]
) -> Iterator[tuple[int, float]]:
    """Leave out categorical splits: bit 0 of LightGBM's decision type."""
    for feature, threshold, decision in zip(features, thresholds, decisions, strict=True):
        if not int(decision) & 1:
            yield int(feature), float(threshold)
