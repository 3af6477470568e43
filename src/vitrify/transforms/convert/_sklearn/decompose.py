"""scikit-learn's decompositions that are a product, or a few: dictionaries, sparse components, machines, pools.

Source: ``sklearn/decomposition/_sparse_pca.py``, ``_dict_learning.py``, ``neural_network/_rbm.py``,
``neighbors/_nca.py``, ``cluster/_feature_agglomeration.py``, ``cross_decomposition/_pls.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import F64, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.pursuit import orthogonal_pursuit
from vitrify.transforms.convert._sklearn.scale import in_place


@converts("sklearn.SparsePCA", "sklearn.MiniBatchSparsePCA")
def sparse_pca(steps: Steps, step: Any, data: Data) -> Outcome:
    """Centre, then the ridge regression onto the components, whose solution is a product."""
    graph, x = steps.graph, matrix(steps.graph, data)
    parts = np.asarray(step.components_)
    inner = parts @ parts.T + step.ridge_alpha * np.eye(len(parts), dtype=parts.dtype)
    centred = graph.binary("Sub", x, np.asarray(step.mean_))
    return Outcome(features=graph.matmul(centred, np.linalg.solve(inner, parts).T))


@converts("sklearn.NeighborhoodComponentsAnalysis")
def neighborhood_components(steps: Steps, step: Any, data: Data) -> Outcome:
    """Project."""
    return Outcome(features=steps.graph.matmul(matrix(steps.graph, data), np.asarray(step.components_).T))


@converts("sklearn.BernoulliRBM")
def bernoulli_rbm(steps: Steps, step: Any, data: Data) -> Outcome:
    """The probabilities of the hidden units."""
    graph = steps.graph
    score = graph.matmul(matrix(graph, data, FLOATS), np.asarray(step.components_).T)
    return Outcome(features=graph.sigmoid(in_place(graph, "Add", score, np.asarray(step.intercept_hidden_))))


@converts("sklearn.PLSSVD")
def pls_svd(steps: Steps, step: Any, data: Data) -> Outcome:
    """Standardise, then project."""
    graph, x = steps.graph, matrix(steps.graph, data, F64)
    x = graph.binary("Div", graph.binary("Sub", x, step._x_mean), step._x_std)  # noqa: SLF001 (no public name)
    return Outcome(features=graph.matmul(x, np.asarray(step.x_weights_)))


@converts("sklearn.FeatureAgglomeration")
def feature_agglomeration(steps: Steps, step: Any, data: Data) -> Outcome:
    """Pool the columns of each cluster."""
    graph, x = steps.graph, matrix(steps.graph, data)
    pools = [np.flatnonzero(step.labels_ == label) for label in np.unique(step.labels_)]
    kinds = {np.mean: "ReduceSum", np.sum: "ReduceSum", np.max: "ReduceMax", np.min: "ReduceMin"}
    kind = kinds.get(step.pooling_func)
    if kind is None:
        name = getattr(step.pooling_func, "__name__", type(step.pooling_func).__name__)
        if step.pooling_func is not np.median:
            refuse(f"pools by {name}, which is Python code", "pool by numpy.mean, median, sum, max or min")
        return Outcome(features=graph.concat([graph.column(_median(graph, x, pool)) for pool in pools]))
    mean = step.pooling_func is np.mean
    x = graph.cast(x, F64) if mean else x
    values = [graph.reduce(kind, graph.gather(x, pool, axis=1), 1, keep=True) for pool in pools]
    pooled = graph.concat(values)
    return Outcome(features=graph.binary("Div", pooled, np.array([float(len(p)) for p in pools])) if mean else pooled)


def _median(graph: Graph, x: Tensor, pool: Array) -> Tensor:
    """Return the middle of each row's values in some columns, or the mean of the middle two; NaN where one is NaN."""
    chosen = graph.gather(x if x.dtype.kind == "f" else graph.cast(x, F64), pool, axis=1)
    half = len(pool) // 2
    ordered, _ = graph.ops(
        "TopK", chosen, np.array([half + 1]), dtypes=(chosen.dtype, np.dtype(np.int64)), axis=1, largest=0, sorted=1
    )
    middle = [half] if len(pool) % 2 else [half - 1, half]
    value = graph.reduce("ReduceMean", graph.gather(ordered, np.array(middle), axis=1), 1)
    return graph.binary("Add", value, graph.binary("Mul", graph.reduce("ReduceSum", chosen, 1), 0.0))


@converts("sklearn.DictionaryLearning", "sklearn.MiniBatchDictionaryLearning", "sklearn.SparseCoder")
def dictionary_learning(steps: Steps, step: Any, data: Data) -> Outcome:
    """Encode the rows by atoms of the dictionary."""
    graph, x = steps.graph, matrix(steps.graph, data)
    atoms = np.asarray(step.components_ if hasattr(step, "components_") else step.dictionary)
    alpha = step.alpha if hasattr(step, "alpha") and step.transform_alpha is None else step.transform_alpha
    algorithm = step.transform_algorithm
    if algorithm == "threshold":
        code = _soft_threshold(graph, graph.matmul(x, atoms.T), 1.0 if alpha is None else float(alpha))
        code = graph.unary("Relu", code) if step.positive_code else code
    elif algorithm == "omp":
        count = step.transform_n_nonzero_coefs
        count = min(max(atoms.shape[1] // 10, 1), len(atoms)) if count is None else int(count)
        code = orthogonal_pursuit(graph, x, atoms, count)
    else:
        message = f"encodes by {algorithm!r}, an iteration whose length depends on the data"
        refuse(message, "use transform_algorithm='omp' or 'threshold'")
    if step.split_sign:
        zero = np.zeros((), code.dtype)
        sides = [graph.op(kind, code, zero, dtype=code.dtype) for kind in ("Max", "Min")]
        code = graph.cast(graph.concat([sides[0], graph.unary("Neg", sides[1])]), F64)
    return Outcome(features=code)


def _soft_threshold(graph: Graph, x: Tensor, bound: float) -> Tensor:
    size = graph.binary("Sub", graph.unary("Abs", x), bound)
    size = graph.op("Max", size, np.zeros((), size.dtype), dtype=size.dtype)
    return graph.binary("Mul", graph.unary("Sign", x), size)
