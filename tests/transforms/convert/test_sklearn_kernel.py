"""Kernels against known points, and their approximations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import decomposition, kernel_approximation, preprocessing

KERNELS = ("rbf", "poly", "sigmoid", "laplacian", "cosine", "linear", "chi2", "additive_chi2")


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).normal(size=(60, 5))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernel_against_chosen_points_is_the_sources(kernel, numbers, proven):
    x = np.abs(numbers) if "chi2" in kernel else numbers
    proven(kernel_approximation.Nystroem(kernel=kernel, n_components=12, random_state=0).fit(x), x)


def test_a_kernels_parameters_are_followed(numbers, proven):
    model = kernel_approximation.Nystroem(kernel="poly", gamma=0.2, degree=2, coef0=2, n_components=9, random_state=0)
    proven(model.fit(numbers), numbers)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", "cosine", "linear"])
def test_the_components_of_a_kernel_are_the_sources(kernel, numbers, proven):
    proven(decomposition.KernelPCA(3, kernel=kernel).fit(numbers), numbers)


def test_a_kernel_that_is_given_is_centred_and_projected(numbers, proven):
    given = numbers @ numbers.T
    proven(decomposition.KernelPCA(3, kernel="precomputed").fit(given), given)
    proven(preprocessing.KernelCenterer().fit(given), given)


def test_a_kernel_of_code_is_refused(numbers, problems):
    model = kernel_approximation.Nystroem(kernel=lambda a, b: a @ b, n_components=5).fit(numbers)
    (finding,) = problems(model, numbers)
    assert "Python code" in finding.message


APPROXIMATIONS = {
    "waves": kernel_approximation.RBFSampler(n_components=20, random_state=0),
    "waves to scale": kernel_approximation.RBFSampler(gamma="scale", n_components=20, random_state=0),
    "skewed": kernel_approximation.SkewedChi2Sampler(n_components=20, random_state=0),
    **{f"additive, {steps}": kernel_approximation.AdditiveChi2Sampler(sample_steps=steps) for steps in (1, 2, 3)},
    "sketch": kernel_approximation.PolynomialCountSketch(degree=3, coef0=2, gamma=0.5, n_components=17, random_state=0),
}


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", APPROXIMATIONS)
@pytest.mark.filterwarnings("ignore:overflow|invalid value")
def test_an_approximation_is_the_sources(name, kind, numbers, proven):
    x = np.abs(numbers).astype(kind)
    proven(APPROXIMATIONS[name].fit(x), x)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_whole_numbers_overflow_as_in_the_source(convert):
    x = np.array([[3, 0, 2**62], [1, 5, 7]])
    pair = convert(kernel_approximation.AdditiveChi2Sampler().fit(x), x)
    pair.agree(x)


def test_columns_that_hold_rounding_only_are_refused(numbers, problems):
    (finding,) = problems(
        kernel_approximation.PolynomialCountSketch(n_components=100, random_state=0).fit(numbers), numbers
    )
    assert "rounding" in finding.message
