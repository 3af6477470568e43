"""The binary model of XGBoost before 3.1, ``binf`` or older: read and checked without XGBoost, which reads it no more.

Everything is a C structure as it lay in memory, little-endian: the learner's parameters, two names, the booster.

Source: ``LearnerModelParamLegacy``, ``GBTreeModelParam``, ``TreeParam``, ``RegTree::Node`` and ``RTreeNodeStat`` of
XGBoost 1.7 (``src/learner.cc``, ``src/gbm/gbtree_model.h``, ``include/xgboost/tree_model.h``).
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError
from vitrify.formats._boosters.expectation import expect

if TYPE_CHECKING:
    from vitrify.formats._boosters.xgboost_model import XGBoostModel

_MAGIC = b"binf"
_LEARNER = struct.Struct("<fIiiiII108x")
_LENGTH = struct.Struct("<Q")
_TREES = struct.Struct("<i24xi128x")
_TREE = struct.Struct("<iiiIIi124x")
_NODE, _STATISTICS, _GROUP = 20, 16, 4
_LINEAR = 136
_BOOSTERS = frozenset({"gbtree", "dart", "gblinear"})
_LONGEST_NAME = 64
_MAX_FEATURES = 2**31
_MAX_CLASSES = 2**20
_NONE = -1
_FEATURE = 0x7FFFFFFF


def is_binary(head: bytes) -> bool:
    """Say whether a file that starts like this is one: 200 bytes are enough."""
    try:
        base, features, classes, *_ = _LEARNER.unpack_from(head, _start(head))
        _, _, at = _names(head, _start(head) + _LEARNER.size)
    except (struct.error, ValueError, OverflowError):
        return False
    return math.isfinite(base) and features < _MAX_FEATURES and 0 <= classes < _MAX_CLASSES and at <= len(head)


def parse(data: memoryview, *, where: str) -> XGBoostModel:
    """Parse and check a whole model file.

    Raises:
        MalformedError: It is no such model, or is cut off, or has trees that do not end.
    """
    from vitrify.formats._boosters.xgboost_model import XGBoostModel

    try:
        start = _start(bytes(data[:4]))
        _, features, classes, attributes, metrics, major, minor = _LEARNER.unpack_from(data, start)
        objective, booster, at = _names(data, start + _LEARNER.size)
        expect(features < _MAX_FEATURES and 0 <= classes < _MAX_CLASSES, where, "counts that can be")
        if booster == "gblinear":
            trees, (nodes, end) = 0, _weights(data, at, where)
        else:
            trees, nodes, end = _trees(data, at, features, where)
        end = _notes(data, end, dart=booster == "dart" and trees > 0, attributes=attributes, metrics=metrics)
    except (struct.error, ValueError, OverflowError) as error:
        msg = f"{where}: not a binary model of XGBoost, or a broken one ({error})"
        raise MalformedError(msg) from error
    # Before 1.0 nobody wrote the version down.
    version = f"{major}.{minor}" if 0 < major < 4 else ""  # noqa: PLR2004 (the last version that wrote it)
    return XGBoostModel(version, booster, objective, features, (), (), classes, trees, nodes, {}, end)


def _start(head: bytes) -> int:
    return len(_MAGIC) if head.startswith(_MAGIC) else 0


def _names(data: bytes | memoryview, at: int) -> tuple[str, str, int]:
    """Return the objective, the booster and where they end."""
    found = []
    for _ in range(2):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + min(size, _LONGEST_NAME)
        name = bytes(data[at - min(size, _LONGEST_NAME) : at]).decode("ascii")
        if not 0 < size <= _LONGEST_NAME or not name.replace(":", "").replace("_", "").isalnum():
            msg = f"a name of {size} bytes"
            raise ValueError(msg)
        found.append(name)
    if found[1] not in _BOOSTERS:
        msg = f"the booster {found[1]!r}"
        raise ValueError(msg)
    return found[0], found[1], at


def _notes(data: memoryview, at: int, *, dart: bool, attributes: int, metrics: int) -> int:
    """Return where what follows the booster ends: the weights of dropped trees, attributes, names of metrics."""
    if dart:
        (count,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + 4 * count
    for texts in (2 * bool(attributes), bool(metrics)):
        if not texts:
            continue
        (count,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        for _ in range(min(count * texts, len(data))):
            at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
    return at


def _weights(data: memoryview, at: int, where: str) -> tuple[int, int]:
    (count,) = _LENGTH.unpack_from(data, at + _LINEAR)
    expect(count * 4 <= len(data) - at - _LINEAR - _LENGTH.size, where, "all the weights that it counts")
    return int(count), at + _LINEAR + _LENGTH.size + 4 * count


def _trees(data: memoryview, at: int, features: int, where: str) -> tuple[int, int, int]:
    (count, _) = _TREES.unpack_from(data, at)
    at += _TREES.size
    expect(0 <= count <= (len(data) - at) // (_TREE.size + _NODE + _STATISTICS + _GROUP), where, "all its trees")
    nodes = 0
    for index in range(count):
        size = _tree(data, at, features, f"{where}: tree {index}")
        nodes += size
        at += _TREE.size + size * (_NODE + _STATISTICS)
    expect(len(data) - at >= count * _GROUP, where, "for each tree a group")
    return count, nodes, at + count * _GROUP


def _tree(data: memoryview, at: int, features: int, where: str) -> int:
    """Check one tree, and return its number of nodes."""
    import numpy as np

    from vitrify.formats._boosters import tree_nodes

    _, count, *_ = _TREE.unpack_from(data, at)
    at += _TREE.size
    expect(0 < count <= (len(data) - at) // (_NODE + _STATISTICS), where, "all the nodes that it counts")
    nodes = np.frombuffer(data[at : at + count * _NODE], "<i4").reshape(count, 5)
    left, right, feature = nodes[:, 1], nodes[:, 2], nodes[:, 3] & _FEATURE
    inner = left != _NONE
    expect(bool(np.all((left[inner] >= 0) & (right[inner] >= 0))), where, "two children or none")
    tree_nodes.check(np.where(inner, left, -1), np.where(inner, right, -1), where=where)
    reached = np.zeros(count, bool)
    reached[0] = True
    reached[left[inner]] = reached[right[inner]] = True
    # Nodes that pruning left behind are marked by their feature, and nobody reaches them.
    expect(bool(np.all(feature[inner & reached] < features)), where, "splits on features that exist")
    return int(count)
