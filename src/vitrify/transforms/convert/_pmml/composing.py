"""Transformers put together: one after the other, side by side, a few columns each.

Source: ``sklearn/pipeline.py``, ``compose/_column_transformer.py``
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import reference
from vitrify.transforms.convert._pmml.fields import F32, F64, TEXT, Table
from vitrify.transforms.convert._pmml.functions import NAMES, call
from vitrify.transforms.convert._pmml.matrices import FLOATS, each, made, matrix, operation
from vitrify.transforms.convert._pmml.walk import Answer, Walk, features, refuse, writes

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Column


@writes("sklearn.Pipeline")
def pipeline(walk: Walk, model: Any, table: Table) -> Answer:
    """Run one step after the other; the last one's answer is the answer."""
    answer = Answer(table=table)
    for index, (name, step) in enumerate(model.steps):
        if step is None or step == "passthrough":
            continue
        answer = walk.run(step, features(answer), f"steps[{index}] {name!r}")
    return answer


@writes("sklearn.ColumnTransformer")
def column_transformer(walk: Walk, model: Any, table: Table) -> Answer:
    """Give each transformer its columns and put the answers side by side."""
    names: Any = getattr(model, "feature_names_in_", None)
    parts: list[Table] = []
    for index, (name, step, chosen) in enumerate(model.transformers_):
        places = model._transformer_to_input_indices[name]  # noqa: SLF001 (what slices, masks and callables came to)
        width = model.output_indices_[name]
        if (isinstance(step, str) and step == "drop") or len(places) == 0:
            continue
        if np.isscalar(chosen) and not _passes(step):
            refuse(f"gives {name!r} one column as a vector", "name it in a list: [column]")
        by_place = names is None or table.made
        columns = tuple(table.columns[place] if by_place else table.named(names[place]) for place in places)
        part = replace(table, columns=columns)
        if not _passes(step):
            part = features(walk.run(step, part, f"transformers[{index}] {name!r}"))
        if width.stop > width.start:
            parts.append(part)
    return Answer(table=beside(parts))


def _passes(step: Any) -> bool:
    """Return whether a part hands its columns on: the word becomes such a FunctionTransformer when fitted."""
    if isinstance(step, str):
        return step == "passthrough"
    return type(step).__name__ == "FunctionTransformer" and step.func is None and not step.validate


def beside(parts: list[Table]) -> Table:
    """Return parts side by side; each column keeps its type until an array is made of them."""
    return made((column for part in parts for column in part.columns), frame=any(part.frame for part in parts))


@writes("sklearn.FeatureUnion")
def feature_union(walk: Walk, model: Any, table: Table) -> Answer:
    """Give every transformer all columns and put the answers side by side."""
    weights = model.transformer_weights or {}
    parts = []
    for index, (name, step) in enumerate(model.transformer_list):
        if isinstance(step, str) and step == "drop":
            continue
        part = table
        if not isinstance(step, str):
            part = features(walk.run(step, table, f"transformer_list[{index}] {name!r}"))
        if name in weights:
            part = _weighted(walk, part, float(weights[name]))
        parts.append(part)
    return Answer(table=beside(parts))


def _weighted(walk: Walk, part: Table, weight: float) -> Table:
    columns = matrix(walk.fields, part, FLOATS)
    return each(columns, lambda _, column: operation(walk.fields, "*", column, weight, "weighted"))


@writes("sklearn.FunctionTransformer")
def function_transformer(walk: Walk, step: Any, table: Table) -> Answer:
    """Call a function that PMML has too, of each column."""
    function = step.func
    if function is None:
        return Answer(table=table if not step.validate else made(matrix(walk.fields, table)))
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, np.ufunc) or step.kw_args or name not in NAMES:
        refuse(f"calls {name}, which PMML does not have", f"use one of NumPy's own: {', '.join(sorted(NAMES))}")

    def called(_: int, column: Column) -> Column:
        if column.dtype == TEXT:
            refuse(f"calls {name} on text", "send numbers and text to different steps")
        dtype = F32 if column.dtype == F32 else F64
        return walk.fields.derive(f"{name}({column.name})", dtype, call(name, reference(column.name)))

    columns = table.columns if table.frame else matrix(walk.fields, table)
    return Answer(table=replace(each(columns, called), frame=table.frame))
