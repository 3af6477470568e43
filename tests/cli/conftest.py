"""What the tests of commands share: one command, run in this process."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import MiniBatchNMF
from sklearn.linear_model import LinearRegression

import vitrify
from vitrify.cli import main
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture
def call(capsys):
    """Return a function that runs one command and gives its exit code, standard output and standard error."""

    def one(*arguments):
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return one


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """Return a store with a ``line``, which goes everywhere, and ``parts``, which go nowhere; commands do not add."""
    folder = tmp_path_factory.mktemp("shelf")
    X = np.abs(np.random.default_rng(0).normal(size=(40, 3)))
    vitrify.save(LinearRegression().fit(X, X[:, 0]), "line", example=X, store=OciLayout(folder))
    vitrify.save(MiniBatchNMF(2, tol=0).fit(X), "parts", example=X, store=OciLayout(folder))
    return folder
