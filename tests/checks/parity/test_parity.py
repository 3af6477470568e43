from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vitrify.artifacts import save
from vitrify.checks.parity import Parity, Tolerance
from vitrify.core.errors import UsageError
from vitrify.testing.checks import CheckConformance


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    """Return two sealed trees that differ in one threshold, opened for checks."""
    from sklearn.tree import DecisionTreeClassifier

    from vitrify.stores.oci_layout import OciLayout

    store = OciLayout(tmp_path_factory.mktemp("parity") / "store")
    x = np.random.default_rng(0).normal(size=(40, 2))
    trees = [DecisionTreeClassifier(max_depth=1).fit(x, x[:, 0] > at) for at in (0.0, 0.5)]
    return [save(tree, f"tree-{i}", example=x, store=store).subject() for i, tree in enumerate(trees)]


class TestParity(CheckConformance):
    name = "parity"

    @pytest.fixture(autouse=True)
    def _subjects(self, subjects):
        self.one, self.other = subjects

    def check(self):
        return Parity(rows=400)

    def clean(self):
        return self.one, self.one

    def faulty(self):
        return self.other, self.one

    def unanswerable(self):
        signature = self.one.document.signature
        whole = signature.replace(inputs=tuple(field.replace(dtype="int64") for field in signature.inputs))
        unknown = replace(self.one, golden={}, document=self.one.document.replace(signature=whole))
        return unknown, unknown


def test_without_a_reference_there_is_nothing_to_compare(subjects):
    with pytest.raises(UsageError, match="reference"):
        Parity().run(subjects[0], None)


def test_a_format_that_cannot_predict_is_refused(subjects):
    bare = replace(subjects[0], document=subjects[0].document.replace(runtime=None))
    with pytest.raises(UsageError, match="names no runtime"):
        Parity().run(bare, subjects[0])


def test_fewer_than_one_row_is_refused():
    with pytest.raises(UsageError, match="rows=0"):
        Parity(rows=0)


def test_thresholds_are_taken_from_the_artifact_itself(subjects):
    report = Parity(rows=2000).run(subjects[0], subjects[0])
    assert report.details["probes"]["split thresholds"]["rows"] > 0


def test_the_live_model_is_used_where_it_is_at_hand(subjects):
    from sklearn.tree import DecisionTreeClassifier

    x = np.random.default_rng(0).normal(size=(40, 2))
    live = replace(subjects[0], native=DecisionTreeClassifier(max_depth=1).fit(x, x[:, 1] > 0))
    assert Parity(rows=400).run(subjects[0], live).verdict == "found"


def test_what_was_asked_for_is_recorded(subjects):
    report = Parity(Tolerance(rtol=0.5), rows=300, without=["batch of 0"], seed=7).run(subjects[0], subjects[0])
    assert report.details["tolerance"] == {"rtol": 0.5, "atol": None}
    assert report.details["left_out"] == ["batch of 0"]
    assert report.details["seed"] == 7
    assert "batch of 0" not in report.details["probes"]
