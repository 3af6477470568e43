"""Models that answer together, over real models: ``m:1.0`` doubles, ``m:2.0`` trebles, ``other`` takes five times."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_models import ROWS, multiplier

from vitrify.core.errors import ExpiredError, ReferenceNotFoundError, SignatureError, UnavailableError, UsageError
from vitrify.core.signature import Field, Signature
from vitrify.serve.lanes import Batching, Figures
from vitrify.serve.models import Served
from vitrify.serve.models._graph import graph
from vitrify.serve.models.ensemble import EnsembleLane, Ensembles
from vitrify.serve.ports import ports
from vitrify.serve.settings import EnsembleSettings, ModelSettings, StepSettings
from vitrify.serve.values import Infer, Reply
from vitrify.stores.oci_layout import OciLayout

ONE, TWO, OTHER = (ModelSettings(reference=one) for one in ("m:1.0", "m:2.0", "other"))


def ensemble(outputs, name="e", **steps):
    """Return settings; a step is a model's name, or that and where its inputs come from."""
    made = {}
    for key, step in steps.items():
        model, inputs = step if isinstance(step, tuple) else (step, {})
        model, _, version = model.partition(":")
        made[key] = StepSettings(model=model, version=version, inputs=inputs)
    return EnsembleSettings(name=name, steps=made, outputs=outputs)


CHAIN = ensemble({"end": "b.Y", "label": "b.L", "middle": "a.Y"}, b=("other", {"X": "a.Y"}), a="m:1.0")


def served(test, serving, *ensembles, models=(ONE, OTHER)):
    """Run a test with an engine that serves ensembles."""

    async def run():
        async with serving() as engine:
            for one in models:
                await engine.load(one)
            kept = Ensembles(engine, ensembles)
            try:
                await test(engine, await kept.start())
            finally:
                kept.close()

    asyncio.run(run())


def test_a_chain_answers_like_one_model(serving):
    async def test(engine, errors):
        assert errors == ()
        like = engine.served("e")
        assert (like.state, like.version, like.platform) == ("READY", "1", "ensemble")
        assert [(one.name, one.datatype, one.shape) for one in like.inputs] == [("X", "FP32", (-1, 4))]
        assert [(one.name, one.datatype, one.shape) for one in like.outputs] == [
            ("end", "FP32", (-1, 4)),
            ("label", "INT64", (-1,)),
            ("middle", "FP32", (-1, 4)),
        ]
        reply = await engine.infer(Infer("e", {"X": ROWS}, id="r1"))
        assert np.array_equal(reply.outputs["end"], ROWS * 10)
        assert np.array_equal(reply.outputs["label"], ROWS.argmax(axis=1))
        assert np.array_equal(reply.outputs["middle"], ROWS * 2)
        assert (reply.model, reply.version, reply.id) == ("e", "1", "r1")
        assert reply.parameters == {"step.a": "m:1.0", "step.b": "other:1"}
        empty = await engine.infer(Infer("e", {"X": ROWS[:0]}))
        assert empty.outputs["end"].shape == (0, 4)
        with pytest.raises(SignatureError, match="axis 1 must be 4"):
            await engine.infer(Infer("e", {"X": ROWS[:, :2]}))
        figures = engine.figures("e", "1")
        assert (figures.ok, figures.running, figures.failed) == (1, 0, {})

    served(test, serving, CHAIN)


def test_what_is_not_asked_for_is_not_run(serving):
    async def test(engine, errors):
        reply = await engine.infer(Infer("e", {"X": ROWS}, outputs=("middle",)))
        assert list(reply.outputs) == ["middle"]
        assert reply.parameters == {"step.a": "m:1.0"}
        assert engine.figures("other", "1").ok == 0

    served(test, serving, CHAIN)


def test_ensembles_ask_ensembles_in_whatever_order_they_are_named(serving):
    outer = ensemble({"all": "y.Y"}, name="outer", x="e", y=("m:1.0", {"X": "x.end"}))

    async def test(engine, errors):
        assert errors == ()
        reply = await engine.infer(Infer("outer", {"X": ROWS}))
        assert np.array_equal(reply.outputs["all"], ROWS * 20)

    served(test, serving, outer, CHAIN)


def test_steps_that_need_nothing_of_each_other_run_at_the_same_time_and_share_the_deadline():
    class Met:
        """Lanes whose requests are answered when both have come."""

        def __init__(self):
            self.asked = []

        async def infer(self, request):
            self.asked.append(request)
            while len(self.asked) < 2:  # noqa: ASYNC110 (what is waited for has no event)
                await asyncio.sleep(0.001)
            return Reply(request.model, "1", {"Y": request.inputs["X"], "L": request.inputs["X"]})

    async def test():
        met = Met()
        made = graph(ensemble({"one": "a.Y", "two": "b.Y"}, a="m", b="other"), lambda *_: like())
        lane = EnsembleLane("e", made, met.infer)
        until = time.monotonic() + 60
        ask = Infer("e", {"X": ROWS}, deadline=until, client="me", key="k", priority=1)
        await asyncio.wrap_future(lane.submit(ask))
        said = {(one.deadline, one.client, one.key, one.priority, one.outputs) for one in met.asked}
        assert said == {(until, "me", "k", 1, ("Y",))}

    asyncio.run(test())


def test_an_error_names_the_step_and_the_others_are_given_up(serving):
    async def test(engine, errors):
        with pytest.raises(ExpiredError, match=r"step 'a' \(model 'm'\): the deadline passed"):
            await engine.infer(Infer("e", {"X": ROWS}, deadline=time.monotonic() - 1))
        assert engine.figures("e", "1").failed == {"ExpiredError": 1}
        await engine.unload("other")
        assert engine.served("e").state == "UNAVAILABLE"
        with pytest.raises(ReferenceNotFoundError, match=r"step 'b' \(model 'other'\): .* was unloaded"):
            await engine.infer(Infer("e", {"X": ROWS}))
        reply = await engine.infer(Infer("e", {"X": ROWS}, outputs=("middle",)))
        assert np.array_equal(reply.outputs["middle"], ROWS * 2)

    served(test, serving, CHAIN)


def test_it_goes_with_its_models_and_comes_with_them(serving, until):
    async def test(engine, errors):
        assert len(errors) == 1
        assert "no model is called 'other'" in str(errors[0])
        with pytest.raises(ReferenceNotFoundError):
            engine.served("e")
        await engine.load(OTHER)
        await until(lambda: any(one.name == "e" and one.state == "READY" for one in engine.index()))
        await engine.unload("other")
        await until(lambda: engine.served("e").state == "UNAVAILABLE")
        assert "step 'b'" in engine.served("e").reason
        await engine.load(OTHER)
        await until(lambda: engine.served("e").state == "READY")
        await engine.unload("e")
        await engine.load(TWO)
        assert engine.served("e").state == "UNAVAILABLE"

    served(test, serving, CHAIN, models=(ONE,))


def test_whoever_leaves_stops_it_and_closing_waits_for_what_was_taken():
    async def test():
        began, go = asyncio.Event(), asyncio.Event()
        ended = []

        async def infer(request):
            began.set()
            try:
                await go.wait()
            finally:
                ended.append(request.id)
            return Reply("m", "1", {"Y": ROWS, "L": ROWS})

        lane = EnsembleLane("e", graph(ensemble({"one": "a.Y"}, a="m"), lambda *_: like()), infer)
        left = asyncio.wrap_future(lane.submit(Infer("e", {"X": ROWS}, id="left")))
        await began.wait()
        left.cancel()
        while not ended:  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.001)
        stays = lane.submit(Infer("e", {"X": ROWS}, id="stays"))
        never = lane.submit(Infer("e", {"X": ROWS}, id="never"))
        assert isinstance(never, Future)
        never.cancel()  # before its task has begun
        closing = asyncio.create_task(asyncio.to_thread(lane.close, 60.0))
        while True:
            try:
                lane.submit(Infer("e", {"X": ROWS})).cancel()
            except UnavailableError:
                break
            await asyncio.sleep(0.001)
        go.set()
        assert (await asyncio.wrap_future(stays)).id == "stays"
        await closing
        figures = lane.figures()
        assert figures.running == 0
        assert figures.ok == 1

    asyncio.run(test())


def like(inputs=None, outputs=None):
    """Return a version of a model that is only looked at."""
    signature = Signature(
        inputs=inputs or (Field(name="X", dtype="float32", shape=("batch", 4)),),
        outputs=outputs or (Field(name="Y", dtype="float32", shape=("batch", 4)), Field(name="L", dtype="int64")),
        container="dict",
    )
    return Served("m", "1", 1, "", "m", "", "READY", "", signature, *ports(signature), Batching(), 0.0, 0)


TEXT = like((Field(name="T", dtype="string"),), (Field(name="T", dtype="string"),))
WIDE = like((Field(name="X", dtype="float64", shape=("batch", 4)),))
NARROW = like((Field(name="X", dtype="float16", shape=("batch", 4)),))
FLAT = like((Field(name="X", dtype="float32"),))
FIVE = like((Field(name="X", dtype="float32", shape=("batch", 5)),))
MODELS = {"m": like(), "text": TEXT, "wide": WIDE, "narrow": NARROW, "flat": FLAT, "five": FIVE}


def find(name, version):
    if name not in MODELS:
        msg = f"no model is called {name!r}"
        raise ReferenceNotFoundError(msg)
    return MODELS[name]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ensemble({"o": "a.Y"}), ["steps: 0 steps"]),
        (ensemble({}, a="m"), ["outputs: it gives nothing"]),
        (ensemble({"o": "a.Y"}, a="nobody"), ["steps.a.model: no model is called 'nobody'"]),
        (ensemble({"o": "a.Y"}, request="m", a="m"), ["steps.request: no name of a step"]),
        (ensemble({"o": "a.Z"}, a="m"), ["outputs.o: step 'a' gives no 'Z'"]),
        (ensemble({"o": "request.X"}, a="m"), ["outputs.o: 'request.X' leads nowhere"]),
        (ensemble({"o": "a"}, a="m"), ["outputs.o: 'a' leads nowhere; expected STEP.OUTPUT (steps are: ['a'])"]),
        (ensemble({"o": "a.Y"}, a=("m", {"Q": "request.X"})), ["steps.a.inputs.Q: 'm' has no such input"]),
        (ensemble({"o": "a.Y"}, a=("m", {"X": "b.Y"})), ["steps.a.inputs.X: 'b.Y' leads nowhere"]),
        (ensemble({"o": "a.Y"}, a=("m", {"X": "a.Y"})), ["circle: a -> a"]),
        (
            ensemble({"o": "a.Y"}, a=("m", {"X": "b.Y"}), b=("m", {"X": "c.Y"}), c=("m", {"X": "a.Y"})),
            ["in a circle: "],
        ),
        (ensemble({"o": "a.Y"}, a=("m", {"X": "b.T"}), b="text"), ["takes X: float32[batch, 4], and b.T is T: string"]),
        (ensemble({"o": "b.Y"}, a="m", b=("narrow", {"X": "a.Y"})), ["another element type"]),
        (ensemble({"o": "b.Y"}, a="m", b=("flat", {"X": "a.Y"})), ["2 dimensions for 1"]),
        (ensemble({"o": "b.Y"}, a="m", b=("five", {"X": "a.Y"})), ["4 for 5 in dimension 1"]),
        (ensemble({"o": "b.Y"}, a="m", b="five"), ["from the request, where another step takes X: float32[batch, 4]"]),
        (ensemble({"o": "b.Y"}, a="m", b="wide"), ["from the request, where another step takes"]),
        (
            ensemble({"o": "a.Z", "p": "q.r"}, a=("m", {"X": "nowhere"}), b="nobody"),
            ["outputs.o", "outputs.p", "steps.a.inputs.X", "steps.b.model"],
        ),
    ],
)
def test_all_that_is_wrong_is_said_at_once(settings, said):
    with pytest.raises(UsageError) as caught:
        graph(settings, find)
    for one in said:
        assert one in caught.value.message


def test_a_type_that_is_cast_without_loss_fits():
    made = graph(ensemble({"o": "b.Y"}, a="m", b=("wide", {"X": "a.Y"})), find)
    assert made.signature.inputs[0].dtype == "float32"


@given(order=st.permutations(range(6)), wanted=st.sets(st.integers(0, 5), min_size=1))
def test_whatever_the_order_of_the_settings_each_step_comes_after_what_it_needs(order, wanted):
    takes = {number: {"X": f"s{number - 1}.Y"} if number % 3 else {} for number in range(6)}  # two chains of three
    steps = {f"s{number}": ("m", takes[number]) for number in order}
    made = graph(ensemble({f"o{number}": f"s{number}.Y" for number in range(6)}, **steps), find)
    needed = list(made.needed(f"o{number}" for number in wanted))
    assert set(needed) == {f"s{one}" for number in wanted for one in range(number - number % 3, number + 1)}
    assert all(needed.index(one) < needed.index(name) for name in needed for one in made.steps[name].needs)


@pytest.mark.parametrize(
    ("ensembles", "said"),
    [
        ([ensemble({"o": "a.o"}, name="e", a="f"), ensemble({"o": "a.o"}, name="f", a="e")], "in a circle: e, f"),
        ([ensemble({"o": "a.o"}, name="e", a="e")], "in a circle: e"),
        ([ensemble({"o": "a.Y"}, name="m", a="other")], "called 'm', as a model is"),
    ],
)
def test_ensembles_that_can_never_be_are_refused(serving, ensembles, said):
    async def test(engine, errors):
        assert said in str(errors[0])

    served(test, serving, *ensembles)


def test_two_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two ensembles have one name"):
        Ensembles(None, [CHAIN, CHAIN])


def test_a_model_whose_signature_changes_changes_the_ensemble_or_takes_it_away(serving, tmp_path, until):
    store = OciLayout(tmp_path / "store")
    multiplier(store, "part:1", 2)

    async def test():
        async with serving(store=store) as engine:
            await engine.load(ModelSettings(reference="part:1"))
            kept = Ensembles(engine, [ensemble({"o": "a.Y"}, a="part")])
            assert await kept.start() == ()
            assert isinstance(engine.figures("e", "1"), Figures)
            multiplier(store, "part:2", 3)
            await engine.load(ModelSettings(reference="part:2"))
            reply = await engine.infer(Infer("e", {"X": ROWS}))
            assert np.array_equal(reply.outputs["o"], ROWS * 3)
            await engine.unload("part")
            await until(lambda: engine.served("e").state == "UNAVAILABLE")
            kept.close()

    asyncio.run(test())
