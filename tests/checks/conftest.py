"""Tables and sessions over plain functions, small enough to see through."""

from __future__ import annotations

import numpy as np
import pytest

from vitrify.core.signature import Field, Signature
from vitrify.testing.checks import FunctionSession


@pytest.fixture
def table():
    """Return a maker of signatures: names and element types of a table's columns; ``?`` behind one: nullable."""

    def make(**columns):
        return Signature(
            inputs=tuple(
                Field(name=name, dtype=dtype.removesuffix("?"), nullable=dtype.endswith("?"))
                for name, dtype in columns.items()
            ),
            container="pandas",
        )

    return make


@pytest.fixture
def matrix():
    """Return a maker of signatures of one matrix."""

    def make(width, dtype="float64"):
        return Signature(inputs=(Field(name="X", dtype=dtype, shape=("batch", width)),))

    return make


@pytest.fixture
def session():
    """Return a maker of sessions over a function."""
    return FunctionSession


@pytest.fixture
def numbers():
    """Return sixty rows of three ordinary columns."""
    return np.random.default_rng(0).normal(size=(60, 3))
