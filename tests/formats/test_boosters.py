"""What holds for all three boosters alike."""

from __future__ import annotations

import importlib
import struct
import sys

import numpy as np
import pytest
from samples import weights

from vitrify.core.errors import MalformedError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.catboost import CatBoost
from vitrify.formats.lightgbm import LightGBM
from vitrify.formats.xgboost import XGBoost
from vitrify.reading.files import HeldFiles

X = np.random.default_rng(0).normal(size=(60, 3))

BOOSTERS = {
    "catboost": (CatBoost(), "CatBoostRegressor", {"iterations": 3, "verbose": 0, "allow_writing_files": False}),
    "lightgbm": (LightGBM(), "LGBMRegressor", {"n_estimators": 3, "verbose": -1}),
    "xgboost": (XGBoost(), "XGBRegressor", {"n_estimators": 3}),
}


@pytest.mark.parametrize("library", BOOSTERS)
def test_a_subclass_is_code_and_reads_only_when_allowed(library, saved, tmp_path, monkeypatch):
    form, base, parameters = BOOSTERS[library]
    name = f"own_{library}"
    (tmp_path / f"{name}.py").write_text(
        f"import {library}\n\nclass Own({library}.{base}):\n"
        "    def predict(self, X, **more):\n        return super().predict(X, **more) * 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    model = importlib.import_module(name).Own(**parameters).fit(X, X[:, 0])
    written, files, loaded = saved(form, model)
    assert written.names == (f"{name}.Own",)
    np.testing.assert_array_equal(model.predict(X), loaded.predict(X))
    with pytest.raises(UntrustedCodeError, match=rf"{name}\.Own"):
        form.read(files, {}, Allow())
    del sys.modules[name]


def test_a_length_that_no_file_could_have_is_a_typed_error_in_the_old_binary_of_xgboost():
    content = bytearray(weights.binary_xgboost())
    struct.pack_into("<i", content, 4 + 12, 1)  # there are attributes: a count of pairs of texts, each with its length
    broken = bytes(content) + struct.pack("<QQ", 1, 2**64 - 1)
    with pytest.raises(MalformedError, match="not a binary model of XGBoost"):
        XGBoost().describe(HeldFiles({"m": memoryview(broken)}), {"file": "m"})


def test_a_range_with_a_blank_of_unicode_is_one_range_in_a_model_of_lightgbm():
    text = weights.lightgbm()
    changed = text.replace(b"feature_infos=[", "feature_infos=[\x85".encode(), 1)
    assert changed != text
    facts = LightGBM().describe(HeldFiles({"m": memoryview(changed)}), {"file": "m"})
    before = LightGBM().describe(HeldFiles({"m": memoryview(text)}), {"file": "m"})
    assert len(facts["inputs"]) == len(before["inputs"])
