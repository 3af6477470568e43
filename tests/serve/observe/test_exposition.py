"""Figures are text that other people's parsers read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from vitrify.serve.lanes import Histogram
from vitrify.serve.observe.exposition import Family, written

LINES = "\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"
"""What the parser takes for the end of a line, and the formats do not."""
READERS = [
    pytest.param(False, read_prometheus, id="Prometheus"),
    pytest.param(True, read_openmetrics, id="OpenMetrics"),
]


def samples(text, read):
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for f in read(text) for one in f.samples}


@pytest.mark.parametrize(("openmetrics", "read"), READERS)
@given(label=st.text(st.characters(exclude_categories=["Cs"], exclude_characters=LINES)))
def test_a_label_may_be_any_text(openmetrics, read, label):
    text = written([Family("a", "counter", "What.").add(3, name=label)], openmetrics=openmetrics)
    assert samples(text, read) == {("a_total", (("name", label),)): 3}


@pytest.mark.parametrize(("openmetrics", "read"), READERS)
@pytest.mark.parametrize("value", [0, 1, -1, 2**53, 0.1, 5e-324, 1.7e308, math.inf, -math.inf, True])
def test_a_number_comes_back_as_it_was(openmetrics, read, value):
    text = written([Family("a", "gauge", "What.").add(value)], openmetrics=openmetrics)
    assert samples(text, read) == {("a", ()): value}


@pytest.mark.parametrize(("openmetrics", "read"), READERS)
@given(counts=st.lists(st.integers(0, 1000), min_size=4, max_size=4), total=st.floats(0, 1e6))
def test_a_histogram_is_cumulated_and_ends_with_everything(openmetrics, read, counts, total):
    family = Family("h", "histogram", "What.").count((0.1, 1, 10), Histogram(counts, total), model="m")
    found = samples(written([family], openmetrics=openmetrics), read)
    buckets = [found["h_bucket", (("le", le), ("model", "m"))] for le in ("0.1", "1.0", "10.0", "+Inf")]
    assert buckets == [sum(counts[: at + 1]) for at in range(4)]
    assert found["h_count", (("model", "m"),)] == sum(counts)
    assert found["h_sum", (("model", "m"),)] == total


@pytest.mark.parametrize(("openmetrics", "read"), READERS)
def test_every_line_has_the_common_labels(openmetrics, read):
    family = Family("h", "histogram", "What.").count((1,), Histogram([1, 2], 3.0), model="m")
    text = written([family], openmetrics=openmetrics, common={"process": "1"})
    assert all(dict(labels)["process"] == "1" for _, labels in samples(text, read))


def test_a_family_without_a_value_is_left_out():
    assert written([Family("a", "gauge", "What.")]) == ""


def test_a_description_stays_on_its_line():
    text = written([Family("a", "gauge", "one\ntwo\\").add(1)])
    assert text.splitlines()[0] == r"# HELP a one\ntwo\\"


def test_nan_is_written_as_the_formats_have_it():
    assert written([Family("a", "gauge", "What.").add(math.nan)]).splitlines()[-1] == "a NaN"
