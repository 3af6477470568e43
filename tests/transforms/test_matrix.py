from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import vitrify
from vitrify.checks.parity import Parity
from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.matrix import matrix

CHECKS = [Parity(rows=300)]


@pytest.fixture
def source():
    X = np.random.default_rng(0).normal(size=(60, 3))
    return vitrify.save(LogisticRegression().fit(X, X[:, 0] > 0), "m:1", example=X)


def test_each_form_is_proven_measured_and_not_kept(source, store):
    before = set(store.digests())
    native, onnx = matrix(source, targets=["onnx"], checks=CHECKS)
    assert (native.target, native.verdict, native.road) == ("skops", "source", None)
    assert (onnx.target, onnx.verdict, onnx.why) == ("onnx", "proven", "")
    assert onnx.rows > 200
    assert onnx.error < 1e-9
    for form in (native, onnx):
        assert min(form.size, form.one_ms, form.batch_ms, form.load_ms) > 0
    assert set(store.digests()) == before
    assert list(store.names.all()) == ["m:1"]


def test_a_form_that_cannot_be_says_why(source):
    _, form = matrix(source, targets=["treelite"], checks=CHECKS)
    assert form.verdict == "refused"
    assert form.why
    assert form.size is None


def test_a_missing_library_is_told_with_the_command_that_brings_it(source, monkeypatch):
    monkeypatch.setattr("vitrify.core.row._importable", lambda name: name != "openvino")
    _, form = matrix(source, targets=["openvino"], checks=CHECKS)
    assert (form.verdict, form.why) == ("not installed", "pip install 'vitrify[openvino]'")


def test_what_is_only_looked_at_is_not_checked():
    import torch

    model = torch.nn.Linear(3, 2).eval()
    source = vitrify.save(model, "net", example=torch.ones(4, 3))
    _, form = matrix(source, targets=["coreml"], checks=CHECKS)
    assert form.verdict == "not checked"
    assert "no runtime here opens coreml" in form.why
    assert form.size > 0


def test_a_target_out_of_reach_is_an_error_that_lists_those_within(source):
    with pytest.raises(UnsupportedModelError, match="no road leads from skops to gguf"):
        matrix(source, targets=["gguf"])


class Counting(Parity):
    """Parity that remembers what it was asked to compare."""

    def __init__(self):
        super().__init__(rows=300)
        self.asked = []

    def run(self, subject, reference):
        self.asked.append(subject.document.format)
        return super().run(subject, reference)


def test_steps_that_several_roads_begin_with_are_taken_and_proven_once(source):
    check = Counting()
    forms = matrix(source, targets=["onnx", "ort", "pfa"], checks=[check])
    assert [form.verdict for form in forms] == ["source", "proven", "proven", "proven"]
    assert sorted(check.asked) == ["onnx", "ort", "pfa"]


def test_what_the_common_beginning_cannot_do_is_the_reason_of_every_road():
    from sklearn.decomposition import MiniBatchNMF

    X = np.abs(np.random.default_rng(0).normal(size=(60, 3)))
    source = vitrify.save(MiniBatchNMF(2, tol=0).fit(X), "parts", example=X)
    _, onnx, ort = matrix(source, targets=["onnx", "ort"], checks=CHECKS)
    assert onnx.verdict == ort.verdict == "refused"
    assert onnx.why == ort.why
    assert "MiniBatchNMF" in onnx.why
