"""Magika: what kind of file is this, from its first and last bytes (ONNX)."""

import json

import numpy as np
import pytest

import vitrify
from real.inputs import FILES, ends
from real.published import DEEP, proof, published
from vitrify.checks.parity import Parity

ROWS = {"bytes": np.stack([ends(content) for content in FILES.values()])}


def model():
    return published("magika", "models", "standard_v3_3", "model.onnx")


@pytest.fixture(scope="module")
def packed(shelf):
    return vitrify.pack(model(), "magika", store=shelf)


def labels(session):
    config = json.loads(model().with_name("config.min.json").read_text())
    scores = session.run(ROWS)["target_label"]
    return [config["target_labels_space"][column] for column in scores.argmax(axis=1)]


def test_its_file_is_clean_and_declares_what_it_takes(packed):
    assert vitrify.scan(model()).verdict == "clean"
    (field,) = packed.signature.inputs
    assert (field.name, field.dtype, field.shape) == ("bytes", "int32", ("batch", 2048))


def test_it_knows_what_files_are(packed):
    assert labels(packed.session()) == ["python", "html", "pdf", "json"]


@pytest.mark.parametrize("target", ["ort", "openvino"])
def test_it_is_proven_in_other_engines(packed, shelf, target):
    made = vitrify.convert(packed, target, samples=ROWS, checks=[Parity(DEEP, rows=40)], store=shelf)
    assert proof(made)["verdict"] == "clean"
    assert labels(made.session()) == list(FILES)


def test_a_newer_operator_set_changes_nothing(packed, shelf):
    made = vitrify.convert(packed, "onnx", opset=18, samples=ROWS, checks=[Parity(rows=40)], store=shelf)
    assert made.document.entry["opset"] == 18
    assert proof(made)["details"]["outputs"]["target_label"]["absolute"]["max"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["torch-export", "jax-export", "saved-model"])
def test_it_is_proven_in_frameworks_that_compile_sizes(packed, shelf, target):
    """Its sizes are cast to int32 and its slices end at 1e9: neither makes data of a size."""
    made = vitrify.convert(packed, target, samples=ROWS, checks=[Parity(DEEP, rows=40)], store=shelf)
    assert proof(made)["verdict"] == "clean"
    assert labels(made.session()) == list(FILES)
