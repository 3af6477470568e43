"""A CatBoost model as JSON, read and checked without CatBoost.

Source: ``catboost/libs/model/model_export/json_model_helpers.cpp`` of CatBoost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import MalformedError
from vitrify.formats._boosters.expectation import expect
from vitrify.reading import json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._boosters.catboost_model import CatBoostModel

_MAX_DEPTH = 32
_KINDS = {"float_features": "float", "categorical_features": "categorical", "text_features": "text"}


def parse(data: memoryview, *, where: str) -> CatBoostModel:
    """Parse and check a model's trees.

    Raises:
        MalformedError: It is no model of CatBoost, or its trees have splits or leaves that cannot be.
    """
    from vitrify.formats._boosters.catboost_model import CatBoostModel

    raw = json.parse(data, where=where)
    try:
        features = _features(raw["features_info"])
        bias = raw.get("scale_and_bias", [1, [0]])[1]
        outputs = max(len(bias) if isinstance(bias, list) else 1, 1)
        symmetric = raw.get("oblivious_trees", [])
        trees = [_symmetric(tree, outputs, where) for tree in symmetric] or [
            sum(_leaves(tree, outputs, where)) for tree in raw.get("trees", [])
        ]
        info = {str(key): _text(value) for key, value in raw.get("model_info", {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        msg = f"{where}: not a model of CatBoost, or a broken one ({type(error).__name__}: {error})"
        raise MalformedError(msg) from error
    return CatBoostModel(trees=len(trees), outputs=outputs, values=sum(trees), features=features, info=info)


def _features(raw: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    found = [
        (int(one["flat_feature_index"]), kind, str(one.get("feature_id", "")))
        for key, kind in _KINDS.items()
        for one in raw.get(key, [])
    ]
    return tuple((kind, name or str(place)) for place, kind, name in sorted(found))


def _symmetric(tree: dict[str, Any], outputs: int, where: str) -> int:
    splits = tree.get("splits") or []
    expect(len(splits) < _MAX_DEPTH, where, f"trees less than {_MAX_DEPTH} levels deep")
    expect(all(int(split["split_index"]) >= 0 for split in splits), where, "splits that exist")
    count = len(tree["leaf_values"])
    expect(count == outputs << len(splits), where, "values for each leaf")
    return count


def _leaves(tree: dict[str, Any], outputs: int, where: str) -> Iterator[int]:
    """Yield the number of values of each leaf. How deep the tree is, the reader of JSON has bounded."""
    left = [tree]
    while left:
        node = left.pop()
        if "split" in node:
            expect(int(node["split"]["split_index"]) >= 0, where, "splits that exist")
            left += [node["left"], node["right"]]
        else:
            values = node["value"]
            count = len(values) if isinstance(values, list) else 1
            expect(count == outputs, where, "values for each leaf")
            yield count


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
