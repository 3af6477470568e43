from __future__ import annotations

from vitrify.serve.models.backoff import Backoff


def test_backing_off_doubles_up_to_a_limit_and_is_forgotten_after_a_success():
    backoff, waits = Backoff(), []
    assert backoff.seconds == 0
    for _ in range(40):
        backoff.failed()
        waits.append(backoff.seconds)
    assert all(0 < wait <= 300 for wait in waits)
    assert waits[-1] > 200
    backoff.worked()
    assert backoff.seconds == 0
