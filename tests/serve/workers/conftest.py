"""What the tests of workers share: sealed models, and sessions that are closed when a test ends."""

from __future__ import annotations

import threading
import time

import pytest
from rogue_models import rogue_settings, seal_rogue, seal_sum
from served_models import multiplier

from vitrify.artifacts.artifact import open_artifact
from vitrify.serve.workers import open_session
from vitrify.serve.workers.keeping import Restarts
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A store that nobody writes to, but for what users have trusted."""
    store = OciLayout(tmp_path_factory.mktemp("shelf"))
    seal_rogue(store)
    seal_rogue(store, "counter", "count")
    seal_sum(store)
    multiplier(store, "m", 2)
    return store


@pytest.fixture
def opened(shelf):
    """Return a function that opens a session as the server does."""
    sessions = []

    def opened(name="rogue", function="predict", **more):
        settings = rogue_settings(name, function, **more)
        sessions.append(open_session(open_artifact(name, store=shelf), settings))
        return sessions[-1]

    yield opened
    for session in sessions:
        session.close()


class Held:
    """Restarts of workers, each of which waits until a test lets it."""

    fail = None

    def __init__(self):
        self._go = threading.Semaphore(0)
        self.let, self.until = self._go.release, until

    def hold(self, session):
        start = session._kept._start

        def held():
            assert self._go.acquire(timeout=60)
            if self.fail is not None:
                raise self.fail
            return start()

        session._kept._start = held


@pytest.fixture
def held(monkeypatch):
    """Let two ends in a row be too many, and nothing start again by itself."""
    eager = Restarts(most=2, first=1e-3, longest=1e-3)
    monkeypatch.setattr("vitrify.serve.workers.session.Restarts", lambda: eager)
    return Held()


def until(true, seconds=60.0):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.005)


@pytest.fixture(name="until")
def _until():
    return until
