"""Ensembles come, change and go with the file of the settings, the state and what is asked of the repository."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from applied import look, ready, said

from vitrify.core.errors import UsageError
from vitrify.serve.models.ensembles import PLATFORM
from vitrify.serve.rollout.recorded import RecordedEngine
from vitrify.serve.settings import EnsembleSettings, StepSettings
from vitrify.serve.values import Infer

ONE = '[[models]]\nreference = "m:1.0"\n'
SAME = '[[models]]\nreference = "same:1.0"\n'
PAIR = """
[[ensembles]]
name = "pair"
outputs = { end = "b.Y" }
[ensembles.steps]
a = { model = "m" }
b = { model = "same", inputs = { X = "a.Y" } }
"""
OUTER = """
[[ensembles]]
name = "outer"
outputs = { end = "a.end" }
[ensembles.steps]
a = { model = "pair" }
"""
LONE = EnsembleSettings(name="lone", steps={"a": StepSettings(model="m")}, outputs={"end": "a.Y"})


async def factor(rolled, name):
    """Return what an ensemble multiplies with."""
    reply = await rolled.engine.infer(Infer(name, {"X": np.ones((1, 4), np.float32)}))
    return float(reply.outputs["end"][0, 0])


def states(rolled):
    return {(one.state, one.reason) for one in rolled.engine.index() if one.platform == PLATFORM}


def test_they_follow_the_file(applied, file, until):
    async def test():
        file.write(ONE)
        async with applied() as rolled:
            file.write(OUTER.join((ONE + SAME, PAIR)))  # what is asked is named after what asks it, and both are new
            await look(rolled, until, lambda: ready(rolled) == ["m:1.0", "outer:1", "pair:1", "same:1.0"])
            assert await factor(rolled, "outer") == 4
            digest = rolled.engine.served("outer").digest
            file.write(ONE + SAME + PAIR.replace("b.Y", "a.Y") + OUTER)
            await look(rolled, until, lambda: rolled.engine.served("outer").digest != digest)
            assert await factor(rolled, "outer") == 2
            file.write(ONE + SAME + PAIR.replace("b.Y", "a.Z") + OUTER)
            await look(rolled, until, lambda: said(rolled, "not loaded"))
            assert "gives no 'Z'" in said(rolled, "not loaded")[0]["error"]
            assert await factor(rolled, "outer") == 2
            file.write(ONE)
            await look(rolled, until, lambda: ready(rolled) == ["m:1.0"])
            await until(lambda: states(rolled) == {("UNAVAILABLE", "unloaded")})

    asyncio.run(test())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PAIR.replace('"same"', '"pair"'), "circle: pair -> pair"),
        (PAIR + PAIR, "called as something else is: pair:1"),
        (PAIR.replace('"pair"', '"m"', 1), "called as something else is: m"),
        (PAIR.replace('"pair"', '" pair"', 1), "name is ' pair'"),
    ],
)
def test_what_can_never_be_is_refused_whole(applied, file, until, text, message):
    async def test():
        file.write(ONE)
        async with applied() as rolled:
            file.write(ONE + SAME + text)
            await look(rolled, until, lambda: said(rolled, "settings not taken"))
            assert message in said(rolled, "settings not taken")[0]["error"]
            assert ready(rolled) == ["m:1.0"]
        with pytest.raises(UsageError):
            async with applied():
                pass

    asyncio.run(test())


def test_one_that_cannot_be_from_the_start_is_refused(applied, file):
    async def test():
        file.write(ONE + PAIR)
        with pytest.raises(UsageError, match="no model is called 'same'"):
            async with applied():
                pass

    asyncio.run(test())


def test_loads_and_unloads_outlive_a_restart_and_every_process_has_them(applied, file, until, tmp_path):
    state = str(tmp_path / "state.json")

    async def test():
        file.write(ONE + SAME + PAIR)
        async with applied(state) as rolled, applied(state) as other:
            engine = RecordedEngine(rolled.engine, rolled.applying)
            assert (await engine.load(LONE)).digest == rolled.engine.served("lone").digest
            await engine.unload("pair")
            await look(other, until, lambda: ready(other) == ["lone:1", "m:1.0", "same:1.0"])
            assert rolled.told == ["loaded", "unloaded"]
        async with applied(state) as rolled:
            assert ready(rolled) == ["lone:1", "m:1.0", "same:1.0"]
            assert await factor(rolled, "lone") == 2
            file.write(ONE + SAME + PAIR.replace("b.Y", "a.Y"))  # said anew, it is no longer overruled
            await look(rolled, until, lambda: "pair:1" in ready(rolled))
            engine = RecordedEngine(rolled.engine, rolled.applying)
            await engine.unload("lone")
            (known,) = engine.settings("lone")
            await engine.load(known)
            assert "lone:1" in ready(rolled)
            await engine.unload("lone")
        async with applied(state) as rolled:
            assert ready(rolled) == ["m:1.0", "pair:1", "same:1.0"]

    asyncio.run(test())


def test_what_only_the_state_names_may_be_missing_at_a_restart(applied, file, until, tmp_path):
    state = str(tmp_path / "state.json")

    async def test():
        file.write(ONE)
        async with applied(state) as rolled:
            await rolled.applying.load(LONE)
        file.write(SAME)
        async with applied(state) as rolled:
            assert ready(rolled) == ["same:1.0"]
            assert said(rolled, "not loaded")[0]["model"] == "lone:1"
            file.write(SAME + ONE)
            await look(rolled, until, lambda: "lone:1" in ready(rolled))

    asyncio.run(test())
