"""Routes that stand in the registry as a tag of the model."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest

from vitrify.artifacts.artifact import open_artifact
from vitrify.core.errors import UnavailableError
from vitrify.registry import open_registry
from vitrify.serve.rollout.applying import Applying
from vitrify.serve.rollout.tagged import TAG, TaggedRoutes
from vitrify.serve.settings import ModelSettings, RouteSettings, Settings
from vitrify.stores.oci_layout import OciLayout

PRODUCTION = ModelSettings(reference="churn@production")
STAGING = ModelSettings(reference="churn@staging")
EVEN = {"weights": {"1.0.0": 0.5, "2.0.0": 0.5}}


@pytest.fixture(scope="module")
def template(shelf, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records") / "registry"
    registry = open_registry(str(folder))
    for version, name in (("1.0.0", "m:1.0"), ("2.0.0", "m:2.0")):
        registry.register("churn", open_artifact(name, store=shelf), version=version)
    registry.promote("churn", "1.0.0", "production")
    registry.promote("churn", "2.0.0", "staging")
    registry.close()
    return folder


class Records:
    def __init__(self, folder):
        self._folder, self.down, self.opened = str(folder), False, 0
        self.registry = open_registry(self._folder)

    def connect(self):
        self.opened += 1
        if self.down:
            raise UnavailableError("the registry does not answer")
        return open_registry(self._folder)

    def tag(self, value):
        text = value if value is None or isinstance(value, str) else json.dumps(value)
        self.registry.update_model("churn", tags={TAG: text})


@pytest.fixture
def records(template, tmp_path):
    records = Records(shutil.copytree(template, tmp_path / "registry"))
    yield records
    records.registry.close()


def test_a_model_follows_the_tag_of_its_entry(rolling, records, tmp_path):
    async def test():
        store = OciLayout(tmp_path / "mine")
        async with rolling(load=(), store=store, registry=records.connect, follow_seconds=1e4) as rolled:
            for one in (PRODUCTION, STAGING):
                await rolled.engine.load(one)
            said = []
            tagged = TaggedRoutes(records.connect, 0.0, say=lambda event, **facts: said.append(facts))
            settings = Settings(models=(PRODUCTION, STAGING), routes={"churn": RouteSettings(weights={"1.0.0": 1.0})})
            applying = Applying(rolled.rollout, settings, tagged=tagged)
            rolled.rollout.take(settings.routes)
            applying._ticking.start = lambda: None
            await applying.start()

            async def shares():
                await asyncio.to_thread(applying.look)
                return rolled.rollout.shares("churn")

            assert await shares() == {"1.0.0": 1.0}
            records.tag(EVEN)
            assert await shares() == {"1.0.0": 0.5, "2.0.0": 0.5}
            rolled.rollout.promote("churn", "2.0.0")  # over the API: counts until the tag changes
            assert await shares() == {"2.0.0": 1.0}
            for bad in ("{", '{"wieghts": {}}', "[" * 100, '{"weights": {"1": -1}}'):
                records.tag(bad)
                assert await shares() == {"2.0.0": 1.0}
                assert await shares() == {"2.0.0": 1.0}
            assert [one["model"] for one in said] == ["churn"] * 4
            records.tag({"weights": {"1.0.0": 1.0, "2.0.0": 3.0}})
            assert await shares() == {"1.0.0": 0.25, "2.0.0": 0.75}
            records.down = True
            tagged.close()
            records.tag(EVEN)
            assert await shares() == {"1.0.0": 0.25, "2.0.0": 0.75}
            records.down = False
            assert await shares() == {"1.0.0": 0.5, "2.0.0": 0.5}
            records.tag(None)
            assert await shares() == {"1.0.0": 1.0}
            tagged.close()

    asyncio.run(test())


def test_where_nothing_follows_the_registry_it_is_not_even_opened(rolling, records):
    async def test():
        async with rolling() as rolled:
            tagged = TaggedRoutes(records.connect, 0.0)
            assert not tagged.look(rolled.engine)
            assert records.opened == 0

    asyncio.run(test())


def test_it_is_not_asked_more_often_than_it_is_told(rolling, records, tmp_path):
    async def test():
        store = OciLayout(tmp_path / "mine")
        async with rolling(load=(), store=store, registry=records.connect, follow_seconds=1e4) as rolled:
            await rolled.engine.load(PRODUCTION)
            tagged = TaggedRoutes(records.connect, 1e6)
            records.tag(EVEN)
            assert await asyncio.to_thread(tagged.look, rolled.engine)
            records.tag(None)
            assert not await asyncio.to_thread(tagged.look, rolled.engine)
            tagged.close()

    asyncio.run(test())
