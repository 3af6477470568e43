"""Columns of text are the same to an artifact, whichever library keeps their values for pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import vitrify
from vitrify import containers

DTYPES = {name: pd.StringDtype(name, na_value=np.nan) for name in ("pyarrow", "python")}


def frame(dtype):
    """Return text with a gap, text without one, categories of text, and numbers."""
    town, kind = ["Ulm", None, "Köln"] * 20, ["a", "b", "a"] * 20
    index = pd.Index(["town", "kind", "grade", "age"], dtype=dtype)
    values = [town, kind, kind, range(60)]
    table = pd.DataFrame(dict(zip(index, values, strict=True))).astype({"town": dtype, "kind": dtype})
    table["grade"] = pd.Categorical(table["kind"], categories=pd.Index(["a", "b"], dtype=dtype))
    return table.set_axis(index, axis=1)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("form", ["skops", "pickle"])
def test_a_pipeline_on_text_is_kept_and_predicts_the_same(dtype, form):
    table = frame(dtype)
    encoder = make_column_transformer((OneHotEncoder(), ["town", "kind", "grade"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression(max_iter=1000)).fit(table, table["kind"])
    artifact = vitrify.save(model, "m", example=table, format=form)
    assert [one.container_dtype for one in artifact.signature.inputs] == ["str", "str", "category", "int64"]
    assert vitrify.verify("m").verdict == "clean"
    for other in DTYPES.values():
        made = vitrify.load("m").predict(frame(other))
        np.testing.assert_array_equal(made["probability"], model.predict_proba(table))


@pytest.mark.parametrize("missing", [np.nan, pd.NA], ids=["NaN", "NA"])
def test_a_signature_does_not_tell_who_keeps_the_text(missing):
    tables = [frame(pd.StringDtype(name, na_value=missing)) for name in DTYPES]
    one, other = (containers.example(table) for table in tables)
    assert one.signature == other.signature
    for name, values in one.arrays.items():
        pd.testing.assert_series_equal(pd.Series(values), pd.Series(other.arrays[name]))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_a_frame_comes_back_from_arrays_equal_to_one_made_here(dtype):
    shown = containers.example(frame(dtype))
    made = containers.from_arrays(shown.arrays, shown.signature)
    pd.testing.assert_frame_equal(made, frame(pd.Series(["a"]).dtype), check_column_type=False)


@pytest.mark.parametrize("native", ["str", "string", "category"])
def test_half_a_character_is_kept_though_arrow_has_whole_ones_only(native):
    shown = containers.example(pd.DataFrame({"a": ["x", "y"]}).astype(native))
    made = containers.from_arrays({"a": np.array(["y", "\ud800"], object)}, shown.signature)
    assert made["a"].tolist() == ["y", "\ud800"]
    assert made["a"].dtype == native
    np.testing.assert_array_equal(containers.to_arrays(made, shown.signature)["a"], ["y", "\ud800"])
