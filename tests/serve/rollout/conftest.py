"""What the tests of the rollout share: a shelf of models, and rollouts that are closed when a test ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
import rolled as rolled_
from applied import File

from vitrify.serve.clients import Clients
from vitrify.serve.rollout.applying import Applying
from vitrify.serve.rollout.state import StateFile
from vitrify.serve.settings_file import read


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A store that nobody writes to."""
    return rolled_.shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def rolling(shelf):
    """Return a context manager for a rollout over an engine over the shelf."""

    @asynccontextmanager
    async def rolling(routes=None, state=None, load=("1.0", "2.0"), **options):
        rolled = rolled_.Rolled(shelf, routes or {}, state, **{"drain_seconds": 20.0, **options})
        try:
            await rolled.load(*load)
            yield rolled
        finally:
            await asyncio.to_thread(rolled.rollout.close, 20.0)
            await rolled.engine.close(20.0)

    return rolling


@pytest.fixture
def file(tmp_path):
    return File(tmp_path / "serve.toml")


@pytest.fixture
def applied(rolling, file):
    """Return a context manager for a rollout whose settings come from the file."""

    @asynccontextmanager
    async def applied(state="", more=(), ticking=False, check=lambda settings: None, **options):
        settings = read(file.path)
        settings = settings.replace(models=(*settings.models, *more))
        async with rolling(settings.routes, StateFile(state), load=(), **options) as rolled:
            rolled.clients = Clients(settings.clients)
            rolled.applying = Applying(
                rolled.rollout,
                settings,
                source=str(file.path),
                clients=rolled.clients,
                check=check,
                say=lambda event, **facts: rolled.said.append((event, facts)),
                fault=lambda id_, error: rolled.said.append((id_, repr(error))),
            )
            if not ticking:
                rolled.applying._ticking.start = lambda: None
            try:
                for error in await rolled.engine.start(rolled.applying.first):
                    raise error
                await rolled.applying.start()
                yield rolled
            finally:
                await asyncio.to_thread(rolled.applying.close, 20.0)

    return applied


async def until(true, seconds=60.0):
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.005)


@pytest.fixture(name="until")
def _until():
    return until
