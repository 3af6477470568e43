"""The lane in Python: the conformance suites, and what only it does."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref

import numpy as np
import pytest

from vitrify.core.errors import ExpiredError, LimitExceededError, ModelError, UnavailableError
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.testing.lane_models import LIMIT, Model, answer, ask, error, insist, opened, plug, same, spec, twice, until
from vitrify.testing.lanes import GeneralLaneConformance, LaneConformance, PaddingConformance


class TestThreadLane(LaneConformance, GeneralLaneConformance, PaddingConformance):
    @pytest.fixture
    def make(self):
        return ThreadLane


def test_a_deadline_that_passes_while_the_request_is_being_run_is_kept_too():
    model = Model(held=True)
    with opened(ThreadLane, model) as lane:
        tries, said = 0, ""
        while "being run" not in said:  # on a machine that stalls, it passes in the queue
            tries += 1
            raised = error(lane.submit(ask(1, deadline=time.monotonic() + 0.01 * 2**tries)))
            assert isinstance(raised, ExpiredError)
            said = str(raised)
            assert "being run" in said or "in the queue" in said
        model.release()
        same(answer(lane.submit(ask(2))), 2)
        assert (lane.figures().ok, lane.figures().failed) == (1, {"ExpiredError": tries})


def test_an_error_says_nothing_of_the_inside_and_the_log_has_it_all(caplog):
    def run(inputs):
        raise ZeroDivisionError("x" * 10_000)

    with caplog.at_level(logging.WARNING, "vitrify"), opened(ThreadLane, run) as lane:
        raised = error(lane.submit(ask(1)))
    assert isinstance(raised, ModelError)
    assert str(raised).startswith("the model raised ZeroDivisionError: xxx")
    assert len(str(raised)) <= 500
    assert raised.__cause__ is raised.__context__ is None
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()], ids=repr)
def test_a_model_that_raises_anything_does_not_end_the_lane(raised):
    def run(inputs):
        if inputs["x"][0, 0] == 1:
            raise raised
        return twice(inputs)

    with opened(ThreadLane, run) as lane:
        assert isinstance(error(lane.submit(ask(1))), ModelError)
        same(answer(lane.submit(ask(2))), 2)


@pytest.mark.parametrize("outputs", [None, [np.zeros(1)], {"twice": [1.0]}, {}], ids=repr)
def test_outputs_that_are_no_named_arrays_are_the_models_error_where_something_is_asked_for(outputs):
    with opened(ThreadLane, lambda inputs: outputs) as lane:
        assert isinstance(error(lane.submit(ask(1, outputs=("twice",)))), ModelError)


def test_a_request_for_an_output_that_is_not_there_harms_no_other():
    model = Model(held=True)
    with opened(ThreadLane, model) as lane:
        plug(lane, model)
        bad, good = lane.submit(ask(1, outputs=("nothing",))), lane.submit(ask(2))
        model.release()
        assert "no output ['nothing']" in str(error(bad))
        same(answer(good), 2)


def test_a_request_that_no_queue_could_hold_is_told_so():
    with opened(ThreadLane, twice, queue_bytes=10) as lane, pytest.raises(LimitExceededError, match="12 bytes"):
        lane.submit(ask(1))


def test_one_instance_that_hangs_does_not_stop_the_other():
    model = Model(held=True)
    hung = threading.Event()

    def run(inputs):
        if inputs["x"][0, 0] < 0:
            hung.set()
            return model(inputs)
        return twice(inputs)

    with opened(ThreadLane, run, instances=2, run_seconds=0.2) as lane:
        future = lane.submit(ask(-1))
        assert hung.wait(LIMIT)
        assert isinstance(error(future), UnavailableError)
        assert lane.figures().stuck
        same(insist(lane, 1)[0], 1)
        assert lane.figures().stuck
        model.release()


def test_a_lane_may_be_closed_twice_and_from_its_own_thread():
    closed = threading.Event()

    def watch(done):
        lane.close(LIMIT)
        closed.set()

    lane = ThreadLane(spec(), twice, watch)
    same(answer(lane.submit(ask(1))), 1)
    assert closed.wait(LIMIT)
    lane.close(LIMIT)
    with pytest.raises(UnavailableError, match="unloaded"):
        lane.submit(ask(2))


def test_an_answer_may_ask_again_at_once():
    again = []
    with opened(ThreadLane, twice) as lane:
        lane.submit(ask(1)).add_done_callback(lambda future: again.append(lane.submit(ask(2))))
        until(lambda: bool(again), "the callback was called")
        same(answer(again[0]), 2)


def test_a_closed_lane_goes_without_the_garbage_collector_and_futures_do_not_hold_it():
    gc.collect()
    gc.disable()
    try:
        lane = ThreadLane(spec(), twice, None)
        futures = [lane.submit(ask(value)) for value in range(3)]
        futures.append(lane.submit(ask(1, outputs=("nothing",))))
        for future in futures:
            future.exception(LIMIT)
        lane.close(LIMIT)
        held = weakref.ref(lane)
        del lane
        assert held() is None
    finally:
        gc.enable()


def test_a_model_that_hangs_past_the_end_does_not_keep_close_from_returning():
    model = Model(held=True)
    lane = ThreadLane(spec(), model, None)
    future = plug(lane, model)
    lane.close(0.01)
    assert isinstance(error(future), UnavailableError)
    threads = [thread for thread in threading.enumerate() if thread.name == "lane glass 3"]
    model.release()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()


def test_who_is_late_by_the_time_of_the_second_try_is_not_run_again():
    batches, free = [], threading.Event()

    def run(inputs):
        batches.append(inputs["x"][:, 0].tolist())
        if batches[-1] == [1, 2]:
            assert free.wait(LIMIT)
        if inputs["x"][0, 0] == 1:
            raise ZeroDivisionError("a bad row")
        return twice(inputs)

    with opened(ThreadLane, Model(run, held=True)) as lane:
        plug(lane, lane._run)
        bad, late = lane.submit(ask(1)), lane.submit(ask(2, deadline=time.monotonic() + 0.5))
        lane._run.release()
        assert isinstance(error(late), ExpiredError)
        free.set()
        assert isinstance(error(bad), ModelError)
    assert batches in ([[-1], [1, 2], [1]], [[-1], [1]])  # the second where the machine was stalled


def test_a_batch_that_hung_is_not_shown_to_the_watcher():
    model, seen = Model(held=True), []
    with opened(ThreadLane, model, lambda done: seen.append(done.inputs["x"][0, 0]), run_seconds=0.2) as lane:
        assert isinstance(error(plug(lane, model)), UnavailableError)
        model.release()
        until(lambda: not lane.figures().stuck, "it recovers")
        insist(lane, 1)
    assert seen == [1]


class TestWaiting:
    """A lane whose batches wait for more, for longer than a test does."""

    @pytest.fixture
    def model(self):
        return Model()

    @pytest.fixture
    def lane(self, model):
        with opened(ThreadLane, model, rows=3, delay_us=int(1e7 * LIMIT), seconds=100 * LIMIT) as lane:
            with lane._lock:
                lane._patience._gain = 1.0
            yield lane

    def gathering(self, lane):
        until(lambda: lane._gathering, "it waits")

    def test_a_batch_that_becomes_full_goes_at_once(self, lane, model):
        futures = []
        for value in range(3):
            futures.append(lane.submit(ask(value)))
            if value < 2:
                self.gathering(lane)
                assert not model.batches
        for value, future in enumerate(futures):
            same(answer(future), value)
        assert model.firsts == [[0, 1, 2]]

    def test_nobody_is_kept_waiting_who_could_not_be_of_the_batch(self, lane, model):
        first = lane.submit(ask(1))
        self.gathering(lane)
        same(answer(lane.submit(ask())))
        same(answer(first), 1)
        assert model.firsts == [[1], []]

    def test_where_nobody_comes_for_a_while_the_waiting_ends(self, lane, model):
        with lane._lock:
            lane._patience.pause = 0.01
        for value in range(10):
            same(answer(lane.submit(ask(value))), value)
        assert not lane._patience.pays()

    def test_closing_ends_the_waiting(self, lane, model):
        future = lane.submit(ask(1))
        self.gathering(lane)
        lane.close(LIMIT)
        same(answer(future), 1)

    def test_a_lane_that_waits_for_company_of_somebody_who_leaves_goes_on(self, lane, model):
        future = lane.submit(ask(1))
        self.gathering(lane)
        assert future.cancel()
        futures = [lane.submit(ask(value)) for value in range(2, 5)]
        for value, one in enumerate(futures, 2):
            same(answer(one), value)
        assert model.firsts == [[2, 3, 4]]


def test_the_inputs_of_a_request_that_failed_are_let_go():
    def run(inputs):
        raise ZeroDivisionError

    logging.getLogger("vitrify.serve.lanes._calling").setLevel(logging.CRITICAL)  # pytest keeps what is logged
    try:
        with opened(ThreadLane, run) as lane:
            request = ask(1)
            array = weakref.ref(request.inputs["x"])
            raised = error(lane.submit(request))
            del request
            until(lambda: array() is None, "the inputs are gone")
            assert isinstance(raised, ModelError)
    finally:
        logging.getLogger("vitrify.serve.lanes._calling").setLevel(logging.NOTSET)
