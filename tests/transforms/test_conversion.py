from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import MiniBatchNMF
from sklearn.linear_model import LinearRegression

import vitrify
from vitrify.checks.parity import Parity
from vitrify.core.attestation import PARITY, SLSA, TRIAL
from vitrify.core.errors import CheckFailedError, UnsupportedModelError, UsageError
from vitrify.core.report import Report
from vitrify.transforms.conversion import foresee


@pytest.fixture
def X():  # noqa: N802 (the field's own name for a matrix)
    return np.random.default_rng(0).normal(size=(60, 3))


@pytest.fixture
def source(X):
    return vitrify.save(LinearRegression().fit(X, X[:, 0]), "line:1", example=X)


class Recording:
    """A check that remembers what it was asked, and answers as it was told."""

    def __init__(self, verdict="clean"):
        self.verdict = verdict
        self.asked = []

    def run(self, subject, reference):
        self.asked.append((subject, reference))
        return Report(check="recording", verdict=self.verdict)


def test_the_result_is_named_after_its_source_and_knows_where_it_comes_from(source):
    result = vitrify.convert("line:1")
    assert result.name == "line-onnx:1"
    assert result.document.lineage["source"] == str(source.digest)
    assert result.document.lineage["plan"]["steps"][0]["transform"] == "skops-to-onnx"
    assert {item.predicate_type for item in result.attestations} == {PARITY, SLSA, TRIAL}


def test_the_result_needs_neither_the_framework_nor_the_source(source):
    needs = set(vitrify.convert(source).document.environment.distributions)
    assert "onnxruntime" in needs
    assert not needs & {"scikit-learn", "scipy", "pandas", "torch"}


def test_converting_twice_gives_the_same_digest(source):
    assert vitrify.convert(source, name="a").digest == vitrify.convert(source, name="b").digest


@pytest.mark.parametrize("verdict", ["found", "not checked"])
def test_what_a_check_does_not_find_clean_is_not_saved(source, store, verdict):
    before = set(store.digests())
    with pytest.raises(CheckFailedError) as caught:
        vitrify.convert(source, checks=[Recording(), Recording(verdict)])
    assert caught.value.report.verdict == verdict
    assert set(store.digests()) == before
    assert list(store.names.all()) == ["line:1"]


def test_a_check_is_given_the_result_the_source_and_the_samples(source, X):
    check = Recording()
    vitrify.convert(source, checks=[check], samples=X[:7])
    ((subject, reference),) = check.asked
    assert (subject.document.format, reference.document.format) == ("onnx", "skops")
    assert len(reference.golden["X"]) == 7


def test_converting_to_the_format_that_it_has_already_is_nothing_to_do(source):
    assert vitrify.convert(source, to="skops") is source


def test_a_tolerance_of_ones_own_is_recorded(source):
    from vitrify.checks.parity import Tolerance

    result = vitrify.convert(source, checks=[Parity(Tolerance(rtol=1e-3), rows=200)])
    report = next(item.predicate for item in result.attestations if item.predicate_type == PARITY)["reports"][0]
    assert report["details"]["tolerance"]["rtol"] == 1e-3


def test_what_cannot_go_is_foreseen_without_doing_it(X, store):
    model = vitrify.save(MiniBatchNMF(2, tol=0).fit(np.abs(X)), "parts", example=np.abs(X))
    before = set(store.digests())
    road, error = foresee(model)
    assert [step.transform for step in road.steps] == ["skops-to-onnx"]
    assert len(error.problems) == 1
    assert set(store.digests()) == before
    with pytest.raises(UnsupportedModelError, match="MiniBatchNMF"):
        vitrify.convert(model)


def test_what_a_later_step_cannot_do_is_foreseen_too(source, store, monkeypatch):
    from vitrify.core.report import Finding
    from vitrify.transforms.convert.ort import OnnxToOrt

    assert foresee(source, "ort")[1] is None
    asked = []

    def refusing(self, subject, step):
        asked.append(subject.document.format)
        return (Finding(place="graph", message="not this one"),)

    monkeypatch.setattr(OnnxToOrt, "problems", refusing)
    before = set(store.digests())
    _, error = foresee(source, "ort")
    assert "onnx-to-ort: 1 part(s)" in error.message
    assert asked == ["onnx"]
    assert set(store.digests()) == before


def test_libraries_that_are_missing_anywhere_on_a_road_are_told_before_its_first_step(source, monkeypatch):
    from vitrify.core.errors import MissingDependencyError

    absent = ("openvino", "onnxruntime")
    monkeypatch.setattr("vitrify.core.row._importable", lambda name: name not in absent)
    check = Recording()
    with pytest.raises(MissingDependencyError, match=r"onnxruntime.*openvino") as caught:
        vitrify.convert(source, "openvino", checks=[check])
    assert "vitrify[openvino]" in caught.value.remedy
    assert check.asked == []


def test_bare_weights_and_unknown_precisions_are_usage_errors(source):
    weights = vitrify.save({"w": np.ones(2)}, "w")
    with pytest.raises(UsageError, match="no signature"):
        vitrify.convert(weights)
    with pytest.raises(UsageError, match="float8"):
        vitrify.convert(source, precision="float8")


def test_what_a_frameworks_converter_raises_names_the_step(source, monkeypatch):
    def broken(self, source, step):
        raise KeyError("a fault of a library")

    monkeypatch.setattr("vitrify.transforms.convert.sklearn_onnx.SklearnToOnnx.problems", broken)
    with pytest.raises(UnsupportedModelError, match="skops-to-onnx: KeyError"):
        vitrify.convert(source)


@pytest.fixture
def net():
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).eval()
    return vitrify.save(model, "net:1", example=torch.randn(8, 3))


def test_what_cannot_run_here_is_looked_at_and_says_that_it_was_not_compared(net):
    result = vitrify.convert(net, "coreml")
    assert result.document.runtime is None
    reports = next(a.predicate for a in result.attestations if a.predicate_type == PARITY)["reports"]
    assert [(report["check"], report["verdict"]) for report in reports] == [
        ("structure", "clean"),
        ("parity", "not checked"),
    ]
    _, outputs = result.golden()
    np.testing.assert_array_equal(next(iter(outputs.values())), next(iter(net.golden()[1].values())))
    assert vitrify.verify("net-coreml:1").verdict == "not checked"


def test_weights_alone_are_taken_only_where_that_is_allowed(net):
    with pytest.raises(UnsupportedModelError, match="--allow lossy"):
        vitrify.convert(net, "safetensors")
    weights = vitrify.convert(net, "safetensors", fidelity="lossy")
    assert weights.document.signature is None
    assert weights.golden() == ({}, {})
    tensors = weights.model()
    assert sorted(np.asarray(tensor).shape for tensor in tensors.values()) == [(2,), (2, 4), (4,), (4, 3)]


def test_a_road_of_several_steps_is_held_against_the_model_that_it_started_from(source):
    check = Recording()
    vitrify.convert(source, "ort", checks=[check])
    assert [(a.document.format, b.document.format) for a, b in check.asked] == [("onnx", "skops"), ("ort", "skops")]


def test_nothing_is_left_of_a_road_whose_last_step_fails(source, store, monkeypatch):
    before = set(store.digests())

    def broken(self, source, step, sink):
        with sink.open("half", "weight") as stream:
            stream.write(b"half a model")
        raise OSError("the disk")

    monkeypatch.setattr("vitrify.transforms.convert.ort.OnnxToOrt.apply", broken)
    with pytest.raises(UnsupportedModelError, match="onnx-to-ort: OSError: the disk"):
        vitrify.convert(source, "ort")
    assert set(store.digests()) == before
