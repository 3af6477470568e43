"""Models that the artifact tests share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from servers import oci_registry
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

__all__ = ["oci_registry"]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(18, 90, 40), "income": rng.normal(3e4, 1e4, 40)})


@pytest.fixture
def model(table):
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(table, np.where(table["age"] > 50, "yes", "no"))
