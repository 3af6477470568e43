"""Encoders of labels that are models themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import preprocessing

LABELS = {
    "numbers": np.array([4, 2, 9, 2] * 10),
    "text": pd.Series(["b", "a", "c", "a"] * 10, dtype=object),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_label_becomes_its_number_or_its_column(name, proven):
    proven(preprocessing.LabelEncoder().fit(LABELS[name]), LABELS[name])
    proven(preprocessing.LabelBinarizer(neg_label=-1).fit(LABELS[name]), LABELS[name])


def test_what_depends_on_the_batch_or_cuts_the_text_is_refused(problems):
    two = np.array([1, 2] * 10)
    (finding,) = problems(preprocessing.LabelBinarizer().fit(two), two)
    assert "batch" in finding.message
    text = np.array(["a", "b"] * 10)
    (finding,) = problems(preprocessing.LabelEncoder().fit(text), text)
    assert "cuts labels" in finding.message
