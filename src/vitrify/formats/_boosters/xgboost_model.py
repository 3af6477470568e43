"""An XGBoost model file (UBJSON or JSON), read and checked without XGBoost.

XGBoost trusts the numbers inside: a cycle of children hangs its prediction, a feature or category beyond the end
reads foreign memory. So the structure is checked before the library sees a byte.

Source: XGBoost's model schema, https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.formats._boosters import tree_nodes, ubjson
from vitrify.formats._boosters.expectation import expect
from vitrify.reading import json

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_FEATURES = 2**31
_MAX_GROUPS = 2**20
_MAX_CATEGORIES = 2**24
"""XGBoost's own limit: categories travel as 32-bit floats."""
_NONE = -1
_NO_PARENT = (-1, 2**31 - 1)
_OF_NODE = (
    "right_children",
    "parents",
    "split_indices",
    "split_conditions",
    "default_left",
    "sum_hessian",
    "loss_changes",
)
_CATEGORIES = ("categories_nodes", "categories_segments", "categories_sizes")


@dataclass(frozen=True)
class XGBoostModel:
    """What a model file says about itself.

    Attributes:
        version: Of the library that wrote it.
        booster: ``gbtree``, ``dart`` or ``gblinear``.
        objective: XGBoost's name for it.
        features: Number of features.
        names: Their names; empty where the data had none.
        types: Their types, ``c`` for a category; empty where the data had none.
        classes: Number of classes; 0 where it is no multi-class model.
        trees: Number of trees; 0 for a linear model.
        nodes: Number of their nodes; for a linear model, of its weights.
        attributes: What Python attached to it as text, among it ``best_iteration``.
        end: Where a binary file ends; None for one that is read to its last byte.
    """

    version: str
    booster: str
    objective: str
    features: int
    names: tuple[str, ...]
    types: tuple[str, ...]
    classes: int
    trees: int
    nodes: int
    attributes: dict[str, str]
    end: int | None = None


def parse(data: bytes | memoryview, *, where: str) -> XGBoostModel:
    """Parse and check a whole model file.

    Raises:
        MalformedError: It is no model of XGBoost, or one whose prediction would leave its own memory or never end.
    """
    binary = bytes(data[:2]) == b"{L"
    return check(ubjson.parse(data, where=where) if binary else json.parse(data, where=where), where=where)


def check(raw: Any, *, where: str) -> XGBoostModel:
    """Check a model that was parsed.

    Raises:
        MalformedError: It is no model of XGBoost, or one whose prediction would leave its own memory or never end.
    """
    try:
        model = _model(raw)
        _check_booster(raw["learner"]["gradient_booster"], model, raw["learner"], where)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, RecursionError) as error:
        msg = f"{where}: not a model of XGBoost, or a broken one ({type(error).__name__}: {error})"
        raise MalformedError(msg) from error
    return model


def _model(raw: dict[str, Any]) -> XGBoostModel:
    learner = raw["learner"]
    parameters = learner["learner_model_param"]
    booster = learner["gradient_booster"]
    return XGBoostModel(
        version=".".join(str(int(part)) for part in raw["version"]),
        booster=str(booster["name"]),
        objective=str(learner["objective"]["name"]),
        features=_bounded(parameters["num_feature"], _MAX_FEATURES, "features"),
        names=tuple(map(str, learner.get("feature_names", ()))),
        types=tuple(map(str, learner.get("feature_types", ()))),
        classes=_bounded(parameters["num_class"], _MAX_GROUPS, "classes"),
        trees=len(_trees(booster).get("trees", ())),
        nodes=_nodes(_trees(booster)),
        attributes={str(key): str(value) for key, value in learner.get("attributes", {}).items()},
    )


def _bounded(text: Any, limit: int, what: str) -> int:
    number = int(text)
    if not 0 <= number < limit:
        msg = f"{number} {what}"
        raise ValueError(msg)
    return number


def _trees(booster: dict[str, Any]) -> dict[str, Any]:
    model: dict[str, Any] = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    return model


def _nodes(content: dict[str, Any]) -> int:
    linear = len(content.get("weights", ()))
    return linear + sum(len(tree["left_children"]) for tree in content.get("trees", ()))


def _check_booster(booster: dict[str, Any], model: XGBoostModel, learner: dict[str, Any], where: str) -> None:
    targets = _bounded(learner["learner_model_param"].get("num_target", 1), _MAX_GROUPS, "targets")
    groups = max(model.classes, targets, 1)
    content = _trees(booster)
    if model.booster == "gblinear":
        expect(
            len(content["weights"]) == (model.features + 1) * groups, where, "as many weights as features and groups"
        )
        return
    expect(model.booster in {"gbtree", "dart"}, where, "one of the boosters gbtree, dart and gblinear")
    expect(int(content["gbtree_model_param"]["num_trees"]) == model.trees, where, "as many trees as it says")
    group = _integers(content["tree_info"])
    expect(len(group) == model.trees and _within(group, groups), where, "for each tree a group that exists")
    if "iteration_indptr" in content:
        ends = _integers(content["iteration_indptr"])
        # An empty model has no first end in some versions.
        right = len(ends) == 0 or (ends[0] == 0 and ends[-1] == model.trees and bool(np.all(np.diff(ends) >= 0)))
        expect(right, where, "iterations that cover the trees")
    if model.booster == "dart":
        expect(len(booster["weight_drop"]) == model.trees, where, "a weight for each tree")
    _check_encoding(content.get("cats", {}), model.features, where)
    for index, tree in enumerate(content["trees"]):
        _check_tree(tree, model.features, f"{where}: tree {index}")


def _check_tree(tree: dict[str, Any], features: int, where: str) -> None:
    left, right = _integers(tree["left_children"]), _integers(tree["right_children"])
    count = len(left)
    expect(count == int(tree["tree_param"]["num_nodes"]) and count > 0, where, "as many nodes as it says")
    expect(all(len(tree[name]) == count for name in _OF_NODE), where, "one value a node")
    split = left != _NONE
    expect(bool(np.all((left[split] >= 0) & (right[split] >= 0))), where, "two children or none")
    tree_nodes.check(np.where(split, left, -1), np.where(split, right, -1), where=where)
    parents, inner = _integers(tree["parents"]), np.flatnonzero(split)
    known = parents[0] in _NO_PARENT and np.array_equal(parents[left[inner]], inner)
    expect(known and np.array_equal(parents[right[inner]], inner), where, "children that know their parent")
    expect(_within(_integers(tree["split_indices"])[split], features), where, "splits on features that exist")
    width = int(tree["tree_param"].get("size_leaf_vector", 1))
    if width > 1 and "leaf_weights" in tree:
        # The right child of a leaf is the place of its vector.
        expect(_within(right[~split], len(tree["leaf_weights"]) // width), where, "leaves that exist")
    else:
        # Before 3.2 the vectors of leaves stood with those of the other nodes.
        expect(width == 1 or bool(np.all(right[~split] == _NONE)), where, "leaves without children")
        expect(len(tree["base_weights"]) == count * width, where, "a value for each node")
    _check_categories(tree, count, where)


def _check_categories(tree: dict[str, Any], count: int, where: str) -> None:
    nodes, starts, sizes = (_integers(tree.get(name, ())) for name in _CATEGORIES)
    total = len(tree.get("categories", ()))
    expect(len(nodes) == len(starts) == len(sizes) and _within(nodes, count), where, "categories of nodes that exist")
    inside = (starts >= 0) & (sizes >= 0) & (starts <= total) & (sizes <= total - starts)
    expect(bool(np.all(inside)), where, "categories that exist")
    expect(_within(_integers(tree.get("categories", ())), _MAX_CATEGORIES), where, "categories that XGBoost can count")
    if "split_type" in tree:
        categorical = np.flatnonzero(_integers(tree["split_type"]))
        expect(bool(np.isin(categorical, nodes).all()), where, "categories for each categorical split")


def _check_encoding(cats: dict[str, Any], features: int, where: str) -> None:
    """Check the categories of the training frame: for each feature its values, and their places in sorted order."""
    columns = cats.get("enc", ())
    ends = _integers(cats.get("feature_segments", ()))
    if len(columns) == 0:
        return
    expect(len(columns) == features and len(ends) == features + 1 and ends[0] == 0, where, "categories of each feature")
    places = _integers(cats["sorted_idx"])
    expect(bool(np.all(np.diff(ends) >= 0)) and ends[-1] == len(places), where, "a place for each category")
    for column, start, end in zip(columns, ends[:-1], ends[1:], strict=True):
        expect(np.array_equal(np.sort(places[start:end]), np.arange(end - start)), where, "each category in one place")
        values = column["values"]
        if "offsets" in column and end > start:  # text, one after another
            bounds = _integers(column["offsets"])
            fits = len(bounds) == end - start + 1 and bounds[0] == 0 and bounds[-1] == len(values)
            expect(fits and bool(np.all(np.diff(bounds) >= 0)), where, "text that lies one after another")
        else:
            expect(len(values) == end - start, where, "a value for each category")


def _integers(values: Any) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
        msg = f"a list of integers was expected, not {array.dtype}{list(array.shape)}"
        raise TypeError(msg)
    return array.astype(np.int64)


def _within(values: NDArray[np.int64], limit: int) -> bool:
    return bool(np.all((values >= 0) & (values < limit)))
