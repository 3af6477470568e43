"""CatBoost's features as columns of numbers: what each split of a tree compares.

A number is itself. A category is only known by a hash of its text, which ONNX cannot compute; so the categories that
the source's table names are hashed here, by CatBoost, and the graph looks up what it made of each: one column for each
statistic of the target (CTR), and one for each category that a tree asks for by itself. All others are unseen.
A column of whole numbers needs no names: the graph hashes its digits (:mod:`.catboost_hash`), and finds a statistic by
the hash as CatBoost does.

Source: ``catboost/libs/model/ctr_provider.h``, ``ctr_data.h``, ``static_ctr_provider.cpp``, ``libs/helpers/hash.h``
"""

from __future__ import annotations

import ast
import re
import tempfile
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._boosters.catboost_hash import hash_of_whole
from vitrify.transforms.convert._boosters.codes import is_categorical
from vitrify.transforms.convert._building.data import Data, Frame, columns, matrix
from vitrify.transforms.convert._building.graph import F32, I64
from vitrify.transforms.convert._building.steps import refuse
from vitrify.transforms.convert._sklearn.encode import category_index, lookup

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.graph import Array, Graph, Tensor

_TREATED_TRUE = "AsTrue"
_MULTIPLIER = 0x4906BA494954CB65
_WORD = 2**64 - 1
"""Also the key of an empty place in a table."""
_MOST_CELLS = 2**20
_VALUE = "cat_feature_value"
_COVER = "save it with an example whose columns of categories are of pandas' type category, with all values of training"
_ALL_NAMED = "make the columns of whole numbers of pandas' type category too, with all values of training"


@dataclass
class Features:
    """The matrix that the trees look at, and where in it each split finds its number.

    Attributes:
        graph: Where it is computed.
        read: The model's JSON form.
        data: What it is called with.
    """

    graph: Graph
    read: dict[str, Any]
    data: Data
    _columns: list[Tensor] = field(default_factory=list)
    _places: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put the numbers in front, and number the categories."""
        info = self.read["features_info"]
        floats, self._categorical = info.get("float_features", []), info.get("categorical_features", [])
        self._floats = {item["feature_index"]: place for place, item in enumerate(floats)}
        self._missing = {item["feature_index"]: item["nan_value_treatment"] == _TREATED_TRUE for item in floats}
        self._ctrs = _by_split(info)
        if not self._categorical:
            flat = [item["flat_feature_index"] for item in floats]
            self._floats = dict(zip(self._floats, flat, strict=True))
            self._columns = [matrix(self.graph, self.data, F32)]
            self._width = 1 + max(flat, default=0)
            return
        if not isinstance(self.data, Frame) and self.data.dtype.kind not in "biu":
            refuse("has categories in an array", _COVER)
        width = 1 + max(item["flat_feature_index"] for item in [*floats, *self._categorical])
        self._given = columns(self.graph, self.data, width)
        self._whole: dict[int, Tensor] = {}
        self._named = self._categories()
        texts = sorted({str(value) for values in self._named.values() for value in values})
        hashes = _hashes(texts) if texts else {}
        self._known = {feature: [hashes[str(value)] for value in values] for feature, values in self._named.items()}
        numbers = tuple(self._given[item["flat_feature_index"]] for item in floats)
        self._columns = [matrix(self.graph, Frame(numbers), F32)] if numbers else []
        self._width = len(numbers)

    def split(self, split: dict[str, Any]) -> tuple[int, bool, float]:
        """Return the column that a split compares, whether NaN is above its border there, and the border."""
        kind = split.get("split_type", "FloatFeature")
        if kind == "FloatFeature":
            feature = split["float_feature_index"]
            return self._floats[feature], self._missing[feature], split["border"]
        if kind == "OneHotFeature":
            key = (split["cat_feature_index"], split["value"])
            return self._column(key, lambda: self._is_category(*key)), False, 0.5
        if kind == "OnlineCtr":
            number = self._ctrs[split["split_index"]]
            return self._column(number, lambda: self._ctr(number)), False, split["border"]
        return refuse(f"splits on {kind}", "train without text and embedding features")

    def matrix(self) -> Tensor:
        """Return the whole matrix, after all splits were asked for."""
        return self.graph.concat(self._columns)

    def _column(self, key: Any, make: Any) -> int:
        if key not in self._places:
            self._columns.append(self.graph.column(make()))
            self._places[key] = self._width
            self._width += 1
        return self._places[key]

    def _categories(self) -> dict[int, list[Any]]:
        """Return the values that the table names, by feature; a column of whole numbers is hashed, and names none."""
        found: dict[int, list[Any]] = {}
        for item in self._categorical:
            column = self._given[item["flat_feature_index"]]
            if not is_categorical(column) and column.tensor.dtype.kind in "biu":
                self._whole[item["feature_index"]] = hash_of_whole(self.graph, column.tensor)
                continue
            if not is_categorical(column):
                refuse(f"has categories in column {column.key!r}, whose values the signature does not name", _COVER)
            assert column.field is not None
            found[item["feature_index"]] = list(column.field.categories or ())
        return found

    def _code(self, feature: int) -> Tensor:
        """Return each row's place among the named categories; their number for an unseen one."""
        item = next(item for item in self._categorical if item["feature_index"] == feature)
        return category_index(self.graph, self._given[item["flat_feature_index"]], self._named[feature])

    def _is_category(self, feature: int, value: int) -> Tensor:
        if feature in self._whole:
            return self.graph.cast(self.graph.compare("Equal", self._whole[feature], np.array(value)), F32)
        if value not in self._known[feature]:
            refuse("asks for a category that the signature does not name", _COVER)
        place = np.array(self._known[feature].index(value))
        return self.graph.cast(self.graph.compare("Equal", self._code(feature), place), F32)

    def _ctr(self, number: int) -> Tensor:
        """Return a statistic: looked up by the categories' places and the other answers, which count as digits."""
        ctr = self.read["features_info"]["ctrs"][number]
        elements = sorted(ctr["elements"], key=_turn)
        if any(self._is_whole(element) for element in elements):
            return self._ctr_by_key(ctr, elements)
        digits = [self._digit(element) for element in elements]
        cells = int(np.prod([len(hashes) for _, hashes in digits]))
        if cells > _MOST_CELLS:
            refuse(f"combines categories in {cells:,} ways", "train with max_ctr_complexity=1, or on fewer categories")
        table, place = self._table(ctr, [hashes for _, hashes in digits]), None
        for digit, hashes in digits:
            if place is None:
                place = digit
                continue
            place = self.graph.binary("Add", self.graph.binary("Mul", place, np.array(len(hashes))), digit)
        assert place is not None
        return self.graph.gather(self.graph.constant(table, "statistics"), place)

    def _is_whole(self, element: dict[str, Any]) -> bool:
        return element["combination_element"] == _VALUE and element["cat_feature_index"] in self._whole

    def _ctr_by_key(self, ctr: dict[str, Any], elements: list[dict[str, Any]]) -> Tensor:
        """Return a statistic that is found by the hash of all its parts, as CatBoost finds it."""
        graph, data = self.graph, self.read["ctr_data"][ctr["identifier"]]
        known = _known(data)
        digits: list[list[int] | None] = []
        key, unseen = graph.constant(np.array(0)), []
        for element in elements:
            if self._is_whole(element):
                part = self._whole[element["cat_feature_index"]]
                digits.append(None)
            else:
                place, hashes = self._digit(element)
                part = graph.gather(np.array([0 if value is None else value for value in hashes]), place)
                digits.append([value for value in hashes if value is not None])
                if hashes[-1] is None:
                    unseen.append(graph.compare("Equal", place, np.array(len(hashes) - 1)))
            turned = graph.binary("Mul", part, np.array(_MULTIPLIER))
            key = graph.binary("Mul", graph.binary("Add", key, turned), np.array(_MULTIPLIER))
        _require_named(list(known), digits)
        table = np.array([_statistic(ctr, data, seen) for seen in [*known.values(), None]], F32)
        keys = np.array(list(known), np.uint64).view(np.int64)
        place = lookup(graph, key, keys, np.arange(len(keys)), len(keys))
        for never in unseen:
            place = graph.where(never, np.array(len(keys)), place)
        return graph.gather(graph.constant(table, "statistics"), place)

    def _digit(self, element: dict[str, Any]) -> tuple[Tensor, list[int | None]]:
        """Return a part of a statistic's key as a number from zero, and what each number is hashed as."""
        graph = self.graph
        match element["combination_element"]:
            case str(kind) if kind == _VALUE:
                feature = element["cat_feature_index"]
                return self._code(feature), [*self._known[feature], None]
            case "cat_feature_exact_value":
                feature = element["cat_feature_index"]
                return graph.cast(self._is_category(feature, element["value"]), I64), [0, 1]
            case _:
                place = self._floats[element["float_feature_index"]]
                values = graph.gather(self._columns[0], np.array(place), axis=1)
                above = graph.compare("Greater", values, np.array(element["border"], F32))
                if self._missing[element["float_feature_index"]]:
                    above = graph.op("Or", above, graph.op("IsNaN", values, dtype=np.bool_), dtype=np.bool_)
                return graph.cast(above, I64), [0, 1]

    def _table(self, ctr: dict[str, Any], digits: list[list[int | None]]) -> Array:
        """Return the statistic for each combination."""
        data = self.read["ctr_data"][ctr["identifier"]]
        known = _known(data)
        keys = [_hash(parts) for parts in product(*digits)]
        if known.keys() - set(keys):
            refuse("knows categories that the signature does not name", _COVER)
        return np.array([_statistic(ctr, data, None if key is None else known.get(key)) for key in keys], F32)


def _known(data: dict[str, Any]) -> dict[int, list[Any]]:
    """Return what a table of statistics counted, by the key."""
    stride = data["hash_stride"]
    rows = [data["hash_map"][start : start + stride] for start in range(0, len(data["hash_map"]), stride)]
    return {int(row[0]): row[1:] for row in rows if int(row[0]) != _WORD}


def _require_named(keys: list[int], digits: list[list[int] | None]) -> None:
    """Refuse a table that counted categories of which the signature does not name all.

    Args:
        keys: Those of the table.
        digits: What each part may be hashed as; None for a whole number, which may be hashed as anything. If there is
            one, it follows from the key and the other parts, and has to be a hash: a signed number of 32 bits.
    """
    if digits.count(None) == len(digits) or all(part in (None, [0, 1]) for part in digits):
        return
    if digits.count(None) > 1:
        refuse("combines several columns of whole numbers with one that names its categories", _ALL_NAMED)
    others = list(product(*([0] if part is None else part for part in digits)))
    if len(others) * len(keys) > _MOST_CELLS:
        refuse(
            f"combines categories in {len(others):,} ways", "train with max_ctr_complexity=1, or on fewer categories"
        )
    turns = len(digits) - digits.index(None) + 1
    inverse = np.array(pow(_MULTIPLIER, -turns, 2**64), np.uint64)
    rest = np.array([_hash(parts) for parts in others], np.uint64)
    solved = ((np.array(keys, np.uint64)[:, None] - rest) * inverse).view(np.int64)
    if not bool(np.all((np.abs(solved + 0.5) < 2**31).any(axis=1))):
        refuse("knows categories that the signature does not name", _COVER)


def _hashes(texts: list[str]) -> dict[str, int]:
    """Return CatBoost's hash of each text, which is the same in every model: the Python form of one holds them."""
    from catboost import CatBoostRegressor, Pool

    rows = [[text, float(place)] for place, text in enumerate([*texts, ""])]
    pool = Pool(rows, [place for _, place in rows], cat_features=[0])
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.py")
        model = CatBoostRegressor(iterations=1, depth=1, verbose=0, allow_writing_files=False, thread_count=1)
        model.fit(pool).save_model(str(path), format="python", pool=pool)
        written = path.read_text(encoding="utf-8")
    found = re.search(r"^cat_features_hashes = (\{.*?^\})", written, re.MULTILINE | re.DOTALL)
    assert found is not None
    # Its text is UTF-8, byte by byte.
    return {text.encode("latin-1").decode(): value for text, value in ast.literal_eval(found[1]).items()}


def _by_split(info: dict[str, Any]) -> dict[int, int]:
    """Return the statistic that each split is on: splits are numbered through all kinds of features."""
    first = sum(len(item.get("borders") or ()) for item in info.get("float_features", ()))
    first += sum(len(item.get("values") or ()) for item in info.get("categorical_features", ()))
    found: dict[int, int] = {}
    for number, ctr in enumerate(info.get("ctrs", ())):
        for _ in ctr["borders"]:
            found[first] = number
            first += 1
    return found


def _turn(element: dict[str, Any]) -> int:
    """Return when an element is hashed: categories first, then numbers, then single categories."""
    order = (_VALUE, "float_feature", "cat_feature_exact_value")
    return order.index(element["combination_element"])


def _hash(parts: tuple[int | None, ...]) -> int | None:
    """Return the key of a combination; None if one of it was never seen (``CalcHash``)."""
    key = 0
    for part in parts:
        if part is None:
            return None
        key = _MULTIPLIER * (key + _MULTIPLIER * (part & _WORD)) & _WORD
    return key


def _statistic(ctr: dict[str, Any], data: dict[str, Any], seen: list[Any] | None) -> np.float32:
    """Return ``(count + prior) / (total + prior's weight)``, scaled, in float32 throughout (``TModelCtr::Calc``)."""
    kind, border = ctr["ctr_type"], ctr["target_border_idx"]
    count, total = 0.0, 0.0
    if kind in {"Counter", "FeatureFreq"}:
        count, total = (seen[0] if seen else 0), data["counter_denominator"]
    elif seen and kind in {"BinarizedTargetMeanValue", "FloatTargetMeanValue"}:
        count, total = seen
    elif seen and kind == "Buckets":
        count, total = seen[border], sum(seen)
    elif seen:
        count, total = sum(seen[border + 1 :]), sum(seen)
    prior, weight = np.float32(ctr["prior_numerator"]), np.float32(ctr["prior_denomerator"])
    share = (np.float32(count) + prior) / (np.float32(total) + weight)
    return (share + np.float32(ctr["shift"])) * np.float32(ctr["scale"])
