from __future__ import annotations

import asyncio
import math
import threading
import time

import numpy as np
import pytest
from served_models import ROWS, multiplier, outputs

from vitrify.core.errors import DeniedError, ExpiredError, ReferenceNotFoundError, UnavailableError, UsageError
from vitrify.serve.settings import ModelSettings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout

ONE, TWO, OTHER = (ModelSettings(reference=one, lazy=True) for one in ("m:1.0", "m:2.0", "other"))


def ask(model="m", version="", deadline=math.inf):
    return Infer(model, {"X": ROWS[:1]}, version=version, deadline=deadline)


def test_a_lazy_model_is_known_but_not_opened_until_somebody_asks(serving, opened):
    async def test():
        async with serving() as engine:
            assert await engine.start([ONE]) == ()
            assert engine.ready
            served = engine.served("m")
            assert (served.state, served.lazy, opened.names) == ("UNAVAILABLE", True, [])
            assert served.signature.inputs[0].name == "X"
            await engine.infer(ask())
            served = engine.served("m")
            assert (served.state, served.lazy, opened.names) == ("READY", False, ["m:1.0"])

    asyncio.run(test())


def test_many_requests_that_wait_share_one_load(serving, opened):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            replies = await asyncio.gather(*(engine.infer(ask()) for _ in range(30)))
            assert {reply.outputs["Y"].tobytes() for reply in replies} == {outputs(2)["Y"][:1].tobytes()}
            assert opened.names == ["m:1.0"]

    asyncio.run(test())


def test_who_waits_for_a_load_waits_until_the_deadline_and_no_longer(serving, opened):
    gate = threading.Event()

    def slowly(artifact, settings):
        assert gate.wait(60)
        return opened(artifact, settings)

    async def test():
        async with serving(open_session=slowly) as engine:
            await engine.load(ONE)
            patient = asyncio.create_task(engine.infer(ask()))
            with pytest.raises(ExpiredError, match="deadline"):
                await engine.infer(ask(deadline=time.monotonic() + 0.01))
            gone = asyncio.create_task(engine.infer(ask()))
            await asyncio.sleep(0)
            gone.cancel()
            gate.set()
            assert np.array_equal((await patient).outputs["Y"], outputs(2)["Y"][:1])
            assert opened.names == ["m:1.0"]

    asyncio.run(test())


def test_a_lazy_model_that_cannot_be_loaded_says_why_and_is_not_tried_again_at_once(serving, opened):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            opened.fails = DeniedError("the policy says no")
            for _ in range(3):
                with pytest.raises(UnavailableError, match="the policy says no"):
                    await engine.infer(ask())
            opened.fails = None
            with pytest.raises(UnavailableError, match="could not be loaded"):
                await engine.infer(ask())
            assert engine.served("m").lazy
            await engine.load(ONE.replace(lazy=False))  # whoever loads it by hand need not wait
            await engine.infer(ask())

    asyncio.run(test())


def test_a_lazy_model_that_was_unloaded_stays_unloaded(serving, opened):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            await engine.unload("m")
            with pytest.raises(ReferenceNotFoundError):
                await engine.infer(ask())
            assert opened.names == []
            await engine.load(ONE)
            await engine.infer(ask())

    asyncio.run(test())


def test_a_request_for_an_old_lazy_version_does_not_make_it_the_default(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            await engine.load(TWO)
            assert (await engine.infer(ask(version="1.0"))).version == "1.0"
            assert (await engine.infer(ask())).version == "2.0"

    asyncio.run(test())


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Five models of about 400 kB each: ``a`` to ``e``."""
    store = OciLayout(tmp_path_factory.mktemp("large"))
    for place, name in enumerate("abcde"):
        multiplier(store, name, place + 1, weights=100_000)
    return store


def loaded(engine):
    return "".join(one.name for one in engine.index() if one.state == "READY")


def test_the_least_recently_used_is_let_go_to_make_room_and_comes_back_when_asked(serving, large, opened):
    async def test():
        async with serving(store=large, memory=1_300_000) as engine:
            for name in "abc":
                await engine.load(ModelSettings(reference=name))
                await engine.infer(ask(name))
            assert loaded(engine) == "abc"
            await engine.infer(ask("a"))
            await engine.load(ModelSettings(reference="d"))
            assert loaded(engine) == "acd"
            assert engine.served("b").lazy
            assert "make room" in engine.served("b").reason
            assert np.array_equal((await engine.infer(ask("b"))).outputs["Y"], outputs(2)["Y"][:1])
            assert loaded(engine) == "abd"
            assert engine.figures("b", "1").ok == 2
            assert opened.closed == ["b:latest", "c:latest"]

    asyncio.run(test())


def test_a_model_that_is_larger_than_the_budget_is_refused_and_nothing_is_let_go_for_it(serving, large, shelf):
    async def test():
        async with serving(store=large, memory=300_000) as engine:
            with pytest.raises(UsageError, match="300000"):
                await engine.load(ModelSettings(reference="a"))
            assert "raise memory" in engine.served("a").reason

    asyncio.run(test())


def test_a_reload_needs_no_room_for_two(serving, large):
    async def test():
        async with serving(store=large, memory=500_000) as engine:
            for name in "abab":
                await engine.load(ModelSettings(reference=name, name="m", version="1"))
                await engine.infer(ask())
            assert loaded(engine) == "m"

    asyncio.run(test())


def test_under_a_tight_budget_every_request_is_answered(serving, large):
    async def test():
        async with serving(store=large, memory=900_000) as engine:
            await engine.start([ModelSettings(reference=name, lazy=True) for name in "abcde"])
            wanted = list("abcde" * 3)
            replies = await asyncio.gather(*(engine.infer(ask(name)) for name in wanted))
            for name, reply in zip(wanted, replies, strict=True):
                assert np.array_equal(reply.outputs["Y"], outputs("abcde".index(name) + 1)["Y"][:1])
            assert len(loaded(engine)) <= 2

    asyncio.run(test())


def test_who_needs_the_room_of_a_model_that_is_being_loaded_waits_until_it_has_answered(serving, large, opened, until):
    gate, begun = threading.Event(), threading.Event()

    def slowly(artifact, settings):
        if artifact.name == "a:latest":
            begun.set()
            assert gate.wait(60)
        return opened(artifact, settings)

    async def test():
        async with serving(store=large, memory=500_000, open_session=slowly) as engine:
            for name in "ab":
                await engine.load(ModelSettings(reference=name, lazy=True))
            first = asyncio.create_task(engine.infer(ask("a")))
            await until(begun.is_set)
            second = asyncio.create_task(engine.infer(ask("b")))
            await until(lambda: engine.served("b").state == "LOADING")
            with pytest.raises(ExpiredError, match="deadline"):
                await engine.infer(ask("b", deadline=time.monotonic() + 0.05))
            assert not second.done()
            gate.set()
            assert np.array_equal((await first).outputs["Y"], outputs(1)["Y"][:1])
            assert np.array_equal((await second).outputs["Y"], outputs(2)["Y"][:1])
            assert (loaded(engine), opened.names, opened.closed) == ("b", ["a:latest", "b:latest"], ["a:latest"])

    asyncio.run(test())
