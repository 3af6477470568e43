"""Answers in parts, through the engine: a model that counts, in this process."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
import rogue_source as rogue
from rogue_models import rogue_settings, seal_rogue
from served_models import multiplier

from vitrify.core.errors import BusyError, ExpiredError, ModelError, ReferenceNotFoundError, SignatureError
from vitrify.runtimes.callable import StreamingSession
from vitrify.serve.lanes import Batching
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.settings import ModelSettings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("shelf"))
    seal_rogue(store, "counter", "count")
    multiplier(store, "m", 2)
    return store


class Counting:
    """A model that can be held up, and says what was made of it and whether it was ended."""

    def __init__(self):
        self.made = []
        self.ended = 0
        self.go = threading.Event()
        self.go.set()

    def __call__(self, x):
        try:
            for number in range(int(x[0, 0])):
                self.go.wait(60)
                if x[0, 1] == rogue.RAISES and number == 2:
                    raise ValueError("no third part")
                self.made.append(number)
                yield x * number
        finally:
            self.ended += 1


def streamed(test, shelf, **batching):
    """Run a test with an engine that serves the counter."""
    model = Counting()

    def open_session(artifact, settings):
        del settings
        return StreamingSession(model.__call__, artifact.signature, "argument")

    async def run():
        engine = ServingEngine(ThreadLane, store=shelf, open_session=open_session, drain_seconds=20.0)
        try:
            await engine.load(rogue_settings("counter", "count", batching=Batching(**batching)))
            await test(engine, model)
        finally:
            model.go.set()
            await engine.close(20.0)

    asyncio.run(run())


def ask(parts, kind=0.0, **about):
    return Infer("counter", {"x": np.array([[float(parts), float(kind)]])}, **about)


async def told(stream):
    return [part.outputs["output"][0, 0].item() for part in [one async for one in stream]]


def test_each_part_comes_when_it_is_made_and_a_plain_request_gets_the_last(shelf):
    async def test(engine, model):
        stream = engine.stream(ask(3, id="r1"))
        first = await anext(stream)
        assert (first.outputs["output"][0, 0], first.id, first.model, first.version) == (0, "r1", "counter", "1")
        assert first.digest == engine.served("counter").digest
        assert model.made == [0]  # nothing is made that nobody has asked for
        assert await told(stream) == [3, 6]
        assert (await engine.infer(ask(3))).outputs["output"][0, 0] == 6
        assert await told(engine.stream(ask(2, outputs=("output",)))) == [0, 2]
        figures = engine.figures("counter", "1")
        assert (figures.ok, figures.waiting, figures.running, figures.failed) == (3, 0, 0, {})

    streamed(test, shelf)


def test_whoever_leaves_ends_the_model_s_work(shelf, until):
    async def test(engine, model):
        stream = engine.stream(ask(1_000_000))
        await anext(stream)
        await stream.aclose()
        await until(lambda: model.ended == 1)
        model.go.clear()
        task = asyncio.create_task(told(engine.stream(ask(1_000_000))))
        await until(lambda: engine.figures("counter", "1").running == 1)
        task.cancel()
        await asyncio.wait({task})
        model.go.set()
        await until(lambda: model.ended == 2)
        assert len(model.made) < 5
        assert await told(engine.stream(ask(2))) == [0, 2]
        assert engine.figures("counter", "1").failed == {"CancelledError": 2}

    streamed(test, shelf)


def test_an_error_comes_after_the_parts_before_it_and_harms_nobody(shelf):
    async def test(engine, model):
        stream = engine.stream(ask(5, rogue.RAISES))
        assert [(await anext(stream)).outputs["output"][0, 0] for _ in range(2)] == [0, 5]
        with pytest.raises(ModelError, match="ValueError: no third part"):
            await anext(stream)
        with pytest.raises(SignatureError):
            await told(engine.stream(Infer("counter", {"x": np.zeros((1, 3))})))
        assert await told(engine.stream(ask(0))) == []
        assert await told(engine.stream(ask(1))) == [0]

    streamed(test, shelf)


def test_a_stream_ends_at_its_deadline_and_waits_its_turn(shelf, until):
    async def test(engine, model):
        model.go.clear()
        slow = asyncio.create_task(told(engine.stream(ask(2))))
        await until(lambda: engine.figures("counter", "1").running == 1)
        with pytest.raises(ExpiredError):
            await told(engine.stream(ask(2, deadline=time.monotonic() + 0.01)))
        with pytest.raises(ExpiredError):
            await told(engine.stream(ask(2, deadline=time.monotonic() - 1)))
        next_ = asyncio.create_task(told(engine.stream(ask(3))))
        await until(lambda: engine.figures("counter", "1").waiting == 1)
        with pytest.raises(BusyError, match="1 streams wait"):
            await told(engine.stream(ask(2)))
        model.go.set()
        assert await slow == [0, 2]
        assert await next_ == [0, 3, 6]

    streamed(test, shelf, queue=1)


def test_a_stream_whose_deadline_has_passed_is_never_begun(shelf):
    async def test(engine, model):
        with pytest.raises(ExpiredError):
            await told(engine.stream(ask(2, deadline=time.monotonic() - 1)))
        assert (model.made, model.ended) == ([], 0)

    streamed(test, shelf)


def test_unloading_waits_for_the_streams_that_were_begun(shelf, until):
    async def test(engine, model):
        stream = engine.stream(ask(3))
        await anext(stream)
        unloading = asyncio.create_task(engine.unload("counter"))
        await until(lambda: engine.served("counter").state == "UNLOADING")
        assert await told(stream) == [3, 6]
        await unloading
        with pytest.raises(ReferenceNotFoundError, match="was unloaded"):
            await told(engine.stream(ask(1)))

    streamed(test, shelf)


def test_a_model_that_makes_no_parts_gives_one(shelf):
    async def test():
        engine = ServingEngine(ThreadLane, store=shelf)
        try:
            await engine.load(ModelSettings(reference="m"))
            parts = [part async for part in engine.stream(Infer("m", {"X": np.ones((1, 4), np.float32)}))]
            assert [part.outputs["Y"][0, 0] for part in parts] == [2]
        finally:
            await engine.close(20.0)

    asyncio.run(test())
