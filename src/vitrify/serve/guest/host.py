"""Host: one artifact behind the engine, in an event loop of its own, for servers that call from their own threads."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from vitrify.registry.api.log import Log
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.planes.dispatch import Dispatcher
from vitrify.serve.protocols import oip_rest
from vitrify.serve.settings import ModelSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Collection
    from concurrent.futures import Future
    from pathlib import Path

    from vitrify.serve.models import Served
    from vitrify.serve.values import Infer, Reply
    from vitrify.serve.web import Answer, Call

_END_SECONDS = 30.0


class Host:
    """One model that is loaded and proven.

    Args:
        settings: Which, and how; never lazy.

    Attributes:
        served: What it is.
    """

    def __init__(self, settings: ModelSettings) -> None:
        """Load it.

        Raises:
            VitrifyError: It cannot be served; nothing of it stays behind.
        """
        self._log = Log()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vitrify-guest", daemon=True)
        self._thread.start()
        self._engine = ServingEngine(ThreadLane, drain_seconds=_END_SECONDS)
        self._closed = False
        try:
            self.served: Served = self._submit(self._engine.load(settings)).result()
        except BaseException:
            self.close()
            raise
        routes = oip_rest.routes(self._engine, _nobody)  # what is served is the other server's to say
        self._dispatch = Dispatcher(routes, fault=self._log.fault)

    def infer(self, request: Infer) -> Future[Reply]:
        """Answer a request; it ends with the reply, or with the error that the engine names."""
        return self._submit(self._engine.infer(request))

    def answer(self, call: Call) -> Future[Answer]:
        """Answer a call of the Open Inference Protocol; it never raises."""
        return self._submit(self._dispatch(call))

    async def pieces(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the pieces of a streamed answer, which are made in the host's loop, in the caller's."""
        try:
            while (piece := await asyncio.wrap_future(self._submit(anext(body, None)))) is not None:
                yield piece
        finally:
            if (end := getattr(body, "aclose", None)) is not None:  # the caller may have gone in the middle
                self._submit(end())

    def ready(self) -> bool:
        """Say whether the model answers."""
        return self._engine.served(self.served.name, self.served.version).state == "READY"

    def close(self) -> None:
        """Answer what was taken, and let go of the model."""
        if self._closed:
            return
        self._closed = True
        self._submit(self._engine.close(_END_SECONDS)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._log.close()

    def _submit(self, work: Awaitable[Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop)


def settings_of(place: Path, name: str, version: str, allow: Collection[str]) -> ModelSettings:
    """Return how the artifact in a layout is served."""
    return ModelSettings(reference=str(place.absolute()), name=name, version=version, allow=tuple(allow))


def _nobody(client: str) -> bool:
    """Whether a client may change what is served."""
    del client
    return False


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work
