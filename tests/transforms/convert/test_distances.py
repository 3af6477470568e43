"""Norms and distances, added up as NumPy and scikit-learn add them."""

from __future__ import annotations

import platform

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import Normalizer

from vitrify.transforms.convert._building.graph import Graph
from vitrify.transforms.convert._building.model import OPSET, to_model
from vitrify.transforms.convert._numerics.distances import squared_norms


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="NumPy fuses products and sums elsewhere")
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.integers(1, 70),
    rows=st.integers(0, 20),
    kind=st.sampled_from([np.float64, np.float32]),
)
def test_squared_norms_are_those_of_numpy_to_the_bit(seed, width, rows, kind):
    x = np.random.default_rng(seed).normal(size=(rows, width)).astype(kind)
    graph = Graph(OPSET)
    norms = squared_norms(graph, graph.input("x", x.dtype, ("batch", width)), width)
    graph.output(graph.reserve("norms"), norms, ("batch", 1))
    model = to_model(graph, name="norms", properties={}).SerializeToString()
    (got,) = ort.InferenceSession(model).run(["norms"], {"x": x})
    np.testing.assert_array_equal(got[:, 0], np.einsum("ij,ij->i", x, x))


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_row_whose_norm_is_next_to_nothing_is_not_divided_by_it(norm, kind, convert):
    least = 10 * np.finfo(kind).eps
    x = np.array([[0, 0], [least / 2, 0], [0, -least / 2], [least * 2, 0], [1, 2]], kind)
    expected, got = convert(Normalizer(norm), x).both(x)
    np.testing.assert_allclose(got["transformed"], expected["transformed"], rtol=1e-6)
