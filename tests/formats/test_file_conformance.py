"""The suite for formats that are only looked at: it holds for ours, and it catches what breaks a promise."""

from __future__ import annotations

import json

import pytest
from samples import plain, protobufs, weights

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.formats.coreml import CoreMl
from vitrify.formats.gguf import Gguf
from vitrify.formats.pmml import Pmml
from vitrify.reading.files import head, only
from vitrify.testing.formats import FileConformance
from vitrify.testing.words import check


def of(samples, name):
    return {key: make for key, make in samples.items() if key.startswith(f"{name}/") and not key.endswith("!")}


class TestGguf(FileConformance):
    format = Gguf()
    samples = of(weights.SAMPLES, "gguf")


class TestPmml(FileConformance):
    format = Pmml()
    samples = of(plain.SAMPLES | weights.SAMPLES, "pmml")


class TestCoreML(FileConformance):
    format = CoreMl()
    samples = of(protobufs.SAMPLES, "coreml")


def numbers(folder):
    path = folder / "numbers"
    path.write_bytes(b"NUM[1, 2]")
    return path


class Numbers:
    """A sound format."""

    def detect(self, files):
        return only(files) is not None and head(files).startswith(b"NUM")

    def describe(self, files, entry):
        try:
            return {"parameters": len(json.loads(files.read(entry["file"])[3:]))}
        except (ValueError, TypeError) as error:
            raise MalformedError(str(error)) from error

    def hazards(self, files, entry):
        self.describe(files, entry)
        return ()


class TestNumbers(FileConformance):
    format = Numbers()
    samples = {"two": numbers}


class Crashes(Numbers):
    def describe(self, files, entry):
        return {"parameters": len(json.loads(files.read(entry["file"])[3:]))}


class Names(Numbers):
    def detect(self, files):
        return only(files) == "numbers"


class Words(Numbers):
    def describe(self, files, entry):
        return {"paramCount": 2}


class Warns(Numbers):
    def hazards(self, files, entry):
        yield Finding(place="numbers", message="may be numbers")


@pytest.mark.parametrize(
    ("form", "test", "error"),
    [
        (Crashes, "test_a_damaged_sample_gives_typed_errors", ValueError),
        (Names, "test_a_sample_is_recognised_whatever_it_is_called_and_other_content_is_not", AssertionError),
        (Words, "test_a_sample_is_described_in_the_common_words", AssertionError),
        (Warns, "test_an_honest_sample_has_no_findings", AssertionError),
    ],
)
def test_a_broken_promise_is_caught(form, test, error, tmp_path):
    suite = FileConformance()
    suite.format, suite.samples = form(), {"two": numbers}
    with pytest.raises(error):
        getattr(suite, test)(tmp_path)


@pytest.mark.parametrize(
    "facts",
    [
        {"paramCount": 1},
        {"two words": 1},
        {"parameters": -1},
        {"parameters": 1.5},
        {"inputs": [{"name": "x", "type": None, "shape": None}]},
        {"tensors": [{"name": "x", "type": "float32", "shape": [None], "bytes": 4}]},
        {"operators": ["Add"]},
        {"needs": "torch"},
        {"code": 1},
        {"metadata": ["a"]},
        {"own": (1, 2)},
        {"own": {1: 2}},
    ],
    ids=str,
)
def test_words_that_mean_something_else_are_caught(facts):
    with pytest.raises(AssertionError):
        check(facts)
