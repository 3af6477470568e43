"""scikit-learn's selection of features: the columns that are kept were chosen when it was fitted.

Source: ``sklearn/feature_selection/_base.py``
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vitrify.transforms.convert._building.data import Data, Frame, is_mixed, matrix, select
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn.compose import gives_table


@converts(
    *(
        f"sklearn.{name}"
        for name in (
            "VarianceThreshold", "SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe",
            "GenericUnivariateSelect", "SelectFromModel", "RFE", "RFECV", "SequentialFeatureSelector",
        )
    )
)  # fmt: skip
def selector(steps: Steps, step: Any, data: Data) -> Outcome:
    """Keep the selected columns; recursive elimination predicts from them too."""
    graph, kept = steps.graph, step.get_support(indices=True)
    if len(kept) == 0:
        refuse("selects no column at all", "leave the step out, or loosen it")
    plain = select(graph, matrix(graph, data), list(kept), None, scalar=False) if not is_mixed(data) else None
    table = isinstance(data, Frame) and gives_table(step)  # such a table is handed on, a type a column
    features = select(graph, data, list(kept), None, scalar=False) if table or plain is None else plain
    if not hasattr(step, "predict"):
        return Outcome(features=features)
    return replace(steps.run(step.estimator_, features if plain is None else plain, "estimator_"), features=features)
