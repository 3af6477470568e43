"""scikit-learn's features from records: a column a name, or a column a name and text together.

Source: ``sklearn/feature_extraction/_dict_vectorizer.py``, ``_hash.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import NAN_TEXT, NONE_TEXT, Column, Data, Frame
from vitrify.transforms.convert._building.graph import BOOL, TEXT, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn.hashing import added, check_width, counted, hashed_place


def _records(data: Data) -> Frame:
    if not isinstance(data, Frame):
        refuse("is called with records of names and values", "save it with an example that is a list of dicts")
    return data


@converts("sklearn.DictVectorizer")
def dict_vectorizer(steps: Steps, step: Any, data: Data) -> Outcome:
    """The value of each known name; for text one where it is the known one."""
    graph, kind = steps.graph, np.dtype(step.dtype)
    columns = _records(data).columns
    if kind.kind != "f":
        refuse(f"gives values of type {kind}, to which each is cast", "use dtype=numpy.float64")
    parts = [_feature(graph, step, columns, name) for name in step.feature_names_]
    return Outcome(features=graph.concat([graph.column(part) for part in parts]))


def _feature(graph: Graph, step: Any, columns: tuple[Column, ...], name: str) -> Tensor:
    kind = np.dtype(step.dtype)
    found: list[Tensor] = []
    for column in columns:
        start = f"{column.key}{step.separator}"
        if column.tensor.dtype != TEXT and column.key == name:
            found.append(graph.cast(column.tensor, kind))
        elif column.key == name:  # text, which was missing when the names were learnt
            gone = [graph.compare("Equal", column.tensor, np.array(mark, TEXT)) for mark in (NAN_TEXT, NONE_TEXT)]
            missing = graph.op("Or", *gone, dtype=BOOL)
            found.append(graph.where(missing, np.array(np.nan, kind), np.zeros((), kind)))
        elif column.tensor.dtype == TEXT and name.startswith(start):
            same = graph.compare("Equal", column.tensor, np.array(name.removeprefix(start), TEXT))
            found.append(graph.cast(same, kind))
    if not found:
        rows = graph.rows(columns[0].tensor)
        return graph.op("ConstantOfShape", rows, dtype=kind, value=np.zeros(1, kind))
    total = found[0]
    for part in found[1:]:
        total = graph.binary("Add", total, part)
    return total


@converts("sklearn.FeatureHasher")
def feature_hasher(steps: Steps, step: Any, data: Data) -> Outcome:
    """Hash each name, or name and text together; add up the values, some with their sign turned."""
    graph, kind = steps.graph, np.dtype(step.dtype)
    if step.input_type != "dict":
        refuse(f"takes lists of different lengths (input_type={step.input_type!r})", "use input_type='dict'")
    check_width(step)
    if kind.kind != "f":
        refuse(f"gives values of type {kind}, to which each is cast", "use dtype=numpy.float64")
    places, values = [], []
    for column in _records(data).columns:
        place, value = _hashed(graph, step, column)
        places.append(graph.column(place))
        values.append(graph.column(graph.cast(value, kind)))
    return Outcome(features=added(graph, step, graph.concat(places), graph.concat(values)))


def _hashed(graph: Graph, step: Any, column: Column) -> tuple[Tensor, Tensor]:
    """Return the column that each row's value is counted in, and what is added there."""
    name = np.array([str(column.key)], object)
    alone = graph.op("Expand", name, graph.rows(column.tensor), dtype=TEXT)
    if column.tensor.dtype != TEXT:
        place, sign = hashed_place(graph, step, alone)
        return place, graph.binary("Mul", sign, graph.cast(column.tensor, counted(step)))
    token = graph.op("StringConcat", np.array([f"{column.key}="], object), column.tensor, dtype=TEXT)
    missing = graph.compare("Equal", column.tensor, np.array(NAN_TEXT, TEXT))  # a number to scikit-learn
    place, sign = hashed_place(graph, step, graph.where(missing, alone, token))
    return place, graph.where(missing, np.array(np.nan, sign.dtype), sign)
