from __future__ import annotations

import json
import pickle

import pytest

from vitrify.formats.joblib import Joblib
from vitrify.formats.pickle import Pickle
from vitrify.pickles import inert
from vitrify.reading.files import HeldFiles


def nested(depth):
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


@pytest.mark.parametrize(
    "value",
    [nested(10**5), 10**6000, [10**6000] * 10**5, "x" * 10**6, inert.Opaque("x" * 10**6)],
    ids=["deep", "a long number", "many long numbers", "long text", "an opaque value"],
)
def test_whatever_a_value_is_a_message_shows_little_of_it(value):
    assert 0 < len(inert.shown(value)) <= 60


def test_small_values_are_shown_as_they_are():
    assert [inert.shown(value) for value in (3, "a", (1, 2))] == ["3", "'a'", "(1, 2)"]
    assert [inert.label(key) for key in ("a" * 200, 12)] == ["a" * 200, "12"]


@pytest.mark.parametrize("form", [Pickle(), Joblib()], ids=["pickle", "joblib"])
def test_a_number_of_thousands_of_digits_is_described_like_any_other(form):
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit([[1.0], [2.0]])
    scaler.n_features_in_ = 10**6000
    files = HeldFiles({"file": memoryview(pickle.dumps(scaler))})
    assert json.dumps(form.describe(files, {"file": "file"}))
