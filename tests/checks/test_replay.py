from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vitrify.artifacts import golden, save
from vitrify.checks.replay import Replay, changes, replay_session
from vitrify.core.document import GOLDEN
from vitrify.core.errors import ModelError, UsageError
from vitrify.testing.checks import CheckConformance


class Patched:
    """An artifact's files with the golden samples replaced or taken away."""

    def __init__(self, files, data):
        self.files, self.data = files, data

    def names(self):
        return tuple(name for name in self.files.names() if name != GOLDEN or self.data is not None)

    def read(self, name):
        return self.data if name == GOLDEN else self.files.read(name)

    def map(self, name):
        return self.files.map(name)

    def path(self, name):
        return self.files.path(name)


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    from sklearn.linear_model import LogisticRegression

    from vitrify.stores.oci_layout import OciLayout

    x = np.random.default_rng(0).normal(size=(30, 2))
    model = LogisticRegression().fit(x, np.where(x[:, 0] > 0, "yes", "no"))
    return save(model, "replay", example=x, store=OciLayout(tmp_path_factory.mktemp("replay") / "store")).subject()


def shifted(subject, **off):
    inputs, outputs = golden.load(subject.files)
    outputs = {name: array + off[name] if name in off else array for name, array in outputs.items()}
    return replace(subject, files=Patched(subject.files, golden.dump(inputs, outputs)))


class TestReplay(CheckConformance):
    name = "replay"

    @pytest.fixture(autouse=True)
    def _subject(self, subject):
        self.subject = subject

    def check(self):
        return Replay()

    def clean(self):
        return self.subject, None

    def faulty(self):
        return shifted(self.subject, probability=0.01), None

    def unanswerable(self):
        return replace(self.subject, files=Patched(self.subject.files, None)), None


def test_on_the_runtime_that_made_them_the_golden_samples_are_equal_to_the_bit(subject):
    details = Replay().run(subject, None).details
    assert details["bit_equal"]
    assert details["bit_equal_outputs"] == {"label": True, "probability": True}
    assert details["runtime"] == "estimator"


def test_a_difference_within_the_tolerance_is_clean_but_not_bit_equal(subject):
    report = Replay().run(shifted(subject, probability=1e-12), None)
    assert report.verdict == "clean"
    assert not report.details["bit_equal"]
    assert 0 < report.details["outputs"]["probability"]["absolute"]["max"] < 1e-11


def test_another_runtime_that_cannot_open_it_is_an_error_of_the_call(subject):
    with pytest.raises(UsageError):
        Replay(runtime="nonesuch").run(subject, None)


def test_a_model_that_refuses_its_golden_samples_is_found(table, session):
    def refuse(arrays):
        raise ModelError("gone")

    report = replay_session(session(table(x="float64"), refuse), {"x": np.zeros(2)}, {"y": np.zeros(2)})
    assert report.verdict == "found"
    assert "gone" in report.findings[0].message


def test_minus_zero_and_nan_count_to_the_bit(table, session):
    echo = session(table(x="float64"), lambda a: {"y": a["x"]})
    values = {"x": np.array([0.0, np.nan, 1.0])}
    assert replay_session(echo, values, {"y": values["x"].copy()}).details["bit_equal"]
    assert not replay_session(echo, values, {"y": np.array([-0.0, np.nan, 1.0])}).details["bit_equal"]


def test_an_output_of_another_form_is_found(table, session):
    echo = session(table(x="float64"), lambda a: {"y": a["x"]})
    for expected in ({"z": np.zeros(2)}, {"y": np.zeros((2, 1))}, {"y": np.zeros(2, np.float32)}):
        assert replay_session(echo, {"x": np.zeros(2)}, expected).verdict == "found"


def test_libraries_of_another_version_are_told(subject):
    document = subject.document
    assert changes(document) == {}
    versions = {**document.environment.distributions, "numpy": "1.0", "no-such-package": "2"}
    older = document.replace(environment=document.environment.replace(distributions=versions, python="3.0"))
    found = changes(older)
    assert found["numpy"] == ["1.0", np.__version__]
    assert found["no-such-package"] == ["2", None]
    assert found["python"][0] == "3.0"
