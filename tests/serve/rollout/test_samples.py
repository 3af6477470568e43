"""What is kept of what a version answered."""

from __future__ import annotations

import numpy as np
from seen import done, part

from vitrify.serve.rollout.samples import ROWS, Samples


def test_outputs_are_copied_flat_and_latencies_are_those_of_the_requests():
    samples, outputs = Samples(), np.arange(12.0).reshape(3, 2, 2)
    samples.add(done({"Y": outputs}, parts=(part(1, waited=0.5), part(2, waited=0.25)), seconds=1.0), "shadow")
    outputs[:] = -1
    assert samples.outputs()["Y"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert samples.latencies().tolist() == [1.5, 1.25]


def test_what_a_shadow_asked_does_not_count():
    samples = Samples()
    samples.add(done({"Y": np.ones(2)}, parts=(part(1), part(1, client="shadow"))), "shadow")
    assert samples.outputs() == {}
    assert len(samples.latencies()) == 0


def test_only_the_last_rows_are_kept_and_of_a_large_batch_some_all_over_it():
    samples = Samples()
    samples.add(done({"Y": np.arange(1000.0)}, parts=(part(1000),)), "shadow")
    kept = samples.outputs()["Y"][:, 0]
    assert len(kept) <= 64
    assert kept.max() > 900
    for number in range(2 * ROWS):
        samples.add(done({"Y": np.array([float(number)])}, parts=(part(1),)), "shadow")
    kept = samples.outputs()["Y"][:, 0]
    assert (len(kept), kept[-1]) == (ROWS, 2 * ROWS - 1)
    assert len(samples.latencies()) == ROWS


def test_texts_truths_and_missing_values_are_kept_as_what_they_are():
    samples = Samples()
    masked = np.ma.MaskedArray([1, 2], [True, False])
    outputs = {
        "text": np.array(["a", None], object),
        "long": np.array(["x" * 9999, b"y"], object),
        "truth": np.array([True, False]),
        "masked": masked,
        "none": np.array(3.0),
    }
    samples.add(done(outputs, parts=(part(2),)), "shadow")
    kept = samples.outputs()
    assert kept["text"].tolist() == [["a"], ["None"]]
    assert len(kept["long"][0, 0]) == 200
    assert kept["truth"].tolist() == [["True"], ["False"]]
    assert np.isnan(kept["masked"][0, 0])
    assert kept["masked"][1, 0] == 2
    assert len(kept["none"]) == 0


def test_an_output_whose_length_changes_is_kept_from_then_on():
    samples = Samples()
    for width in (2, 3):
        samples.add(done({"Y": np.ones((1, width))}, parts=(part(1),)), "shadow")
    assert samples.outputs()["Y"].shape == (1, 3)
