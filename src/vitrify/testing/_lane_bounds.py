"""What is refused, what is given up, and what is counted; see :mod:`.lanes`."""

# ruff: noqa: PLR2004 (literal expectations are the point of a test)

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vitrify.core.errors import BusyError, ExpiredError, LimitExceededError, ModelError, UnavailableError
from vitrify.testing.lane_models import (
    LIMIT,
    LaneSuite,
    Model,
    answer,
    ask,
    error,
    insist,
    opened,
    plug,
    refuses_negatives,
    row,
    same,
    spec,
    twice,
    until,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Lane, MakeLane
    from vitrify.serve.values import Done, Reply


class BoundConformance(LaneSuite):
    """What is refused, what is given up, and what is counted."""

    def test_a_request_that_is_late_gets_its_error_while_the_model_is_busy(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model) as lane:
            first = plug(lane, model)
            late = lane.submit(ask(1, deadline=time.monotonic() + 0.02))
            good = lane.submit(ask(2))
            assert isinstance(error(late), ExpiredError)
            assert not first.done()
            assert lane.figures().waiting == 1
            model.release()
            same(answer(good), 2)
            assert lane.figures().failed == {"ExpiredError": 1}
        assert model.firsts == [[-1], [2]]

    def test_a_request_that_comes_late_is_never_run(self, make: MakeLane) -> None:
        model = Model()
        with opened(make, model) as lane:
            assert isinstance(error(lane.submit(ask(1, deadline=time.monotonic() - 1))), ExpiredError)
        assert not model.batches

    def test_a_request_without_a_deadline_has_the_lanes_own(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, seconds=0.02) as lane:
            lane.submit(ask(-1, deadline=time.monotonic() + LIMIT))
            model.entered()
            assert isinstance(error(lane.submit(ask(1))), ExpiredError)

    def test_a_late_large_request_leaves_with_all_its_pieces(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, rows=2) as lane:
            plug(lane, model)
            assert isinstance(error(lane.submit(ask(*range(7), deadline=time.monotonic() + 0.02))), ExpiredError)
            assert lane.figures().waiting == 0
            model.release()
            same(answer(lane.submit(ask(9))), 9)
        assert model.firsts == [[-1], [9]]

    def test_a_full_queue_refuses_and_harms_nobody_else(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, queue=3) as lane:
            plug(lane, model)
            futures = [lane.submit(ask(value)) for value in range(3)]
            with pytest.raises(BusyError) as raised:
                lane.submit(ask(3))
            assert 0 < raised.value.retry_after <= 60
            figures = lane.figures()
            assert (figures.waiting, figures.failed) == (3, {"BusyError": 1})
            model.release()
            for value, future in enumerate(futures):
                same(answer(future), value)
            same(answer(lane.submit(ask(4))), 4)

    def test_the_bytes_that_wait_are_bounded(self, make: MakeLane) -> None:
        one = row(0).nbytes
        model = Model(held=True)
        with opened(make, model, queue_bytes=4 * one) as lane:
            plug(lane, model)
            lane.submit(ask(1, 2))
            lane.submit(ask(3, 4))
            with pytest.raises(BusyError):
                lane.submit(ask(5))
            model.release()
            until(lambda: lane.figures().ok == 3, "all were answered")
            same(answer(lane.submit(ask(6, 7, 8, 9))), 6, 7, 8, 9)
            with pytest.raises((BusyError, LimitExceededError)):
                lane.submit(ask(1, 2, 3, 4, 5))

    def test_a_cancelled_request_leaves_the_queue_and_is_not_run(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, rows=2) as lane:
            plug(lane, model)
            futures = [lane.submit(ask(*values)) for values in ((1,), (2, 3, 4), (5,))]
            assert futures[1].cancel()
            until(lambda: lane.figures().waiting == 2, "it left the queue")
            model.release()
            same(answer(futures[0]), 1)
            same(answer(futures[2]), 5)
        assert model.firsts == [[-1], [1, 5]]

    def test_one_bad_request_harms_no_other(self, make: MakeLane) -> None:
        model = Model(refuses_negatives, held=True)
        with opened(make, model) as lane:
            lane.submit(ask(0))
            model.entered()
            futures = [lane.submit(ask(*values)) for values in ((1,), (-2, 3), (4, 5))]
            model.release()
            same(answer(futures[0]), 1)
            same(answer(futures[2]), 4, 5)
            raised = error(futures[1])
            figures = lane.figures()
        assert isinstance(raised, ModelError)
        assert "ZeroDivisionError: a negative row" in str(raised)
        assert "Traceback" not in str(raised)
        assert model.firsts == [[0], [1, -2, 3, 4, 5], [1], [-2, 3], [4, 5]]
        assert (figures.ok, figures.failed) == (3, {"ModelError": 1})

    def test_an_error_in_one_piece_fails_the_request_once_and_drops_the_rest(self, make: MakeLane) -> None:
        model = Model(refuses_negatives)
        with opened(make, model, rows=2) as lane:
            assert isinstance(error(lane.submit(ask(-1, *range(9)))), ModelError)
            until(lambda: lane.figures().waiting == lane.figures().running == 0, "nothing is left")
            same(answer(lane.submit(ask(1))), 1)
            assert lane.figures().failed == {"ModelError": 1}
        assert model.firsts == [[-1, 0], [1]]

    def test_an_error_that_is_not_the_models_goes_to_all(self, make: MakeLane) -> None:
        def away(inputs: Arrays) -> Arrays:
            if inputs["x"][0, 0] < 0:
                return twice(inputs)
            raise UnavailableError("the worker is away", remedy="come again")

        model = Model(away, held=True)
        with opened(make, model) as lane:
            plug(lane, model)
            futures = [lane.submit(ask(value)) for value in range(3)]
            model.release()
            for future in futures:
                raised = error(future)
                assert type(raised) is UnavailableError
                assert str(raised) == "the worker is away\n  -> come again"
        assert model.firsts == [[-1], [0, 1, 2]]

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda x: {"twice": x[:-1], "first": x[:, 0].astype(np.int64)},
            lambda x: {"twice": np.repeat(x, 2, axis=0), "first": x[:, 0].astype(np.int64)},
            lambda x: {"twice": x, "first": np.array(1)},
        ],
        ids=["fewer", "more", "none"],
    )
    def test_outputs_with_another_number_of_rows_are_the_models_error(self, make: MakeLane, wrong: Any) -> None:
        with opened(make, lambda inputs: wrong(inputs["x"])) as lane:
            raised = error(lane.submit(ask(1, 2)))
        assert isinstance(raised, ModelError)
        assert "expected 2" in str(raised)

    def test_a_model_that_hangs_fails_its_batch_and_recovers(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, run_seconds=0.2) as lane:
            raised = error(plug(lane, model))
            assert isinstance(raised, UnavailableError)
            assert "running for" in str(raised)
            until(lambda: lane.figures().stuck, "the lane says that it is stuck")
            with pytest.raises(UnavailableError):
                lane.submit(ask(1))
            model.release()
            until(lambda: not lane.figures().stuck, "it recovers")
            outputs, failures = insist(lane, 2)
            same(outputs, 2)
            assert lane.figures().failed == {"UnavailableError": 2 + failures}
        assert model.firsts[:2] == [[-1], [2]]

    def test_closing_runs_what_waits_and_takes_nothing_more(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model) as lane:
            first = plug(lane, model)
            waiting = lane.submit(ask(1))
            closing = threading.Thread(target=lane.close, args=(LIMIT,))
            closing.start()
            until(lambda: _refuses(lane), "the lane is closed")
            model.release()
            same(answer(waiting), 1)
            same(answer(first), -1)
            closing.join(LIMIT)
            assert not closing.is_alive()

    def test_what_cannot_be_run_in_time_fails_when_the_lane_is_closed(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model) as lane:
            futures = [plug(lane, model), lane.submit(ask(1))]
            lane.close(0)
            assert all(isinstance(error(future), UnavailableError) for future in futures)
        assert model.firsts == [[-1]]

    def test_the_figures_are_exact(self, make: MakeLane) -> None:
        model = Model(held=True)
        before = time.time()
        with opened(make, model, rows=4) as lane:
            assert (lane.figures().last, lane.figures().ok) == (0, 0)
            plug(lane, model)
            futures = [lane.submit(ask(*values)) for values in ((1, 2), (3, 4), (5, 6, 7, 8, 9))]
            figures = lane.figures()
            assert (figures.waiting, figures.running, figures.batches, figures.ok) == (3, 1, 0, 0)
            model.release()
            for future in futures:
                answer(future)
            until(lambda: lane.figures().batches == 4, "the last batch was counted")
            figures = lane.figures()
        assert (figures.waiting, figures.running, figures.ok, figures.failed) == (0, 0, 4, {})
        assert (figures.batches, figures.rows) == (4, 10)
        assert (figures.batch_rows.counts[:4], figures.batch_rows.total) == ([2, 0, 2, 0], 10)
        counted = {"queued": 4, "computed": 4, "answered": 4}
        assert {name: sum(getattr(figures, name).counts) for name in counted} == counted
        assert 0 < figures.computed.total <= figures.answered.total
        assert figures.last >= before - 1

    def test_a_watcher_sees_every_batch_after_its_answers(self, make: MakeLane) -> None:
        model = Model(refuses_negatives, held=True)
        seen: list[tuple[Done, list[int], Arrays]] = []
        futures: list[Future[Reply]] = []

        def watch(done: Done) -> None:
            assert all(future.done() for future in futures[:1])
            outputs = {name: array.copy() for name, array in done.outputs.items()}
            seen.append((done, done.inputs["x"][:, 0].astype(int).tolist(), outputs))

        with opened(make, model, watch, rows=4) as lane:
            futures.append(lane.submit(ask(0)))
            model.entered()
            futures.append(lane.submit(ask(1, id="a", client="me")))
            futures.append(lane.submit(ask(2, 3, id="b")))
            lane.submit(ask(-4, -5))
            model.release()
            until(lambda: len(seen) == 2, "both batches were seen")
        done, firsts, outputs = seen[1]
        assert (done.model, done.version, done.digest) == ("glass", "3", f"sha256:{'0' * 64}")
        assert [(part.id, part.client, part.rows) for part in done.parts] == [("a", "me", 1), ("b", "", 2)]
        assert all(part.waited >= 0 for part in done.parts)
        assert firsts == [1, 2, 3]
        same(outputs, 1, 2, 3)
        assert len(seen) == 2  # a batch that failed is not shown

    def test_a_watcher_that_raises_harms_nobody(self, make: MakeLane) -> None:
        def watch(done: Done) -> None:
            raise ZeroDivisionError(done.model)

        with opened(make, twice, watch) as lane:
            for value in range(3):
                same(answer(lane.submit(ask(value))), value)

    def test_the_memory_of_an_answered_request_is_let_go(self, make: MakeLane) -> None:
        with opened(make, twice) as lane:
            request = ask(1)
            array = weakref.ref(request.inputs["x"])
            answer(lane.submit(request))
            del request
            until(lambda: array() is None, "the inputs are gone")

    def test_after_closing_no_thread_is_left_and_nothing_of_the_model(self, make: MakeLane) -> None:
        before = set(threading.enumerate())
        model = Model()
        lane = make(spec(instances=2), model, None)
        answer(lane.submit(ask(1)))
        lane.close(LIMIT)
        assert set(threading.enumerate()) <= before
        held = weakref.ref(model)
        del model, lane
        gc.collect()
        assert held() is None


def _refuses(lane: Lane) -> bool:
    try:
        lane.submit(ask(0)).cancel()
    except UnavailableError:
        return True
    return False
