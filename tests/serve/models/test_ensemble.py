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
from vitrify.serve.models.ensemble import EnsembleLane
from vitrify.serve.models.identity import identity, make
from vitrify.serve.models.repository import Entry
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


def of(engine, settings, **models):
    """Return the digest that an ensemble has with the models that are served now."""
    return identity(settings, {step: engine.served(*model.split(":")).digest for step, model in models.items()})


CHAIN = ensemble({"end": "b.Y", "label": "b.L", "middle": "a.Y"}, b=("other", {"X": "a.Y"}), a="m:1.0")


def served(test, serving, *ensembles, models=(ONE, OTHER)):
    """Run a test with an engine that serves ensembles."""

    async def run():
        async with serving() as engine:
            for one in (*models, *ensembles):
                await engine.load(one)
            await test(engine)

    asyncio.run(run())


def test_a_chain_answers_like_one_model(serving):
    async def test(engine):
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
        assert reply.digest == like.digest == of(engine, CHAIN, a="m", b="other")
        empty = await engine.infer(Infer("e", {"X": ROWS[:0]}))
        assert empty.outputs["end"].shape == (0, 4)
        with pytest.raises(SignatureError, match="axis 1 must be 4"):
            await engine.infer(Infer("e", {"X": ROWS[:, :2]}))
        figures = engine.figures("e", "1")
        assert (figures.ok, figures.running, figures.failed) == (1, 0, {})
        assert (figures.batches, figures.rows, figures.batch_rows.total) == (1, len(ROWS), len(ROWS))

    served(test, serving, CHAIN)


def test_what_is_not_asked_for_is_not_run(serving):
    async def test(engine):
        reply = await engine.infer(Infer("e", {"X": ROWS}, outputs=("middle",)))
        assert list(reply.outputs) == ["middle"]
        assert reply.parameters == {"step.a": "m:1.0"}
        assert reply.digest == engine.served("e").digest
        assert engine.figures("other", "1").ok == 0

    served(test, serving, CHAIN)


def test_ensembles_ask_ensembles(serving):
    outer = ensemble({"all": "y.Y"}, name="outer", x="e", y=("m:1.0", {"X": "x.end"}))

    async def test(engine):
        reply = await engine.infer(Infer("outer", {"X": ROWS}))
        assert np.array_equal(reply.outputs["all"], ROWS * 20)

    served(test, serving, CHAIN, outer)


def test_steps_that_need_nothing_of_each_other_run_at_the_same_time_and_share_the_deadline():
    class Met(Lone):
        """Lanes whose requests are answered when both have come."""

        async def infer(self, request, pin=None):
            self.asked.append(request)
            while len(self.asked) < 2:  # noqa: ASYNC110 (what is waited for has no event)
                await asyncio.sleep(0.001)
            return Reply(request.model, "1", {"Y": request.inputs["X"], "L": request.inputs["X"]})

    async def test():
        met = Met()
        settings = ensemble({"one": "a.Y", "two": "b.Y"}, a="m", b="other")
        lane = EnsembleLane(settings, make(settings, lambda *_: like()), met)
        until = time.monotonic() + 60
        ask = Infer("e", {"X": ROWS}, deadline=until, client="me", key="k", priority=1)
        await asyncio.wrap_future(lane.submit(ask))
        said = {(one.deadline, one.client, one.key, one.priority, one.outputs) for one in met.asked}
        assert said == {(until, "me", "k", 1, ("Y",))}

    asyncio.run(test())


def test_an_error_names_the_step_and_the_others_are_given_up(serving):
    async def test(engine):
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
    async def test(engine):
        with pytest.raises(UsageError, match="no model is called 'other'"):
            await engine.load(CHAIN)
        with pytest.raises(ReferenceNotFoundError):
            engine.served("e")
        await engine.load(OTHER)
        assert (await engine.load(CHAIN)).state == "READY"
        await engine.unload("other")
        await until(lambda: engine.served("e").state == "UNAVAILABLE")
        assert "step 'b'" in engine.served("e").reason
        with pytest.raises(UnavailableError, match=r"step 'b': model 'other' is unavailable: unloaded"):
            await engine.load(CHAIN.replace(version="2"))
        await engine.load(OTHER)
        await until(lambda: engine.served("e").state == "READY")
        await engine.unload("e")
        await engine.load(TWO)
        assert engine.served("e").state == "UNAVAILABLE"

    served(test, serving, models=(ONE,))


def test_it_is_unloaded_loaded_again_and_changed_like_a_model(serving):
    async def test(engine):
        assert engine.settings("e") == (CHAIN,)
        await engine.unload("e")
        with pytest.raises(ReferenceNotFoundError, match="was unloaded"):
            await engine.infer(Infer("e", {"X": ROWS}))
        (known,) = engine.settings("e")
        first = await engine.load(known)
        assert first.state == "READY"
        changed = ensemble({"end": "a.Y"}, a="m:1.0")
        second = await engine.load(changed)
        assert (second.version, second.digest) == ("1", of(engine, changed, a="m"))
        assert second.digest != first.digest
        assert list((await engine.infer(Infer("e", {"X": ROWS}))).outputs) == ["end"]
        with pytest.raises(UsageError, match="no model is called 'nobody'"):
            await engine.load(ensemble({"end": "a.Y"}, a="nobody"))
        assert (await engine.infer(Infer("e", {"X": ROWS}))).digest == second.digest

    served(test, serving, CHAIN)


def test_two_versions_of_it_stand_side_by_side(serving):
    async def test(engine):
        await engine.load(ensemble({"end": "a.Y"}, a="m:2.0").replace(version="next"))
        for version, factor in (("1", 10), ("next", 3)):
            reply = await engine.infer(Infer("e", {"X": ROWS}, version=version))
            assert (reply.version, reply.digest) == (version, engine.served("e", version).digest)
            assert np.array_equal(reply.outputs["end"], ROWS * factor)
        await engine.unload("e", "next")
        assert (await engine.infer(Infer("e", {"X": ROWS}))).version == "1"

    served(test, serving, CHAIN, models=(ONE, OTHER, TWO))


def test_whoever_leaves_stops_it_and_closing_waits_for_what_was_taken():
    async def test():
        began, go = asyncio.Event(), asyncio.Event()
        ended = []

        class Waits(Lone):
            async def infer(self, request, pin=None):
                began.set()
                try:
                    await go.wait()
                finally:
                    ended.append(request.id)
                return Reply("m", "1", {"Y": ROWS, "L": ROWS})

        settings = ensemble({"one": "a.Y"}, a="m")
        lane = EnsembleLane(settings, make(settings, lambda *_: like()), Waits())
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
    return Served("m", "1", 1, "sha256:m", "m", "onnx", "READY", "", signature, *ports(signature), Batching(), 0.0, 0)


class Lone:
    """Answers for the steps of an ensemble of which all models are the same."""

    def __init__(self):
        self.asked = []

    def choose(self, request):
        return Entry(like())


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


def test_ensembles_that_can_never_be_are_refused(serving):
    async def test(engine):
        for settings, said in (
            (ensemble({"o": "a.Y"}, name="m", a="other"), "called 'm', as a model is"),
            (ensemble({"end": "a.end"}, name="e", a="e"), "in a circle: e -> e"),
            (ensemble({"end": "a.end"}, name="e", a="f"), "in a circle: "),
            (ensemble({"o": "a.Y"}, name=" e", a="m"), "name is ' e'"),
        ):
            with pytest.raises(UsageError, match=said):
                await engine.load(settings)
        with pytest.raises(UsageError, match="called 'e', as an ensemble is"):
            await engine.load(ONE.replace(name="e"))
        assert np.array_equal((await engine.infer(Infer("f", {"X": ROWS}))).outputs["end"], ROWS * 10)

    served(test, serving, CHAIN, ensemble({"end": "a.end"}, name="f", a="e"))


def test_nothing_comes_or_goes_while_the_server_stops(serving):
    async def test(engine):
        await engine.close(0.0)
        for ask in (engine.load(CHAIN), engine.unload("e"), engine.load(ONE)):
            with pytest.raises(UnavailableError, match="is stopping"):
                await ask

    served(test, serving, CHAIN)


def test_where_the_last_version_cannot_answer_the_one_before_does(serving):
    async def test(engine):
        for version, model in (("1", "m:1.0"), ("2", "other")):
            await engine.load(ensemble({"end": "a.Y"}, a=model).replace(version=version))
        assert (await engine.infer(Infer("e", {"X": ROWS}))).version == "2"
        await engine.unload("other")
        assert (engine.default("e"), engine.served("e").state) == ("1", "READY")
        assert (await engine.infer(Infer("e", {"X": ROWS}))).version == "1"
        await engine.load(OTHER)
        assert (await engine.infer(Infer("e", {"X": ROWS}))).version == "2"

    served(test, serving)


def test_a_model_whose_signature_changes_changes_the_ensemble_or_takes_it_away(serving, tmp_path, until):
    store = OciLayout(tmp_path / "store")
    multiplier(store, "part:1", 2)

    async def test():
        async with serving(store=store) as engine:
            await engine.load(ModelSettings(reference="part:1"))
            before = await engine.load(ensemble({"o": "a.Y"}, a="part"))
            assert isinstance(engine.figures("e", "1"), Figures)
            multiplier(store, "part:2", 3)
            await engine.load(ModelSettings(reference="part:2"))
            reply = await engine.infer(Infer("e", {"X": ROWS}))
            assert np.array_equal(reply.outputs["o"], ROWS * 3)
            await until(lambda: engine.served("e").digest == reply.digest)
            assert reply.digest != before.digest
            await engine.unload("part", "2")
            assert (await engine.infer(Infer("e", {"X": ROWS}))).digest == before.digest
            await engine.unload("part")
            await until(lambda: engine.served("e").state == "UNAVAILABLE")

    asyncio.run(test())


def test_a_version_whose_model_changes_does_not_take_the_place_of_the_one_loaded_last(serving, until):
    last = ensemble({"o": "a.Y"}, a="other").replace(version="2")

    async def test(engine):
        before = engine.served("e", "1").digest
        await engine.load(TWO.replace(version="1.0"))
        await until(lambda: engine.served("e", "1").digest != before)
        assert engine.default("e") == "2"
        assert np.array_equal((await engine.infer(Infer("e", {"X": ROWS}))).outputs["o"], ROWS * 5)
        assert np.array_equal((await engine.infer(Infer("e", {"X": ROWS}, version="1"))).outputs["o"], ROWS * 3)

    served(test, serving, ensemble({"o": "a.Y"}, a="m"), last)


DIGESTS = {"a": "sha256:1", "b": "sha256:2"}


@pytest.mark.parametrize(
    ("settings", "digests"),
    [
        (CHAIN, DIGESTS | {"a": "sha256:3"}),
        (CHAIN, {"a": "sha256:2", "b": "sha256:1"}),
        (CHAIN.replace(outputs={"end": "b.Y"}), DIGESTS),
        (ensemble(CHAIN.outputs, b=("other", {"X": "a.Y"}), a="m"), DIGESTS),
        (ensemble(CHAIN.outputs, b=("other", {"X": "request.X"}), a="m:1.0"), DIGESTS),
    ],
)
def test_whatever_changes_an_answer_changes_the_digest(settings, digests):
    assert identity(settings, digests) != identity(CHAIN, DIGESTS)


def test_neither_names_nor_the_order_change_the_digest():
    other = ensemble(dict(reversed(CHAIN.outputs.items())), name="f", a="m:1.0", b=("other", {"X": "a.Y"}))
    assert identity(other.replace(version="9"), DIGESTS) == identity(CHAIN, DIGESTS)
