"""What an XGBoost booster says of itself: its trees or weights, its base score, its categories.

Source: XGBoost's model schema, https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html, and
``src/predictor/cpu_predictor.cc``, ``src/common/categorical.h``, ``src/data/cat_container.h``
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import F32, Array
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._trees.ensemble import Mode, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

IDENTITY = frozenset(
    {
        *("reg:squarederror", "reg:linear", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror"),
        *("reg:quantileerror", "reg:expectileerror", "rank:ndcg", "rank:map", "rank:pairwise"),
        *("binary:logitraw", "binary:hinge"),
    }
)
LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
EXPONENTIAL = frozenset({"count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"})
SOFTMAX = frozenset({"multi:softprob", "multi:softmax"})


@dataclass(frozen=True)
class Model:
    """A booster, read.

    Attributes:
        objective: XGBoost's name for it.
        width: Numbers that it answers with, one a class or target.
        start: The base score of each, on the scale that the trees are added on.
        trees: In the order in which they are added; the groups take turns.
        vector: Whether each leaf holds a number for every class or target.
        weights: Of a linear booster: (features + 1, width), the bias last; else None.
        categories: By feature, the training frame's categories in the order of their numbers.
        categorical: The features that a tree asks for membership in a set.
    """

    objective: str
    width: int
    start: Array
    trees: tuple[Tree, ...] = ()
    vector: bool = False
    weights: Array | None = None
    categories: dict[int, list[Any]] = field(default_factory=dict)
    categorical: frozenset[int] = frozenset()


def read(native: Any, rounds: int | None, *, in_place: bool) -> Model:
    """Read a booster.

    Args:
        native: The booster.
        rounds: How many rounds count; None for all.
        in_place: Whether it is asked by ``inplace_predict``, as estimators ask, and not with a DMatrix. DART then
            predicts each tree on top of the base score, takes that off again, and weighs what is left.

    Raises:
        UnsupportedModelError: Its objective is none of XGBoost's own.
    """
    learner = json.loads(native.save_raw(raw_format="json"))["learner"]
    objective: str = learner["objective"]["name"]
    if objective not in IDENTITY | LOGISTIC | EXPONENTIAL | SOFTMAX:
        refuse(f"has the objective {objective}", "use one of XGBoost's usual objectives")
    parameters = learner["learner_model_param"]
    width = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
    score = np.atleast_1d(np.array(json.loads(parameters["base_score"]), F32))
    gradient = learner["gradient_booster"]
    start = np.broadcast_to(score if _is_unset(gradient, parameters) else _margin(objective, score), width)
    if gradient["name"] == "gblinear":
        weights = np.asarray(gradient["model"]["weights"], F32).reshape(-1, width)
        # XGBoost adds the first base score to every group's sum here.
        return Model(objective, width, np.broadcast_to(start[0], width), weights=weights)
    dart = gradient["name"] == "dart"
    forest = (gradient["gbtree"] if dart else gradient)["model"]
    ends = forest["iteration_indptr"]
    count = len(forest["trees"]) if rounds is None else ends[min(rounds, len(ends) - 1)]
    raw = forest["trees"][:count]
    order = _in_turns(forest["tree_info"][:count])
    base = start if in_place else np.zeros_like(start)
    weights_of = gradient["weight_drop"] if dart else [None] * count
    return Model(
        objective,
        width,
        start,
        trees=tuple(_tree(raw[place], weights_of[place], base[group]) for place, group in order),
        vector=any(_leaf_width(tree) > 1 for tree in raw),
        categories=_categories(forest.get("cats", {})),
        categorical=frozenset(tree["split_indices"][node] for tree in raw for node in tree["categories_nodes"]),
    )


def _is_unset(gradient: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    """Return whether the base score waits for a first round that never came: XGBoost then adds it as it stands."""
    forest = gradient.get("gbtree", gradient)["model"]
    return not forest.get("trees", True) and parameters.get("boost_from_average") == "1"


def _margin(objective: str, base: Array) -> Array:
    """Return the base score on the scale that the trees are added on."""
    if objective in LOGISTIC:
        return -_log(np.float32(1.0) / base - np.float32(1.0))
    return _log(base) if objective in EXPONENTIAL else base


def _log(x: Array) -> Array:
    """Return the logarithm, right to the last bit of float32 as the C library's is; NumPy's own is not."""
    with np.errstate(divide="ignore"):
        logarithm: Array = np.log(x.astype(np.float64)).astype(F32)
    return logarithm


def _in_turns(groups: list[int]) -> list[tuple[int, int]]:
    """Return the trees' places and groups so that the groups take turns; within a group the order stays."""
    seen: Counter[int] = Counter()
    keys = []
    for place, group in enumerate(groups):
        keys.append((seen[group], group, place))
        seen[group] += 1
    return [(place, group) for _, group, place in sorted(keys)]


def _leaf_width(tree: Mapping[str, Any]) -> int:
    return int(tree["tree_param"].get("size_leaf_vector", 1))


def _tree(tree: Mapping[str, Any], weight: float | None, base: Any) -> Tree:
    left, right = np.asarray(tree["left_children"], np.int64), np.asarray(tree["right_children"], np.int64)
    value = _values(tree, left < 0, right)
    if weight is not None:
        value = ((value + base) - base) * np.float32(weight)
    inner = left >= 0
    missing = np.asarray(tree["default_left"], bool)
    # What is in the set goes right, so the two ways change places.
    member = np.zeros(len(left), bool)
    member[np.asarray(tree["categories_nodes"], np.int64)] = True
    return Tree(
        feature=np.asarray(tree["split_indices"], np.int64),
        threshold=np.asarray(tree["split_conditions"], F32),
        left=np.where(member, right, left),
        right=np.where(member, left, np.where(inner, right, -1)),
        missing_left=missing ^ member,
        value=value,
        mode=np.where(member, int(Mode.MEMBER), int(Mode.LESS)),
        members=_members(tree),
    )


def _values(tree: Mapping[str, Any], leaf: Array, right: Array) -> Array:
    """Return what each node holds: (nodes, width)."""
    width = _leaf_width(tree)
    if width == 1:
        return np.asarray(tree["split_conditions"], F32).reshape(-1, 1)
    if "leaf_weights" not in tree:  # before 3.2
        return np.asarray(tree["base_weights"], F32).reshape(-1, width)
    value = np.zeros((len(leaf), width), F32)
    value[leaf] = np.asarray(tree["leaf_weights"], F32).reshape(-1, width)[right[leaf]]
    return value


def _members(tree: Mapping[str, Any]) -> dict[int, list[float]]:
    """Return the set of each node that asks for a category."""
    segments = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    return {
        node: [float(value) for value in tree["categories"][start : start + size]] for node, start, size in segments
    }


def _categories(cats: Mapping[str, Any]) -> dict[int, list[Any]]:
    """Return the categories of the training frame's columns; text lies there as one string of bytes."""
    found: dict[int, list[Any]] = {}
    ends = cats.get("feature_segments", ())
    for feature, column in enumerate(cats.get("enc", ())):
        if ends[feature + 1] == ends[feature]:
            continue
        if "offsets" in column:
            text = np.asarray(column["values"], np.int8).tobytes()
            bounds = column["offsets"]
            found[feature] = [text[a:b].decode(errors="replace") for a, b in pairwise(bounds)]
        else:
            found[feature] = column["values"]
    return found
