"""scikit-learn to ONNX: tables, text, categories and what is missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import (
    cluster,
    compose,
    ensemble,
    impute,
    linear_model,
    pipeline,
    preprocessing,
)
from sklearn.feature_extraction import text

from vitrify.core.errors import ModelError

ROWS = 120


WORDS = np.array(["", "a", "Ünïcode", "red", "RED", "red wine", "naïve", "日本", "12", "x_1"])


def test_a_table_of_numbers_and_text_predicts_the_same(table, labels, convert):
    columns = compose.ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), ["income", "age", "id"]),
            ("flags", "passthrough", ["flag", "narrow"]),
            ("colours", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour"]),
            ("words", text.TfidfVectorizer(), "text"),
        ],
        sparse_threshold=0,
    )
    model = pipeline.make_pipeline(columns, ensemble.RandomForestClassifier(8, random_state=0)).fit(table, labels)
    pair = convert(model, table)
    types = {value.name: value.type.tensor_type.elem_type for value in pair.proto.graph.input}
    assert types == {"age": 7, "income": 11, "id": 7, "flag": 9, "narrow": 1, "colour": 8, "text": 8}
    odd = table.copy()
    odd["colour"] = np.array(["never seen", "Red", "ünïcode", " red"])[np.arange(ROWS) % 4]
    odd["text"] = np.array(["", "a", "RED wine", "e\u0301 naïve Ünïcode", "日本 語日本 x_1", "red,red;wine"])[
        np.arange(ROWS) % 6
    ]
    for rows in (table, odd, table.iloc[:1], odd.iloc[[0]], table[table.columns[::-1]]):
        pair.agree(rows, ulps=4)


def test_columns_are_found_by_name_and_not_by_place(table, labels, convert):
    numbers = table[["age", "income", "flag"]].rename(columns={"age": 2, "income": 0, "flag": 1})
    columns = compose.ColumnTransformer([("n", preprocessing.MinMaxScaler(), slice(0, 2))], remainder="passthrough")
    convert(columns.fit(numbers), numbers).agree(numbers, ulps=0)


SELECTORS = {
    "names": ["income", "age"],
    "places": [1, 0],
    "mask": [True, True, False],
    "slice": slice(0, 2),
    "callable": compose.make_column_selector(dtype_include=np.number),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_every_way_to_choose_columns_works(name, table, convert):
    numbers = table[["age", "income", "flag"]]
    model = compose.ColumnTransformer([("n", preprocessing.StandardScaler(), SELECTORS[name])], remainder="passthrough")
    convert(model.fit(numbers), numbers).agree(numbers, ulps=0)


VECTORIZERS = {
    "count": text.CountVectorizer(),
    "tf-idf": text.TfidfVectorizer(),
    "case kept": text.TfidfVectorizer(lowercase=False),
    "pairs": text.TfidfVectorizer(ngram_range=(1, 2)),
    "pairs only": text.CountVectorizer(ngram_range=(2, 3)),
    "binary": text.CountVectorizer(binary=True),
    "sublinear": text.TfidfVectorizer(sublinear_tf=True, norm="l1"),
    "no idf": text.TfidfVectorizer(use_idf=False, norm=None),
    "single characters": text.CountVectorizer(token_pattern=r"(?u)\b\w+\b"),
    "stop words": text.CountVectorizer(stop_words=["red", "wine"]),
    "a given vocabulary": text.CountVectorizer(vocabulary=["wine", "red", "absent"]),
    "few": text.TfidfVectorizer(max_features=3, min_df=2),
    "single precision": text.TfidfVectorizer(dtype=np.float32),
}

TEXTS = [
    "",
    " ",
    "a",
    "Red WINE, red-wine; RED_wine",
    "naïve Ünïcode ÜNÏCODE e\u0301te\u0301",
    "日本 日本語 x_1 12 1 2 3",
    "don't stop. \n\ttabs  and   spaces",
    "ﬁne Straße STRASSE ½ ² ٣٤ é",
    "\U0001d54f\U0001d550 emoji 😀 word😀word",
]


@pytest.mark.parametrize("name", VECTORIZERS)
def test_text_is_cut_into_the_same_words(name, convert):
    model = VECTORIZERS[name].fit([*TEXTS, "red wine", "red", "wine naïve wine"])
    texts = pd.Series([*TEXTS, "red wine", "wine", "unseen words only"], name="t")
    pair = convert(model, texts)
    ulps = 0 if "count" in name or "only" in name else 8
    for rows in (texts, texts.iloc[:1], texts.iloc[:3]):
        pair.agree(rows, ulps=ulps)


@pytest.mark.parametrize("kind", ["U", "O"])
def test_an_array_of_texts_is_a_vector_of_text(kind, convert):
    texts = np.array(["red wine", "white wine", "bread", ""] * 5).astype(kind)
    model = pipeline.make_pipeline(text.TfidfVectorizer(), linear_model.LogisticRegression())
    convert(model.fit(texts, np.arange(20) % 2 == 0), texts).agree(texts, ulps=64)


def test_lowering_text_beyond_ascii_is_noted(convert):
    texts = pd.Series(["Ünïcode", "ascii"])
    assert convert(text.CountVectorizer().fit(texts), texts).written.notes
    assert not convert(text.CountVectorizer().fit(texts[1:]), texts).written.notes


def test_the_names_that_set_output_gives_are_followed(table, labels, convert):
    numbers = table[["age", "income"]]
    scale = compose.ColumnTransformer([("s", preprocessing.StandardScaler(), ["income", "age"])])
    chosen = compose.ColumnTransformer([("n", preprocessing.MinMaxScaler(), ["s__age"])])
    model = pipeline.make_pipeline(scale, chosen).set_output(transform="pandas")
    convert(model.fit(numbers), numbers).agree(numbers, ulps=0)


ENCODERS = {
    "one-hot": preprocessing.OneHotEncoder(handle_unknown="ignore"),
    "one-hot, first dropped": preprocessing.OneHotEncoder(drop="first", handle_unknown="ignore"),
    "one-hot, rare together": preprocessing.OneHotEncoder(min_frequency=12, handle_unknown="infrequent_if_exist"),
    "one-hot, few": preprocessing.OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist"),
    "ordinal": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "ordinal, unknown is NaN": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
    "ordinal, rare together": preprocessing.OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, max_categories=3
    ),
    "target": preprocessing.TargetEncoder(cv=2, random_state=0),
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("missing", [None, np.nan], ids=["none", "nan"])
@pytest.mark.filterwarnings("ignore:Found unknown categories:UserWarning")
def test_a_category_becomes_the_same(name, missing, table, labels, convert):
    frame = table[["age", "narrow", "flag"]].copy()
    frame["age"] //= 10
    frame["colour"] = pd.Series(np.where(np.arange(ROWS) % 7 == 0, missing, table["colour"]), dtype=object)
    frame["narrow"] = frame["narrow"].round()
    frame.loc[::9, "narrow"] = np.nan
    model = ENCODERS[name].fit(frame, labels == "yes") if name == "target" else ENCODERS[name].fit(frame)
    odd = frame.copy()
    odd["age"] = 77
    odd["narrow"] = np.float32(-0.0)
    odd.loc[1::2, "colour"] = "zzz"
    odd.loc[2::5, "colour"] = None
    odd.loc[3::5, "colour"] = np.nan
    pair = convert(model, frame)
    for rows in (frame, odd):
        pair.agree(rows, ulps=0)


def test_an_unknown_category_that_the_source_refuses_is_refused(table, convert):
    frame = table[["colour"]]
    pair = convert(preprocessing.OneHotEncoder().fit(frame), frame)
    for session in (pair.source, pair.graph):
        with pytest.raises(ModelError):
            session.predict(pd.DataFrame({"colour": ["zzz"]}))


IMPUTERS = {
    "most frequent": impute.SimpleImputer(strategy="most_frequent"),
    "constant": impute.SimpleImputer(strategy="constant", fill_value="gone"),
}


@pytest.mark.parametrize("name", IMPUTERS)
def test_missing_text_is_filled(name, table, convert):
    frame = pd.DataFrame(
        {"colour": pd.Series(np.where(np.arange(ROWS) % 7 == 0, np.nan, table["colour"]), dtype=object)}
    )
    encoder = preprocessing.OneHotEncoder(handle_unknown="ignore")
    convert(pipeline.make_pipeline(IMPUTERS[name], encoder).fit(frame), frame).agree(frame, ulps=0)


def test_missing_whole_numbers_are_doubles_with_nan(convert, rng):
    frame = pd.DataFrame({"n": pd.array(rng.integers(0, 9, ROWS), dtype="Int64"), "x": rng.normal(size=ROWS)})
    frame.loc[::5, "n"] = pd.NA
    model = ensemble.HistGradientBoostingRegressor(max_iter=5).fit(frame, np.arange(ROWS))
    pair = convert(model, frame)
    assert pair.proto.graph.input[0].type.tensor_type.elem_type == 11
    pair.agree(frame, ulps=0)


def test_categories_of_a_histogram_model_split_as_sets(convert, rng):
    frame = pd.DataFrame({"n": rng.normal(size=ROWS), "c": pd.Categorical(WORDS[rng.integers(1, 8, ROWS)])})
    model = ensemble.HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=3)
    model.fit(frame, (frame["c"].isin(["red", "a", "日本"]) * 3 + frame["n"]))
    convert(model, frame).agree(frame, ulps=0)


def test_a_column_that_the_model_ignores_is_no_input_of_the_graph_whatever_its_type(table, labels, convert):
    frame = table[["age", "narrow"]].copy()
    frame["when"] = pd.date_range("2020-01-01", periods=ROWS)
    frame["note"] = pd.Series([None, "a", np.nan, "b"] * (ROWS // 4) + ["c"] * (ROWS % 4), dtype=object)
    chosen = compose.ColumnTransformer([("numbers", preprocessing.StandardScaler(), ["narrow", "age"])])
    pair = convert(pipeline.make_pipeline(chosen, linear_model.LogisticRegression()).fit(frame, labels), frame)
    assert sorted(value.name for value in pair.proto.graph.input) == ["age", "narrow"]
    expected, given = pair.both(frame)
    np.testing.assert_array_equal(given["label"], expected["label"])


def test_a_column_of_times_that_the_model_reads_is_a_problem(problems):
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=ROWS), "x": np.arange(float(ROWS))})
    model = preprocessing.OneHotEncoder(handle_unknown="ignore").fit(frame)
    assert "input 'when'" in [problem.place for problem in problems(model, frame)]


def test_a_list_of_rows_is_a_matrix(convert, rng):
    rows = rng.normal(size=(ROWS, 3)).tolist()
    pair = convert(linear_model.LinearRegression().fit(rows, np.arange(ROWS)), rows)
    expected, given = pair.both(rows)
    np.testing.assert_allclose(given["prediction"], expected["prediction"], rtol=1e-12)


def test_the_nearest_centre_is_the_sources_however_far_away(convert, rng):
    X = rng.normal(size=(ROWS, 3))
    pair = convert(cluster.KMeans(3, n_init=1, random_state=0).fit(X), X)
    far = np.vstack([X, X * 1e20, X + 2.0**53, -X * 1e150])
    expected, given = pair.both(far)
    np.testing.assert_array_equal(given["label"], expected["label"])
