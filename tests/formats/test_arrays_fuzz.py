"""A short run of the fuzzer; ``python tests/fuzz/arrays.py SECONDS`` runs it for longer."""

from fuzz import arrays


def test_files_changed_at_random_give_nothing_but_errors_of_ours():
    count, failures = arrays.fuzz(3, 7)
    assert failures == []
    assert count > 50
