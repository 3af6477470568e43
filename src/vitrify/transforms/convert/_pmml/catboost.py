"""CatBoost: compared in float32, added in double.

Source: CatBoost's JSON model, https://catboost.ai/docs/en/concepts/python-reference_catboost_save_model
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.decisions import against_the_rest, shared
from vitrify.transforms.convert._pmml.fields import F32
from vitrify.transforms.convert._pmml.linear import predicted
from vitrify.transforms.convert._pmml.matrices import matrix
from vitrify.transforms.convert._pmml.trees import added
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes
from vitrify.transforms.convert.catboost_onnx import _grown, _oblivious, _read, _width

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Table
    from vitrify.transforms.convert._pmml.models import Model
    from vitrify.transforms.convert._trees.ensemble import Tree


class _Numbers:
    """Where each split finds its number; the part of the ONNX converter's features that concerns numbers alone."""

    def __init__(self, read: dict[str, Any]) -> None:
        info = read["features_info"]
        if info.get("categorical_features"):
            refuse("has categories, which CatBoost hashes", "convert it to onnx, which carries them")
        floats = info.get("float_features", [])
        self._places = {item["feature_index"]: item["flat_feature_index"] for item in floats}
        self._missing = {item["feature_index"]: item["nan_value_treatment"] == "AsTrue" for item in floats}

    def split(self, split: dict[str, Any]) -> tuple[int, bool, float]:
        """Return the column that a split compares, whether NaN is above its border there, and the border."""
        feature = split["float_feature_index"]
        return self._places[feature], self._missing[feature], split["border"]


@writes("catboost.CatBoostRegressor", "catboost.CatBoostRanker", "catboost.CatBoost")
def regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The score, or its exponential where the loss asks for that."""
    asked = getattr(model, "_get_default_prediction_type", None)  # what predict itself asks; rankers do not
    kind = "RawFormulaVal" if asked is None else asked()
    if kind not in {"RawFormulaVal", "Exponent"}:
        refuse(f"predicts {kind}", "use a loss that predicts a raw value or an exponent")
    plain = kind == "RawFormulaVal"
    chain, given = _score(walk, model, table, "prediction" if plain else "score")
    if not plain:
        last, given = predicted(walk.fields, given, [([1.0], 0.0)], many=False, method="exp")
        chain = [*chain, *last]
    return Answer(chain=tuple(chain), outputs={"prediction": given if len(given) > 1 else given[0]})


@writes("catboost.CatBoostClassifier")
def classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """The larger score; logistic for two classes, else softmax."""
    loss = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    if loss not in {"Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll"}:
        refuse(f"classifies with the loss {loss}", "use Logloss, MultiClass or MultiClassOneVsAll, or convert to onnx")
    if model.get_probability_threshold() not in {None, 0.5}:
        refuse("decides at a probability of its own", "set_probability_threshold(0.5)")
    chain, scores = _score(walk, model, table, "score")
    if loss == "MultiClassOneVsAll":
        answer = against_the_rest(walk.fields, chain, scores, model.classes_, whole=False)
    else:
        answer = shared(walk.fields, chain, scores, model.classes_)
    if len(scores) > 1:  # CatBoost gives these labels as a matrix of one column
        answer.outputs["label"] = [str(answer.outputs["label"])]
    return answer


def _score(walk: Walk, model: Any, table: Table, name: str) -> tuple[list[Model], list[str]]:
    """Return ``scale * (tree 1 + tree 2 + ...) + bias``, the bias being one more tree."""
    read = _read(model)
    numbers: Any = _Numbers(read)  # stands in for the ONNX converter's features
    width = _width(read)
    scale, bias = read["scale_and_bias"]
    if scale != 1:
        refuse(f"scales its sum by {scale}", "set_scale_and_bias(1, bias)")
    if "oblivious_trees" in read:
        trees = [_oblivious(tree, numbers, width) for tree in read["oblivious_trees"]]
    else:
        trees = [_grown(tree, numbers, width) for tree in read["trees"]]
    columns = matrix(walk.fields, table, F32)
    apart = [_of(tree, place) for tree in trees for place in range(width)]
    return added(walk, apart, columns, np.broadcast_to(np.asarray(bias, np.float64), width), name)


def _of(tree: Tree, place: int) -> Tree:
    return replace(tree, value=tree.value[:, place : place + 1])
