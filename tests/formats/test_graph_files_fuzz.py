"""A short run of the fuzzer; ``python tests/fuzz/graph_files.py SECONDS`` runs it for longer."""

from fuzz import graph_files


def test_a_few_seconds_of_fuzzing_find_nothing():
    count, failures = graph_files.fuzz(3, 7)
    assert count > 100
    assert failures == []
