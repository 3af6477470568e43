"""Running the server: what it refuses to start with, where it listens, how it ends."""

from __future__ import annotations

import gc
import logging
import resource
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import or_, select

from vitrify.core.errors import DeniedError, MissingDependencyError, UsageError, VitrifyError
from vitrify.core.hosts import bracketed, is_loopback
from vitrify.registry.api.app import Application
from vitrify.registry.api.authentication import Doorkeeper
from vitrify.registry.api.content import content_routes
from vitrify.registry.api.listening import listen
from vitrify.registry.api.log import Log, LogHandler
from vitrify.registry.api.metrics import Metrics
from vitrify.registry.api.mlflow import routes as mlflow_routes
from vitrify.registry.api.operations import operation_routes
from vitrify.registry.api.pages import page_routes
from vitrify.registry.api.uploads import UploadRoutes
from vitrify.registry.database.schema import tokens
from vitrify.registry.webhooks import Sender

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from uvicorn import Config

    from vitrify.registry.api.routing import Route
    from vitrify.registry.local import LocalBackend
    from vitrify.registry.values import Role
    from vitrify.registry.webhooks import Network

_CONNECTIONS = 1000
_KEEP_ALIVE = 75
"""Seconds that an idle connection is kept: longer than the idle time of common proxies before us."""
_GRACE = 30
"""Seconds for requests that are being answered when the server is told to end."""
_PAUSE_SECONDS = 10
"""After a failure of the sender of webhooks."""
_MAKE_ONE = "make one on this machine: vitrify registry token create --who you --role admin"


@dataclass(frozen=True)
class Listening:
    """Where and how to listen.

    Attributes:
        certificate: PEM file of the certificate and its chain; with ``key`` the server speaks TLS.
        insecure: Whether plain HTTP may be spoken to other machines.
        anonymous: Roles of whoever has no token.
        webhook_networks: Private networks that events may be sent to.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    anonymous: tuple[Role, ...] = ()
    webhook_networks: tuple[Network, ...] = ()

    def check(self) -> None:
        """Refuse what would send tokens where others read them.

        Raises:
            UsageError: It would.
        """
        if (self.certificate is None) != (self.key is None):
            msg = "TLS needs a certificate and its key"
            raise UsageError(msg, remedy="give both: --tls-certificate FILE --tls-key FILE")
        if self.certificate is None and not self.insecure and not is_loopback(self.host):
            msg = f"plain HTTP on {self.host} sends tokens in the clear"
            raise UsageError(msg, remedy="give --tls-certificate and --tls-key; behind a proxy: --insecure-http")


def application(backend: LocalBackend, log: Log, anonymous: tuple[Role, ...] = ()) -> Application:
    """Return the ASGI application of a registry."""
    metrics = Metrics()
    return Application(backend, all_routes(backend, metrics), Doorkeeper(backend.database, anonymous), metrics, log)


def all_routes(backend: LocalBackend, metrics: Metrics) -> tuple[Route, ...]:
    """Return every route that there is; a test walks them."""
    return (
        *operation_routes(),
        *content_routes(),
        *UploadRoutes(backend).routes(),
        *page_routes(metrics),
        *mlflow_routes(),
    )


def serve(backend: LocalBackend, listening: Listening, *, ready: Callable[[str], None]) -> None:
    """Serve until the process is told to end (SIGTERM, SIGINT); what is being answered then is finished.

    Args:
        backend: The registry.
        listening: Where and how.
        ready: Called with the URL when it listens.

    Raises:
        UsageError: It would be unsafe, or cannot listen there.
        DeniedError: There is no token of an admin's, so that nobody could ever be let in.
        MissingDependencyError: The extra ``server`` is not installed.
    """
    listening.check()
    require_admin(backend)
    try:
        from uvicorn import Config, Server

        from vitrify.registry.api.protocol import BoundedProtocol
    except ImportError as error:
        msg = f"the server needs {error.name}"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[server]'") from error
    _allow_files()
    listener = listen(listening.host, listening.port)
    log = Log()
    app = application(backend, log, listening.anonymous)
    logging.getLogger("uvicorn").handlers[:] = [LogHandler(log)]
    config = Config(
        app,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    _load(config, listening)
    gc.freeze()  # what is here now stays: the collector need not look at it again
    # uvicorn raises the signal again when it has ended well: that must not kill what is left to do.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with _sending(backend, listening.webhook_networks, log):
            ready(_url(listening, listener))
            Server(config).run(sockets=[listener])
    finally:
        listener.close()
        app.close()
        log.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def require_admin(backend: LocalBackend) -> None:
    """Refuse a registry that no admin has a token for.

    Raises:
        DeniedError: There is none that counts.
    """
    alive = tokens.c.revoked.is_(None) & or_(tokens.c.expires.is_(None), tokens.c.expires > time.time_ns() // 1000)
    with backend.database.read() as connection:
        granted = connection.execute(select(tokens.c.roles).where(alive)).scalars().all()
    if not any("admin" in msgspec.json.decode(roles) for roles in granted):
        raise DeniedError("this registry has no token with the role admin, and no default password", remedy=_MAKE_ONE)


@contextmanager
def _sending(backend: LocalBackend, networks: tuple[Network, ...], log: Log) -> Iterator[None]:
    """Send events to webhooks while the block runs; of several servers, each event is sent by one."""
    sender = Sender(backend.database, networks)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            try:
                sender.run()
            except VitrifyError as error:  # what failed is tried again, and the server goes on meanwhile
                log.fault("webhooks", error)
                ended.wait(_PAUSE_SECONDS)

    thread = threading.Thread(target=run, name="vitrify-webhooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        sender.stop()
        thread.join(_GRACE)


def _allow_files() -> None:
    """Raise the number of files that may be open to what the connections need, as far as this user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS * 3
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _load(config: Config, listening: Listening) -> None:
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        msg = f"the certificate or its key cannot be used: {error.strerror or error}"
        raise UsageError(msg, remedy=f"check {listening.certificate} and {listening.key}") from error


def _url(listening: Listening, listener: socket.socket) -> str:
    scheme = "http" if listening.certificate is None else "https"
    return f"{scheme}://{bracketed(listening.host)}:{listener.getsockname()[1]}"
