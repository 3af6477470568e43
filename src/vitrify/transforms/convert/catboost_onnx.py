"""CatBoost to ONNX: features in float32, leaves added in double.

CatBoost writes ONNX itself, but adds in float32 and ends in a list of dictionaries; its JSON form says all that is
needed to do better.

Source: CatBoost's JSON model, https://catboost.ai/docs/en/concepts/python-reference_catboost_save_model, and
``catboost/libs/model``
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from vitrify.transforms.convert._data import Data, matrix
from vitrify.transforms.convert._estimator import EstimatorToOnnx
from vitrify.transforms.convert._graph import F32, F64, Array, Graph, Tensor
from vitrify.transforms.convert._sklearn_linear import above, two_columns
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._trees import Mode, Tree, add_in_order


class CatBoostToOnnx(EstimatorToOnnx):
    """CatBoost's classes for classification, regression and ranking."""


_EXPONENTIAL = frozenset({"Poisson", "Tweedie"})
