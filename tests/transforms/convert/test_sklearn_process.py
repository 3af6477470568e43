"""Kernel methods to ONNX: Gaussian processes of every kernel, kernel ridge, labels that spread."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import gaussian_process, kernel_ridge, semi_supervised
from sklearn.gaussian_process import kernels
from transforms.convert.proving import assert_proven

KERNELS = {
    "rbf": kernels.RBF(1.5),
    "a scale a feature": kernels.RBF([1.0, 2.0, 3.0, 4.0]),
    "matern 0.5": kernels.Matern(nu=0.5),
    "matern 1.5": kernels.Matern(nu=1.5),
    "matern 2.5": kernels.Matern(2.0, nu=2.5),
    "matern inf": kernels.Matern(nu=np.inf),
    "rational": kernels.RationalQuadratic(),
    "periodic": kernels.ExpSineSquared(periodicity=30.0) * kernels.RBF(3.0),
    "dot": kernels.DotProduct() + kernels.WhiteKernel(),
    "product": kernels.ConstantKernel(2.0) * kernels.RBF() + kernels.WhiteKernel(0.1),
    "power": kernels.RBF() ** 2,
    "pairwise": kernels.PairwiseKernel(metric="laplacian") + kernels.WhiteKernel(0.1),
}


@pytest.fixture(scope="module")
def rows(x):
    return x / [1, 10, 100, 0.01]


@pytest.mark.parametrize("name", KERNELS)
def test_a_process_is_proven_with_every_kernel(name, rows, real, tmp_path):
    model = gaussian_process.GaussianProcessRegressor(KERNELS[name], alpha=1e-2, optimizer=None)
    assert_proven(model.fit(rows, real), rows, tmp_path)


@pytest.mark.parametrize("name", ["rbf", "matern 1.5", "dot"])
def test_a_process_that_classifies_is_proven(name, rows, binary, tmp_path):
    model = gaussian_process.GaussianProcessClassifier(KERNELS[name], optimizer=None)
    assert_proven(model.fit(rows, binary), rows, tmp_path)


def test_more_than_two_classes_are_one_process_each(rows, three, tmp_path):
    model = gaussian_process.GaussianProcessClassifier(kernels.RBF(), optimizer=None)
    assert_proven(model.fit(rows, three), rows, tmp_path)


def test_a_target_is_scaled_back_and_several_stay_several(rows, real, tmp_path):
    model = gaussian_process.GaussianProcessRegressor(kernels.RBF(), alpha=1e-2, optimizer=None, normalize_y=True)
    assert_proven(model.fit(rows, np.stack([real, real**2], axis=1)), rows, tmp_path)


def test_a_nearly_singular_process_holds_in_double(tmp_path):
    far = np.random.default_rng(0).uniform(0, 100, (300, 3))
    kernel = kernels.ConstantKernel(1e5) * kernels.RBF(100.0)
    model = gaussian_process.GaussianProcessRegressor(kernel, alpha=1e-6, optimizer=None).fit(far, far[:, 0])
    assert_proven(model, far, tmp_path)


def test_a_bessel_function_is_refused(rows, real, problems):
    model = gaussian_process.GaussianProcessRegressor(kernels.Matern(nu=0.7), optimizer=None)
    (problem,) = problems(model.fit(rows, real), rows)
    assert "Bessel" in problem.message
    assert "nu=0.5" in problem.remedy


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "laplacian", "cosine", "additive_chi2"])
def test_kernel_ridge_is_proven_with_every_kernel(kernel, rows, real, tmp_path):
    data = np.abs(rows) if kernel == "additive_chi2" else rows
    # These two are not positive definite without a large ridge.
    ridge = 1000.0 if kernel in {"additive_chi2", "sigmoid"} else 1.0
    assert_proven(
        kernel_ridge.KernelRidge(kernel=kernel, alpha=ridge).fit(data, np.stack([real, -real], axis=1)), data, tmp_path
    )


@pytest.mark.parametrize("kernel", ["rbf", "knn"])
@pytest.mark.parametrize("kind", [semi_supervised.LabelPropagation, semi_supervised.LabelSpreading])
def test_labels_that_spread_are_proven(kind, kernel, rows, three, tmp_path):
    some = np.where(np.arange(len(three)) % 3 == 0, three, -1)
    model = kind(kernel=kernel, gamma=0.5, tol=0.1)
    assert_proven(model.fit(rows, some), rows, tmp_path)
