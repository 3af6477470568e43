"""Encoders: any column of categories, seen or not, missing or rare, becomes what it becomes in scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import compose, preprocessing

SETTINGS = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ENCODERS = {
    "one-hot": preprocessing.OneHotEncoder(handle_unknown="ignore"),
    "one-hot, a few": preprocessing.OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"),
    "one-hot, frequent": preprocessing.OneHotEncoder(min_frequency=2, handle_unknown="warn"),
    "one-hot, first dropped": preprocessing.OneHotEncoder(drop="first", handle_unknown="ignore", min_frequency=2),
    "ordinal": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-5),
    "ordinal, missing": preprocessing.OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=-2, max_categories=3
    ),
}

TEXT = st.one_of(st.sampled_from(["", "nan", "None", "a", "A", "ä", "日本"]), st.none(), st.just(np.nan))
NUMBERS = st.one_of(st.sampled_from([0.0, -0.0, 1.0, 2.5, 1e300, 2.0**53]), st.just(np.nan))


def column(kind, values):
    if kind == "text":
        return pd.Series(["a", *values], dtype=object)
    return pd.Series([1.0, *(0.5 if value is None or isinstance(value, str) else value for value in values)])


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.filterwarnings("ignore:Found unknown categories")
@SETTINGS
@given(data=st.data())
def test_any_category_becomes_what_it_becomes_in_the_source(kind, name, convert, data):
    values = st.lists(TEXT if kind == "text" else NUMBERS, min_size=3, max_size=8)
    seen, asked = (pd.DataFrame({"c": column(kind, data.draw(values))}) for _ in range(2))
    pair = convert(ENCODERS[name].fit(seen), seen)
    pair.agree(seen, ulps=0)
    pair.agree(asked, ulps=0)


def test_rare_categories_and_strangers_share_a_column(proven):
    frame = pd.DataFrame({"c": ["a"] * 20 + ["b"] * 20 + ["c"] * 2 + ["d"]})
    model = preprocessing.OneHotEncoder(min_frequency=5, handle_unknown="infrequent_if_exist").fit(frame)
    pair = proven(model, frame)
    assert pair.graph.predict(pd.DataFrame({"c": ["zzz"]}))["transformed"].tolist() == [[0.0, 0.0, 1.0]]


FRAMES = {
    "categories": {"a": pd.Categorical([3, 1, 2, None] * 10), "b": pd.Categorical(["q", "w", "e", None] * 10)},
    "nullable": {"i": pd.array([1, 2, None, 3] * 10, dtype="Int64")},
    "nullable booleans": {"f": pd.array([True, False, None, True] * 10, dtype="boolean")},
    "strings": {"s": pd.array(["x", "y", "z", "y"] * 10, dtype="string")},
    "numbers that are objects": {"n": pd.Series([1, 2, None, 3] * 10, dtype=object)},
    "booleans that are objects": {"n": pd.Series([True, False, True, True] * 10, dtype=object)},
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_of_column_that_pandas_has_is_encoded(name, proven):
    frame = pd.DataFrame(FRAMES[name])
    proven(preprocessing.OneHotEncoder(handle_unknown="ignore").fit(frame), frame)


def test_a_category_becomes_its_targets_mean(proven):
    frame = pd.DataFrame({"c": ["a", "b", "c", "a"] * 20, "n": np.arange(80) % 3})
    proven(preprocessing.TargetEncoder(cv=2, random_state=0).fit(frame, np.arange(80.0)), frame)


def test_a_column_of_times_is_refused_in_words(problems):
    frame = pd.DataFrame({"when": pd.date_range("2020", periods=40), "n": np.arange(40.0)})
    model = compose.ColumnTransformer([("w", preprocessing.OrdinalEncoder(), ["when"]), ("n", "passthrough", ["n"])])
    found = problems(model.fit(frame), frame)
    assert [finding.place.partition("'")[0] for finding in found] == ["input ", "columntransformer.transformers[0] "]
    assert all("datetime64" in finding.message and "Error" not in finding.message for finding in found)
