"""Versions of an ensemble are rolled out like a model's: ``e:1`` doubles, ``e:2`` trebles, ``e:3`` doubles."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from vitrify.serve.rollout.shadow import CLIENT
from vitrify.serve.settings import CanarySettings, EnsembleSettings, RouteSettings, ShadowSettings, StepSettings
from vitrify.serve.values import Infer

X = np.arange(8, dtype=np.float32).reshape(2, 4)
CANARY = CanarySettings(version="2", steps=(0.5,), seconds=0.0, requests=50, errors=1.0, latency=1e6, drift=0.05)


async def tick(rolled):
    await asyncio.to_thread(rolled.rollout.canaries.tick)


async def loaded(rolled):
    for version, model in (("1", "1.0"), ("2", "2.0"), ("3", "1.0")):
        steps = {"a": StepSettings(model="m", version=model)}
        one = EnsembleSettings(name="e", version=version, steps=steps, outputs={"Y": "a.Y", "L": "a.L"})
        await rolled.engine.load(one)


@pytest.mark.parametrize(("version", "told"), [("2", ["began", "rolled back"]), ("3", ["began", "promoted"])])
def test_a_canary_is_taken_back_where_it_predicts_something_else(rolling, version, told):
    async def test():
        async with rolling() as rolled:
            await loaded(rolled)
            canary = CANARY.replace(version=version, drift=0.05 if version == "2" else 0.4)
            rolled.rollout.take({"e": RouteSettings(weights={"1": 1.0}, canary=canary)})
            await tick(rolled)
            for _ in range(6):
                await rolled.ask(1000, model="e")
            await tick(rolled)
            assert rolled.told == told

    asyncio.run(test())


def test_a_shadow_sees_copies_and_is_compared_in_what_was_asked_for(rolling, until):
    async def test():
        async with rolling() as rolled:
            await loaded(rolled)
            rolled.rollout.take({"e": RouteSettings(weights={"1": 1.0}, shadow=(ShadowSettings(version="2"),))})
            rolled.start()
            await rolled.engine.infer(Infer("e", {"X": X}))
            await rolled.engine.infer(Infer("e", {"X": X}, outputs=("Y",)))
            shadows = rolled.rollout.shadows
            await until(lambda: sum(one["answers"] for one in shadows.report("e")["pairs"]) == 2)
            (pair,) = shadows.report("e")["pairs"]
            assert (pair["shadow"], pair["answered"], pair["errors"]) == ("2", "1", {})
            assert {name: (one["rows"], one["unlike"]) for name, one in pair["outputs"].items()} == {
                "Y": (4, 0),
                "L": (2, 0),
            }
            assert pair["outputs"]["Y"]["difference"]["max"] == 7
            await rolled.engine.infer(Infer("e", {"X": X}, client=CLIENT))
            await rolled.engine.infer(Infer("e", {"X": X[:1]}))
            await until(lambda: shadows.report("e")["pairs"][0]["answers"] == 3)
            assert shadows.report("e")["pairs"][0]["outputs"]["Y"]["rows"] == 5

    asyncio.run(test())


def test_a_version_whose_model_is_gone_is_passed_over_and_comes_back_with_it(rolling, until):
    async def test():
        async with rolling(load=["1.0", "2.0"]) as rolled:
            await loaded(rolled)
            assert await rolled.ask(3, model="e") == {"3": 3}
            await rolled.engine.unload("m", "1.0")
            assert (rolled.rollout.shares("e"), rolled.engine.default("e")) == ({"2": 1.0}, "2")
            assert await rolled.ask(3, model="e") == {"2": 3}
            await rolled.engine.unload("m", "2.0")
            assert await rolled.ask(3, model="e") == {"ReferenceNotFoundError": 3}
            await rolled.load("1.0")
            await until(lambda: rolled.rollout.shares("e") == {"3": 1.0})
            assert await rolled.ask(3, model="e") == {"3": 3}

    asyncio.run(test())


def test_who_watches_an_ensemble_and_raises_harms_nobody(rolling, caplog):
    async def test():
        def watch(done):
            raise RuntimeError("seen", done.parts)

        async with rolling(watch_ensembles=watch) as rolled:
            await loaded(rolled)
            assert await rolled.ask(3, model="e", version="1") == {"1": 3}
            assert "what watches e raised" in caplog.text

    asyncio.run(test())
