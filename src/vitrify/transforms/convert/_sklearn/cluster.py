"""scikit-learn's clusterers that label new rows: the nearest centre.

Source: ``sklearn/cluster/_affinity_propagation.py``, ``_mean_shift.py``, ``_birch.py``, ``_bisect_k_means.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import I64, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.distances import nearest_of, squared_by_products


@converts("sklearn.AffinityPropagation", "sklearn.MeanShift")
def nearest_centre(steps: Steps, model: Any, data: Data) -> Outcome:
    """The nearest of the centres."""
    graph = steps.graph
    if len(model.cluster_centers_) == 0:
        refuse("did not converge and has no centre", "fit it with more iterations or more damping")
    index = nearest_of(graph, matrix(graph, data, FLOATS), np.asarray(model.cluster_centers_))
    return Outcome(prediction=index)


@converts("sklearn.Birch")
def birch(steps: Steps, model: Any, data: Data) -> Outcome:
    """The label of the nearest subcluster; the distances to all of them for ``transform``."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    centres = np.asarray(model.subcluster_centers_)
    label = graph.gather(np.asarray(model.subcluster_labels_), nearest_of(graph, x, centres))
    distances = graph.unary("Sqrt", squared_by_products(graph, x, centres.astype(x.dtype)))
    return Outcome(prediction=label, features=distances)


@converts("sklearn.BisectingKMeans")
def bisecting_k_means(steps: Steps, model: Any, data: Data) -> Outcome:
    """Down the tree, at each node to the nearer of two centres; the distances to all leaves for ``transform``."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    label = _descend(graph, model, model._bisecting_tree, x)  # noqa: SLF001 (no public name)
    distances = graph.unary("Sqrt", squared_by_products(graph, x, np.asarray(model.cluster_centers_)))
    return Outcome(prediction=graph.cast(label, np.int32), features=distances)


def _descend(graph: Graph, model: Any, node: Any, x: Tensor) -> Tensor:
    if node.left is None:
        return graph.op("Expand", np.array([node.label]), graph.rows(x), dtype=I64)
    centres = np.vstack((node.left.center, node.right.center))
    if hasattr(model, "_X_mean"):
        centres = centres + model._X_mean  # noqa: SLF001 (no public name)
    goes_left = graph.compare("LessOrEqual", *_ranks(graph, x, centres))
    return graph.where(goes_left, _descend(graph, model, node.left, x), _descend(graph, model, node.right, x))


def _ranks(graph: Graph, x: Tensor, centres: Any) -> tuple[Tensor, Tensor]:
    """Return ``|c|^2 - 2 x.c`` of two centres, as k-means ranks them."""
    products = graph.binary("Mul", graph.matmul(x, centres.T), -2.0)
    ranks = graph.binary("Add", products, np.einsum("ij,ij->i", centres, centres))
    return graph.gather(ranks, np.array(0), axis=1), graph.gather(ranks, np.array(1), axis=1)
