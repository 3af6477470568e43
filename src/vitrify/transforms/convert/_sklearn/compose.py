"""scikit-learn's ways to put transformers together: one after the other, side by side, a few columns each.

Source: ``sklearn/pipeline.py``, ``compose/_column_transformer.py``, ``utils/_set_output.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Data, Frame, joined, made, matrix, select
from vitrify.transforms.convert._building.graph import BOOL, TEXT, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse


def features(outcome: Outcome) -> Data:
    """Return what a step's ``transform`` gives.

    Raises:
        UnsupportedModelError: It is no transformer.
    """
    if outcome.features is None:
        refuse("stands where a transformer must stand", "put transformers before it only")
    return outcome.features


def gives_table(step: Any) -> bool:
    """Return whether a step's ``transform`` gives a table, as ``set_output`` or the configuration wants it."""
    from sklearn.utils._set_output import _get_output_config  # as scikit-learn itself asks

    return bool(_get_output_config("transform", step)["dense"] != "default")


@converts("sklearn.Pipeline")
def pipeline(steps: Steps, model: Any, data: Data) -> Outcome:
    """Run one step after the other; the last one's answer is the answer."""
    outcome = Outcome(features=data)
    for index, (name, step) in enumerate(model.steps):
        if step is None or step == "passthrough":
            continue
        outcome = steps.run(step, features(outcome), f"steps[{index}] {name!r}", name)
    return outcome


@converts("sklearn.ColumnTransformer")
def column_transformer(steps: Steps, model: Any, data: Data) -> Outcome:
    """Give each transformer its columns and put the answers side by side."""
    names = getattr(model, "feature_names_in_", None)
    parts: list[Data] = []
    counts: list[int] = []
    for index, (name, step, chosen) in enumerate(model.transformers_):
        places = model._transformer_to_input_indices[name]  # noqa: SLF001 (what slices, masks and callables came to)
        width = model.output_indices_[name]
        if (isinstance(step, str) and step == "drop") or len(places) == 0:
            continue
        keys = None if names is None else [names[place] for place in places]
        part = select(steps.graph, data, list(places), keys, scalar=np.isscalar(chosen))
        if not _passes(step):
            part = features(steps.run(step, part, f"transformers[{index}] {name!r}", name))
        if width.stop > width.start:
            parts.append(part)
            counts.append(width.stop - width.start)
    if not parts:
        refuse("keeps no column at all", "leave the step out")
    if model.sparse_output_:  # each part is then read by check_array
        parts = [matrix(steps.graph, part) for part in parts]
    return Outcome(features=joined(steps.graph, parts, counts, table=gives_table(model)))


def _passes(step: Any) -> bool:
    """Return whether a part hands its columns on: the word becomes such a FunctionTransformer when fitted."""
    if isinstance(step, str):
        return step == "passthrough"
    return type(step).__name__ == "FunctionTransformer" and step.func is None and not step.validate


@converts("sklearn.FeatureUnion")
def feature_union(steps: Steps, model: Any, data: Data) -> Outcome:
    """Give every transformer all columns and put the answers side by side."""
    graph, weights = steps.graph, model.transformer_weights or {}
    table = gives_table(model)
    parts: list[Data] = []
    fitted: list[Any] = []
    for index, (name, step) in enumerate(model.transformer_list):
        if isinstance(step, str) and step == "drop":
            continue
        part = data
        if not isinstance(step, str):
            part = features(steps.run(step, data, f"transformer_list[{index}] {name!r}", name))
        if name in weights:
            part = _weighted(graph, part, weights[name])
        parts.append(part)
        fitted.append(step)
    if not parts:
        refuse("keeps no transformer at all", "leave the step out")
    apart = table or any(isinstance(part, Frame) or part.dtype == TEXT for part in parts)
    counts = [_width(part, step, model) if apart else 0 for part, step in zip(parts, fitted, strict=True)]
    return Outcome(features=joined(graph, parts, counts, table=table))


def _weighted(graph: Graph, part: Data, weight: Any) -> Data:
    if isinstance(part, Tensor):
        return graph.binary("Mul", part, weight)
    values = [column.tensor for column in part.columns]
    if any(value.dtype == BOOL for value in values):
        values = [graph.cast(value, np.float64) if value.dtype == BOOL else value for value in values]
    return made([graph.binary("Mul", value, weight) for value in values], objects=part.objects)


def _width(part: Data, step: Any, union: Any) -> int:
    """Return how many columns a fitted transformer gives."""
    if isinstance(part, Frame):
        return len(part.columns)
    if isinstance(step, str):  # the word "passthrough"
        return int(union.n_features_in_)
    if not hasattr(step, "get_feature_names_out"):
        refuse(f"holds a {type(step).__name__} that does not name its columns", "give it get_feature_names_out")
    return len(step.get_feature_names_out())
