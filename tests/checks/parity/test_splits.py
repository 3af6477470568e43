from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity.probes.splits import splits


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    return x, (x[:, 0] > 0.2).astype(int) + (x[:, 2] > 0)


def moves(predict, x, found):
    """Say for each feature whether some answer changes across one of its thresholds."""
    base = np.repeat(x, 4, axis=0)
    changed = {}
    for feature, thresholds in found.items():
        changed[feature] = False
        for threshold in thresholds:
            low, high = base.copy(), base.copy()
            low[:, feature] = threshold - 1e-3
            high[:, feature] = threshold + 1e-3
            changed[feature] |= bool(np.any(predict(low) != predict(high)))
    return changed


def models():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import (
        BaggingRegressor,
        GradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
    )
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    forest = RandomForestClassifier(n_estimators=2, max_depth=3, random_state=0)
    return {
        "tree": DecisionTreeClassifier(max_depth=3),
        "forest": forest,
        "boosting of several classes": GradientBoostingClassifier(n_estimators=2, random_state=0),
        "histograms": HistGradientBoostingRegressor(max_iter=3),
        "bagging": BaggingRegressor(n_estimators=2, random_state=0),
        "search": GridSearchCV(forest, {"max_depth": [3]}, cv=2),
        "calibrated": CalibratedClassifierCV(DecisionTreeClassifier(max_depth=3), cv=2),
    }


@pytest.mark.parametrize("name", sorted(models()))
def test_scikit_learn_trees_give_their_thresholds(name, data):
    x, y = data
    model = models()[name].fit(x, y)
    predict = getattr(model, "predict_proba", model.predict)
    found = splits(model)
    assert set(found) <= {0, 1, 2}
    assert any(moves(predict, x, found).values())


def test_xgboost_gives_exact_float32_thresholds(data):
    xgboost = pytest.importorskip("xgboost")
    x, y = data
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=3).fit(x, y)
    found = splits(model)
    dumped = {
        float(line.split("<")[1].split("]")[0])
        for line in "\n".join(model.get_booster().get_dump()).split("\n")
        if "<" in line
    }
    assert {np.float32(t) for ts in found.values() for t in ts} == {np.float32(t) for t in dumped}
    assert all(np.array_equal(t, t.astype(np.float32)) for t in found.values())
    assert splits(model.get_booster()).keys() == found.keys()


def test_lightgbm_gives_its_thresholds_and_leaves_categorical_splits_out(data):
    lightgbm = pytest.importorskip("lightgbm")
    x, y = data
    x = np.column_stack([x, np.arange(len(x)) % 4])
    model = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=5, verbose=-1).fit(
        x, y + (x[:, 3] == 2), categorical_feature=[3]
    )
    found = splits(model)
    assert found
    assert 3 not in found
    assert any(moves(model.predict, x, found).values())


def test_catboost_gives_its_borders(data):
    catboost = pytest.importorskip("catboost")
    x, y = data
    model = catboost.CatBoostClassifier(iterations=3, depth=2, verbose=False, allow_writing_files=False).fit(x, y)
    found = splits(model)
    assert any(moves(model.predict_proba, x, found).values())


def test_what_has_no_trees_has_no_thresholds(data):
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    x, y = data
    assert splits(LinearRegression().fit(x, y)) == {}
    assert splits(make_pipeline(StandardScaler(), DecisionTreeRegressor()).fit(x, y)) == {}
    assert splits(len) == {}
