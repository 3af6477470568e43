"""Weighted sums of columns, and choices of some.

Source: ``sklearn/decomposition``, ``sklearn/feature_selection``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import apply, constant, reference
from vitrify.transforms.convert._pmml.matrices import FLOATS, made, matrix
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Column, Fields, Table

_MOST = 4096
"""Products that a projection is written out as."""


def weighted(fields: Fields, columns: Sequence[Column], weights: Any, after: Any, name: str) -> list[Column]:
    """Return ``x @ weights.T``, each column after one more step.

    Args:
        fields: Of the document.
        columns: Of the matrix.
        weights: A row for each result.
        after: From a result's place and expression to its last expression.
        name: What the results are called.
    """
    table = np.asarray(weights)
    if table.size > _MOST:
        remedy = "convert to onnx, which holds matrices"
        refuse(f"is a matrix of {table.size:,} weights, and PMML writes each as a product", remedy)
    results = []
    for place, row in enumerate(table):
        terms = [
            apply("*", reference(column.name), constant(float(weight)))
            for column, weight in zip(columns, row, strict=True)
            if weight != 0
        ]
        total: Element = constant(0.0) if not terms else terms[0] if len(terms) == 1 else apply("sum", *terms)
        results.append(fields.derive(f"{name}_{place}", columns[0].dtype, after(place, total)))
    return results


@writes("sklearn.PCA", "sklearn.IncrementalPCA")
def pca(walk: Walk, step: Any, table: Table) -> Answer:
    """Project, then centre, then whiten."""
    columns = matrix(walk.fields, table, FLOATS)
    moved = np.ravel(step.mean_.reshape(1, -1) @ step.components_.T)
    scale = np.sqrt(step.explained_variance_)
    scale = np.maximum(scale, np.finfo(scale.dtype).eps)

    def after(place: int, total: Element) -> Element:
        centred = apply("-", total, constant(float(moved[place])))
        return apply("/", centred, constant(float(scale[place]))) if step.whiten else centred

    return Answer(table=made(weighted(walk.fields, columns, step.components_, after, "pca")))


@writes("sklearn.TruncatedSVD", "sklearn.GaussianRandomProjection", "sklearn.SparseRandomProjection")
def projection(walk: Walk, step: Any, table: Table) -> Answer:
    """Project."""
    weights = step.components_.toarray() if hasattr(step.components_, "toarray") else step.components_
    columns = matrix(walk.fields, table, FLOATS)
    name = type(step).__name__.lower()
    return Answer(table=made(weighted(walk.fields, columns, weights, lambda _, total: total, name)))


@writes(
    *(
        f"sklearn.{name}"
        for name in (
            "GenericUnivariateSelect", "RFE", "RFECV", "SelectFdr", "SelectFpr", "SelectFromModel", "SelectFwe",
            "SelectKBest", "SelectPercentile", "SequentialFeatureSelector", "VarianceThreshold",
        )
    )
)  # fmt: skip
def selector(walk: Walk, step: Any, table: Table) -> Answer:
    """Keep some columns."""
    columns = matrix(walk.fields, table)
    if hasattr(step, "predict") and not hasattr(step, "transform"):
        refuse("predicts", "use the model inside it")
    return Answer(table=made(columns[place] for place in step.get_support(indices=True)))
