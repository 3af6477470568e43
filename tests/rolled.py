"""A rollout over a real engine: ``m:1.0`` doubles, ``m:2.0`` and ``m:3.0`` treble; any of them can be made to fail."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import numpy as np
from served_models import multiplier

from vitrify.core.errors import ModelError
from vitrify.serve.clients import Clients
from vitrify.serve.lanes import Batching
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.models.opening import open_session
from vitrify.serve.planes.dispatch import Dispatcher
from vitrify.serve.planes.http_python import HttpServer
from vitrify.serve.protocols import admin
from vitrify.serve.rollout.applying import Applying
from vitrify.serve.rollout.rollout import Rollout
from vitrify.serve.settings import ModelSettings, ServerSettings, Settings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout

VERSIONS = ("1.0", "2.0", "3.0")
BATCHING = Batching(rows=8, delay_us=0)


def shelf(folder):
    """Return a store with the models."""
    store = OciLayout(folder)
    for version, factor in zip(VERSIONS, (2, 3, 3), strict=True):
        multiplier(store, f"m:{version}", factor)
    multiplier(store, "same:1.0", 2)
    multiplier(store, "liar:1.0", 2, promised=7)
    return store


class Ways:
    """How the versions behave: which fail, and how many seconds each takes, by the artifact's name."""

    def __init__(self):
        self.failing = set()
        self.seconds = {}

    def open(self, artifact, settings):
        session = open_session(artifact, settings)
        run, name = session.run_conformed, artifact.name

        def behaving(arrays):
            if name in self.failing:
                raise ModelError("it was told to fail")
            time.sleep(self.seconds.get(name, 0.0))
            return run(arrays)

        session.run_conformed = behaving
        return session


class Rolled:
    """An engine and its rollout."""

    def __init__(self, shelf, routes, state, **options):
        self.ways, self.pushed, self.said = Ways(), [], []
        self.rollout = Rollout(
            routes,
            changed=lambda model, weights: self.pushed.append((model, weights)),
            state=state,
            say=lambda event, **facts: self.said.append((event, facts)),
            fault=lambda id_, error: self.said.append((id_, repr(error))),
        )
        self.engine = ServingEngine(
            ThreadLane,
            choose=self.rollout.choose,
            watch=self.rollout.watch,
            open_session=self.ways.open,
            **{"store": shelf, "watch_ensembles": self.rollout.watch, **options},
        )
        self.rollout.attach(self.engine)

    async def load(self, *versions, model="m", **settings):
        for version in versions:
            await self.engine.load(ModelSettings(reference=f"{model}:{version}", batching=BATCHING, **settings))

    async def ask(self, count=1, *, keys=False, model="m", version=""):
        """Ask so often, and count the versions that answered; errors by their class's name."""
        rows = np.random.default_rng(count).normal(size=(count, 1, 4)).astype(np.float32)
        asked = (
            self.engine.infer(Infer(model, {"X": one}, version=version, key=f"user-{at}" if keys else ""))
            for at, one in enumerate(rows)
        )
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return Counter(type(one).__name__ if isinstance(one, Exception) else one.version for one in answers)

    @property
    def told(self):
        """What was decided, in order."""
        return [one.what for one in self.rollout.state.state.events]

    def start(self):
        """Start the threads, in whose loop this is."""
        loop = asyncio.get_running_loop()
        self.rollout.start(lambda request: asyncio.run_coroutine_threadsafe(self.engine.infer(request), loop))


class AdminServer:
    """The routes of administration over a socket, served by a thread, for whoever calls them from another one."""

    def __init__(self, store, clients=(), routes=None):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.faults = []
        self.rolled = Rolled(store, routes or {}, None)
        rollout, known = self.rolled.rollout, Clients(tuple(clients))
        self.run(self.rolled.load("1.0", "2.0"))
        self.dispatcher = Dispatcher(
            admin.routes(rollout, Applying(rollout, Settings()), known),
            fault=lambda id_, error: self.faults.append((id_, repr(error))),
        )
        self._server = HttpServer(ServerSettings(port=0), self.dispatcher, known)
        self.url = f"http://127.0.0.1:{self.run(self._server.start())}"

    def run(self, coroutine):
        """Run a coroutine in the server's loop, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(120)

    def close(self):
        """End everything that was begun."""
        self.run(self._server.stop(5))
        self.rolled.rollout.close(20)
        self.run(self.rolled.engine.close())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
