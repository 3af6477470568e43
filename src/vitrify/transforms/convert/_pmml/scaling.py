"""Numbers to numbers: scaling, cutting, powers.

Source: ``sklearn/preprocessing/_data.py``, ``_polynomial.py``, ``_discretization.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import apply, constant, element, reference
from vitrify.transforms.convert._pmml.functions import known
from vitrify.transforms.convert._pmml.matrices import FLOATS, above, each, made, matrix, operation, when
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Column, Fields, Table


@writes("sklearn.StandardScaler")
def standard_scaler(walk: Walk, step: Any, table: Table) -> Answer:
    """Subtract the mean, divide by the scale; both in the type of the data."""

    def scaled(place: int, column: Column) -> Column:
        if step.with_mean:
            column = operation(walk.fields, "-", column, column.dtype.type(step.mean_[place]), "centred")
        if step.with_std:
            column = operation(walk.fields, "/", column, column.dtype.type(step.scale_[place]), "scaled")
        return column

    return Answer(table=each(matrix(walk.fields, table, FLOATS), scaled))


@writes("sklearn.MinMaxScaler")
def min_max_scaler(walk: Walk, step: Any, table: Table) -> Answer:
    """Multiply, then add, then clip."""

    def scaled(place: int, column: Column) -> Column:
        column = operation(walk.fields, "*", column, step.scale_[place], "scaled")
        column = operation(walk.fields, "+", column, step.min_[place], "moved")
        return clipped(walk.fields, column, *step.feature_range) if step.clip else column

    return Answer(table=each(matrix(walk.fields, table, FLOATS), scaled))


def clipped(fields: Fields, column: Column, low: float, high: float) -> Column:
    """Return a column that is cut to a range; PMML's ``max`` would pass over what is missing."""
    value, number = reference(column.name), column.dtype.type
    cut = apply("min", apply("max", value, constant(number(low))), constant(number(high)))
    return fields.derive(f"clipped({column.name})", column.dtype, known(value, cut))


@writes("sklearn.MaxAbsScaler")
def max_abs_scaler(walk: Walk, step: Any, table: Table) -> Answer:
    """Divide by the largest magnitude."""

    def scaled(place: int, column: Column) -> Column:
        column = operation(walk.fields, "/", column, step.scale_[place], "scaled")
        return clipped(walk.fields, column, -1, 1) if getattr(step, "clip", False) else column

    return Answer(table=each(matrix(walk.fields, table, FLOATS), scaled))


@writes("sklearn.RobustScaler")
def robust_scaler(walk: Walk, step: Any, table: Table) -> Answer:
    """Subtract the median, divide by the range."""

    def scaled(place: int, column: Column) -> Column:
        if step.with_centering:
            column = operation(walk.fields, "-", column, step.center_[place], "centred")
        return operation(walk.fields, "/", column, step.scale_[place], "scaled") if step.with_scaling else column

    return Answer(table=each(matrix(walk.fields, table, FLOATS), scaled))


@writes("sklearn.Normalizer")
def normalizer(walk: Walk, step: Any, table: Table) -> Answer:
    """Divide each row by its norm; a row whose norm is zero stays as it is."""
    columns = matrix(walk.fields, table, FLOATS)
    dtype = columns[0].dtype
    values = [reference(column.name) for column in columns]
    if step.norm == "l2":
        size = apply("sqrt", apply("sum", *(apply("*", value, value) for value in values)))
    else:
        size = apply("sum" if step.norm == "l1" else "max", *(apply("abs", value) for value in values))
    norm = walk.fields.derive("norm", dtype, size)
    zero = apply("equal", reference(norm.name), constant(dtype.type(0)))
    safe = walk.fields.derive("norm or one", dtype, when(zero, constant(dtype.type(1)), reference(norm.name)))
    return Answer(
        table=made(
            walk.fields.derive(f"normalized({column.name})", dtype, apply("/", value, reference(safe.name)))
            for column, value in zip(columns, values, strict=True)
        )
    )


@writes("sklearn.Binarizer")
def binarizer(walk: Walk, step: Any, table: Table) -> Answer:
    """Return 1 above the threshold, else 0, in the type of the data."""
    limit = float(step.threshold)
    columns = matrix(walk.fields, table)
    return Answer(table=each(columns, lambda _, column: above(walk.fields, column, limit, column.dtype)))


@writes("sklearn.PolynomialFeatures")
def polynomial_features(walk: Walk, step: Any, table: Table) -> Answer:
    """Multiply the columns of each combination: the later columns' product times the earliest column."""
    columns = matrix(walk.fields, table, FLOATS)
    dtype = columns[0].dtype
    results: list[Column] = []
    for exponents in np.asarray(step.powers_):
        factors = np.repeat(np.arange(len(exponents)), exponents)[::-1]
        if not len(factors):
            results.append(walk.fields.derive("one", dtype, constant(dtype.type(1))))
            continue
        product = columns[factors[0]]
        for place in factors[1:]:
            other = columns[place]
            times = apply("*", reference(product.name), reference(other.name))
            product = walk.fields.derive(f"{product.name}*{other.name}", dtype, times)
        results.append(product)
    return Answer(table=made(results))


@writes("sklearn.KBinsDiscretizer")
def k_bins_discretizer(walk: Walk, step: Any, table: Table) -> Answer:
    """Count the inner edges at or below a value; one column a bin for the one-hot encodings."""
    dtype: Any = FLOATS if step.dtype is None else np.dtype(step.dtype)
    columns = matrix(walk.fields, table, dtype)
    bins = [_bin(walk.fields, column, edges) for column, edges in zip(columns, step.bin_edges_, strict=True)]
    if step.encode == "ordinal":
        return Answer(table=made(bins))
    return Answer(
        table=made(
            walk.fields.derive(
                f"{column.name}={number}",
                column.dtype,
                element("NormDiscrete", {"field": column.name, "value": float(number)}),
            )
            for column, count in zip(bins, step.n_bins_, strict=True)
            for number in range(count)
        )
    )


def _bin(fields: Fields, column: Column, edges: Any) -> Column:
    """Return the number of a value's bin, by ``Discretize``: each bin holds its left edge."""
    inner = [float(edge) for edge in edges[1:-1]]
    bounds = [None, *inner, None]
    parts = [
        element(
            "DiscretizeBin",
            {"binValue": float(place)},
            element(
                "Interval", {"closure": "closedOpen", "leftMargin": bounds[place], "rightMargin": bounds[place + 1]}
            ),
        )
        for place in range(len(inner) + 1)
    ]
    if not inner:
        return fields.derive(f"bin({column.name})", column.dtype, constant(column.dtype.type(0)))
    wide = fields.cast(column, np.dtype(np.float64))
    if wide.name == column.name and column.dtype == np.float32:
        refuse("compares in double what is single", "fit it on doubles")
    return fields.derive(f"bin({column.name})", column.dtype, element("Discretize", {"field": wide.name}, *parts))
