from __future__ import annotations

import asyncio
import gc
import threading
import time
from concurrent.futures import Future

import pytest

from vitrify.core.errors import ExpiredError, ModelError
from vitrify.serve.lanes.owed import Owed
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.waking import Waker
from vitrify.testing.lane_models import Model, ask, opened


def test_every_end_arrives_whichever_thread_it_comes_from():
    async def test():
        waker = Waker(asyncio.get_running_loop())
        futures = [Future() for _ in range(400)]

        def end(part):
            for number, future in part:
                if number % 7:
                    future.set_result(number)
                else:
                    future.set_exception(ModelError(str(number)))

        numbered = list(enumerate(futures))
        threads = [threading.Thread(target=end, args=(numbered[part::4],)) for part in range(4)]
        waits = [asyncio.ensure_future(waker.wait(future)) for future in futures]
        for thread in threads:
            thread.start()
        results = await asyncio.gather(*waits, return_exceptions=True)
        for number, result in enumerate(results):
            assert (result == number) if number % 7 else str(result) == str(number)
        for thread in threads:
            thread.join()

    asyncio.run(test())


def test_ends_that_come_together_wake_the_loop_once(monkeypatch):
    async def test():
        loop = asyncio.get_running_loop()
        waker, wakes, call = Waker(loop), [], loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *about: wakes.append(about) or call(*about))
        futures = [Future() for _ in range(50)]
        waits = [asyncio.ensure_future(waker.wait(future)) for future in futures]
        await asyncio.sleep(0)
        for number, future in enumerate(futures):
            future.set_result(number)
        assert await asyncio.gather(*waits) == list(range(50))
        assert len(wakes) == 1

    asyncio.run(test())


def test_what_has_ended_before_is_there_at_once():
    async def test():
        future = Future()
        future.set_result(3)
        assert await Waker(asyncio.get_running_loop()).wait(future) == 3

    asyncio.run(test())


def test_who_goes_away_takes_the_request_along():
    async def test():
        waker, future = Waker(asyncio.get_running_loop()), Future()
        waiting = asyncio.ensure_future(waker.wait(future))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert future.cancelled()
        late = Future()
        gone = asyncio.ensure_future(waker.wait(late))
        await asyncio.sleep(0)
        late.set_running_or_notify_cancel()
        gone.cancel()
        late.set_result(1)  # nobody wants it any more
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(test())


def test_an_end_after_the_loop_is_of_no_harm(caplog):
    future = Future()

    async def test():
        waiting = asyncio.ensure_future(Waker(asyncio.get_running_loop()).wait(future))
        await asyncio.sleep(0)
        future.set_running_or_notify_cancel()
        waiting.cancel()

    asyncio.run(test())
    future.set_result(1)
    assert caplog.records == []


def test_a_deadline_is_kept_although_no_thread_of_the_lane_wakes_up(monkeypatch):
    monkeypatch.setattr(ThreadLane, "_sweep_on", lambda _lane: None)

    async def test():
        waker, model = Waker(asyncio.get_running_loop()), Model(held=True)
        with opened(ThreadLane, model) as lane:
            deadline = time.monotonic() + 0.02
            with pytest.raises(ExpiredError):
                await waker.wait(lane.submit(ask(1, deadline=deadline)), deadline)
            assert time.monotonic() >= deadline
            model.release()
            other = Future()  # which no lane owes: it has no deadline here
            asyncio.get_running_loop().call_later(0.01, other.set_result, 1)
            assert await waker.wait(other, time.monotonic()) == 1

    asyncio.run(test())


def test_an_answer_does_not_keep_its_lane_in_memory():
    class Lane:
        def sweep(self):
            raise AssertionError("it is gone")

    owed = Owed(Lane())
    gc.collect()
    owed.late()
