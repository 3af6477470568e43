"""The page of scikit-learn's estimators: what it says of each is what comes out."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from transforms.convert.every_estimator import PROVEN, attempt, estimators, fitted
from transforms.convert.proving import problems, saved, step_of

from vitrify.core.catalog import catalog
from vitrify.core.errors import VitrifyError
from vitrify.testing.directory import DirectorySink

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "scikit-learn.md"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # scikit-learn warns while it imports what it deprecates
    EVERY = estimators()


def said() -> dict[str, tuple[str, str]]:
    """Return the answers and the verdict of each estimator on the page."""
    lines = re.findall(r"^\| (\w+) \| (.*?) \| ([a-z ]+) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: (answers, verdict) for name, answers, verdict in lines if name != "estimator"}


def test_the_page_has_every_estimator_and_no_other():
    assert set(said()) == set(EVERY)


def test_nine_of_ten_predictors_are_proven():
    verdicts = [verdict for answers, verdict in said().values() if "transformed" not in answers]
    assert verdicts.count(PROVEN) >= 0.9 * len(verdicts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_the_page_says_what_comes_out(name, tmp_path):
    assert attempt(EVERY[name], tmp_path).verdict == said()[name][1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", EVERY)
def test_every_precision_gives_a_graph_that_is_valid(name, precision, tmp_path):
    """Whether it then holds is for parity to say."""
    try:
        source = saved(*fitted(EVERY[name]), tmp_path / "source")
    except VitrifyError:
        pytest.skip("cannot be saved as skops")
    step = step_of(source)
    step = step.replace(options={"precision": precision})
    if not problems(source):
        (tmp_path / "onnx").mkdir()
        catalog().load("transform", step.transform).apply(source, step, DirectorySink(tmp_path / "onnx"))
