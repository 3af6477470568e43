"""Text: characters, words within n-grams, patterns and hashes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model, pipeline
from sklearn.feature_extraction import text

TEXTS = pd.Series(
    [
        *("", " ", "a", "Red WINE, red-wine; RED_wine", "naïve Ünïcode ÜNÏCODE e\u0301te\u0301", "x_1 12 1 2 3"),
        *("don't stop. \n\ttabs  and   spaces", "日本 日本語 ½ ² ٣٤", "\U0001d54f\U0001d550 emoji 😀 word😀word"),
        *("the red wine and the white wine", "ab abc abcd  ab", "red wine"),
    ]
    * 2,
    name="t",
)

VECTORIZERS = {
    **{f"characters {r}": text.CountVectorizer(analyzer="char", ngram_range=r) for r in ((1, 1), (2, 3))},
    **{f"characters in words {r}": text.CountVectorizer(analyzer="char_wb", ngram_range=r) for r in ((1, 2), (3, 4))},
    "weighed characters": text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3), max_features=30),
    "stop words out of pairs": text.CountVectorizer(stop_words="english", ngram_range=(1, 2)),
    "short words out of pairs": text.CountVectorizer(token_pattern=r"\b[a-z]{3,}\b", ngram_range=(1, 3)),
    **{
        pattern: text.CountVectorizer(token_pattern=pattern)
        for pattern in (
            r"\b[a-zA-Z]{3,}\b",
            r"\S+",
            r"[^\s,]+",
            r"\b\d+\b",
            r"[a-z]+(?:'[a-z]+)?",
            r"\b(?:ab|abc|red)+\b",
        )
    },
}


@pytest.mark.parametrize("name", VECTORIZERS)
def test_text_is_cut_as_by_the_source(name, proven):
    proven(VECTORIZERS[name].fit(TEXTS), TEXTS)


HASHES = {
    "words": {"n_features": 64},
    "no sign": {"n_features": 128, "alternate_sign": False, "norm": "l1"},
    "pairs": {"n_features": 128, "ngram_range": (1, 2), "norm": None},
    "triples without stop words": {"n_features": 128, "ngram_range": (2, 3), "stop_words": ["the"]},
    "presence": {"n_features": 16, "binary": True, "norm": None},
    "single precision": {"n_features": 32, "dtype": np.float32},
}


@pytest.mark.parametrize("name", HASHES)
def test_words_are_hashed_to_the_same_columns(name, proven):
    proven(text.HashingVectorizer(lowercase=False, **HASHES[name]).fit(TEXTS), TEXTS)


def test_hashed_words_go_on_to_a_classifier(proven):
    model = pipeline.make_pipeline(text.HashingVectorizer(lowercase=False, n_features=64), linear_model.SGDClassifier())
    proven(model.fit(TEXTS, np.arange(len(TEXTS)) % 2), TEXTS)


REFUSED = {
    "every reason at once": text.TfidfVectorizer(strip_accents="unicode", tokenizer=str.split, token_pattern=None),
    "a group": text.CountVectorizer(token_pattern=r"(\w)\w*"),
    "a look ahead": text.CountVectorizer(token_pattern=r"\w+(?=\s)"),
    "hashes in lower case": text.HashingVectorizer(n_features=64),
    "a million columns": text.HashingVectorizer(lowercase=False),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:The parameter 'token_pattern' will not be used")
def test_what_cannot_be_cut_is_refused(name, problems):
    (finding,) = problems(REFUSED[name].fit(TEXTS), TEXTS)
    assert finding.remedy
    if name == "every reason at once":
        assert "strip_accents" in finding.message
        assert "tokenizer" in finding.message
