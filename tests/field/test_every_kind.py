"""A model of every supported kind: saved, opened in a new process, equal to the bit; and its ONNX twin, proven."""

from __future__ import annotations

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost as xgb
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import vitrify
from vitrify.core.attestation import PARITY, TRIAL

pytestmark = pytest.mark.cold
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
TABLE = pd.DataFrame(
    {
        "note": RNG.choice(["late again", "paid in full", "asks for a refund", "späte Zahlung"], 200),
        "color": RNG.choice(["red", "green", "blue"], 200),
        "amount": X[:, 0],
        "visits": RNG.integers(0, 40, 200),
    }
)


def text_and_numbers():
    columns = ColumnTransformer(
        [
            ("words", TfidfVectorizer(), "note"),
            ("color", OneHotEncoder(handle_unknown="ignore"), ["color"]),
            ("numbers", StandardScaler(), ["amount", "visits"]),
        ]
    )
    return make_pipeline(columns, RandomForestClassifier(10, random_state=0)).fit(TABLE, Y)


def module():
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.Linear(8, 2)
    return torch.nn.Sequential(*layers).eval()


KINDS = {
    "pipeline over text and numbers": lambda: (text_and_numbers(), TABLE),
    "histogram gradient boosting": lambda: (HistGradientBoostingRegressor(max_iter=10).fit(HOLES, X[:, 0]), HOLES),
    "xgboost classifier": lambda: (xgb.XGBClassifier(n_estimators=5).fit(HOLES, (Y == "yes").astype(int)), HOLES),
    "xgboost booster": lambda: (xgb.train({"eta": 0.5}, xgb.DMatrix(HOLES, X[:, 0]), 5), HOLES),
    "lightgbm classifier": lambda: (lgb.LGBMClassifier(n_estimators=5, verbose=-1).fit(HOLES, Y), HOLES),
    "lightgbm booster": lambda: (lgb.train({"verbose": -1}, lgb.Dataset(HOLES, X[:, 0]), 5), HOLES),
    "catboost classifier": lambda: (
        cb.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False).fit(HOLES, Y),
        HOLES,
    ),
    "torch module": lambda: (module(), torch.tensor(X[:8], dtype=torch.float32)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_this_kind_is_sealed_and_its_twin_is_proven(kind):
    model, example = KINDS[kind]()
    source = vitrify.save(model, "source", example=example)
    trial = next(item.predicate for item in source.attestations if item.predicate_type == TRIAL)
    assert trial["details"] == {"bit_equal": True}
    result = vitrify.convert(source)
    parity = next(item.predicate for item in result.attestations if item.predicate_type == PARITY)
    assert parity["reports"][0]["verdict"] == "clean"
    native, converted = source.session().predict(example), result.session().predict(example)
    assert list(native) == list(converted)
    for name, array in native.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(converted[name], array, rtol=1e-5, atol=1e-6)
        else:
            assert converted[name].tolist() == array.tolist()
    assert vitrify.verify("source").details["bit_equal"] is True
    assert vitrify.verify(result.name).passed
