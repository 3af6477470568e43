from __future__ import annotations

import asyncio
import shutil

import pytest
from served_models import ROWS

from vitrify.artifacts.artifact import open_artifact
from vitrify.core.errors import ReferenceNotFoundError, UnavailableError
from vitrify.registry import open_registry
from vitrify.registry.registry import Registry
from vitrify.serve.settings import ModelSettings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout

NEVER = 10_000.0
"""Seconds between two looks of the thread, where the test looks itself."""
PRODUCTION = ModelSettings(reference="churn@production")
STAGING = ModelSettings(reference="churn@staging")


class Records:
    """A real registry in a folder, with versions 1.0.0, 2.0.0 and one that lies, 3.0.0; it can be unreachable."""

    def __init__(self, folder):
        self._folder, self.down = str(folder), False
        self.registry = self.connect()

    def connect(self):
        if self.down:
            raise UnavailableError("the registry does not answer")
        return open_registry(self._folder)

    def promote(self, version, stage="production"):
        self.registry.promote("churn", version, stage)


@pytest.fixture(scope="module")
def template(shelf, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records") / "registry"
    registry = open_registry(str(folder))
    for version, name in (("1.0.0", "m:1.0"), ("2.0.0", "m:2.0"), ("3.0.0", "liar")):
        registry.register("churn", open_artifact(name, store=shelf), version=version)
    registry.close()
    return folder


@pytest.fixture
def records(template, tmp_path):
    records = Records(shutil.copytree(template, tmp_path / "registry"))
    yield records
    records.registry.close()


@pytest.fixture
def following(serving, records, tmp_path):
    """Return a context manager for an engine with a store of its own, which fetches from the registry."""
    store = OciLayout(tmp_path / "mine")
    return lambda **options: serving(
        **{"store": store, "registry": records.connect, "follow_seconds": NEVER, **options}
    )


def ask(version=""):
    return Infer("churn", {"X": ROWS[:1]}, version=version)


async def answering(engine):
    return (await engine.infer(ask())).version


async def look(engine):
    await asyncio.to_thread(engine._following.look)


def states(engine):
    return {one.version: one.state for one in engine.index()}


def test_an_alias_is_served_as_the_version_that_it_leads_to(following, records):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            served = await engine.load(PRODUCTION)
            assert (served.name, served.version, served.reference) == ("churn", "1.0.0", "churn@production")
            assert await answering(engine) == "1.0.0"

    asyncio.run(test())


def test_a_promotion_in_the_registry_changes_what_is_served_and_lets_the_old_version_go(following, records, opened):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION)
            records.promote("2.0.0")
            await look(engine)
            assert await answering(engine) == "2.0.0"
            assert states(engine) == {"1.0.0": "UNAVAILABLE", "2.0.0": "READY"}
            assert opened.closed == ["churn:production"]
            records.promote("1.0.0")
            await look(engine)
            assert await answering(engine) == "1.0.0"
            assert states(engine) == {"1.0.0": "READY", "2.0.0": "UNAVAILABLE"}

    asyncio.run(test())


def test_the_thread_sees_it_by_itself(following, records, until):
    async def test():
        records.promote("1.0.0")
        async with following(follow_seconds=0.02) as engine:
            await engine.load(PRODUCTION)
            records.promote("2.0.0")
            await until(lambda: engine.default("churn") == "2.0.0")
            await until(lambda: states(engine)["1.0.0"] == "UNAVAILABLE")

    asyncio.run(test())


def test_no_request_is_dropped_while_an_alias_moves(following, records):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION)
            seen, stop = set(), asyncio.Event()

            async def client():
                while not stop.is_set():
                    seen.add(await answering(engine))

            clients = [asyncio.create_task(client()) for _ in range(4)]
            for version in ("2.0.0", "1.0.0", "2.0.0"):
                records.promote(version)
                await look(engine)
            stop.set()
            await asyncio.gather(*clients)
            assert seen == {"1.0.0", "2.0.0"}

    asyncio.run(test())


def test_a_version_that_does_not_prove_itself_is_not_switched_to_and_not_tried_again_at_once(
    following, records, opened
):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION)
            records.promote("3.0.0")
            for _ in range(3):
                await look(engine)
            assert await answering(engine) == "1.0.0"
            served = engine.served("churn")
            assert served.state == "READY"
            assert "moved to 3.0.0, which cannot be loaded" in served.reason
            assert opened.names == ["churn:production"] * 2
            records.promote("2.0.0")
            await look(engine)
            assert await answering(engine) == "2.0.0"

    asyncio.run(test())


def test_a_promotion_that_is_taken_back_takes_the_reason_back(following, records):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION)
            records.promote("3.0.0")
            await look(engine)
            assert engine.served("churn").reason
            records.promote("1.0.0")
            await look(engine)
            assert (engine.served("churn").version, engine.served("churn").reason) == ("1.0.0", "")

    asyncio.run(test())


def test_a_registry_that_is_down_changes_nothing_and_is_asked_again(following, records):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION)
            await look(engine)
            records.promote("2.0.0")
            engine._following._disconnect()
            records.down = True
            for _ in range(3):
                await look(engine)
            assert await answering(engine) == "1.0.0"
            assert engine.served("churn").reason == ""
            records.down = False
            await look(engine)
            assert await answering(engine) == "2.0.0"

    asyncio.run(test())


def test_where_nothing_was_written_one_question_is_enough_for_all_aliases(following, records, monkeypatch):
    async def test():
        records.promote("1.0.0")
        records.promote("2.0.0", "staging")
        async with following() as engine:
            await engine.load(PRODUCTION)
            await engine.load(STAGING)
            await look(engine)
            asked = []
            monkeypatch.setattr(Registry, "version", lambda *about: asked.append(about))
            await look(engine)
            assert asked == []

    asyncio.run(test())


def test_two_aliases_of_a_model_are_followed_each_by_itself(following, records):
    async def test():
        records.promote("1.0.0")
        records.promote("2.0.0", "staging")
        async with following() as engine:
            await engine.load(STAGING)
            await engine.load(PRODUCTION)
            records.registry.set_alias("churn", "blue", "2.0.0")
            await engine.load(ModelSettings(reference="churn@blue", name="churn"))
            records.registry.set_alias("churn", "blue", "1.0.0")
            await look(engine)
            assert states(engine) == {"1.0.0": "READY", "2.0.0": "READY"}
            assert await answering(engine) == "1.0.0"
            assert engine.labels("churn") == {"staging": "2.0.0", "production": "1.0.0", "blue": "1.0.0"}
            assert engine.labels("nobody") == {}

    asyncio.run(test())


def test_an_alias_that_moves_takes_the_default_only_where_it_had_it(following, records):
    async def test():
        records.registry.set_alias("churn", "blue", "1.0.0")
        records.registry.set_alias("churn", "green", "2.0.0")
        async with following() as engine:
            await engine.load(ModelSettings(reference="churn@green"))
            await engine.load(ModelSettings(reference="churn@blue"))
            records.registry.set_alias("churn", "green", "1.0.0")
            await look(engine)
            assert states(engine) == {"1.0.0": "READY", "2.0.0": "UNAVAILABLE"}
            assert await answering(engine) == "1.0.0"

    asyncio.run(test())


def test_an_alias_that_is_gone_keeps_what_it_led_to_and_hinders_no_other(following, records):
    async def test():
        records.registry.set_alias("churn", "blue", "1.0.0")
        records.promote("1.0.0", "staging")
        async with following() as engine:
            await engine.load(ModelSettings(reference="churn@blue", version="b"))
            await engine.load(STAGING)
            records.registry.remove_alias("churn", "blue")
            records.promote("2.0.0", "staging")
            await look(engine)
            assert "leads nowhere" in engine.served("churn", "b").reason
            assert states(engine) == {"b": "READY", "1.0.0": "UNAVAILABLE", "2.0.0": "READY"}

    asyncio.run(test())


def test_a_version_of_the_servers_own_is_replaced_in_its_place(following, records):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            first = await engine.load(PRODUCTION.replace(version="live"))
            records.promote("2.0.0")
            await look(engine)
            assert await answering(engine) == "live"
            assert engine.served("churn").digest != first.digest
            assert states(engine) == {"live": "READY"}

    asyncio.run(test())


def test_loading_an_alias_by_hand_after_it_moved_lets_go_what_it_led_to(following, records, until):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION)
            records.promote("2.0.0")
            assert (await engine.load(PRODUCTION)).version == "2.0.0"
            await until(lambda: states(engine) == {"1.0.0": "UNAVAILABLE", "2.0.0": "READY"})
            await look(engine)
            assert await answering(engine) == "2.0.0"

    asyncio.run(test())


def test_what_was_unloaded_is_followed_no_more(following, records):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION)
            await engine.unload("churn")
            records.promote("2.0.0")
            await look(engine)
            assert states(engine) == {"1.0.0": "UNAVAILABLE"}

    asyncio.run(test())


def test_a_lazy_alias_moves_without_being_opened_until_it_was(following, records, opened):
    async def test():
        records.promote("1.0.0")
        async with following() as engine:
            await engine.load(PRODUCTION.replace(lazy=True))
            records.promote("2.0.0")
            await look(engine)
            assert (opened.names, engine.served("churn").version) == ([], "2.0.0")
            assert await answering(engine) == "2.0.0"
            records.promote("1.0.0")
            await look(engine)
            assert engine.served("churn").state == "READY"  # it was in use: the next one proves itself at once

    asyncio.run(test())


def test_an_alias_that_nobody_set_is_not_found(following, records):
    async def test():
        async with following() as engine:
            with pytest.raises(ReferenceNotFoundError):
                await engine.load(PRODUCTION)
            assert engine.index() == ()
            with pytest.raises(ReferenceNotFoundError):
                await engine.load(PRODUCTION, wanted=True)
            assert engine.served("churn").state == "UNAVAILABLE"

    asyncio.run(test())
