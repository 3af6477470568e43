"""Several answers from binary or single ones: one against the rest, against one, codes, chains, label columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import dummy, linear_model, multiclass, multioutput, neural_network, svm, tree
from transforms.convert.proving import assert_proven

PARTS = {
    "probabilities and scores": linear_model.LogisticRegression(max_iter=500),
    "scores": svm.LinearSVC(dual=False),
    "probabilities": tree.DecisionTreeClassifier(max_depth=3),
}


@pytest.fixture(scope="module")
def rows(x):
    return x / [1, 10, 100, 0.01]


@pytest.fixture(scope="module")
def several(rows):
    return (rows[:, :3] > [0, 0.5, -0.5]).astype(int)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "kind", [multiclass.OneVsRestClassifier, multiclass.OneVsOneClassifier, multiclass.OutputCodeClassifier]
)
def test_many_classes_from_binary_ones_are_proven(kind, part, rows, three, tmp_path):
    options = {"random_state": 0} if kind is multiclass.OutputCodeClassifier else {}
    assert_proven(kind(PARTS[part], **options).fit(rows, three), rows, tmp_path)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", [multiclass.OneVsRestClassifier, multiclass.OneVsOneClassifier])
def test_two_classes_from_one_binary_one_are_proven(kind, part, rows, binary, tmp_path):
    assert_proven(kind(PARTS[part]).fit(rows, binary), rows, tmp_path)


@pytest.mark.parametrize("part", PARTS)
def test_several_labels_a_row_are_proven(part, rows, several, tmp_path):
    assert_proven(multiclass.OneVsRestClassifier(PARTS[part]).fit(rows, several), rows, tmp_path)


@pytest.mark.filterwarnings("ignore:Label .* is present in all training examples:UserWarning")
def test_a_label_that_every_row_has_is_proven(rows, several, tmp_path):
    always = several.copy()
    always[:, 1] = 1
    assert_proven(multiclass.OneVsRestClassifier(PARTS["probabilities"]).fit(rows, always), rows, tmp_path)


def test_regressors_are_compared_with_one_half(rows, binary, three, tmp_path):
    assert_proven(multiclass.OneVsRestClassifier(linear_model.Ridge()).fit(rows, three), rows, tmp_path)
    (tmp_path / "two").mkdir()
    assert_proven(multiclass.OneVsRestClassifier(linear_model.Ridge()).fit(rows, binary), rows, tmp_path / "two")


def test_regressors_that_vote_are_refused(rows, three, problems):
    (problem,) = problems(multiclass.OneVsOneClassifier(linear_model.Ridge()).fit(rows, three), rows)
    assert "exactly 0 or 1" in problem.message


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "predict_log_proba"])
def test_a_chain_passes_on_what_it_was_told_to(method, rows, several, tmp_path):
    part = linear_model.LogisticRegression(C=0.1)
    model = multioutput.ClassifierChain(part, chain_method=method, order=[2, 0, 1])
    assert_proven(model.fit(rows, several), rows, tmp_path, rows=400)


def test_a_chain_of_regressors_is_proven(rows, real, tmp_path):
    model = multioutput.RegressorChain(tree.DecisionTreeRegressor(max_depth=4), order=[1, 0])
    assert_proven(model.fit(rows, np.stack([real, rows[:, 2]], axis=1)), rows, tmp_path)


def test_each_label_column_has_its_own_classes(rows, three, tmp_path):
    columns = np.stack([three, three % 4], axis=1)
    model = multioutput.MultiOutputClassifier(tree.DecisionTreeClassifier(max_depth=3))
    assert_proven(model.fit(rows, columns), rows, tmp_path)


LABEL_COLUMNS = {
    "ridge": linear_model.RidgeClassifier(),
    "ridge chosen by validation": linear_model.RidgeClassifierCV(),
    "network": neural_network.MLPClassifier((5,), max_iter=20, tol=1e9, random_state=0),
    "dummy": dummy.DummyClassifier(),
}


@pytest.mark.parametrize("name", LABEL_COLUMNS)
def test_label_columns_that_an_estimator_takes_itself_are_proven(name, rows, several, tmp_path):
    assert_proven(LABEL_COLUMNS[name].fit(rows, several), rows, tmp_path)
