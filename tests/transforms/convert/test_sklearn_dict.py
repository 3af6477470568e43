"""Records as features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import feature_extraction

RECORDS = [
    {"city": "London", "heat": 12.0, "rank": 1, "old": True},
    {"city": "Paris", "heat": 3.5, "rank": 2, "old": False},
    {"city": "Rome", "heat": 0.0, "rank": 1, "old": True},
] * 8


@pytest.mark.parametrize("options", [{}, {"sparse": False, "dtype": np.float32}, {"separator": ":"}])
def test_a_record_becomes_a_row(options, proven):
    proven(feature_extraction.DictVectorizer(**options).fit(RECORDS), RECORDS)


@pytest.mark.parametrize("options", [{}, {"alternate_sign": False, "dtype": np.float32}])
def test_a_record_is_hashed_to_the_same_columns(options, proven):
    proven(feature_extraction.FeatureHasher(16, **options).fit(RECORDS), RECORDS)


def test_too_many_columns_are_refused(problems):
    (finding,) = problems(feature_extraction.FeatureHasher().fit(RECORDS), RECORDS)
    assert "dense" in finding.message
