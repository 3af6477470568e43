"""A short run of the differential fuzzer: what the machine accepts, CPython reads as an equal value."""

from __future__ import annotations

from fuzz import pickle_machine


def test_what_the_machine_accepts_cpython_reads_alike():
    total, accepted, wrong = pickle_machine.run(5, seed=0)
    assert not wrong
    assert accepted > 200
    assert total > accepted
