"""Models and modules that the artifact tests share."""

from __future__ import annotations

import importlib
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(18, 90, 40), "income": rng.normal(3e4, 1e4, 40)})


@pytest.fixture
def model(table):
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(table, np.where(table["age"] > 50, "yes", "no"))


@pytest.fixture
def side_module(tmp_path, monkeypatch):
    """Return a function that makes a module importable here, as a training script's own directory does."""
    folder = tmp_path / "training"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = []

    def make(name, source):
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        made.append(name)
        return importlib.import_module(name)

    yield make
    for name in made:
        sys.modules.pop(name, None)
