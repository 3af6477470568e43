"""Models that the tests of layouts share: saved once a session, in a store that nobody writes to again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import vitrify
from vitrify.stores.oci_layout import OciLayout

FRAME = pd.DataFrame({"age": np.arange(24) % 7, "income": np.linspace(-1, 1, 24)})


@pytest.fixture(scope="session")
def frame():
    return FRAME


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """Return a store with ``churn``, which MLflow has a flavour for, and ``scaler``, which only Vitrify runs."""
    store = OciLayout(tmp_path_factory.mktemp("shelf"))
    model = LogisticRegression().fit(FRAME, np.where(FRAME["income"] > 0, "yes", "no"))
    vitrify.save(model, "team/churn:1.2.0", example=FRAME, description="Who *leaves* | soon", store=store)
    vitrify.save(StandardScaler().fit(FRAME.to_numpy()), "scaler", example=FRAME.to_numpy(), store=store)
    return store


@pytest.fixture
def churn(shelf):
    return vitrify.open("team/churn:1.2.0", store=shelf)


@pytest.fixture
def scaler(shelf):
    return vitrify.open("scaler", store=shelf)


@pytest.fixture
def tree():
    """Return a function that gives the content of every file below a directory, by path."""

    def read(folder):
        return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}

    return read
