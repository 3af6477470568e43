"""What the tests of the rollout share: a shelf of models, and rollouts that are closed when a test ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
import rolled as rolled_


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


async def until(true, seconds=60.0):
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.005)


@pytest.fixture(name="until")
def _until():
    return until
