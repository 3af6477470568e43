"""Neighbours as features, and manifolds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import manifold, neighbors

SOME = np.random.default_rng(0).normal(size=(50, 4))

MODELS = {
    "distances to the nearest": neighbors.KNeighborsTransformer(n_neighbors=4),
    "the nearest": neighbors.KNeighborsTransformer(n_neighbors=4, mode="connectivity"),
    "distances nearby": neighbors.RadiusNeighborsTransformer(radius=1.5),
    "locally linear": manifold.LocallyLinearEmbedding(n_neighbors=5),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:overflow|invalid value")
def test_what_neighbours_say_is_the_sources(name, proven):
    proven(MODELS[name].fit(SOME), SOME)


def test_the_shortest_ways_are_the_sources(convert):
    pair = convert(manifold.Isomap(n_neighbors=5).fit(SOME), SOME)
    expected, given = pair.both(np.vstack([SOME, SOME + 0.1, SOME * 3]))
    np.testing.assert_allclose(given["transformed"], expected["transformed"], rtol=1e-9, atol=1e-9)


def test_ways_through_a_radius_are_refused(problems):
    (finding,) = problems(manifold.Isomap(n_neighbors=None, radius=3.0).fit(SOME), SOME)
    assert "n_neighbors" in finding.remedy
