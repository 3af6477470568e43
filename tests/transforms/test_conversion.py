from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import SplineTransformer

import vitrify
from vitrify.checks.parity import Parity
from vitrify.core.attestation import PARITY, PROVENANCE, TRIAL
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
    assert {item.predicate_type for item in result.attestations} == {PARITY, PROVENANCE, TRIAL}


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
    model = vitrify.save(SplineTransformer().fit(X), "spline", example=X)
    before = set(store.digests())
    road, problems = foresee(model)
    assert [step.transform for step in road.steps] == ["skops-to-onnx"]
    assert len(problems) == 1
    assert set(store.digests()) == before
    with pytest.raises(UnsupportedModelError, match="SplineTransformer"):
        vitrify.convert(model)


def test_bare_weights_and_unknown_precisions_are_usage_errors(source):
    weights = vitrify.save({"w": np.ones(2)}, "w")
    with pytest.raises(UsageError, match="no signature"):
        vitrify.convert(weights)
    with pytest.raises(UsageError, match="float8"):
        vitrify.convert(source, precision="float8")
