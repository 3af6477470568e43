"""Copies that a second version answers: bounded, compared, and never in anybody's way."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future

import numpy as np
import pytest
from seen import done, part

from vitrify.core.errors import BusyError
from vitrify.serve.rollout.comparing import Comparison, Output, Reservoir, markdown
from vitrify.serve.rollout.shadow import CLIENT, Shadows
from vitrify.serve.settings import RouteSettings, ShadowSettings
from vitrify.serve.values import Reply
from vitrify.testing.lane_models import until as wait

TWO = (ShadowSettings(version="2"),)
ONE_ROW = {"Y": np.ones((1, 2))}


class Asked:
    """Answers copies by a function; it can be held."""

    def __init__(self, answer=lambda request: {"Y": request.inputs["X"] * 2}):
        self.requests, self.free, self.answer = [], threading.Event(), answer
        self.free.set()

    def __call__(self, request):
        self.requests.append(request)
        assert self.free.wait(60)
        future = Future()
        try:
            future.set_result(Reply("m", request.version, self.answer(request)))
        except BusyError as error:
            future.set_exception(error)
        return future


@pytest.fixture
def shadows():
    faults = []
    shadows = Shadows(lambda id_, error: faults.append((id_, error)))
    shadows.take({"m": TWO})
    yield shadows
    shadows.close(60)
    assert not faults


def pairs(shadows):
    return {(one["shadow"], one["answered"]): one for one in shadows.report("m")["pairs"]}


def seen(shadows, count=1):
    wait(lambda: sum(one["answers"] + sum(one["errors"].values()) for one in pairs(shadows).values()) >= count, "seen")
    return pairs(shadows)


def batch(outputs=None, **about):
    x = np.arange(6.0).reshape(3, 2)
    parts = about.pop("parts", (part(1, waited=0.5), part(2, waited=0.25)))
    return done({"Y": x * 2} if outputs is None else outputs, {"X": x}, parts=parts, **about)


def test_copies_are_asked_by_version_after_everybody_else_and_compared(shadows):
    asked = Asked()
    shadows.start(asked)
    shadows.see(batch(seconds=1.0))
    found = seen(shadows)["2", "1"]
    assert (found["answers"], found["errors"]) == (1, {})
    assert found["outputs"]["Y"]["rows"] == found["outputs"]["Y"]["equal"] == 3
    assert found["seconds"]["old"]["max"] == 1.5
    (request,) = asked.requests
    assert (request.model, request.version, request.client, request.priority) == ("m", "2", CLIENT, 0)


def test_what_a_shadow_was_asked_is_not_copied_again_nor_what_itself_answered(shadows):
    asked = Asked()
    shadows.take({"m": (*TWO, ShadowSettings(version="3"), ShadowSettings(version="4", fraction=0.0))})
    shadows.start(asked)
    shadows.see(batch(parts=(part(3, client=CLIENT),)))
    shadows.see(batch(version="2"))
    shadows.see(batch(model="other"))
    shadows.see(batch(parts=(part(1), part(2, client=CLIENT))))
    seen(shadows, 3)
    asked_of = sorted((one.version, len(one.inputs["X"])) for one in asked.requests)
    assert asked_of == [("2", 1), ("3", 1), ("3", 3)]


def test_copies_are_copies(shadows):
    asked = Asked()
    asked.free.clear()
    shadows.start(asked)
    one = batch()
    shadows.see(one)
    one.inputs["X"][:] = -1
    one.outputs["Y"][:] = -1
    asked.free.set()
    assert seen(shadows)["2", "1"]["outputs"]["Y"]["equal"] == 3


def test_a_fraction_of_the_requests_is_copied():
    shadows = Shadows(lambda *_: None)
    shadows.take({"m": (ShadowSettings(version="2", fraction=0.25),)})
    asked = Asked()
    shadows.start(asked)
    for _ in range(40):
        shadows.see(done(ONE_ROW, {"X": np.ones((25, 2))}, parts=[part(1)] * 25))
    wait(lambda: not shadows._waiting, "all have been asked")
    shadows.close(60)
    assert 150 < sum(len(one.inputs["X"]) for one in asked.requests) < 350


def test_a_queue_that_is_full_drops_and_counts(shadows):
    asked = Asked()
    asked.free.clear()
    shadows.start(asked)
    shadows.see(batch())
    wait(lambda: len(asked.requests) == 1, "the thread is held")
    for _ in range(300):
        shadows.see(batch())
    assert shadows.report("m")["dropped"] == (300 - 256) * 2
    asked.free.set()
    seen(shadows, 257)


def test_large_copies_are_bounded_by_their_bytes(shadows):
    asked = Asked()
    asked.free.clear()
    shadows.start(asked)
    text = {"Y": np.array(["x" * 30_000_000], object)}
    for _ in range(5):
        shadows.see(done(text, {"X": np.ones((1, 2))}, parts=(part(1),)))
    assert shadows.report("m")["dropped"] == 3
    asked.free.set()


def test_errors_are_counted_by_their_class(shadows):
    def refuse(request):
        raise BusyError("full")

    shadows.start(Asked(refuse))
    shadows.see(batch())
    assert seen(shadows)["2", "1"]["errors"] == {"BusyError": 1}
    shadows.forget("m")
    assert shadows.report("m") == {"model": "m", "dropped": 0, "pairs": []}


def test_a_version_that_others_wait_for_is_asked_later(shadows):
    asked, busy = Asked(), threading.Event()
    busy.set()
    shadows.start(asked, lambda model, version: busy.is_set())
    shadows.see(batch())
    wait(lambda: not shadows._waiting, "the thread has it")
    assert not asked.requests
    busy.clear()
    seen(shadows)


def test_nobody_copies_before_the_start_and_after_the_end(shadows):
    shadows.see(batch())
    assert not shadows._waiting
    shadows.start(Asked())
    shadows.close(60)
    shadows.see(batch())
    assert not shadows._waiting


def test_outputs_compare_by_what_they_are():
    numbers = Output()
    numbers.add(np.array([[1.0, np.nan], [2.0, 3.0]]), np.array([[1.0, np.nan], [2.5, 3.0]]))
    shown = numbers.show()
    assert (shown["rows"], shown["equal"], shown["disagreement"]) == (2, 1, 0.5)
    assert (shown["difference"]["max"], shown["difference"]["mean"]) == (0.5, 0.25)
    numbers.add(np.ones((1, 2)), np.ones((2, 2)))
    numbers.add(np.ones((1, 2)), np.array([["a", "b"]], object))
    numbers.add(np.float64(1), np.float64(1))
    numbers.add(np.array([np.inf]), np.array([-np.inf]))
    assert (numbers.show()["unlike"], numbers.show()["rows"], numbers.show()["equal"]) == (3, 3, 1)
    texts = Output()
    texts.add(np.array(["a", "b", None], object), np.array(["a", "c", None], object))
    assert texts.show() == {"rows": 3, "equal": 2, "disagreement": pytest.approx(1 / 3), "unlike": 0}
    masked = Output()
    masked.add(np.ma.MaskedArray([1, 2], [1, 0]), np.ma.MaskedArray([7, 2], [1, 0]))
    assert masked.show()["equal"] == 2


def test_outputs_that_only_one_version_has_are_said():
    found = Comparison()
    found.add({"A": np.ones(1)}, {"B": np.ones(1)}, (0.1, 0.2))
    assert {name: one.unlike for name, one in found.outputs.items()} == {"A": 1, "B": 1}


def test_a_reservoir_keeps_a_fair_sample():
    numbers = Reservoir()
    assert numbers.show() == {}
    for value in range(20_000):
        numbers.add(float(value))
    shown = numbers.show()
    assert (numbers.count, shown["max"], shown["mean"]) == (20_000, 19_999, 9_999.5)
    assert len(numbers._kept) == 4096
    assert shown["p50"] == pytest.approx(10_000, rel=0.1)


def test_the_report_can_be_read_by_people_and_programs(shadows):
    shadows.start(Asked(lambda request: {"Y": request.inputs["X"] * 2 + 0.5}))
    shadows.see(batch())
    seen(shadows)
    report = shadows.report("m")
    assert json.loads(json.dumps(report)) == report
    text = markdown(report)
    assert "## 2 against 1" in text
    assert "| `Y`, absolute difference | 0.5 |" in text
    assert "| `Y` | 3 | 0 | 100.000% | 0 |" in text


def test_a_real_shadow_sees_what_is_answered_and_answers_nobody(rolling, until):
    route = RouteSettings(weights={"1.0": 1.0}, shadow=(ShadowSettings(version="2.0"), ShadowSettings(version="9.9")))

    async def test():
        async with rolling({"m": route}) as rolled:
            rolled.start()
            assert await rolled.ask(20) == {"1.0": 20}

            def found():
                return pairs(rolled.rollout.shadows)

            await until(lambda: {"9.9", "2.0"} == {shadow for shadow, _ in found()})
            await until(lambda: found()["2.0", "1.0"]["outputs"]["Y"]["rows"] == 20)
            shown = found()["2.0", "1.0"]["outputs"]
            assert shown["L"]["disagreement"] == 0
            assert shown["Y"]["equal"] == 0
            assert found()["9.9", "1.0"]["errors"].keys() == {"ReferenceNotFoundError"}

    asyncio.run(test())
