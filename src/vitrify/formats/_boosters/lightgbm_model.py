"""A LightGBM text model, read and checked without LightGBM.

LightGBM jumps to each tree by a size that the file states, and follows children, features and categories by number
without looking: a wrong one reads foreign memory or never ends. So all of them are checked before it sees a byte.

Source: ``GBDT::SaveModelToString`` and ``Tree::ToString`` of LightGBM (``src/boosting/gbdt_model_text.cpp``,
``src/io/tree.cpp``), format v2 to v4.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow
from vitrify.formats._boosters import tree_nodes
from vitrify.formats._boosters.expectation import expect

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEAD = b"tree\nversion="
"""How each such file starts."""
_END = b"\nend of trees\n"
_TREE = re.compile(rb"^Tree=(.*)$", re.MULTILINE)
_NUMBERS = re.compile(rb"(?:[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf|nan)(?: +|$))*")
_PARAMETERS_OF, _PARAMETERS_END = b"parameters:", b"end of parameters"
_PARAMETER = re.compile(rb"\[\w+: [^\n]*\]")
_CATEGORIES = b"\npandas_categorical:"
_CATEGORICAL = 1
"""The bit of ``decision_type`` that says that a threshold is a place in the list of categories."""
_MAX_FEATURES = 2**31 - 1
_PARAMETERS = 1 << 20
"""Bytes after the trees in which the training's parameters stand."""


@dataclass(frozen=True)
class LightGBMModel:
    """What a model file says about itself.

    Attributes:
        version: Of the format, ``v4``.
        objective: LightGBM's name for it, with its parameters; empty for a custom one.
        names: The names of the features.
        classes: Number of outputs a row.
        trees: Number of trees.
        leaves: Number of their leaves.
        ranges: For each feature what the training saw: ``[0:1]``, ``1:2:3`` for a category, ``none``.
        boosting: What made them: ``gbdt``, ``dart``, ``rf``; empty where the file does not say.
        categories: For each categorical column of the training frame its categories; None where it was no frame.
    """

    version: str
    objective: str
    names: tuple[str, ...]
    classes: int
    trees: int
    leaves: int
    ranges: tuple[str, ...]
    boosting: str
    categories: list[list[Any]] | None


def parse(data: bytes, *, where: str) -> LightGBMModel:
    """Parse and check a whole model file.

    Raises:
        MalformedError: It is no model of LightGBM, or one whose prediction would leave its own memory or never end.
    """
    try:
        return _parse(data, where)
    except (KeyError, ValueError, OverflowError, IndexError, RecursionError) as error:
        msg = f"{where}: not a model of LightGBM, or a broken one ({type(error).__name__}: {error})"
        raise MalformedError(msg) from error


def categories(data: bytes) -> list[list[Any]] | None:
    """Return the categories of the training frame's columns, which LightGBM's Python side writes at the end as JSON.

    Raises:
        ValueError: They are no JSON, or no lists.
    """
    at = data.rfind(_CATEGORIES)
    found = None if at < 0 else json.loads(shallow(data[at + len(_CATEGORIES) :]))
    if found is not None and not (isinstance(found, list) and all(isinstance(column, list) for column in found)):
        msg = "categories that are no lists"
        raise ValueError(msg)
    return found


def _parse(data: bytes, where: str) -> LightGBMModel:
    end = data.find(_END)
    expect(data.startswith(HEAD) and end >= 0 and b"\0" not in data, where, "text from 'tree' to 'end of trees'")
    marks = list(_TREE.finditer(data, 0, end))
    starts = [mark.start() for mark in marks]
    expect(
        [mark[1].rstrip() for mark in marks] == [b"%d" % index for index in range(len(marks))], where, "trees in order"
    )
    header = _fields(data[: starts[0] if starts else end])
    names = tuple(header["feature_names"].decode().split(" "))
    features = int(header["max_feature_idx"]) + 1
    expect(0 < features <= _MAX_FEATURES and len(names) == features, where, "a name for each feature")
    expect(len(header["feature_infos"].split()) == features, where, "a range for each feature")
    outputs, classes = int(header["num_tree_per_iteration"]), int(header["num_class"])
    whole = outputs > 0 and classes > 0 and len(starts) % outputs == 0
    expect(whole, where, "whole iterations, each with a tree for each class")
    _check_sizes(header.get("tree_sizes"), starts, end, where)
    leaves = sum(
        _check_tree(_fields(data[start:stop]), features, f"{where}: tree {index}")
        for index, (start, stop) in enumerate(zip(starts, [*starts[1:], end], strict=True))
    )
    _check_parameters(data[end + len(_END) :], where)
    stated = re.search(rb"^\[boosting: (\w+)\]$", data[end : end + _PARAMETERS], re.MULTILINE)
    return LightGBMModel(
        version=header["version"].decode(),
        objective=header.get("objective", b"").decode(),
        names=names,
        classes=classes,
        trees=len(starts),
        leaves=leaves,
        ranges=tuple(one.decode() for one in header["feature_infos"].split()),
        boosting=stated[1].decode() if stated else "",
        categories=categories(data),
    )


def _fields(block: bytes) -> dict[str, bytes]:
    """Return the lines ``key=value``; a line without a value (``average_output``) has none."""
    pairs = (line.rstrip(b"\r").partition(b"=") for line in block.split(b"\n") if line)
    fields: dict[str, bytes] = {}
    for key, _, value in pairs:
        if key.decode() in fields:
            msg = f"{key.decode()} stands twice"
            raise ValueError(msg)
        fields[key.decode()] = value
    return fields


def _check_sizes(sizes: bytes | None, starts: list[int], end: int, where: str) -> None:
    if sizes is None:
        return
    stated = _integers(sizes)
    offsets = np.concatenate([[0], np.cumsum(stated)])
    right = len(stated) == len(starts) and bool(np.all(stated > 0))
    if starts:
        right = right and np.array_equal(offsets[:-1] + starts[0], starts) and offsets[-1] + starts[0] <= end + 1
    expect(right, where, "tree_sizes that are the sizes of the trees")


def _check_parameters(tail: bytes, where: str) -> None:
    """Check the training's parameters: LightGBM takes what stands behind a colon without looking for one."""
    lines = [line.rstrip(b"\r") for line in tail.split(b"\n")]
    if _PARAMETERS_OF not in lines:
        return
    told = lines[lines.index(_PARAMETERS_OF) + 1 :]
    expect(_PARAMETERS_END in told, where, "an end of the parameters")
    told = told[: told.index(_PARAMETERS_END)]
    expect(all(_PARAMETER.fullmatch(line) for line in told if line), where, "parameters in the form [name: value]")


def _check_tree(tree: dict[str, bytes], features: int, where: str) -> int:
    """Check one tree, and return its number of leaves."""
    # LightGBM ends the process at a word that is no number, because it reads trees in parallel.
    expect(all(_NUMBERS.fullmatch(value.strip(b" ")) for value in tree.values()), where, "numbers only")
    leaves = int(tree["num_leaves"])
    expect(leaves > 0 and _count(tree["leaf_value"]) == leaves, where, "a value for each leaf")
    if tree.get("is_linear") == b"1":
        _check_linear(tree, leaves, features, where)
    if leaves == 1:
        return leaves
    left, right = _integers(tree["left_child"]), _integers(tree["right_child"])
    for name in ("left_child", "right_child", "split_feature", "threshold", "decision_type"):
        expect(_count(tree[name]) == leaves - 1, where, f"one {name} for each of {leaves - 1} splits")
    for name in ("leaf_weight", "leaf_count"):
        expect(_count(tree.get(name, b"")) in {0, leaves}, where, f"one {name} a leaf")
    for name in ("split_gain", "internal_value", "internal_weight", "internal_count"):
        expect(_count(tree.get(name, b"")) in {0, leaves - 1}, where, f"one {name} a split")
    # A negative child is a leaf: -1 is leaf 0.
    expect(bool(np.all(left >= -leaves)) and bool(np.all(right >= -leaves)), where, "leaves that exist")
    tree_nodes.check(left, right, where=where)
    expect(_within(_integers(tree["split_feature"]), features), where, "splits on features that exist")
    _check_categories(tree, where)
    return leaves


def _check_categories(tree: dict[str, bytes], where: str) -> None:
    categorical = (_integers(tree["decision_type"]) & _CATEGORICAL) == 1
    sets = int(tree["num_cat"])
    expect(sets >= 0 and (sets > 0 or not categorical.any()), where, "categories for categorical splits")
    if sets == 0:
        return
    bounds = _integers(tree["cat_boundaries"])
    expect(len(bounds) == sets + 1 and bounds[0] == 0 and bool(np.all(np.diff(bounds) >= 0)), where, "category bounds")
    expect(int(bounds[-1]) == _count(tree["cat_threshold"]), where, "as many category words as the bounds say")
    places = np.array(tree["threshold"].split())[categorical].astype(np.float64)
    expect(bool(np.all((places >= 0) & (places < sets))), where, "categorical splits on categories that exist")


def _check_linear(tree: dict[str, bytes], leaves: int, features: int, where: str) -> None:
    sizes = _integers(tree["num_features"])
    used = _integers(tree.get("leaf_features", b""))
    right = len(sizes) == leaves and bool(np.all(sizes >= 0)) and sizes.sum() == len(used) and _within(used, features)
    right = right and _count(tree.get("leaf_coeff", b"")) == len(used) and _count(tree["leaf_const"]) == leaves
    expect(right, where, "leaves with linear models over features that exist")


def _integers(text: bytes) -> NDArray[np.int64]:
    return np.array(text.split() or [], dtype="S20").astype(np.int64)


def _count(text: bytes) -> int:
    return len(text.split())


def _within(values: NDArray[np.int64], limit: int) -> bool:
    return bool(np.all((values >= 0) & (values < limit)))
