"""Which version answers, as it is asked, and as versions and routes come and go."""

from __future__ import annotations

import asyncio

import pytest

from vitrify.core.errors import ConflictError, ReferenceNotFoundError
from vitrify.serve.rollout.shares import Shares, position
from vitrify.serve.rollout.state import StateFile
from vitrify.serve.settings import CanarySettings, RouteSettings
from vitrify.serve.values import Infer

EVEN = RouteSettings(weights={"1.0": 1.0, "2.0": 1.0})
ONE = RouteSettings(weights={"1.0": 1.0})


def test_without_a_route_the_version_loaded_last_answers_and_the_plane_is_told_so(rolling):
    async def test():
        async with rolling(load=["1.0"]) as rolled:
            assert (rolled.pushed, rolled.rollout.shares("m")) == ([], {"1.0": 1.0})
            await rolled.load("2.0")
            assert await rolled.ask(20) == {"2.0": 20}
            assert rolled.pushed[-1] == ("m", (("2.0", 1.0),))
            assert rolled.rollout.shares("m") == {"2.0": 1.0}
            await rolled.engine.unload("m", "2.0")
            assert rolled.pushed[-1] == ("m", (("1.0", 1.0),))
            assert await rolled.ask() == {"1.0": 1}
            assert rolled.rollout.route("m") == RouteSettings()
            assert rolled.rollout.shares("nobody") == {}
            with pytest.raises(ReferenceNotFoundError):
                rolled.rollout.route("nobody")

    asyncio.run(test())


def test_requests_are_shared_by_weight_and_a_key_stays_with_its_version(rolling):
    async def test():
        async with rolling({"m": EVEN}) as rolled:
            counts = await rolled.ask(200)
            assert counts.keys() == {"1.0", "2.0"}
            assert 50 < counts["1.0"] < 150
            keyed = await rolled.ask(100, keys=True)
            assert await rolled.ask(100, keys=True) == keyed
            shares = Shares((("1.0", 1.0), ("2.0", 1.0)))
            assert keyed["1.0"] == sum(shares.at(position(f"user-{at}")) == "1.0" for at in range(100))
            assert await rolled.ask(5, version="1.0") == {"1.0": 5}
            choose = rolled.rollout.choose
            for number in range(1, 20):  # a sequence is a key, whatever else is
                asked = Infer("m", {}, key=f"key-{number}", parameters={"sequence_id": number})
                assert choose(asked) == shares.at(position(str(number)))
            nothing = Infer("m", {}, parameters={"sequence_id": 0})
            assert {choose(nothing) for _ in range(64)} == {"1.0", "2.0"}

    asyncio.run(test())


def test_only_versions_that_answer_have_a_share_and_come_back_to_it(rolling):
    async def test():
        async with rolling({"m": RouteSettings(weights={"1.0": 0.5, "2.0": 0.5, "9.9": 1.0})}) as rolled:
            assert rolled.pushed[-1] == ("m", (("1.0", 0.5), ("2.0", 0.5)))
            await rolled.engine.unload("m", "2.0")
            assert rolled.pushed[-1] == ("m", (("1.0", 0.5),))
            assert await rolled.ask(20) == {"1.0": 20}
            await rolled.load("2.0")
            assert rolled.rollout.shares("m") == {"1.0": 0.5, "2.0": 0.5}
            await rolled.engine.unload("m")
            assert rolled.pushed[-1] == ("m", ())

    asyncio.run(test())


def test_where_no_version_of_the_route_answers_the_one_loaded_last_does(rolling):
    async def test():
        async with rolling({"m": RouteSettings(weights={"9.9": 1.0})}) as rolled:
            assert await rolled.ask(10) == {"2.0": 10}
            await rolled.load("3.0")
            await rolled.load("1.0", lazy=True)
            assert await rolled.ask(10) == {"1.0": 10}
            await rolled.engine.unload("m", "1.0")
            assert await rolled.ask(10) == {"3.0": 10}

    asyncio.run(test())


def test_a_lazy_version_has_its_share_and_is_loaded_by_it(rolling):
    async def test():
        async with rolling({"m": RouteSettings(weights={"3.0": 1.0})}) as rolled:
            await rolled.load("3.0", lazy=True)
            assert rolled.rollout.shares("m") == {"3.0": 1.0}
            assert await rolled.ask(3) == {"3.0": 3}

    asyncio.run(test())


def test_a_route_is_changed_while_it_runs_kept_and_said(rolling, tmp_path):
    path = str(tmp_path / "state.json")

    async def test():
        async with rolling({"m": EVEN}, StateFile(path)) as rolled:
            rolled.rollout.set_route("m", ONE, client="ann")
            assert await rolled.ask(20) == {"1.0": 20}
            assert rolled.pushed[-1] == ("m", (("1.0", 1.0),))
            assert rolled.said[-1][1]["client"] == "ann"
            with pytest.raises(ReferenceNotFoundError):
                rolled.rollout.set_route("nobody", ONE)
            rolled.rollout.take({"m": EVEN})  # the settings say what they said before
            assert await rolled.ask(20) == {"1.0": 20}
            rolled.rollout.take({"m": EVEN.replace(weights={"2.0": 1.0})})
            assert await rolled.ask(20) == {"2.0": 20}
            rolled.rollout.take({"m": EVEN})
            assert rolled.rollout.shares("m") == {"1.0": 0.5, "2.0": 0.5}  # what was overruled once is forgotten
            rolled.rollout.set_route("m", ONE)
        state = StateFile(path)
        state.read()
        async with rolling({"m": EVEN}, state) as rolled:
            assert await rolled.ask(20) == {"1.0": 20}

    asyncio.run(test())


def test_promoting_and_rolling_back_by_hand(rolling):
    async def test():
        async with rolling({"m": ONE}) as rolled:
            rollout = rolled.rollout
            with pytest.raises(ConflictError, match="no canary"):
                rollout.promote("m")
            with pytest.raises(ConflictError, match="go back to"):
                rollout.roll_back("m")
            with pytest.raises(ReferenceNotFoundError, match=r"'9\.9'"):
                rollout.promote("m", "9.9")
            rollout.promote("m", "2.0", client="ann", reason="it is better")
            assert await rolled.ask(10) == {"2.0": 10}
            rollout.roll_back("m")
            assert await rolled.ask(10) == {"1.0": 10}
            with pytest.raises(ConflictError):
                rollout.roll_back("m")  # once is enough
            rollout.begin("m", CanarySettings(version="2.0"))
            with pytest.raises(ConflictError, match="a canary already"):
                rollout.begin("m", CanarySettings(version="2.0"))
            rollout.promote("m")
            assert rollout.route("m") == RouteSettings(weights={"2.0": 1.0})
            with pytest.raises(ConflictError, match="has all requests already"):
                rollout.begin("m", CanarySettings(version="2.0"))
            with pytest.raises(ReferenceNotFoundError):
                rollout.begin("m", CanarySettings(version="9.9"))
            assert rolled.told == ["promoted", "rolled back", "routed", "promoted"]
            await rolled.engine.unload("m", "1.0")
            for undo in (lambda: rollout.promote("m", "1.0"), lambda: rollout.roll_back("m")):
                with pytest.raises(ConflictError, match=r"no version answers .*: '1\.0' \(unavailable\)"):
                    undo()

    asyncio.run(test())


def test_what_cannot_be_kept_counts_all_the_same(rolling, tmp_path):
    async def test():
        async with rolling({"m": EVEN}, StateFile(str(tmp_path / "nowhere" / "state"))) as rolled:
            event = rolled.rollout.state.state
            rolled.rollout.change_anyhow(lambda state: state, _event())
            assert rolled.rollout.state.state == event
            assert rolled.said[-1][0] == "state not kept"

    asyncio.run(test())


def _event():
    from vitrify.serve.rollout.state import Event

    return Event(time=0.0, model="m", what="routed")
