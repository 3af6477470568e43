from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import vitrify
from vitrify.core.attestation import TRUST
from vitrify.core.errors import ReferenceNotFoundError, SignatureError, UntrustedCodeError, UsageError


def test_predictions_in_a_new_process_are_equal_to_the_bit(model, table, tmp_path):
    vitrify.save(model, "m", example=table)
    np.save(tmp_path / "x.npy", table.to_numpy(float))
    script = (
        "import sys, json, numpy, pandas, vitrify\n"
        "X = pandas.DataFrame(numpy.load(sys.argv[1]), columns=['age', 'income']).astype({'age': 'int64'})\n"
        "print(json.dumps([p.hex() for p in vitrify.load('m').predict(X)['probability'][:, 1].tolist()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "x.npy"], capture_output=True, text=True, check=True
    )
    expected = [p.hex() for p in model.predict_proba(table)[:, 1].tolist()]
    assert json.loads(done.stdout) == expected


def test_inputs_are_matched_by_name_in_any_order_and_container(model, table):
    vitrify.save(model, "m", example=table)
    session = vitrify.load("m")
    expected = model.predict_proba(table)
    shuffled = table[["income", "age"]].assign(extra="not asked for")
    for data in (
        shuffled,
        pl.DataFrame({name: shuffled[name].to_numpy() for name in ("income", "age")}),
        shuffled.to_dict("records"),
        dict(shuffled),
    ):
        np.testing.assert_array_equal(session.predict(data)["probability"], expected)


def test_what_does_not_fit_is_one_table_of_expected_against_given(model, table):
    vitrify.save(model, "m", example=table)
    wrong = table.assign(income=table["income"].astype(str)).drop(columns="age")
    with pytest.raises(SignatureError) as caught:
        vitrify.load("m").predict(wrong)
    assert "age" in str(caught.value)
    assert "income" in str(caught.value)
    assert "float64" in str(caught.value)


def test_code_runs_only_when_every_name_is_allowed_and_the_decision_is_recorded(side_module):
    module = side_module("side_double", "def double(X):\n    return X * 2\n")
    vitrify.save(module.double, "m", example=np.ones((2, 2)))
    with pytest.raises(UntrustedCodeError) as caught:
        vitrify.load("m")
    assert caught.value.names == ("side_double.double",)
    session = vitrify.load("m", allow=["side_double.double"])
    assert session.predict(np.full((1, 2), 4.0))["output"].tolist() == [[8.0, 8.0]]
    vitrify.load("m", allow=["side_double.double"])
    decisions = [item.predicate for item in vitrify.open("m").attestations if item.predicate_type == TRUST]
    assert [decision["names"] for decision in decisions] == [["side_double.double"]]


def test_bundled_code_is_loaded_in_a_process_that_has_no_such_module(side_module, tmp_path):
    module = side_module("side_triple", "def triple(X):\n    return X * 3\n")
    vitrify.save(module.triple, "m", example=np.ones((2, 2)))
    script = (
        "import numpy, vitrify\n"
        "print(vitrify.load('m', allow=['side_triple.triple']).predict(numpy.ones((1, 2)))['output'].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == [[3.0, 3.0]]


def test_a_name_that_is_not_there_is_not_found():
    with pytest.raises(ReferenceNotFoundError):
        vitrify.load("nothing")


def test_a_runtime_that_cannot_open_the_format_is_a_usage_error(model, table):
    vitrify.save(model, "m", example=table)
    with pytest.raises(UsageError, match="opens onnx, ort, not skops"):
        vitrify.load("m", runtime="onnxruntime")


def test_bare_weights_cannot_predict():
    vitrify.save({"w": np.ones(3)}, "w")
    with pytest.raises(UsageError, match="no signature"):
        vitrify.load("w")
