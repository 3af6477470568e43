"""The nearest of some centres, ranked as scikit-learn ranks them: by ``2 x c - |c|^2``, a ``RegressionModel`` each.

PMML's own ``ClusteringModel`` adds squared differences, which are all alike far away from every centre.

Source: ``sklearn/cluster/_k_means_lloyd.pyx``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.decisions import chosen
from vitrify.transforms.convert._pmml.linear import predicted, tables_of
from vitrify.transforms.convert._pmml.matrices import FLOATS, matrix, names
from vitrify.transforms.convert._pmml.walk import Answer, Walk, writes

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Table


@writes("sklearn.KMeans", "sklearn.MiniBatchKMeans")
def k_means(walk: Walk, model: Any, table: Table) -> Answer:
    """The number of the nearest centre."""
    columns, centres = names(matrix(walk.fields, table, FLOATS)), np.asarray(model.cluster_centers_)
    tables = tables_of(2.0 * centres, -np.einsum("ij,ij->i", centres, centres))
    chain, scores = predicted(walk.fields, columns, tables, many=True, name="nearness")
    return chosen(walk.fields, chain, scores, range(len(centres)))
