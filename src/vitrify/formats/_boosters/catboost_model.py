"""A CatBoost binary model (cbm), read and checked without CatBoost.

CatBoost verifies offsets inside the file, but follows the numbers of its trees without looking: a wrong one reads
foreign memory. So they are checked before it sees a byte. What lies behind the trees (tables of categories, text
and embeddings) is not: only CatBoost reads it.

Source: ``catboost/libs/model/flatbuffers/model.fbs`` and ``features.fbs``; ``TModelTrees`` in
``catboost/libs/model/model.h`` for what the numbers mean.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow
from vitrify.reading.flatbuffer import Table, root

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"CBM1"
_SETTINGS = frozenset({"params", "class_params", "output_options"})
"""Notes that CatBoost parses when it loads; it does not survive those that are no JSON."""
_HEADER = struct.Struct("<4sI")
_MAX_DEPTH = 32
_MAX_OUTPUTS = 2**20


_TREES, _INFO, _PARTS = 1, 2, 3
"""Fields of ``TModelCore``."""


class _Trees(IntEnum):
    """Fields of ``TModelTrees``."""

    OUTPUTS = 0
    SPLITS = 1
    SIZES = 2
    STARTS = 3
    CATEGORICAL = 4
    FLOATS = 5
    ONE_HOT = 6
    CTR = 7
    VALUES = 8
    WEIGHTS = 9
    STEPS = 10
    LEAVES = 11
    TEXT = 12
    ESTIMATED = 13


_BORDERS = {_Trees.FLOATS: 3, _Trees.ONE_HOT: 1, _Trees.CTR: 1, _Trees.ESTIMATED: 3}
"""For each kind of feature, the field that has an element for each of its splits."""


_PLACES = {_Trees.FLOATS: (1, 2), _Trees.CATEGORICAL: (0, 1), _Trees.TEXT: (0, 1)}
"""For each kind of feature, the fields with its place among its kind and among all."""
_NAMES = {_Trees.FLOATS: 4, _Trees.CATEGORICAL: 2, _Trees.TEXT: 2}
"""For each kind of feature, the field with its name."""


@dataclass(frozen=True)
class CatBoostModel:
    """What a model file says about itself.

    Attributes:
        trees: Number of trees.
        outputs: Values a leaf.
        values: Number of values in all leaves.
        features: The kind (``float``, ``categorical``, ``text``) and the name of each, in the order of the data.
        info: What the training wrote down, by name: parameters and metrics as JSON, the library's version.
        end: Where the file ends; None where tables follow the trees, which only CatBoost reads.
    """

    trees: int
    outputs: int
    values: int
    features: tuple[tuple[str, str], ...]
    info: dict[str, str]
    end: int | None = None


def parse(data: memoryview, *, where: str) -> CatBoostModel:
    """Parse and check a model file's trees.

    Raises:
        MalformedError: It is no model of CatBoost, or one whose prediction would leave its own memory.
    """
    try:
        magic, size = _HEADER.unpack_from(data)
        _expect(magic == MAGIC and size <= len(data) - _HEADER.size, f"{MAGIC!r} and {size} bytes, of {len(data)}")
        core = root(data[_HEADER.size : _HEADER.size + size], where=where)
        trees = core.table(_TREES)
        _check_trees(trees)
        _check_features(trees)
        model = replace(_model(core, trees), end=None if core.count(_PARTS) else _HEADER.size + size)
        for name in _SETTINGS & model.info.keys():
            msgspec.json.decode(shallow(model.info[name].encode()))
    except (ValueError, RecursionError, struct.error) as error:
        msg = f"{where}: not a model of CatBoost, or a broken one ({error})"
        raise MalformedError(msg) from error
    return model


def _model(core: Table, trees: Table) -> CatBoostModel:
    kinds = {"float": _Trees.FLOATS, "categorical": _Trees.CATEGORICAL, "text": _Trees.TEXT}
    features = sorted(
        (part.integer(_PLACES[field][1]), kind, part.text(_NAMES[field]))
        for kind, field in kinds.items()
        for part in trees.tables(field)
    )
    return CatBoostModel(
        trees=len(trees.array(_Trees.SIZES, "<i4")),
        outputs=trees.integer(_Trees.OUTPUTS),
        values=len(trees.array(_Trees.VALUES, "<f8")),
        features=tuple((kind, name or str(place)) for place, kind, name in features),
        info={pair.text(0): pair.text(1) for pair in core.tables(_INFO)},
    )


def _check_trees(trees: Table) -> None:
    outputs = trees.integer(_Trees.OUTPUTS)
    splits, sizes, starts = (
        trees.array(field, "<i4").astype(np.int64) for field in (_Trees.SPLITS, _Trees.SIZES, _Trees.STARTS)
    )
    _expect(0 < outputs < _MAX_OUTPUTS, "at least one output")
    _expect(len(starts) == len(sizes) and bool(np.all(sizes >= 0)), "for each tree a start and a size")
    _expect(bool(np.all(starts == np.cumsum(sizes) - sizes)) and sizes.sum() == len(splits), "trees one after another")
    borders = sum(len(part.array(field, "<i4")) for kind, field in _BORDERS.items() for part in trees.tables(kind))
    values = len(trees.array(_Trees.VALUES, "<f8"))
    steps = trees.array(_Trees.STEPS, "<u4").astype(np.int64)
    if len(steps) == 0:
        _expect(bool(np.all((splits >= 0) & (splits < borders))), "splits that exist")
        _expect(bool(np.all(sizes < _MAX_DEPTH)), f"trees less than {_MAX_DEPTH} levels deep")
        leaves = int((1 << sizes).sum())
    else:
        leaves = values // outputs
        _check_steps(trees, steps, starts + sizes, np.repeat(np.arange(len(sizes)), sizes))
        # A node without children has split 0, which need not exist; CatBoost looks at it all the same.
        _expect(
            bool(np.all((splits >= 0) & (splits < np.where(steps != 0, borders, max(borders, 1))))), "splits that exist"
        )
    _expect(values == leaves * outputs, "values for each leaf")
    _expect(len(trees.array(_Trees.WEIGHTS, "<f8")) in {0, leaves}, "a weight for each leaf, or none")


def _check_steps(trees: Table, steps: NDArray[np.int64], ends: NDArray[np.int64], tree: NDArray[np.int64]) -> None:
    """Check the nodes of trees that are not symmetric: each has the distances to its children, 0 for none."""
    left, right = steps & 0xFFFF, steps >> 16
    _expect(len(tree) == len(steps), "a step for each node")
    place = np.arange(len(steps))
    # Distances go forward only, so that there can be no cycle.
    _expect(bool(np.all(place + np.maximum(left, right) < ends[tree])), "children in the same tree")
    leaves = trees.array(_Trees.LEAVES, "<u4").astype(np.int64)
    _expect(len(leaves) == len(steps), "a leaf for each node")
    terminal = leaves[(left == 0) | (right == 0)]
    outputs = trees.integer(_Trees.OUTPUTS)
    values = len(trees.array(_Trees.VALUES, "<f8"))
    _expect(bool(np.all(terminal <= values - outputs)), "leaves that exist")


def _check_features(trees: Table) -> None:
    taken: set[int] = set()
    for kind, (field, flat_field) in _PLACES.items():
        places = [(part.integer(field, -1), part.integer(flat_field, -1)) for part in trees.tables(kind)]
        _expect(all(0 <= own <= flat for own, flat in places), "features whose place among all is not before their own")
        _expect(len({own for own, _ in places}) == len(places), "features of one kind in different places")
        _expect(
            len(taken.union(flat for _, flat in places)) == len(taken) + len(places), "features in different places"
        )
        taken.update(flat for _, flat in places)


def _expect(condition: bool, what: str) -> None:  # noqa: FBT001 (reads like an assertion)
    if not condition:
        msg = f"expected: {what}"
        raise ValueError(msg)
