"""The file of the settings, the state and the engine become one, while the server runs."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from applied import look, ready, said
from served_models import multiplier

from vitrify.core.errors import AuthenticationError, MalformedError, ReferenceNotFoundError, UsageError
from vitrify.serve.rollout.applying import Applying
from vitrify.serve.rollout.recorded import RecordedEngine
from vitrify.serve.server import check
from vitrify.serve.settings import ModelSettings
from vitrify.serve.settings_file import read

ONE = '[[models]]\nreference = "m:1.0"\n'
TWO = '[[models]]\nreference = "m:2.0"\n'
EVEN = '[routes.m]\nweights = { "1.0" = 1, "2.0" = 1 }\n'


def test_models_and_routes_follow_the_file(applied, file, until):
    async def test():
        file.write(ONE)
        async with applied() as rolled:
            assert ready(rolled) == ["m:1.0"]
            file.write(ONE + TWO + EVEN)
            await look(rolled, until, lambda: ready(rolled) == ["m:1.0", "m:2.0"])
            assert rolled.rollout.shares("m") == {"1.0": 0.5, "2.0": 0.5}
            file.write(TWO)
            await look(rolled, until, lambda: ready(rolled) == ["m:2.0"])
            assert await rolled.ask(10) == {"2.0": 10}
            file.write(TWO + "[models.batching]\nrows = 4\n")
            await look(rolled, until, lambda: rolled.engine.served("m", "2.0").batching.rows == 4)
            assert len(said(rolled, "settings taken")) == 3
            assert not said(rolled, "not loaded")

    asyncio.run(test())


def test_what_the_command_line_named_stays(applied, file, until):
    async def test():
        file.write(ONE)
        async with applied(more=(ModelSettings(reference="same:1.0"),)) as rolled:
            file.write(TWO)
            await look(rolled, until, lambda: ready(rolled) == ["m:2.0", "same:1.0"])

    asyncio.run(test())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[models]\n", "line 1"),
        ("[server]\nprot = 1\n", "prot"),
        (ONE + "[routes.m]\nweights = { a = -1 }\n", "routes"),
        (ONE + "[routes.m.canary]\nversion = 'a'\nsteps = [0.5, 0.1]\n", "rising"),
        (ONE + "[routes.m.canary]\nversion = ''\n", "version"),
        (ONE + "[[routes.m.shadow]]\nversion = 'a'\nfraction = 2.0\n", "fraction"),
        ("[[models]]\nreference = 'm:1.0'\nthreads = 1000000\n", "threads"),
        ("[[models]]\nreference = '@'\n", "@"),
        ("[[models]]\n", "reference"),
    ],
)
def test_a_bad_file_changes_nothing_and_is_named_in_the_log(applied, file, until, text, message):
    async def test():
        file.write(ONE)
        async with applied() as rolled:
            file.write(text)
            await look(rolled, until)
            await look(rolled, until)
            (found,) = said(rolled, "settings not taken")  # once, not twice a second
            assert message in found["error"]
            assert found["file"] == str(file.path)
            assert ready(rolled) == ["m:1.0"]
            file.path.unlink()
            await look(rolled, until)
            assert len(said(rolled, "settings not taken")) == 2
            assert ready(rolled) == ["m:1.0"]
            file.write(TWO)
            await look(rolled, until, lambda: ready(rolled) == ["m:2.0"])

    asyncio.run(test())


def test_what_cannot_be_loaded_leaves_the_rest_as_it_is_and_is_tried_again(applied, file, until, shelf, tmp_path):
    async def test():
        file.write(ONE)
        async with applied() as rolled:
            file.write(ONE + '[[models]]\nreference = "liar:1.0"\n' + TWO)
            await look(rolled, until, lambda: said(rolled, "not loaded"))
            await look(rolled, until, lambda: ready(rolled) == ["m:1.0", "m:2.0"])
            (failed,) = said(rolled, "not loaded")
            assert failed["model"] == "liar:1.0"
            assert await rolled.ask(10) == {"2.0": 10}

    asyncio.run(test())


def test_a_model_that_was_missing_is_loaded_once_it_is_there(rolling, file, until, tmp_path, applied):
    from vitrify.stores.oci_layout import OciLayout

    store = OciLayout(tmp_path / "mine")
    multiplier(store, "m:1.0", 2)

    async def test():
        file.write(ONE)
        async with applied(store=store) as rolled:
            file.write(ONE + TWO)
            await look(rolled, until, lambda: said(rolled, "not loaded"))
            multiplier(store, "m:2.0", 3)
            await look(rolled, until, lambda: ready(rolled) == ["m:1.0", "m:2.0"])

    asyncio.run(test())


def test_clients_follow_the_file_and_the_server_itself_does_not(applied, file, until):
    token = hashlib.sha256(b"secret").hexdigest()

    async def test():
        file.write(ONE)
        async with applied() as rolled:
            file.write(f'{ONE}[server]\nport = 1\n[[clients]]\nname = "ann"\ntoken_sha256 = "{token}"\nadmin = true\n')
            await look(rolled, until, lambda: said(rolled, "settings taken"))
            with rolled.clients.enter("Bearer secret") as name:
                assert name == "ann"
            (told,) = said(rolled, "settings")
            assert "restart" in told["message"]

    asyncio.run(test())


def test_a_file_without_clients_does_not_open_a_server_to_everybody(applied, file, until):
    clients = f'[[clients]]\nname = "ann"\ntoken_sha256 = "{"0" * 64}"\n'
    server = '[server]\nhost = "192.0.2.1"\ncertificate = "c"\nkey = "k"\n'

    async def test():
        file.write(ONE + server + clients)
        async with applied(check=check) as rolled:
            for text in (ONE + server, ONE):  # the second says another host, which this server does not take
                file.write(text)
                await look(rolled, until)
                assert "everybody could ask" in said(rolled, "settings not taken")[-1]["error"]
                with pytest.raises(AuthenticationError), rolled.clients.enter(""):
                    pass

    asyncio.run(test())


def test_loads_and_unloads_over_any_protocol_outlive_a_restart(applied, file, until, tmp_path):
    state = str(tmp_path / "state.json")

    async def test():
        file.write(ONE + TWO)
        async with applied(state) as rolled:
            engine = RecordedEngine(rolled.engine, rolled.applying)
            await engine.load(ModelSettings(reference="m:3.0"))
            await engine.unload("m", "1.0")
            with pytest.raises(ReferenceNotFoundError):
                await engine.unload("nobody")
            with pytest.raises(ReferenceNotFoundError):
                await engine.load(ModelSettings(reference="nobody"))
            await look(rolled, until)
            assert ready(rolled) == ["m:2.0", "m:3.0"]
            assert rolled.told == ["loaded", "unloaded"]
            assert [one.version for one in engine.index() if one.state == "READY"] == ["2.0", "3.0"]
            assert engine.served("m", "3.0").state == "READY"
            assert engine.ready
            assert engine.figures("m", "3.0").ok == 0
            assert {one.reference for one in engine.settings("m")} == {"m:1.0", "m:2.0", "m:3.0"}
            assert engine.labels("m") == {}
        async with applied(state) as rolled:
            assert ready(rolled) == ["m:2.0", "m:3.0"]
            file.write(ONE.replace("\n", "\nthreads = 2\n", 1) + TWO)
            await look(rolled, until, lambda: "m:1.0" in ready(rolled) or said(rolled, "not loaded"))

    asyncio.run(test())


def test_every_process_has_what_was_said_to_one(applied, file, until, tmp_path):
    state = str(tmp_path / "state.json")

    async def test():
        file.write(ONE)
        async with applied(state) as one, applied(state) as other:
            await one.applying.load(ModelSettings(reference="m:2.0"), "ann")
            assert ready(other) == ["m:1.0"]
            await look(other, until, lambda: ready(other) == ["m:1.0", "m:2.0"])
            other.rollout.promote("m", "1.0")
            await look(one, until)
            assert one.rollout.shares("m") == {"1.0": 1.0}
            await other.applying.unload("m", "2.0")
            await look(one, until, lambda: ready(one) == ["m:1.0"])
            assert one.told == ["loaded", "promoted", "unloaded"]

    asyncio.run(test())


def test_the_same_settings_are_loaded_again_by_every_process(applied, file, until, tmp_path):
    from vitrify.stores.oci_layout import OciLayout

    store, state = OciLayout(tmp_path / "mine"), str(tmp_path / "state.json")
    multiplier(store, "m:1.0", 2)

    async def test():
        file.write(ONE)
        async with applied(state, store=store) as one, applied(state, store=store) as other:
            digest = str(multiplier(store, "m:1.0", 7).digest)
            await one.applying.load(ModelSettings(reference="m:1.0"))
            await look(other, until, lambda: other.engine.served("m").digest == digest)

    asyncio.run(test())


def test_a_version_that_has_another_name_now_is_there_before_the_old_one_goes(applied, file, until):
    async def test():
        file.write(ONE)
        async with applied() as rolled:
            file.write(ONE + 'version = "one"\n')
            await look(rolled, until, lambda: ready(rolled) == ["m:one"])
            file.write(ONE + 'version = "one"\n' + ONE + 'version = "two"\n')
            await look(rolled, until, lambda: ready(rolled) == ["m:one", "m:two"])
            await rolled.applying.unload("m", "two")
            await look(rolled, until)
            assert ready(rolled) == ["m:one"]
            assert len(rolled.applying._applied) == 1

    asyncio.run(test())


def test_a_state_that_is_spoilt_while_it_runs_changes_nothing_and_is_said_once(applied, file, until, tmp_path):
    state = tmp_path / "state.json"

    async def test():
        file.write(ONE + TWO)
        async with applied(str(state)) as rolled:
            rolled.rollout.promote("m", "1.0")
            state.write_text("{")
            for _ in range(3):
                await look(rolled, until)
            assert len(said(rolled, "state not taken")) == 1
            assert rolled.rollout.shares("m") == {"1.0": 1.0}
            with pytest.raises(MalformedError):
                rolled.rollout.promote("m", "2.0")
            assert rolled.rollout.shares("m") == {"2.0": 1.0}
            assert state.read_text() == "{"

    asyncio.run(test())


def test_the_thread_looks_by_itself(applied, file, until, monkeypatch):
    monkeypatch.setattr("vitrify.serve.rollout.applying.POLL", 0.01)

    async def test():
        file.write(ONE)
        async with applied(ticking=True) as rolled:
            file.write(ONE + TWO)
            await until(lambda: ready(rolled) == ["m:1.0", "m:2.0"])

    asyncio.run(test())


def test_a_source_that_is_wrong_from_the_start_is_refused(rolling, file):
    async def test():
        file.write("[")
        async with rolling(load=()) as rolled:
            with pytest.raises(UsageError):
                Applying(rolled.rollout, read.__globals__["Settings"](), source=str(file.path))

    asyncio.run(test())
