"""scikit-learn's functions as steps: of the columns, and of the target and back.

Source: ``sklearn/preprocessing/_function_transformer.py``, ``compose/_target.py``
"""

from __future__ import annotations

from typing import Any

from vitrify.transforms.convert._building.data import Data, made, matrix
from vitrify.transforms.convert._building.graph import Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.ufuncs import apply_function, is_known
from vitrify.transforms.convert._sklearn.inverse import inverse
from vitrify.transforms.convert._trace.custom import function as traced_function


@converts("sklearn.FunctionTransformer")
def function_transformer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Convert the functions that ONNX has; any other is code, which is traced."""
    x = matrix(steps.graph, data) if step.validate else data
    if step.func is None:
        return Outcome(features=x)
    if is_known(step.func) and not step.kw_args:
        return Outcome(features=of_each(steps.graph, step.func, x))
    features = traced_function(steps.graph, step.func, x, step, step.kw_args or {})
    steps.notes.append(
        f"{getattr(step.func, '__qualname__', 'a function')} was traced: its NumPy code became operators of the graph"
    )
    return Outcome(features=features)


def of_each(graph: Graph, function: Any, data: Data) -> Data:
    """Return a function of each element; the columns of a table keep a type each, as they do in pandas."""
    if isinstance(data, Tensor):
        return apply_function(graph, function, data)
    if data.objects:
        name = getattr(function, "__name__", type(function).__name__)
        refuse(f"calls {name} on an array of objects", "send text and numbers to different steps")
    return made([apply_function(graph, function, column.tensor) for column in data.columns])


@converts("sklearn.TransformedTargetRegressor")
def transformed_target_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Take the target's transformation back."""
    graph = steps.graph
    outcome = steps.run(model.regressor_, data, "regressor_")
    if outcome.prediction is None:
        refuse("holds a part that predicts no number", "use a regressor inside it")
    table = graph.reshape(outcome.prediction, -1, int(model.transformer_.n_features_in_))
    value = inverse(graph, model.transformer_, table)
    flat = model._training_dim == 1  # noqa: SLF001 (the target's dimensions, which it restores)
    return Outcome(prediction=graph.reshape(value, -1) if flat else value)
