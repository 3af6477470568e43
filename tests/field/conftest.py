"""What the field cases share: convert, and predictions of both for rows that the source answers itself."""

from __future__ import annotations

import numpy as np
import pytest

import vitrify


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def proven():
    """Return a function that saves and converts a model, and gives both artifacts and the parity report."""

    def make(model, example, **options):
        source = vitrify.save(model, "source", example=example)
        result = vitrify.convert(source, name="result", **options)
        predicate = next(a.predicate for a in result.attestations if ":parity:" in a.predicate_type)
        assert predicate["source"] == str(source.digest)
        return source, result, predicate["reports"][-1]

    return make
