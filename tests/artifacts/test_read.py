from __future__ import annotations

import pickle
import zipfile

import joblib
import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import vitrify
from vitrify.core.errors import UnsupportedModelError, UntrustedCodeError, UsageError

X = np.arange(12.0).reshape(6, 2)
MODEL = LinearRegression().fit(X, X[:, 0])


def test_a_pickled_model_and_a_state_dict_are_read_as_their_own_libraries_have_them(tmp_path):
    (tmp_path / "a").write_bytes(pickle.dumps(MODEL))
    joblib.dump(MODEL, tmp_path / "b", compress=3)
    for name in "ab":
        np.testing.assert_array_equal(vitrify.read(tmp_path / name).predict(X), MODEL.predict(X))
    torch.save({"w": torch.ones(2)}, tmp_path / "c")
    assert torch.equal(vitrify.read(tmp_path / "c")["w"], torch.ones(2))


def test_a_name_that_nobody_has_trusted_has_to_be_allowed_exactly(tmp_path):
    (tmp_path / "a").write_bytes(pickle.dumps([zipfile.Path]))
    with pytest.raises(UntrustedCodeError) as caught:
        vitrify.read(tmp_path / "a")
    assert caught.value.names == ("zipfile.Path",)
    assert vitrify.read(tmp_path / "a", allow=caught.value.names) == [zipfile.Path]


def test_what_is_only_looked_at_and_what_is_not_there_say_so(tmp_path):
    (tmp_path / "a").write_text("words\n")
    with pytest.raises(UnsupportedModelError, match="is a text file, of which no live object is made here"):
        vitrify.read(tmp_path / "a")
    with pytest.raises(UsageError, match="no such file"):
        vitrify.read(tmp_path / "absent")
