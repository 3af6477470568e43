"""A tree of any source as a ``TreeModel``: the first child whose predicate holds, and a default where that is unknown.

Zero has two signs, and the order of Java's numbers knows them: below zero is written as below minus zero.

Source: https://dmg.org/pmml/v4-4-1/TreeModel.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import array, element
from vitrify.transforms.convert._pmml.fields import F32
from vitrify.transforms.convert._pmml.models import Model
from vitrify.transforms.convert._pmml.walk import refuse
from vitrify.transforms.convert._trees.ensemble import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Column
    from vitrify.transforms.convert._trees.ensemble import Tree

    Leaf = Callable[[int], tuple[Any, list[Element]]]

_OPERATORS = {Mode.LESS_OR_EQUAL: "lessOrEqual", Mode.LESS: "lessThan", Mode.GREATER: "greaterThan"}
_DEEPEST = 200
"""Levels of a tree; readers bound how deep elements nest."""


def regressing(tree: Tree, columns: Sequence[Column], attributes: Mapping[str, Any] | None = None) -> Model:
    """Return a tree whose leaves hold one number."""
    return _model(tree, columns, "regression", lambda node: (tree.value[node, 0], []), attributes)


def classifying(tree: Tree, columns: Sequence[Column], classes: tuple[Any, ...]) -> Model:
    """Return a tree whose leaves hold the share of each class."""

    def leaf(node: int) -> tuple[Any, list[Element]]:
        shares = tree.value[node]
        return classes[int(np.argmax(shares))], [
            element("ScoreDistribution", {"value": label, "recordCount": float(share), "probability": float(share)})
            for label, share in zip(classes, shares, strict=True)
        ]

    model = _model(tree, columns, "classification", leaf, None)
    return replace(model, classes=classes)


def stump(value: Any) -> Model:
    """Return a tree of one leaf: a constant among trees that are added."""
    content = element("Node", {"score": value}, element("True"))
    return Model("TreeModel", "regression", (), (content,))


def _model(
    tree: Tree, columns: Sequence[Column], function: str, leaf: Leaf, attributes: Mapping[str, Any] | None
) -> Model:
    root = element("Node", {"id": "0"}, element("True"))
    waiting = [(0, root, 0)]
    used: set[int] = set()
    while waiting:
        node, made, depth = waiting.pop()
        if depth > _DEEPEST:
            refuse(f"has a tree of more than {_DEEPEST} levels", "train it with a smaller max_depth")
        if tree.left[node] < 0:
            score, shares = leaf(node)
            made.set("score", element("Node", {"score": score}).attrib["score"])
            made.extend(shares)
            continue
        feature = int(tree.feature[node])
        used.add(feature)
        left, right = int(tree.left[node]), int(tree.right[node])
        made.set("defaultChild", str(left if tree.missing_left[node] else right))
        children = [(left, _predicate(tree, node, columns[feature])), (right, element("True"))]
        for child, predicate in children:
            grown = element("Node", {"id": str(child)}, predicate)
            made.append(grown)
            waiting.append((child, grown, depth + 1))
    about = {
        "missingValueStrategy": "defaultChild",
        "noTrueChildStrategy": "returnLastPrediction",
        **(attributes or {}),
    }
    names = tuple(columns[feature].name for feature in sorted(used))
    return Model("TreeModel", function, tuple(dict.fromkeys(names)), (root,), attributes=about)


def _predicate(tree: Tree, node: int, column: Column) -> Element:
    mode = Mode(int(tree.mode[node]))
    if mode == Mode.MEMBER:
        values = sorted(float(value) for value in (tree.members or {})[node])
        return element("SimpleSetPredicate", {"field": column.name, "booleanOperator": "isIn"}, array(values))
    if tree.threshold[node] == np.inf and mode == Mode.LESS_OR_EQUAL:  # all that is there
        operator = {"field": column.name, "operator": "isNotMissing"}
        return element("True") if tree.missing_left[node] else element("SimplePredicate", operator)
    return element(
        "SimplePredicate",
        {"field": column.name, "operator": _OPERATORS[mode], "value": _threshold(tree.threshold[node], mode, column)},
    )


def _threshold(value: Any, mode: Mode, column: Column) -> Any:
    """Return what is compared with: in float32, the number on the side of it where no other lies between."""
    number = float(value)
    if column.dtype == F32:
        with np.errstate(over="ignore"):
            value = np.float32(number)
        if float(value) > number and mode != Mode.LESS:  # x < t is x < the number above t, which this then is
            value = np.nextafter(value, np.float32(-np.inf))
        elif float(value) < number and mode == Mode.LESS:
            value = np.nextafter(value, np.float32(np.inf))
    if value == 0:
        return type(value)(-0.0) if mode == Mode.LESS else type(value)(0.0)
    return value
