"""A canary takes over step by step, or is taken back: a real engine, real models, and ticks by hand."""

from __future__ import annotations

import asyncio

import pytest

from vitrify.serve.rollout.state import StateFile
from vitrify.serve.settings import CanarySettings, RouteSettings

# How long a request takes is only looked at where the test is about it: a loaded machine has its own mind.
QUICK = CanarySettings(version="2.0", steps=(0.2, 0.5), seconds=0.0, requests=20, drift=0.0, latency=1e6)
ROUTE = RouteSettings(weights={"1.0": 1.0}, canary=QUICK)


async def tick(rolled):
    await asyncio.to_thread(rolled.rollout.canaries.tick)


def routed(**canary):
    return {"m": RouteSettings(weights={"1.0": 1.0}, canary=QUICK.replace(**canary))}


def test_a_version_that_is_no_worse_takes_over_step_by_step(rolling):
    async def test():
        async with rolling({"m": ROUTE}) as rolled:
            rollout = rolled.rollout
            assert rollout.shares("m") == {"1.0": 1.0}  # it has not begun
            assert rollout.canaries.show("m")["step"] is None
            await tick(rolled)
            assert rollout.shares("m") == pytest.approx({"1.0": 0.8, "2.0": 0.2})
            await tick(rolled)
            assert rollout.canaries.show("m")["reason"].startswith("0 requests")
            await rolled.ask(400)
            await tick(rolled)
            assert rollout.shares("m") == {"1.0": 0.5, "2.0": 0.5}
            await tick(rolled)
            assert rollout.canaries.show("m")["step"] == 1  # requests are counted anew
            await rolled.ask(200)
            await tick(rolled)
            assert rollout.shares("m") == {"2.0": 1.0}
            assert await rolled.ask(20) == {"2.0": 20}
            assert rollout.canaries.show("m") is None
            assert rolled.told == ["began", "advanced", "promoted"]
            assert all(one.figures["new_requests"] >= 20 for one in rollout.state.state.events[1:])
            assert [facts["what"] for event, facts in rolled.said if event == "rollout"] == rolled.told
            rollout.roll_back("m")
            assert rollout.shares("m") == {"1.0": 1.0}

    asyncio.run(test())


def test_one_that_fails_is_taken_back_at_once(rolling):
    async def test():
        async with rolling(routed(seconds=3600.0, requests=10_000)) as rolled:
            await tick(rolled)
            rolled.ways.failing.add("m:2.0")
            counts = await rolled.ask(200)
            assert counts["ModelError"] > 5
            await tick(rolled)
            assert rolled.rollout.shares("m") == {"1.0": 1.0}
            assert await rolled.ask(50) == {"1.0": 50}
            assert rolled.told == ["began", "rolled back"]
            event = rolled.rollout.state.state.events[-1]
            assert "of the requests failed" in event.reason
            assert event.figures["new_error_rate"] == 1.0
            assert rolled.rollout.route("m") == RouteSettings(weights={"1.0": 1.0})

    asyncio.run(test())


def test_one_that_is_slower_is_taken_back(rolling):
    async def test():
        async with rolling(routed(steps=(0.5,), latency=2.0, seconds=3600.0)) as rolled:
            await tick(rolled)
            for _ in range(60):  # one at a time: nobody waits for another
                await rolled.ask()
            rolled.ways.seconds["m:2.0"] = 0.25
            async with asyncio.timeout(120):
                while rolled.told == ["began"]:
                    await rolled.ask(32)
                    await tick(rolled)
            assert rolled.told == ["began", "rolled back"]
            assert "99th percentile" in rolled.rollout.state.state.events[-1].reason

    asyncio.run(test())


def test_one_that_predicts_something_else_is_taken_back(rolling):
    async def test():
        async with rolling(routed(steps=(0.5,), drift=0.05)) as rolled:
            await tick(rolled)
            for _ in range(6):
                await rolled.ask(1000)
            await tick(rolled)
            assert rolled.told == ["began", "rolled back"]
            assert "population stability index of output 'Y[" in rolled.rollout.state.state.events[-1].reason

    asyncio.run(test())


def test_one_that_predicts_the_same_does_not_drift(rolling):
    async def test():
        async with rolling(routed(version="3.0", steps=(0.5,), drift=0.4), load=["3.0"]) as rolled:
            await rolled.load("2.0")
            rolled.rollout.take({"m": RouteSettings(canary=QUICK.replace(version="3.0", drift=0.4))})
            await tick(rolled)
            assert rolled.rollout.canaries.show("m")["old"] == {"2.0": 1.0}
            await rolled.ask(600)
            await tick(rolled)
            assert rolled.told == ["began", "advanced"]
            assert rolled.rollout.state.state.events[-1].figures["drift"] < 0.4

    asyncio.run(test())


def test_without_another_version_or_before_it_answers_it_does_not_begin(rolling):
    async def test():
        async with rolling({"m": RouteSettings(canary=QUICK)}, load=["2.0"]) as rolled:
            await tick(rolled)
            assert rolled.told == []
            assert await rolled.ask(5) == {"2.0": 5}
            await rolled.engine.unload("m", "2.0")
            await rolled.load("1.0")
            await tick(rolled)
            assert rolled.told == []
            await rolled.load("2.0")
            assert rolled.rollout.shares("m") == {"1.0": 1.0}
            await tick(rolled)
            assert rolled.told == ["began"]

    asyncio.run(test())


def test_one_that_goes_away_is_waited_for(rolling):
    async def test():
        async with rolling({"m": ROUTE}) as rolled:
            await tick(rolled)
            await rolled.engine.unload("m", "2.0")
            for _ in range(3):
                await tick(rolled)
            assert rolled.rollout.canaries.show("m")["reason"] == "version '2.0' does not answer"
            assert rolled.told == ["began", "held"]
            assert await rolled.ask(10) == {"1.0": 10}
            await rolled.load("2.0")
            assert rolled.rollout.shares("m") == pytest.approx({"1.0": 0.8, "2.0": 0.2})

    asyncio.run(test())


def test_one_that_is_gone_and_comes_back_begins_anew(rolling):
    async def test():
        async with rolling({"m": ROUTE}) as rolled:
            await tick(rolled)
            await rolled.ask(400)
            await tick(rolled)
            assert rolled.rollout.canaries.show("m")["step"] == 1
            rolled.rollout.take({"m": ROUTE.replace(canary=None)})
            await tick(rolled)
            rolled.rollout.take({"m": ROUTE})
            assert rolled.rollout.canaries.show("m")["step"] is None
            await tick(rolled)
            assert rolled.rollout.canaries.show("m")["step"] == 0

    asyncio.run(test())


def test_what_only_looks_worse_is_held_and_said_once(rolling):
    async def test():
        async with rolling(routed(steps=(0.5,), errors=0.1)) as rolled:
            await tick(rolled)
            rolled.ways.failing.add("m:2.0")
            await rolled.ask(5, version="2.0")
            rolled.ways.failing.clear()
            await rolled.ask(31, version="2.0")
            for _ in range(3):
                await tick(rolled)
            assert rolled.told == ["began", "held"]
            assert "may be chance" in rolled.rollout.canaries.show("m")["reason"]

    asyncio.run(test())


def test_a_restart_goes_on_where_it_was_and_only_one_process_decides(rolling, tmp_path):
    path = str(tmp_path / "state.json")

    async def test():
        async with rolling({"m": ROUTE}, StateFile(path)) as rolled:
            await tick(rolled)
            await rolled.ask(400)
            await tick(rolled)
            assert rolled.rollout.canaries.show("m")["step"] == 1
            other = StateFile(path)
            other.read()
            async with rolling({"m": ROUTE}, other) as second:
                assert second.rollout.shares("m") == {"1.0": 0.5, "2.0": 0.5}
                await second.ask(200)
                await tick(second)
                assert second.told == ["began", "advanced"]  # the first one leads
                await asyncio.to_thread(rolled.rollout.close, 20.0)
                await tick(second)
                assert second.told == ["began", "advanced", "promoted"]
            rolled.rollout.state.read()
            rolled.rollout.refresh()
            assert rolled.rollout.shares("m") == {"2.0": 1.0}

    asyncio.run(test())


def test_the_thread_sees_it_by_itself(rolling, until, monkeypatch):
    monkeypatch.setattr("vitrify.serve.rollout.rollout.TICK", 0.02)

    async def test():
        async with rolling({"m": ROUTE}) as rolled:
            rolled.start()
            await until(lambda: rolled.told == ["began"])
            while rolled.told != ["began", "advanced", "promoted"]:
                await rolled.ask(20)
                assert "rolled back" not in rolled.told

    asyncio.run(test())
