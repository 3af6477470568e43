"""CatBoost to ONNX: features in float32, leaves added in double.

CatBoost writes ONNX itself, but adds in float32 and ends in a list of dictionaries; its JSON form says all that is
needed to do better.

Source: CatBoost's JSON model, https://catboost.ai/docs/en/concepts/python-reference_catboost_save_model, and
``catboost/libs/model``
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._boosters.catboost import Features
from vitrify.transforms.convert._building.estimator import EstimatorToOnnx
from vitrify.transforms.convert._building.graph import F32, F64, I64, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._trees.ensemble import Mode, Tree, add_in_order, constant_tree

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.data import Data

_SEVERAL_LABELS = frozenset({"MultiLogloss", "MultiCrossEntropy"})


class CatBoostToOnnx(EstimatorToOnnx):
    """CatBoost's classes for classification, regression and ranking."""


@converts("catboost.CatBoostRegressor", "catboost.CatBoostRanker", "catboost.CatBoost")
def regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """The score, or its exponential where the loss asks for that."""
    graph = steps.graph
    asked = getattr(model, "_get_default_prediction_type", None)  # what predict itself asks; rankers do not
    kind = "RawFormulaVal" if asked is None else asked()
    if kind not in {"RawFormulaVal", "Exponent", "RMSEWithUncertainty"}:
        refuse(f"predicts {kind}", "use a loss that predicts a raw value or an exponent")
    read = _read(model)
    raw = _raw(steps, read, data)
    if kind == "RMSEWithUncertainty":  # the mean, and the variance from the logarithm of the deviation
        mean, deviation = (graph.gather(raw, np.array([place]), axis=1) for place in range(2))
        variance = graph.unary("Exp", graph.binary("Mul", deviation, 2.0))
        return Outcome(prediction=graph.concat([mean, variance]))
    answer = graph.vector(raw) if _width(read) == 1 else raw
    return Outcome(prediction=graph.unary("Exp", answer) if kind == "Exponent" else answer)


@converts("catboost.CatBoostClassifier")
def classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """The larger score; logistic for two classes or one against the rest, else softmax."""
    graph, read = steps.graph, _read(model)
    classes = np.asarray(model.classes_)
    loss = str(model.get_all_params().get("loss_function", ""))
    name = loss.partition(":")[0]
    if name not in {"Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll", *_SEVERAL_LABELS}:
        refuse(f"classifies with the loss {loss}", "use Logloss, MultiClass or MultiClassOneVsAll")
    raw = _raw(steps, read, data)
    if name in _SEVERAL_LABELS:
        above = graph.cast(graph.compare("Greater", raw, 0.0), I64)
        decided = [graph.gather(above, np.array(label), axis=1) for label in range(_width(read))]
        parts = tuple(Outcome(index=one, classes=np.arange(2)) for one in decided)
        return Outcome(parts=parts, probability=graph.sigmoid(raw))
    if _width(read) > 1:
        if loss.startswith("MultiClassOneVsAll"):
            probability = graph.sigmoid(raw)
        else:
            probability = graph.unary("Softmax", raw, axis=1)
        return Outcome(index=graph.argmax(raw), classes=classes, probability=probability)
    score = graph.vector(raw)
    border = model.get_probability_threshold()
    cut = 0.0 if border is None else float(np.log(border / (1 - border)))
    column = graph.column(score)
    both = graph.concat([graph.unary("Neg", column), column])
    index = graph.cast(graph.compare("Greater", score, cut), I64)
    return Outcome(index=index, classes=classes, probability=graph.sigmoid(both))


def _read(model: Any) -> dict[str, Any]:
    """Return the model's JSON form.

    Raises:
        UnsupportedModelError: It uses features that are no numbers and no categories.
    """
    asked = (("text", model.get_text_feature_indices()), ("embedding", model.get_embedding_feature_indices()))
    if kinds := [kind for kind, places in asked if len(places)]:
        remedy = (
            "encode them before the model (TfidfVectorizer)" if "text" in kinds else "give them as columns of numbers"
        )
        refuse(f"has {' and '.join(kinds)} features, which CatBoost encodes by itself", remedy)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.json")
        model.save_model(str(path), format="json")
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def _width(read: dict[str, Any]) -> int:
    return len(read["scale_and_bias"][1])


def _raw(steps: Steps, read: dict[str, Any], data: Data) -> Tensor:
    """Return ``scale * (tree 1 + tree 2 + ...) + bias``: (rows, outputs)."""
    graph = steps.graph
    features = Features(graph, read, data)
    width = _width(read)
    if "oblivious_trees" in read:
        trees = [_oblivious(tree, features, width) for tree in read["oblivious_trees"]]
    else:
        trees = [_grown(tree, features, width) for tree in read["trees"]]
    total = add_in_order(graph, trees, features.matrix(), None)
    scale, bias = read["scale_and_bias"]
    if scale != 1:
        total = graph.binary("Mul", total, float(scale))
    return graph.binary("Add", total, np.array(bias, F64)) if any(bias) else total


def _oblivious(tree: dict[str, Any], features: Features, width: int) -> Tree:
    """Return a tree all of whose levels ask one question; the answers are the bits of the leaf's number."""
    splits = tree["splits"] or []
    depth = len(splits)
    inner = 2**depth - 1
    values = np.array(tree["leaf_values"], F64).reshape(-1, width)
    if depth == 0:
        return constant_tree(values[0])
    level = np.floor(np.log2(np.arange(1, inner + 1))).astype(int)
    asked = [features.split(split) for split in splits]
    column, missing, border = (np.array(values) for values in zip(*asked, strict=True))
    # In level order, node i's true child is 2i+1: the path to the n-th leaf is n's bits, first level first, inverted.
    path = np.arange(2**depth)
    leaf = np.zeros(2**depth, int)
    for bit in range(depth):
        leaf |= (~(path >> (depth - 1 - bit)) & 1) << bit
    end = np.full(2**depth, -1)
    pad = np.zeros(2**depth, int)
    return Tree(
        feature=np.append(column[level], pad),
        threshold=np.append(border[level], pad).astype(F32),
        left=np.append(2 * np.arange(inner) + 1, end),
        right=np.append(2 * np.arange(inner) + 2, end),
        missing_left=np.append(missing[level], pad).astype(bool),
        value=np.concatenate([np.zeros((inner, width)), values[leaf]]),
        mode=np.full(inner + 2**depth, int(Mode.GREATER)),
    )


def _grown(tree: dict[str, Any], features: Features, width: int) -> Tree:
    """Return a tree that was grown node by node; above the border goes right in CatBoost, and left here."""
    nodes: list[dict[str, Any]] = []
    children: list[tuple[int, int]] = []
    waiting = [(tree, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        place = len(nodes)
        nodes.append(node)
        children.append((-1, -1))
        if parent >= 0:
            known = children[parent]
            children[parent] = (place, known[1]) if side == 0 else (known[0], place)
        if "split" in node:
            waiting += [(node["right"], place, 0), (node["left"], place, 1)]
    inner = [index for index, node in enumerate(nodes) if "split" in node]
    asked = [features.split(nodes[index]["split"]) for index in inner]
    feature, missing = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), bool)
    threshold = np.zeros(len(nodes), F32)
    if asked:
        feature[inner], missing[inner], threshold[inner] = (np.array(values) for values in zip(*asked, strict=True))
    value = np.array([np.broadcast_to(node.get("value", 0), width) for node in nodes], F64)
    return Tree(
        feature=feature,
        threshold=threshold,
        left=np.array([first for first, _ in children]),
        right=np.array([second for _, second in children]),
        missing_left=missing,
        value=value,
        mode=np.full(len(nodes), int(Mode.GREATER)),
    )
