"""Densities to ONNX: mixtures of every covariance, kernels around points, the robust envelope."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import covariance, mixture, neighbors
from transforms.convert.proving import assert_proven


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("kind", [mixture.GaussianMixture, mixture.BayesianGaussianMixture])
def test_a_mixture_is_proven(kind, covariance_type, x, tmp_path):
    model = kind(n_components=3, covariance_type=covariance_type, random_state=0, tol=1.0)
    assert_proven(model.fit(x), x, tmp_path)


def test_a_dirichlet_distribution_of_weights_is_proven(x, tmp_path):
    kind = "dirichlet_distribution"
    model = mixture.BayesianGaussianMixture(
        n_components=2, weight_concentration_prior_type=kind, random_state=0, tol=1.0
    )
    assert_proven(model.fit(x), x, tmp_path)


@pytest.mark.parametrize("kernel", ["gaussian", "tophat", "exponential"])
def test_a_kernel_density_is_proven(kernel, x, tmp_path):
    scaled = x / [1, 10, 100, 0.01]
    assert_proven(neighbors.KernelDensity(kernel=kernel, bandwidth=2.0).fit(scaled), scaled, tmp_path)


@pytest.mark.parametrize("kernel", ["gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"])
@pytest.mark.parametrize("features", [1, 2, 3])
def test_every_kernel_is_scaled_as_the_source_scales_it(kernel, features, x, convert):
    rows = (x / [1, 10, 100, 0.01])[:, :features]
    # One leaf: the source adds without the bounds whose rounding drowns small densities.
    model = neighbors.KernelDensity(kernel=kernel, bandwidth=1.5, leaf_size=200).fit(rows)
    convert(model, rows).agree(rows, ulps=8, atol=1e-9)


def test_weighted_points_are_proven(x, tmp_path):
    scaled = x / [1, 10, 100, 0.01]
    weights = np.linspace(1, 2, len(x))
    model = neighbors.KernelDensity(bandwidth=2.0, leaf_size=200).fit(scaled, sample_weight=weights)
    assert_proven(model, scaled, tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_elliptic_envelope_is_proven(dtype, x, tmp_path):
    rows = x.astype(dtype)
    assert_proven(covariance.EllipticEnvelope(random_state=0).fit(rows), rows, tmp_path)
