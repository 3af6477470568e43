"""The branches of column transformers and unions, one by one: which there are, and what reaches each.

Source: ``sklearn/compose/_column_transformer.py``, ``sklearn/pipeline.py``
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitrify.formats._hybrid.recipe import Source


@dataclass(frozen=True)
class Flow:
    """What reaches a part.

    Attributes:
        native: The rows, as scikit-learn hands them over.
        feeds: For each input of their signature, in order, where it comes from.
    """

    native: Any
    feeds: dict[str, Source]


def is_a(model: Any, *names: str) -> bool:
    """Return whether a model is of one of these classes of scikit-learn."""
    return type(model).__name__ in names and type(model).__module__.partition(".")[0] == "sklearn"


def branch_names(model: Any) -> list[str]:
    """Return the branches that give columns, in order."""
    if is_a(model, "FeatureUnion"):
        return [name for name, step in model.transformer_list if step != "drop"]
    return [
        name
        for name, step, _ in model.transformers_
        if not (isinstance(step, str) and step == "drop") and len(model._transformer_to_input_indices[name])  # noqa: SLF001 (what its columns came to)
    ]


def only(model: Any, names: list[str]) -> Any:
    """Return a fitted copy with some of the branches."""
    twin = copy.copy(model)
    if is_a(model, "FeatureUnion"):
        twin.transformer_list = [(name, step) for name, step in model.transformer_list if name in names]
        return twin
    twin.transformers = [entry for entry in model.transformers if entry[0] in names]
    twin.transformers_ = [entry for entry in model.transformers_ if entry[0] in names]
    indices = model._transformer_to_input_indices  # noqa: SLF001 (its own bookkeeping has to follow)
    twin._transformer_to_input_indices = {name: places for name, places in indices.items() if name in names}  # noqa: SLF001
    twin.sparse_output_ = False
    return twin


def branch_flow(model: Any, name: str, flow: Flow) -> tuple[Any, Flow] | None:
    """Return the estimator of a branch with what reaches it; None where that cannot be told apart."""
    if is_a(model, "FeatureUnion"):
        step = dict(model.transformer_list)[name]
        return None if (model.transformer_weights or {}).get(name) is not None else (step, flow)
    step, chosen = next((step, chosen) for label, step, chosen in model.transformers_ if label == name)
    places = [int(place) for place in model._transformer_to_input_indices[name]]  # noqa: SLF001 (what slices and masks came to)
    if isinstance(step, str):
        return None
    if isinstance(flow.native, np.ndarray):
        part = flow.native[:, places[0] if np.isscalar(chosen) else places]
        ((field, source),) = flow.feeds.items()
        columns = tuple(source.columns[place] for place in places) if source.columns else tuple(places)
        return step, Flow(part, {field: Source(slot=source.slot, columns=columns, vector=bool(np.isscalar(chosen)))})
    if not hasattr(flow.native, "iloc") or not hasattr(model, "feature_names_in_"):
        return None
    labels = list(flow.native.columns)
    where = [labels.index(model.feature_names_in_[place]) for place in places]
    feeds = list(flow.feeds.items())
    part = flow.native.iloc[:, where[0] if np.isscalar(chosen) else where]
    return step, Flow(part, dict(feeds[place] for place in where))
