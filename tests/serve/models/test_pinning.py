"""A request of an ensemble is answered by the versions that were there when it began, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import threading
from itertools import cycle

import numpy as np
import pytest
from served_models import ROWS, multiplier

from vitrify.core.errors import VitrifyError
from vitrify.serve.models.ensembles import Ensembles
from vitrify.serve.models.opening import open_session
from vitrify.serve.settings import EnsembleSettings, ModelSettings, StepSettings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout

BEFORE, AFTER, GATE = 2, 3, 5


def part(tag, **more):
    return ModelSettings(reference=f"part:{tag}", name="part", version="v", **more)


SANDWICH = EnsembleSettings(
    name="sandwich",
    steps={
        "under": StepSettings(model="part"),
        "between": StepSettings(model="gate", inputs={"X": "under.Y"}),
        "over": StepSettings(model="part", inputs={"X": "between.Y"}),
    },
    outputs={"all": "over.Y"},
)
OUTER = EnsembleSettings(
    name="outer",
    steps={"first": StepSettings(model="gate"), "then": StepSettings(model="inner", inputs={"X": "first.Y"})},
    outputs={"all": "then.part"},
)
INNER = EnsembleSettings(name="inner", steps={"only": StepSettings(model="part")}, outputs={"part": "only.Y"})


@pytest.fixture
def store(tmp_path):
    """Return a store of ``part:1`` and ``part:2``, and of ``gate``."""
    store = OciLayout(tmp_path / "store")
    for name, factor in (("part:1", BEFORE), ("part:2", AFTER), ("gate:1", GATE)):
        multiplier(store, name, factor)
    return store


class Gate:
    """Opens sessions as the engine does; the model ``gate`` answers no request before it is told to."""

    def __init__(self):
        self.entered, self.go = threading.Event(), threading.Event()
        self.shut = False

    def __call__(self, artifact, settings):
        session = open_session(artifact, settings)
        if artifact.name.startswith("gate"):
            run = session.run_conformed

            def waiting(arrays):
                if self.shut:
                    self.entered.set()
                    assert self.go.wait(60)
                return run(arrays)

            session.run_conformed = waiting
        return session


def unload(engine):
    return engine.unload("part")


def replace(engine):
    return engine.load(part(2))


@pytest.mark.parametrize("ensembles", [(SANDWICH,), (INNER, OUTER)], ids=["flat", "nested"])
@pytest.mark.parametrize("change", [replace, unload])
def test_what_is_asked_when_a_model_goes_is_answered_as_it_began(serving, store, until, ensembles, change):
    gate = Gate()
    *_, asked = ensembles

    async def test():
        async with serving(store=store, open_session=gate) as engine:
            for one in (part(1), ModelSettings(reference="gate:1"), *ensembles):
                await engine.load(one)
            digest = engine.served(asked.name).digest
            before = (await engine.infer(Infer(asked.name, {"X": ROWS}))).outputs["all"]
            gate.shut = True
            pending = asyncio.ensure_future(engine.infer(Infer(asked.name, {"X": ROWS})))
            assert await asyncio.to_thread(gate.entered.wait, 60)
            changing = asyncio.ensure_future(change(engine))
            if change is replace:
                await changing
                await until(lambda: engine.served(asked.name).digest != digest)
            else:
                await until(lambda: engine.served("part").state == "UNLOADING")
            assert not pending.done()
            gate.go.set()
            reply = await pending
            assert np.array_equal(reply.outputs["all"], before)
            assert reply.digest == digest
            await changing

    asyncio.run(test())


def test_under_load_no_reload_drops_a_request_and_none_is_a_mixture(serving, store):
    async def ask(engine, seen, ended):
        while not ended.is_set():
            reply = await engine.infer(Infer("sandwich", {"X": ROWS}))
            seen.add((reply.digest, float(reply.outputs["all"][1, 1] / ROWS[1, 1])))

    async def test():
        async with serving(store=store, open_session=open_session) as engine:
            for one in (part(1), ModelSettings(reference="gate:1"), SANDWICH):
                await engine.load(one)
            seen, ended = set(), asyncio.Event()
            asking = [asyncio.ensure_future(ask(engine, seen, ended)) for _ in range(4)]
            tags = cycle((2, 1))
            for _ in range(8):
                await engine.load(part(next(tags)))
            ended.set()
            await asyncio.gather(*asking)
            assert {factor for _, factor in seen} <= {BEFORE * GATE * BEFORE, AFTER * GATE * AFTER}
            assert len(seen) == len({digest for digest, _ in seen}) == 2

    asyncio.run(test())


def test_a_version_that_is_let_go_to_make_room_comes_back_for_the_next_step(serving, store):
    async def test():
        size = None
        async with serving(store=store) as engine:
            size = (await engine.load(part(1))).size
        async with serving(store=store, memory=int(size * 1.5)) as engine:
            for one in (part(1, lazy=True), ModelSettings(reference="gate:1", lazy=True)):
                await engine.load(one)
            chain = SANDWICH.replace(
                steps={name: step for name, step in SANDWICH.steps.items() if name != "over"},
                outputs={"all": "between.Y"},
            )
            await engine.load(chain)
            for _ in range(3):
                reply = await engine.infer(Infer("sandwich", {"X": ROWS}))
                assert np.array_equal(reply.outputs["all"], ROWS * BEFORE * GATE)
                assert reply.digest == engine.served("sandwich").digest

    asyncio.run(test())


def test_each_answer_has_the_digest_of_the_versions_that_made_it(serving, store):
    async def test():
        versions = cycle(("a", "b"))
        async with serving(store=store, choose=lambda request: next(versions)) as engine:
            for tag, version in ((1, "a"), (2, "b")):
                await engine.load(part(tag).replace(version=version))
            await engine.load(INNER)
            seen = {}
            for _ in range(4):
                reply = await engine.infer(Infer("inner", {"X": ROWS}, version="1"))
                seen.setdefault(reply.digest, set()).add(float(reply.outputs["part"][1, 1] / ROWS[1, 1]))
            assert sorted(seen.values(), key=min) == [{BEFORE}, {AFTER}]
            assert engine.served("inner").digest in seen

    asyncio.run(test())


def test_once_it_is_closed_nothing_is_loaded_any_more(serving, store):
    async def test():
        async with serving(store=store) as engine:
            kept = Ensembles(engine)
            kept.close()
            kept.changed()
            with pytest.raises(VitrifyError, match="the server is stopping"):
                kept.load(INNER)

    asyncio.run(test())
