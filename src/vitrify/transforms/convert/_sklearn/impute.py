"""scikit-learn's imputers: what is missing, and what takes its place.

Source: ``sklearn/impute/_base.py``, ``_knn.py``, ``_iterative.py``, ``metrics/pairwise.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import (
    FLOATS,
    NAN_TEXT,
    NONE_TEXT,
    Data,
    columns,
    made,
    matrix,
    merged,
    width,
)
from vitrify.transforms.convert._building.graph import BOOL, F32, F64, TEXT, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.distances import squared_by_products
from vitrify.transforms.convert._numerics.heap import first_known
from vitrify.transforms.convert._sklearn.compose import gives_table


def is_missing(graph: Graph, x: Tensor, marker: Any) -> Tensor:
    """Return where a value is what a scikit-learn step calls missing."""
    anything = type(marker).__name__ == "NAType"  # pandas' own mark: NaN and None alike
    nothing = anything or _is_nan(marker)
    if x.dtype == TEXT:
        return _is_missing_text(graph, x, marker, anything=anything)
    if marker is None or isinstance(marker, str):
        return _never(graph, x)
    if not nothing:
        return graph.compare("Equal", x, np.asarray(marker))
    return graph.op("IsNaN", x, dtype=BOOL) if x.dtype in {F32, F64} else _never(graph, x)


def _is_nan(value: Any) -> bool:
    return value is not None and not isinstance(value, str) and bool(value != value)  # noqa: PLR0124 (NaN)


def _is_missing_text(graph: Graph, x: Tensor, marker: Any, *, anything: bool) -> Tensor:
    if anything:
        found = [graph.compare("Equal", x, np.array(mark, TEXT)) for mark in (NONE_TEXT, NAN_TEXT)]
        return graph.op("Or", *found, dtype=BOOL)
    if marker is None or _is_nan(marker):
        return graph.compare("Equal", x, np.array(NONE_TEXT if marker is None else NAN_TEXT, TEXT))
    # A number is no text: nothing equals it.
    return graph.compare("Equal", x, np.array(marker if isinstance(marker, str) else "\ue000never", TEXT))


def _never(graph: Graph, x: Tensor) -> Tensor:
    """Return False for every value."""
    return graph.op("And", graph.compare("Equal", x, x), np.array(False), dtype=BOOL)  # noqa: FBT003 (a constant)


@converts("sklearn.SimpleImputer")
def simple_imputer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Put the statistic where a value is missing; a column that had none at all is dropped."""
    graph = steps.graph
    if step._fit_dtype.kind == "O":  # noqa: SLF001 (the type that it reads everything as from then on)
        return Outcome(features=_fill_objects(graph, step, data))
    x = matrix(graph, data, None if step.strategy in {"most_frequent", "constant"} else FLOATS)
    missing = is_missing(graph, x, step.missing_values)
    kept = _kept(step)
    values = np.asarray(step.statistics_)[kept].astype(step._fill_dtype).astype(x.dtype)  # noqa: SLF001 (scikit-learn's own cast)
    every = len(kept) == len(step.statistics_)
    filled, holes = (x, missing) if every else (graph.gather(part, kept, axis=1) for part in (x, missing))
    return Outcome(features=_flagged(graph, step, graph.where(holes, values, filled), missing))


def _kept(step: Any) -> Array:
    """Return the places of the columns that had a value when the imputer was fitted."""
    if step.keep_empty_features:
        return np.arange(len(step.statistics_))
    return np.flatnonzero([not _is_nan(value) for value in np.asarray(step.statistics_, object)])


def _flagged(graph: Graph, step: Any, filled: Tensor, missing: Tensor) -> Tensor:
    """Return the filled values, and beside them the indicator that the imputer may have."""
    if not step.add_indicator:
        return filled
    flags = graph.gather(missing, np.asarray(step.indicator_.features_), axis=1)
    return graph.concat([filled, graph.cast(flags, filled.dtype)])


def _fill_objects(graph: Graph, step: Any, data: Data) -> Data:
    """Fill an array of objects: each column is text or numbers."""
    parts = columns(graph, data, width(data, step))
    holes = [is_missing(graph, column.tensor, step.missing_values) for column in parts]
    filled = [_filled(graph, parts[place].tensor, holes[place], step.statistics_[place]) for place in _kept(step)]
    if step.add_indicator:
        filled += [holes[place] for place in step.indicator_.features_]
    if gives_table(step) and _one_missing_text():
        filled = [merged(graph, value) if value.dtype == TEXT else value for value in filled]
    if filled and all(value.dtype == TEXT for value in filled):
        return graph.concat([graph.column(value) for value in filled])
    return made(filled, objects=True)


def _one_missing_text() -> bool:
    """Return whether a frame that is made of text and None has NaN instead, as since pandas 3."""
    import pandas as pd

    return pd.DataFrame(np.array([["text"], [None]], object)).iloc[1, 0] is not None


def _filled(graph: Graph, x: Tensor, missing: Tensor, value: Any) -> Tensor:
    if isinstance(value, str) != (x.dtype == TEXT):
        kinds = ("text", "numbers") if isinstance(value, str) else ("a number", "text")
        refuse(f"puts {kinds[0]} ({value!r}) into a column of {kinds[1]}", "use a fill_value of the column's own kind")
    return graph.where(missing, np.array(value, TEXT) if x.dtype == TEXT else np.asarray(value), x)


@converts("sklearn.MissingIndicator")
def missing_indicator(steps: Steps, step: Any, data: Data) -> Outcome:
    """Say where values are missing; a column that had none when it was fitted may be refused."""
    graph, every = steps.graph, np.arange(step.n_features_in_)
    if step._precomputed:  # noqa: SLF001 (it was fitted on a mask)
        missing = matrix(graph, data, BOOL)
    else:
        parts = [is_missing(graph, c.tensor, step.missing_values) for c in columns(graph, data, len(every))]
        missing = graph.concat([graph.column(part) for part in parts])
    if step.features == "all":
        return Outcome(features=missing)
    others = np.setdiff1d(every, step.features_)
    kept = graph.gather(missing, np.asarray(step.features_), axis=1)
    if step.error_on_new and len(others):
        new = graph.reduce("ReduceMax", graph.cast(graph.gather(missing, others, axis=1), np.int32), 1, keep=True)
        # Position 1 is out of bounds: the graph fails where scikit-learn raises.
        kept = graph.op("Or", kept, graph.gather(np.array([False]), new), dtype=BOOL)
    return Outcome(features=kept)


def nan_distances(graph: Graph, x: Tensor, missing: Tensor, points: Array, holes: Array) -> Tensor:
    """Return (rows, points): Euclidean distances over what both have, scaled up to all columns; NaN if that is nothing.

    In scikit-learn's own order and type: the shortcut with squares and products, which is in double, then what was
    missing is taken away.
    """
    zero, one = np.zeros((), x.dtype), np.ones((), x.dtype)
    filled, known = graph.where(missing, zero, x), np.where(holes, zero, points)
    squares, known_squares = graph.binary("Mul", filled, filled), known * known
    distances = squared_by_products(graph, filled, known)
    distances = graph.binary("Sub", distances, graph.matmul(squares, holes.T.astype(x.dtype)))
    distances = graph.binary("Sub", distances, graph.matmul(graph.cast(missing, x.dtype), known_squares.T))
    distances = graph.op("Max", distances, zero, dtype=x.dtype)
    there = graph.cast(graph.op("Not", missing, dtype=BOOL), x.dtype)
    present = graph.matmul(there, (~holes).T.astype(x.dtype))
    nothing = graph.compare("Equal", present, zero)
    scaled = graph.binary("Div", distances, graph.op("Max", present, one, dtype=x.dtype))
    scaled = graph.unary("Sqrt", graph.binary("Mul", scaled, float(points.shape[1])))
    return graph.where(nothing, np.array(np.nan, x.dtype), scaled)


@converts("sklearn.KNNImputer")
def knn_imputer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Put the mean of the nearest rows that have the value where it is missing."""
    graph = steps.graph
    if step.metric != "nan_euclidean" or step.weights not in {"uniform", "distance"}:
        refuse("measures or weighs by Python code", "use metric='nan_euclidean' and weights='uniform' or 'distance'")
    x = matrix(graph, data, FLOATS)
    missing = is_missing(graph, x, step.missing_values)
    points, holes = np.asarray(step._fit_X), np.asarray(step._mask_fit_X)  # noqa: SLF001 (the training rows)
    kind = np.result_type(x.dtype, points.dtype)  # what the source measures in
    measured = nan_distances(graph, graph.cast(x, kind), missing, points.astype(kind), holes)
    distances = graph.cast(measured, F64)
    filled = []
    for place in range(points.shape[1]):
        column = graph.gather(x, np.array([place]), axis=1)
        if step._valid_mask[place]:  # noqa: SLF001 (columns that had a value)
            value = _from_neighbours(graph, step, distances, points[:, place], holes[:, place])
            hole = graph.gather(missing, np.array([place]), axis=1)
            filled.append(graph.where(hole, graph.cast(value, x.dtype), column))
        elif step.keep_empty_features:
            filled.append(graph.binary("Mul", graph.cast(graph.compare("Equal", column, column), x.dtype), 0.0))
    return Outcome(features=_flagged(graph, step, graph.concat(filled), missing))


def _from_neighbours(graph: Graph, step: Any, distances: Tensor, values: Array, holes: Array) -> Tensor:
    """Return (rows, 1): the mean over the nearest donors, of equally far ones the first; over all if none is known."""
    donors = np.flatnonzero(~holes)
    near = graph.gather(distances, donors, axis=1)
    shortest, places = first_known(graph, near, min(step.n_neighbors, len(donors)))
    known = graph.op("Not", graph.op("IsNaN", shortest, dtype=BOOL), dtype=BOOL)
    weights = graph.cast(known, F64)
    if step.weights == "distance":
        weights = _by_distance(graph, shortest, weights)
    given = graph.gather(values[donors].astype(F64), places)
    total = graph.reduce("ReduceSum", graph.binary("Mul", given, weights), 1, keep=True)
    mean = graph.binary("Div", total, graph.reduce("ReduceSum", weights, 1, keep=True))
    # Of weights that are all zero NumPy's masked mean leaves the sum.
    apart = graph.binary("Sub", mean, mean)
    mean = graph.where(graph.compare("Equal", apart, np.zeros(())), mean, total)
    some = graph.compare("Greater", graph.reduce("ReduceSum", graph.cast(known, F64), 1, keep=True), np.zeros(()))
    return graph.where(some, mean, np.asarray(values[donors].mean(), F64))


def _by_distance(graph: Graph, distances: Tensor, known: Tensor) -> Tensor:
    """Return one over the distance; a row that has neighbours at distance zero counts them alone."""
    same = graph.compare("Equal", distances, np.zeros(()))
    some = graph.reduce("ReduceMax", graph.cast(same, F64), 1, keep=True)
    there = graph.compare("Greater", known, np.zeros(()))
    inverse = graph.where(there, graph.unary("Reciprocal", distances), np.zeros(()))
    return graph.where(graph.compare("Greater", some, np.zeros(())), graph.cast(same, F64), inverse)


@converts("sklearn.IterativeImputer")
def iterative_imputer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Fill roughly, then predict each column from the others, round after round."""
    graph = steps.graph
    if step.sample_posterior:
        refuse("draws at random (sample_posterior=True)", "use sample_posterior=False")
    x = matrix(graph, data, FLOATS)
    everywhere = is_missing(graph, x, step.missing_values)
    start = simple_imputer(steps, step.initial_imputer_, x).features
    assert isinstance(start, Tensor)
    empty = np.asarray(step._is_empty_feature)  # noqa: SLF001 (columns that had no value)
    missing = graph.op("And", everywhere, ~empty, dtype=BOOL)
    if not step.keep_empty_features and empty.any():
        missing = graph.gather(everywhere, np.flatnonzero(~empty), axis=1)
    filled = start
    for number, (place, neighbours, estimator) in enumerate(step.imputation_sequence_):
        others = graph.gather(filled, np.asarray(neighbours), axis=1)
        outcome = steps.run(estimator, others, f"imputation_sequence_[{number}].estimator", str(number))
        if outcome.prediction is None:
            refuse("holds a part that predicts no number", "use a regressor as estimator")
        bounds = (np.asarray(step._min_value)[place], np.asarray(step._max_value)[place])  # noqa: SLF001 (by column)
        value = graph.cast(graph.reshape(_within(graph, outcome.prediction, bounds), -1, 1), filled.dtype)
        here = np.arange(len(empty) if step.keep_empty_features else int((~empty).sum())) == place
        filled = graph.where(graph.op("And", missing, here, dtype=BOOL), value, filled)
    nothing = graph.op("ReduceMin", graph.cast(missing, np.int32), dtype=np.int32, keepdims=0)
    filled = graph.where(graph.cast(nothing, BOOL), start, filled)  # scikit-learn asks that of the whole batch
    return Outcome(features=_flagged(graph, step, filled, everywhere))


def _within(graph: Graph, value: Tensor, bounds: tuple[Any, Any]) -> Tensor:
    low, high = (np.asarray(bound, value.dtype) for bound in bounds)
    return graph.op("Min", graph.op("Max", value, low, dtype=value.dtype), high, dtype=value.dtype)
