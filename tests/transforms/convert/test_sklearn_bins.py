"""Bins, splines and quantiles: on the knots, between them and beyond."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import preprocessing


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("strategy", ["uniform", "quantile", "kmeans"])
@pytest.mark.parametrize("encode", ["onehot", "ordinal", "onehot-dense"])
def test_a_value_falls_into_the_same_bin(encode, strategy, numbers, proven, probes):
    options = {"quantile_method": "averaged_inverted_cdf"} if strategy == "quantile" else {}
    model = preprocessing.KBinsDiscretizer(4, encode=encode, strategy=strategy, **options).fit(numbers)
    pair = proven(model, numbers)
    pair.agree(probes(numbers, dict(enumerate(model.bin_edges_))), ulps=0)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", ["error", "constant", "linear", "continue", "periodic"])
@pytest.mark.filterwarnings("ignore:invalid value|overflow|divide by zero")
def test_a_spline_is_the_sources_inside_and_beyond(mode, degree, numbers, proven):
    model = preprocessing.SplineTransformer(degree=degree, extrapolation=mode, n_knots=5, include_bias=degree != 2)
    proven(model.fit(numbers), numbers)


def test_a_spline_of_what_is_missing_is_zero(numbers, proven):
    holes = np.where(np.random.default_rng(1).random(numbers.shape) < 0.2, np.nan, numbers)
    proven(preprocessing.SplineTransformer(handle_missing="zeros").fit(holes), holes)


def test_a_spline_in_single_precision_computes_in_double(numbers, proven):
    narrow = numbers.astype(np.float32)
    for sparse in (False, True):
        model = preprocessing.SplineTransformer(knots="quantile", sparse_output=sparse).fit(narrow)
        pair = proven(model, narrow)
        assert pair.document.signature.outputs[0].dtype == ("float64" if sparse else "float32")


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("kind", ["double", "single", "repeated", "missing"])
def test_a_quantile_is_the_sources(kind, distribution, numbers, proven):
    x = {"double": numbers, "single": numbers.astype(np.float32), "repeated": np.round(numbers)}.get(kind, numbers)
    if kind == "missing":
        x = np.where(np.random.default_rng(1).random(numbers.shape) < 0.2, np.nan, numbers)
    proven(preprocessing.QuantileTransformer(n_quantiles=30, output_distribution=distribution).fit(x), x)
