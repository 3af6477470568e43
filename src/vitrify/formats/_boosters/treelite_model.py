"""A Treelite checkpoint (version 4), read and checked without Treelite.

Treelite checks that the file is long enough and believes the rest: a child, a feature, a class or a category list
beyond the end makes its prediction read foreign memory. So all numbers are checked before it sees a byte.

Source: https://treelite.readthedocs.io/en/latest/serialization/v4.html; ``src/gtil/predict.cc`` for what is followed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.formats._boosters import tree_nodes
from vitrify.formats._boosters.expectation import expect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

MAJOR = 4
TYPES = {2: "float32", 3: "float64"}
TASKS = ("binary classifier", "regressor", "multi-class classifier", "ranker", "isolation forest")
_START = struct.Struct("<3i2BQ")
_MODEL = struct.Struct("<iB?i")
_SETTINGS = struct.Struct("<2f")
_TREE = struct.Struct("<i?")
_INT = struct.Struct("<i")
_LENGTH = struct.Struct("<Q")
_SMALLEST_TREE = 200
"""Bytes: the lengths of a tree's 22 arrays and its counts."""
_LEAF, _NUMERICAL, _CATEGORICAL = 0, 1, 2
_OPERATORS = 5
_MOST_MINOR = 2**10
_MOST_FEATURES = 2**31 - 1


@dataclass(frozen=True)
class TreeliteModel:
    """What a checkpoint says about itself.

    Attributes:
        version: Of the library that wrote it.
        threshold: Element type that features are compared in.
        leaf: Element type of what it answers.
        task: One of ``TASKS``.
        features: Number of features.
        classes: Number of classes of each target; 1 for a number.
        average: Whether the trees' answers are averaged.
        postprocessor: Name of the function of the sum, such as ``sigmoid``.
        trees: Number of trees.
        nodes: Number of their nodes.
    """

    version: str
    threshold: str
    leaf: str
    task: str
    features: int
    classes: tuple[int, ...]
    average: bool
    postprocessor: str
    trees: int
    nodes: int


def looks_like(head: bytes) -> bool:
    """Say whether the first bytes are those of a checkpoint."""
    if len(head) < _START.size + _MODEL.size + _LENGTH.size:
        return False
    major, minor, patch, threshold, leaf, trees = _START.unpack_from(head)
    features, task, _, targets = _MODEL.unpack_from(head, _START.size)
    (sizes,) = _LENGTH.unpack_from(head, _START.size + _MODEL.size)
    known = _is_version((major, minor, patch)) and threshold in TYPES and leaf in TYPES
    flag = head[_START.size + 5] <= 1
    return known and flag and trees < 2**32 and features >= 0 and task < len(TASKS) and 0 < targets == sizes


def _is_version(numbers: Sequence[int]) -> bool:
    major, *minors = numbers
    return major == MAJOR and all(0 <= number < _MOST_MINOR for number in minors)


def parse(data: memoryview, *, where: str) -> TreeliteModel:
    """Parse and check a whole checkpoint.

    Raises:
        MalformedError: It is none, is cut off, or its prediction would leave its own memory or never end.
    """
    try:
        return _Reader(data, where).model()
    except (struct.error, ValueError, OverflowError) as error:
        msg = f"{where}: not a Treelite checkpoint, or a broken one ({error})"
        raise MalformedError(msg) from error


@dataclass(frozen=True)
class _Answer:
    """The shape of what the trees answer: what a leaf's place in it is checked with."""

    features: int
    targets: int
    classes: int
    of_tree: Sequence[tuple[int, int]]

    def leaf_size(self, tree: int, where: str) -> int:
        """Return how many numbers each leaf of a tree holds; 0 for a plain number."""
        target, one = self.of_tree[tree]
        expect(-1 <= target < self.targets and -1 <= one < self.classes, where, "a target and a class that exist")
        if target >= 0 and one >= 0:
            return 0
        return (self.targets if target < 0 else 1) * (self.classes if one < 0 else 1)


class _Reader:
    """The checkpoint, from front to back."""

    def __init__(self, data: memoryview, where: str) -> None:
        self._data = data
        self._where = where
        self._at = 0

    def model(self) -> TreeliteModel:
        *version, threshold, leaf, trees = self._unpack(_START)
        expect(_is_version(version), self._where, f"version {MAJOR} (found {'.'.join(map(str, version))})")
        expect(threshold in TYPES and leaf in TYPES, self._where, "numbers of float32 or float64")
        features, task, average, targets = self._unpack(_MODEL)
        expect(0 <= features <= _MOST_FEATURES and task < len(TASKS), self._where, "features and a task that can be")
        classes = self._array("<i4")
        expect(0 < targets == len(classes) and bool(np.all(classes > 0)), self._where, "classes of each target")
        shape = self._array("<i4")
        expect(len(shape) == 2 and bool(np.all(shape > 0)), self._where, "a leaf of two dimensions")  # noqa: PLR2004 (two)
        of_tree = list(zip(self._array("<i4").tolist(), self._array("<i4").tolist(), strict=True))
        expect(len(of_tree) == trees, self._where, "a target and a class of each tree")
        postprocessor = self._text()
        self._unpack(_SETTINGS)
        answer = _Answer(features, targets, int(classes.max()), of_tree)
        expect(len(self._array("<f8")) == targets * answer.classes, self._where, "a base score of each output")
        self._text()
        self._no_more_fields()
        expect(trees <= (len(self._data) - self._at) // _SMALLEST_TREE, self._where, "all its trees")
        nodes = sum(self._tree(index, answer, (TYPES[threshold], TYPES[leaf])) for index in range(trees))
        expect(self._at == len(self._data), self._where, "nothing behind the last tree")
        return TreeliteModel(
            version=".".join(map(str, version)),
            threshold=TYPES[threshold],
            leaf=TYPES[leaf],
            task=TASKS[task],
            features=features,
            classes=tuple(classes.tolist()),
            average=average,
            postprocessor=postprocessor,
            trees=trees,
            nodes=nodes,
        )

    def _tree(self, index: int, answer: _Answer, types: tuple[str, str]) -> int:
        """Check one tree, and return its number of nodes."""
        where = f"{self._where}: tree {index}"
        count, _ = self._unpack(_TREE)
        expect(count > 0, where, "nodes")
        kind, left, right, feature = (self._of_nodes(dtype, count, where) for dtype in ("i1", "<i4", "<i4", "<i4"))
        self._of_nodes("u1", count, where)  # where what is missing goes
        self._of_nodes(types[1], count, where)  # the leaves' numbers
        self._of_nodes(types[0], count, where)  # thresholds
        operator = self._of_nodes("i1", count, where)
        self._of_nodes("u1", count, where)  # where what is in a list goes
        sizes = self._segments(types[1], count, where)
        self._segments("<u4", count, where)  # categories
        for dtype in ("<u8", "<f8", "<f8"):  # statistics, each with a flag; a file may do without
            for array in (self._array(dtype), self._array("u1")):
                expect(len(array) in {0, count}, where, "statistics of each node")
        self._no_more_fields()
        self._no_more_fields()
        inner = kind != _LEAF
        expect(bool(np.all((kind >= _LEAF) & (kind <= _CATEGORICAL))), where, "leaves and tests")
        asked = operator[kind == _NUMERICAL]
        expect(bool(np.all((asked > 0) & (asked <= _OPERATORS))), where, "comparisons that exist")
        expect(bool(np.all((left[inner] >= 0) & (right[inner] >= 0))), where, "two children or none")
        tree_nodes.check(np.where(inner, left, -1), np.where(inner, right, -1), where=where)
        known = (feature[inner] >= 0) & (feature[inner] < answer.features)
        expect(bool(np.all(known)), where, "splits on features that exist")
        expect(bool(np.all(sizes[~inner] == answer.leaf_size(index, where))), where, "leaves of the answer's shape")
        return int(count)

    def _segments(self, dtype: str, count: int, where: str) -> Array:
        """Read values and each node's part of them, and return the parts' sizes."""
        values = self._array(dtype)
        start, end = (self._of_nodes("<u8", count, where) for _ in range(2))
        expect(bool(np.all((start <= end) & (end <= len(values)))), where, "values that exist")
        return end - start

    def _of_nodes(self, dtype: str, count: int, where: str) -> Array:
        array = self._array(dtype)
        expect(len(array) == count, where, "one value a node")
        return array

    def _no_more_fields(self) -> None:
        """Expect that a later version has added nothing here."""
        (count,) = self._unpack(_INT)
        expect(count == 0, self._where, "no fields of a later version")

    def _text(self) -> str:
        text = self._array("u1").tobytes().decode("utf-8")
        return text.removesuffix("\0")

    def _array(self, dtype: str) -> Array:
        (length,) = self._unpack(_LENGTH)
        size = np.dtype(dtype).itemsize
        expect(length <= (len(self._data) - self._at) // size, self._where, "all that it counts")
        array = np.frombuffer(self._data, np.dtype(dtype).newbyteorder("<"), length, self._at)
        self._at += length * size
        return array

    def _unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self._data, self._at)
        self._at += form.size
        return values
