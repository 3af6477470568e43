"""The server: joins the engine, the protocols and a plane, and runs until it is told to end.

Told to end (SIGTERM, SIGINT), it says that it is not ready, takes no connection more, answers what it has accepted,
lets the models go, and returns.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import UsageError
from vitrify.core.hosts import bracketed, is_loopback
from vitrify.serve.clients import Clients
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.observe.deployments import Deployments
from vitrify.serve.observe.observer import Observer
from vitrify.serve.planes import House, choose_plane
from vitrify.serve.planes.dispatch import Dispatcher
from vitrify.serve.protocols import admin, pages
from vitrify.serve.rollout.applying import Applying
from vitrify.serve.rollout.recorded import RecordedEngine
from vitrify.serve.rollout.rollout import Rollout
from vitrify.serve.rollout.state import StateFile
from vitrify.serve.rollout.tagged import TaggedRoutes
from vitrify.serve.speaking import methods, routes
from vitrify.serve.workers import open_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.registry.api.log import Log
    from vitrify.registry.registry import Registry
    from vitrify.serve.settings import Settings
    from vitrify.stores.oci_layout import OciLayout

_SETTLE = 5.0
"""Seconds for what is just being changed."""


@dataclass(frozen=True)
class Listening:
    """Where a server listens.

    Attributes:
        http: URL of REST; empty where it has none.
        grpc: ``host:port`` of gRPC; likewise.
        plane: Which plane moves the bytes.
    """

    http: str
    grpc: str
    plane: str


def check(settings: Settings) -> None:
    """Refuse settings that are unsafe or mean nothing.

    Raises:
        UsageError: They are.
    """
    server = settings.server
    if bool(server.certificate) != bool(server.key):
        msg = "TLS needs a certificate and its key"
        raise UsageError(msg, remedy="set both: certificate and key")
    if server.client_authority and not server.certificate:
        msg = "clients can only be asked for certificates over TLS"
        raise UsageError(msg, remedy="set certificate and key, too")
    if nameless := [one.name for one in settings.clients if not one.token_sha256 and not server.client_authority]:
        msg = f"client {nameless[0]!r} has no token, and nothing here asks for certificates"
        raise UsageError(msg, remedy="set its token_sha256; or client_authority, and its certificate's name is its own")
    if server.port < 0 and server.grpc_port < 0:
        raise UsageError("neither REST nor gRPC is served", remedy="leave one of port and grpc_port at 0 or more")
    if is_loopback(server.host) or server.insecure:
        return
    if not server.certificate:
        msg = f"plain HTTP on {server.host} sends tokens and data in the clear"
        raise UsageError(msg, remedy="set certificate and key; behind a proxy or in a private network: --insecure-http")
    if not settings.clients and not server.client_authority:
        msg = f"on {server.host} everybody could ask: there are no clients with tokens, and no clients' authority"
        raise UsageError(msg, remedy="add [[clients]], or client_authority; to serve everybody: --insecure-http")


class Server:
    """One process of a server.

    Args:
        settings: What to serve, and where.
        log: What it says.
        source: The file of the settings, which is read again when it changes; None for none.
        store: Where artifacts are; by default the user's store.
    """

    def __init__(
        self, settings: Settings, log: Log, source: str | None = None, *, store: OciLayout | None = None
    ) -> None:
        """Open nothing yet.

        Raises:
            UsageError: The settings are unsafe or mean nothing.
        """
        check(settings)
        self.settings = settings
        self.log = log
        self.clients = Clients(settings.clients, trusting=is_loopback(settings.server.host))
        self.plane = choose_plane(settings.server)
        self.observer = Observer(settings.server, self.plane, say=log.say)
        state = StateFile(settings.server.state)
        state.require_writable()
        self.rollout = Rollout(
            settings.routes,
            changed=self.plane.weigh,
            state=state,
            say=log.say,
            fault=log.fault,
        )
        self.engine = ServingEngine(
            self.plane.lane,
            store=store,
            memory=settings.server.memory,
            choose=self.rollout.choose,
            watch=self.observer.watching(self.rollout.watch),
            watch_ensembles=self.rollout.watch,  # the log of predictions has what their models were asked
            answered=self.observer.answered,
            open_session=open_session,
            drain_seconds=settings.server.drain_seconds,
        )
        self.rollout.attach(self.engine)
        self.observer.attach(self.engine)
        self.deployments = Deployments(settings.server.deployment, _registry, log.say)
        self.applying = Applying(
            self.rollout,
            settings,
            source=source,
            clients=self.clients,
            tagged=TaggedRoutes(_registry, say=log.say),
            check=check,
            say=log.say,
            fault=log.fault,
        )

    async def run(self, ready: Callable[[Listening], None]) -> bool:
        """Serve until the process is told to end; return whether everything that was accepted was answered.

        Args:
            ready: Called when it listens and every model that is not lazy is ready.

        Raises:
            VitrifyError: It cannot listen, or a model cannot be served.
        """
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        if self.observer.access is not None:
            loop.add_signal_handler(signal.SIGHUP, self.observer.access.reopen)
        try:
            return await self.until(ended, ready)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _listen(self) -> Listening:
        server = self.settings.server
        engine = RecordedEngine(self.engine, self.applying)
        observer = self.observer
        more = (
            *admin.routes(self.rollout, self.applying, self.clients),
            *pages.routes(self.engine, observer, shares=self.rollout.shares, events=self._events),
        )
        spoken_http = routes(engine, self.clients, more)
        dispatcher = Dispatcher(spoken_http, fault=self.log.fault, begun=observer.begun, seen=observer.seen)
        spoken = {method.path: method for method in methods(engine, self.clients)}
        house = House(
            server,
            dispatcher,
            spoken,
            self.clients,
            self.log.fault,
            begun=observer.begun,
            seen=observer.seen_rpc,
            traces=observer.traces,
        )
        http, grpc = await self.plane.start(house)
        host = bracketed(server.host)
        scheme = "https" if server.certificate else "http"
        return Listening(
            f"{scheme}://{host}:{http}" if http >= 0 else "", f"{host}:{grpc}" if grpc >= 0 else "", self.plane.name
        )

    async def until(self, ended: asyncio.Event, ready: Callable[[Listening], None]) -> bool:
        """Serve until an event is set; otherwise as :meth:`run`."""
        server = self.settings.server
        began = time.monotonic()
        try:
            listening = await self._listen()
            for error in await self.engine.start(self.applying.first):
                raise error
            await self.applying.start()
            loop = asyncio.get_running_loop()
            self.rollout.start(lambda request: asyncio.run_coroutine_threadsafe(self.engine.infer(request), loop))
            if server.deployment and self.observer.process in {"", "0"}:  # several processes are one server
                self.deployments.start(self.engine.index)
            gc.freeze()  # what is here now stays: the collector need not look at it again
            self.log.say("ready", seconds=round(time.monotonic() - began, 3), http=listening.http, grpc=listening.grpc)
            ready(listening)
            await ended.wait()
        finally:
            self.log.say("draining")
            await asyncio.to_thread(self._settle)
            orderly = await self.plane.stop(server.drain_seconds)
            await self.engine.close(server.drain_seconds)
            await asyncio.to_thread(self.deployments.close, _SETTLE)
            await asyncio.to_thread(self.observer.close)
            self.log.say("ended", orderly=orderly)
        return orderly

    def _events(self) -> tuple[dict[str, Any], ...]:
        return tuple(msgspec.to_builtins(event) for event in self.rollout.state.state.events)

    def _settle(self) -> None:
        """Change nothing more."""
        self.applying.close(_SETTLE)
        self.rollout.close(_SETTLE)


def _registry() -> Registry:
    from vitrify.registry import open_registry

    return open_registry(create=False)
