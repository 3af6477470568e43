"""Transformers put together: tables and arrays between the steps, text beside numbers, columns by name and by place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import compose, decomposition, ensemble, impute, linear_model, pipeline, preprocessing, tree

ROWS = 60
NUMBERS = ["age", "income", "narrow"]


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": rng.normal(size=ROWS),
            "narrow": rng.normal(size=ROWS).astype(np.float32),
            "flag": rng.random(ROWS) > 0.5,
            "colour": rng.choice(["red", "green", "blue"], ROWS),
            "note": pd.Series(rng.choice(["x", "y", np.nan, "z"], ROWS).astype(object)).replace("nan", np.nan),
            "count": pd.array(np.where(rng.random(ROWS) < 0.2, None, rng.integers(0, 5, ROWS)), dtype="Int64"),
        }
    )


def scaled(*others, **options):
    return compose.ColumnTransformer([("s", preprocessing.StandardScaler(), NUMBERS), *others], **options)


def encoder():
    return preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False)


@pytest.mark.parametrize("verbose", [True, False])
def test_a_table_of_text_and_numbers_is_an_output_a_column(verbose, people, proven):
    model = scaled(remainder="passthrough", verbose_feature_names_out=verbose).set_output(transform="pandas")
    frame = people[[*NUMBERS, "colour", "flag"]]
    pair = proven(model.fit(frame), frame)
    names = [field.name for field in pair.document.signature.outputs]
    assert names[-2:] == [f"transformed.{'remainder__' if verbose else ''}{name}" for name in ("colour", "flag")]


def test_an_array_of_text_and_numbers_is_refused(people, problems):
    frame = people[[*NUMBERS, "colour"]]
    (finding,) = problems(scaled(remainder="passthrough").fit(frame), frame)
    assert "set_output" in finding.remedy


def test_text_and_numbers_go_through_an_array_of_objects_by_place(people, proven):
    inner = scaled(("i", impute.SimpleImputer(strategy="most_frequent"), ["colour", "note"]))
    outer = compose.ColumnTransformer([("o", encoder(), [3, 4]), ("p", "passthrough", [0, 1, 2])])
    proven(pipeline.make_pipeline(inner, outer).fit(people), people)


def test_text_and_numbers_go_through_a_table_by_name(people, proven):
    inner = scaled(
        ("i", impute.SimpleImputer(strategy="most_frequent"), ["colour", "note"]), verbose_feature_names_out=False
    )
    outer = compose.ColumnTransformer([("o", encoder(), ["note", "colour"]), ("p", "passthrough", ["narrow", "age"])])
    model = pipeline.make_pipeline(inner, outer).set_output(transform="pandas")
    proven(model.fit(people), people)


def test_a_column_of_a_table_keeps_its_precision(people, proven):
    inner = compose.ColumnTransformer(
        [("p", "passthrough", ["narrow"]), ("q", "passthrough", ["age"])], verbose_feature_names_out=False
    )
    outer = compose.ColumnTransformer([("s", preprocessing.StandardScaler(), ["narrow"])])
    model = pipeline.make_pipeline(inner, outer).set_output(transform="pandas")
    pair = proven(model.fit(people), people)
    assert pair.document.signature.outputs[0].dtype == "float32"


UNIONS = {
    "plain": pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2)),
    "weighted table": pipeline.FeatureUnion(
        [("a", preprocessing.StandardScaler()), ("b", preprocessing.MinMaxScaler()), ("c", "passthrough")],
        transformer_weights={"b": 2.0},
    ).set_output(transform="pandas"),
}


@pytest.mark.parametrize("name", UNIONS)
def test_a_union_puts_all_answers_side_by_side(name, people, proven):
    proven(UNIONS[name].fit(people[NUMBERS]), people[NUMBERS])


@pytest.mark.parametrize("weight", [3, 0.3, np.float32(2.5), np.float64(2.5), np.int64(3)], ids=repr)
@pytest.mark.parametrize("kind", [np.int64, np.int8, np.float32, np.float64])
def test_a_weight_promotes_as_it_does_in_numpy(weight, kind, proven):
    x = np.arange(20).reshape(-1, 2).astype(kind)
    union = pipeline.FeatureUnion(
        [("a", preprocessing.FunctionTransformer()), ("b", "passthrough")], transformer_weights={"b": weight}
    )
    proven(union.fit(x), x)


def test_a_union_of_text_and_flags_goes_on_to_an_encoder(people, proven):
    union = pipeline.make_union(impute.SimpleImputer(strategy="most_frequent"), impute.MissingIndicator(features="all"))
    model = pipeline.make_pipeline(union, preprocessing.OneHotEncoder(handle_unknown="ignore"))
    proven(model.fit(people[["note", "colour"]]), people[["note", "colour"]])


ENSEMBLES = {
    "soft vote": ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=2))], voting="soft"
    ),
    "hard vote": ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=2))]
    ),
    "mean": ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=2))]),
    "stack": ensemble.StackingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=2))], passthrough=True
    ),
    "stack of regressors": ensemble.StackingRegressor([("a", linear_model.Ridge())]),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_an_ensemble_transforms_inside_a_pipeline(name, people, proven):
    target = people["income"] if "regress" in name or name == "mean" else people["income"] > 0
    model = pipeline.make_pipeline(ENSEMBLES[name], preprocessing.StandardScaler())
    proven(model.fit(people[NUMBERS], target), people[NUMBERS])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_choice_of_columns_in_any_order_is_found(people, convert, data):
    frame = people[[*NUMBERS, "flag"]]
    names = list(frame.columns)
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    places = [names.index(name) for name in chosen]
    by = data.draw(st.sampled_from([chosen, places, [name in chosen for name in names]]))
    remainder = data.draw(st.sampled_from(["drop", preprocessing.MaxAbsScaler()]))
    model = compose.ColumnTransformer([("s", preprocessing.MinMaxScaler(), by)], remainder=remainder)
    if data.draw(st.booleans()):
        model = model.set_output(transform="pandas")
    shuffled = frame[data.draw(st.permutations(names))]
    pair = convert(model.fit(frame), frame)
    pair.agree(frame, ulps=0)
    pair.agree(shuffled, ulps=0)
