"""Requests that belong together, for a model that counts the rows that it has seen."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from rogue_models import seal_sum
from served_models import multiplier

import vitrify
from vitrify.core.errors import (
    BusyError,
    ConflictError,
    ModelError,
    ReferenceNotFoundError,
    SignatureError,
    UnavailableError,
    UsageError,
)
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.models.opening import open_session
from vitrify.serve.models.sequences import _Seat
from vitrify.serve.settings import ModelSettings, SequenceSettings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import LIMIT, answer, spec, twice
from vitrify.testing.lane_models import ask as lane_ask


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("shelf"))
    seal_sum(store)
    multiplier(store, "m", 2)
    return store


class Counted:
    """Opens sessions as the engine does, and counts those that are open."""

    def __init__(self):
        self.open = self.opened = 0
        self.lost = False

    def __call__(self, artifact, settings):
        session = open_session(artifact, settings)
        self.open += 1
        self.opened += 1
        close, run = session.close, session.run

        def closing():
            self.open -= 1
            close()

        def running(arrays):
            if self.lost:
                raise UnavailableError("the worker ended")
            return run(arrays)

        session.close, session.run = closing, running
        return session


def served(test, shelf, **settings):
    """Run a test with an engine that serves the counter."""
    opened = Counted()

    async def run():
        engine = ServingEngine(ThreadLane, store=shelf, open_session=opened, drain_seconds=20.0)
        try:
            await engine.load(ModelSettings(reference="sum", sequences=SequenceSettings(**settings)))
            await test(engine, opened)
        finally:
            await engine.close(20.0)
        assert opened.open == 0

    asyncio.run(run())


async def add(engine, value, sequence=None, **more):
    flags = {f"sequence_{name}": flag for name, flag in more.items() if name in {"start", "end"}}
    about = {name: value for name, value in more.items() if name not in {"start", "end"}}
    parameters = flags if sequence is None else {"sequence_id": sequence, **flags}
    reply = await engine.infer(Infer("sum", {"input": np.array([float(value)])}, parameters=parameters, **about))
    return reply.outputs["output"].item()


def test_each_sequence_remembers_its_own_and_what_names_none_is_answered_by_itself(shelf):
    async def test(engine, opened):
        assert await add(engine, 1, 7, start=True) == 1
        assert await add(engine, 10, "other", start=True) == 10
        assert await add(engine, 5) == 5
        assert await add(engine, 5, 0) == 5
        assert await add(engine, 2, 7) == 3
        assert await add(engine, 20, "other", end=True) == 30
        assert await add(engine, 4, "7", end=True) == 7  # a number and its text are one name
        assert await add(engine, 3, 7, start=True) == 3  # a new one, on a session that has forgotten
        assert await add(engine, 3, 8, start=True, end=True) == 3
        figures = engine.figures("sum", "1")
        assert (figures.ok, figures.failed, figures.waiting, figures.running) == (9, {}, 0, 0)
        assert opened.opened == 3

    served(test, shelf)


def test_no_client_hears_what_another_one_s_has_heard_though_it_has_the_same_name(shelf):
    async def test(engine, opened):
        await add(engine, 1, "s", start=True, client="one")
        with pytest.raises(UsageError, match="'s' is not live"):
            await add(engine, 1, "s", client="two")
        assert await add(engine, 5, "s", start=True, client="two") == 5
        assert await add(engine, 1, "s", client="one") == 2

    served(test, shelf)


def test_the_order_within_a_sequence_is_kept_whatever_its_requests_priorities(shelf):
    async def test(engine, opened):
        values = [1] * 50
        await add(engine, 0, "s", start=True)
        got = await asyncio.gather(*(add(engine, one, "s", priority=n % 3) for n, one in enumerate(values)))
        assert got == np.cumsum(values).tolist()

    served(test, shelf)


@pytest.mark.parametrize(
    ("sequence", "flags", "error", "said"),
    [
        ("nobody", {}, UsageError, "'nobody' is not live"),
        ("live", {"start": True}, ConflictError, "'live' is live already"),
        (None, {"start": True}, SignatureError, "go with a sequence_id"),
        (0, {"end": True}, SignatureError, "go with a sequence_id"),
        ("live", {"start": 1}, SignatureError, r"sequence_start: found '1', expected true or false"),
        ("live", {"end": "yes"}, SignatureError, "sequence_end"),
        (True, {}, SignatureError, "sequence_id: expected"),
        (1.5, {}, SignatureError, "sequence_id: expected"),
        ([1], {}, SignatureError, "sequence_id: expected"),
        (2**64, {}, SignatureError, "sequence_id: expected"),
        ("x" * 257, {}, SignatureError, "sequence_id: expected"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(shelf, sequence, flags, error, said):
    async def test(engine, opened):
        await add(engine, 1, "live", start=True)
        with pytest.raises(error, match=said):
            await add(engine, 1, sequence, **flags)
        assert await add(engine, 1, "live") == 2

    served(test, shelf)


def test_no_more_live_than_may_and_one_that_is_idle_too_long_makes_room(shelf):
    async def test(engine, opened):
        await add(engine, 1, "a", start=True)
        await add(engine, 1, "b", start=True)
        with pytest.raises(BusyError, match="2 sequences are live"):
            await add(engine, 1, "c", start=True)
        await add(engine, 1, "a", end=True)
        assert await add(engine, 1, "c", start=True) == 1
        assert opened.opened == 3
        loaded = engine._repository.find("sum").loaded
        assert not loaded.idle  # what lives would be forgotten with it
        await add(engine, 1, "b", end=True)
        await add(engine, 1, "c", end=True)
        assert loaded.idle

    served(test, shelf, live=2)

    async def idle(engine, opened):
        await add(engine, 1, "a", start=True)
        assert await add(engine, 5, "b", start=True) == 5
        with pytest.raises(UsageError, match="'a' is not live"):
            await add(engine, 1, "a")

    served(idle, shelf, live=1, idle_seconds=0.0)


def test_the_model_s_own_error_ends_no_sequence_but_a_lost_state_does(shelf):
    async def test(engine, opened):
        await add(engine, 1, "a", start=True)
        with pytest.raises(ModelError, match="less than nothing"):
            await add(engine, -1, "a")
        assert await add(engine, 1, "a") == 2
        opened.lost = True
        with pytest.raises(UnavailableError, match="the worker ended"):
            await add(engine, 1, "a")
        opened.lost = False
        with pytest.raises(UsageError, match="'a' is not live"):
            await add(engine, 1, "a")
        assert await add(engine, 1, "a", start=True) == 1

    served(test, shelf)


def test_a_session_is_let_go_once_by_whoever_ends_its_sequence_and_whoever_closes_all():
    class Remembers:
        closed = 0

        def reset(self):
            pass

        def run(self, arrays):
            return twice(arrays)

        def close(self):
            self.closed += 1

    session = Remembers()
    seat = _Seat(lambda: session, lambda run: ThreadLane(spec(), run))
    answer(seat.lane.submit(lane_ask(1)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(seat.close, [LIMIT] * 4))
    assert session.closed == 1


def test_a_model_that_does_not_remember_takes_no_notice(shelf):
    async def test(engine, opened):
        await engine.load(ModelSettings(reference="m"))
        parameters = {"sequence_id": 3}
        reply = await engine.infer(Infer("m", {"X": np.ones((1, 4), np.float32)}, parameters=parameters))
        assert reply.outputs["Y"][0, 0] == 2
        with pytest.raises(ReferenceNotFoundError):
            await engine.infer(Infer("none", {}, parameters=parameters))

    served(test, shelf)


@pytest.mark.slow
def test_a_published_voice_detector_hears_two_voices_at_once_as_one_after_the_other(tmp_path):
    from real.inputs import speech
    from real.published import published

    store = OciLayout(tmp_path / "store")
    chunks, rate = speech(12), np.array(16_000)
    voices = {"a": chunks, "b": chunks[::-1].copy()}
    artifact = vitrify.pack(
        published("silero_vad", "data", "silero_vad.jit"),
        "vad",
        example={"x": chunks[:1], "sr": rate},
        dynamic={"x": {0: 1}},
        store=store,
    )
    expected = {}
    for voice, sound in voices.items():
        session = artifact.session()
        expected[voice] = [next(iter(session.run({"x": one[np.newaxis], "sr": rate}).values())).item() for one in sound]

    async def heard(engine, voice, sound):
        got = []
        for number, chunk in enumerate(sound):
            flags = {"sequence_start": number == 0, "sequence_end": number == len(sound) - 1}
            request = Infer("vad", {"x": chunk[np.newaxis], "sr": rate}, parameters={"sequence_id": voice, **flags})
            got.append(next(iter((await engine.infer(request)).outputs.values())).item())
        return got

    async def test():
        engine = ServingEngine(ThreadLane, store=store)
        try:
            await engine.load(ModelSettings(reference="vad"))
            got = await asyncio.gather(*(heard(engine, voice, sound) for voice, sound in voices.items()))
            assert dict(zip(voices, got, strict=True)) == expected
        finally:
            await engine.close(20.0)

    asyncio.run(test())
