"""Categories to numbers, by what the fitted encoder itself makes of each.

What a category becomes (dropped, infrequent, one-hot, a target's mean) is asked of the encoder, one row a category: the
document holds its answers and none of its rules.

Source: ``sklearn/preprocessing/_encoders.py``, ``_target_encoder.py``
"""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import element, spelled
from vitrify.transforms.convert._pmml.fields import F32, F64, NONE, TEXT, Column
from vitrify.transforms.convert._pmml.matrices import made
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Fields, Table

    Array = np.ndarray[Any, Any]


@writes("sklearn.OneHotEncoder", "sklearn.OrdinalEncoder", "sklearn.TargetEncoder")
def encoder(walk: Walk, model: Any, table: Table) -> Answer:
    """Encode each column, then put them side by side."""
    results: list[Column] = []
    for column, categories, answers in zip(table.columns, model.categories_, _answers(model), strict=True):
        known = [value.item() if isinstance(value, np.generic) else value for value in categories]
        _require_alike(column, known)
        results += [looked_up(walk.fields, column, known, answers[:, place]) for place in range(answers.shape[1])]
    return Answer(table=made(results))


def _answers(model: Any) -> list[Array]:
    """Return for each column what each of its categories becomes, and last, if that is allowed, an unknown value."""
    categories = model.categories_
    longest = max(len(values) for values in categories)
    allowed = getattr(model, "handle_unknown", "ignore") != "error"
    rows = np.empty((longest + allowed, len(categories)), object)
    for column, values in enumerate(categories):
        rows[:longest, column] = [values[min(row, len(values) - 1)] for row in range(longest)]
        if allowed:
            rows[longest, column] = _unknown(values)
    nameless = copy.copy(model)
    if hasattr(nameless, "feature_names_in_"):
        del nameless.feature_names_in_
    nameless._sklearn_output_config = {}  # noqa: SLF001 (an array, whatever set_output said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about the unknown value, which is there on purpose
        answer = nameless.transform(rows)
    dense = answer.toarray() if hasattr(answer, "toarray") else np.asarray(answer)
    widths = getattr(model, "_n_features_outs", None) or [dense.shape[1] // len(categories)] * len(categories)
    blocks = np.split(dense, np.cumsum(widths)[:-1], axis=1)
    kept = [[*range(len(values)), *([longest] if allowed else [])] for values in categories]
    return [block[rows] for block, rows in zip(blocks, kept, strict=True)]


def _unknown(values: Array) -> Any:
    if values.dtype.kind in "OUS":
        return "\0unknown"
    known = set(values.tolist())
    return next(number for number in itertools.count() if number not in known)


def _require_alike(column: Column, known: list[Any]) -> None:
    text = [isinstance(value, str) for value in known if value is not None and value == value]  # noqa: PLR0124 (NaN)
    if any(one != (column.dtype == TEXT) for one in text):
        kinds = "text and categories that are not" if column.dtype == TEXT else "numbers and categories that are not"
        refuse(f"column {column.key or column.name!r} holds {kinds}", "save the model with what it was fitted on")


def looked_up(fields: Fields, column: Column, known: list[Any], answers: Array) -> Column:
    """Return a column of answers.

    Args:
        fields: Of the document.
        column: What is looked up.
        known: The categories: text or numbers, None and NaN among them.
        answers: What each becomes, and last, if there is one more, what all others become.
    """
    other = answers[-1] if len(answers) > len(known) else None
    table = {value: answer for value, answer in zip(known, answers, strict=False) if not _is_missing(value)}
    gone, none = (_of(kind_, known, answers, other) for kind_ in ("nan", "none"))
    if column.dtype == TEXT and not knows_one(column) and not _same(gone, none):
        fields.none_apart = True
        if none is not None:
            table[NONE] = none
    dtype = F32 if answers.dtype == F32 else F64
    name = (
        f"{column.name}={known[int(np.argmax(answers[: len(known)]))]}"
        if _is_one(table, other)
        else f"code({column.name})"
    )
    return fields.derive(name, dtype, _lookup(column, table, other, gone))


def knows_one(column: Column) -> bool:
    """Return whether the container has one kind of missing text only."""
    item = column.field
    native = (item.container_dtype or "").rpartition(":")[2] if item else ""
    return item is not None and (item.categories is not None or native in {"str", "string"})


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 (NaN)


def _of(kind_: str, known: list[Any], answers: Array, other: Any) -> Any:
    """Return what NaN or None becomes; None where the source refuses it."""
    for value, answer in zip(known, answers, strict=False):
        if (value is None) == (kind_ == "none") and _is_missing(value):
            return answer
    return other


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return bool(np.array_equal(left, right, equal_nan=True))


def _is_one(table: dict[Any, Any], other: Any) -> bool:
    return sorted(table.values())[-1:] == [1] and sum(map(bool, table.values())) == 1 and not other


def _lookup(column: Column, table: dict[Any, Any], other: Any, gone: Any) -> Element:
    if _is_one(table, other) and other is not None:
        (value,) = [value for value, answer in table.items() if answer]
        missing = None if gone is None or np.isnan(gone) else float(gone)
        return element("NormDiscrete", {"field": column.name, "value": _cell(value), "mapMissingTo": missing})
    about = {"outputColumn": "output", "defaultValue": _said(other), "mapMissingTo": _said(gone), "dataType": "double"}
    rows = (
        element("row", {}, element("input", {}, text=_cell(value)), element("output", {}, text=_cell(float(answer))))
        for value, answer in _written(table)
    )
    pair = element("FieldColumnPair", {"field": column.name, "column": "input"})
    return element("MapValues", about, pair, element("InlineTable", {}, *rows))


def _written(table: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Yield the rows that have an answer: what becomes NaN is missing, and PMML cannot write it in a table."""
    for value, answer in table.items():
        if np.isnan(answer):
            refuse(f"makes {value!r} missing", "encode it as a number")
        yield value, answer


def _said(value: Any) -> Any:
    return None if value is None or np.isnan(value) else float(value)


def _cell(value: Any) -> str:
    return spelled(float(value) if isinstance(value, bool | int | np.integer) else value)
