"""Support vectors to ONNX: every kernel, both shapes of the decision, the coupled probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import multiclass, svm
from transforms.convert.proving import assert_proven

KERNELS = ("linear", "poly", "rbf", "sigmoid")


@pytest.fixture(scope="module")
def rows(x):
    return x / [1, 10, 100, 0.01]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_votes_of_pairs_are_proven(kernel, shape, rows, three, tmp_path):
    assert_proven(svm.SVC(kernel=kernel, decision_function_shape=shape).fit(rows, three), rows, tmp_path)


def test_ties_broken_by_confidence_are_proven(rows, three, tmp_path):
    assert_proven(svm.NuSVC(nu=0.3, break_ties=True).fit(rows, three), rows, tmp_path)


@pytest.mark.parametrize("target", ["binary", "three"])
@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
def test_coupled_probabilities_stop_where_libsvm_stops(target, rows, binary, three, tmp_path):
    model = svm.SVC(probability=True, random_state=0).fit(rows, {"binary": binary, "three": three}[target])
    assert_proven(model, rows, tmp_path)


@pytest.mark.parametrize("kernel", KERNELS)
def test_regression_is_proven(kernel, rows, real, tmp_path):
    assert_proven(svm.NuSVR(kernel=kernel).fit(rows, real), rows, tmp_path)


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_class_is_proven(kernel, rows, tmp_path):
    assert_proven(svm.OneClassSVM(kernel=kernel).fit(rows), rows, tmp_path)


def test_single_precision_is_computed_in_double_as_libsvm_does(rows, real, tmp_path):
    narrow = rows.astype(np.float32)
    assert_proven(svm.SVR().fit(narrow, real), narrow, tmp_path)


def products(left, right):
    return left @ right.T


def test_a_kernel_that_is_code_is_refused(rows, three, problems):
    (problem,) = problems(svm.SVC(kernel=products).fit(rows, three), rows)
    assert "Python code" in problem.message
    assert "rbf" in problem.remedy


@pytest.mark.parametrize("kind", [svm.SVC, svm.NuSVC])
@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_score_of_zero_or_of_nothing_is_the_second_class(kind, kernel, convert):
    mirrored = np.array([[-1.0, 0.0], [1.0, 0.0], [-2.0, 0.0], [2.0, 0.0]])
    pair = convert(kind(kernel=kernel).fit(mirrored, ["no", "yes", "no", "yes"]), mirrored)
    undecided = np.array([[0.0, 0.0], [-0.0, 7.0], [0.0, 1e308], [1.7e308, 1.7e308]])
    expected, given = pair.both(undecided)
    assert expected["label"][:2].tolist() == ["yes", "yes"]
    assert given["label"].tolist() == expected["label"].tolist()


@pytest.mark.parametrize("target", ["binary", "three"])
@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning", "ignore::RuntimeWarning")
def test_a_probability_of_no_score_is_what_libsvm_makes_of_it(target, rows, binary, three, convert):
    model = svm.SVC(kernel="linear", probability=True, random_state=0)
    pair = convert(model.fit(rows, {"binary": binary, "three": three}[target]), rows)
    pair.agree(np.full((1, rows.shape[1]), 1.7e308), ulps=64)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_pair_without_an_answer_says_nothing_about_other_classes(rows, three, convert):
    model = multiclass.OneVsOneClassifier(svm.LinearSVC()).fit(rows[:, :1], three)
    expected, given = convert(model, rows[:, :1]).both(np.array([[1.7e308], [-1.7e308], [1e300]]))
    np.testing.assert_array_equal(given["score"], expected["score"])
    np.testing.assert_array_equal(given["label"], expected["label"])


@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
def test_the_loop_of_coupled_probabilities_is_written_in_any_precision(rows, three, convert):
    model = svm.SVC(probability=True, random_state=0).fit(rows, three)
    expected, given = convert(model, rows, precision="float32").both(rows)
    np.testing.assert_allclose(given["probability"], expected["probability"], rtol=1e-3, atol=1e-3)
