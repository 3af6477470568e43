"""What the tests of the engine share: a shelf of sealed models, and engines that are closed when a test ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from served_models import multiplier

from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.models.opening import open_session
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A store that nobody writes to: ``m:1.0`` doubles, ``m:2.0`` trebles, ``liar`` promises what it does not do."""
    store = OciLayout(tmp_path_factory.mktemp("shelf"))
    multiplier(store, "m:1.0", 2)
    multiplier(store, "m:2.0", 3)
    multiplier(store, "other:latest", 5)
    multiplier(store, "liar:latest", 2, promised=7)
    return store


class Opened:
    """Opens sessions as the engine does, counts them, and can be told to wait."""

    def __init__(self):
        self.names = []
        self.closed = []
        self.fails = None

    def __call__(self, artifact, settings):
        if self.fails is not None:
            raise self.fails
        session = open_session(artifact, settings)
        self.names.append(artifact.name)
        close = session.close

        def closing():
            self.closed.append(artifact.name)
            close()

        session.close = closing
        return session


@pytest.fixture
def opened():
    return Opened()


@pytest.fixture
def serving(shelf, opened):
    """Return a context manager for an engine over the shelf."""

    @asynccontextmanager
    async def serving(**options):
        engine = ServingEngine(ThreadLane, **{"store": shelf, "open_session": opened, "drain_seconds": 20.0, **options})
        try:
            yield engine
        finally:
            await engine.close(20.0)

    return serving


async def until(true, seconds=60.0):
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.005)


@pytest.fixture(name="until")
def _until():
    return until
