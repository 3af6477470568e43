"""REST in Python: uvicorn with httptools. It is the native plane's fallback and reference.

Everything is bounded before it is taken: the head by the protocol, the body by its declared length and by what comes,
the time for each, the connections in all.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
import time
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from vitrify.core.errors import LimitExceededError, MalformedError, MissingDependencyError, UsageError, VitrifyError
from vitrify.registry.api.listening import listen
from vitrify.serve.planes._certified import of_ssl
from vitrify.serve.web import Call

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from uvicorn import Config, Server

    from vitrify.serve.clients import Clients
    from vitrify.serve.planes.dispatch import Dispatcher
    from vitrify.serve.settings import ServerSettings
    from vitrify.serve.web import Answer

    Message = dict[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

_CODINGS = {"gzip": 31, "deflate": 47}
"""The window's bits that zlib wants for a content coding: 47 takes the zlib wrapper and gzip's."""
_LONGEST_NUMBER = 18
_TIMEOUT = "x-request-timeout-ms"
_CERTIFIED = "certified"
"""Where the state of a request's scope has the name in its connection's certificate."""


class HttpApp:
    """The ASGI application.

    Args:
        dispatcher: Answers.
        clients: Lets in.
        settings: What bounds a body.

    Attributes:
        lost: How many requests were given up because the server ended.
    """

    def __init__(self, dispatcher: Dispatcher, clients: Clients, settings: ServerSettings) -> None:
        """Keep them."""
        self._dispatcher = dispatcher
        self._clients = clients
        self._settings = settings
        self.lost = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", scope["type"]
        call, began = _call(scope), time.monotonic()
        try:
            async with contextlib.AsyncExitStack() as stack:
                if not self._dispatcher.is_open(call.method, call.path):
                    entered = self._clients.enter(
                        call.headers.get("authorization", ""), scope.get("state", {}).get(_CERTIFIED, "")
                    )
                    call.client = stack.enter_context(entered)
                call.body = await self._body(call, receive)
                await _send(call, await self._dispatcher(call), send)
        except asyncio.CancelledError:  # the server ends, and this took too long
            self.lost += 1
            raise
        except VitrifyError as error:
            answer = self._dispatcher.refused(call, error, began)
            answer.headers["connection"] = "close"  # its body was not read
            await _send(call, answer, send)

    async def _body(self, call: Call, receive: Receive) -> bytes:
        """Return the whole body, decompressed.

        Raises:
            LimitExceededError: It is longer than the settings allow.
            MalformedError: It is not what its head says, or does not come.
        """
        most = self._settings.body
        length = call.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= _LONGEST_NUMBER):
            msg = "the length of the body is no number"
            raise MalformedError(msg)
        if int(length) > most:
            raise _too_long(most)
        gathered = bytearray()
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        msg = "the client has left"
                        raise MalformedError(msg)
                    gathered += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(gathered) > most:
                        raise _too_long(most)
        except TimeoutError:
            msg = f"the body did not come within {self._settings.body_seconds:g} s"
            raise MalformedError(msg) from None
        return decoded(bytes(gathered), call.headers.get("content-encoding", ""), most)


def decoded(body: bytes, coding: str, most: int) -> bytes:
    """Return a body without its content coding, at most ``most`` bytes of it.

    Raises:
        LimitExceededError: It is longer.
        MalformedError: It is not of that coding, or nobody here knows it.
    """
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return body
    if coding not in _CODINGS:
        msg = f"the body's content-encoding is {coding[:40]!r}; this server takes gzip, deflate, or none"
        raise MalformedError(msg)
    decoder = zlib.decompressobj(_CODINGS[coding])
    try:
        plain = decoder.decompress(body, most + 1)
    except zlib.error as error:
        msg = f"the body is no {coding}: {error}"
        raise MalformedError(msg) from error
    if len(plain) > most or decoder.unconsumed_tail:
        raise _too_long(most)
    if not decoder.eof:
        msg = f"the body's {coding} is cut off"
        raise MalformedError(msg)
    return plain


class HttpServer:
    """A server of REST.

    Args:
        settings: Where and how to listen.
        dispatcher: Answers.
        clients: Lets in.
    """

    def __init__(self, settings: ServerSettings, dispatcher: Dispatcher, clients: Clients) -> None:
        """Listen on nothing yet."""
        self._settings = settings
        self._app = HttpApp(dispatcher, clients, settings)
        self._server: Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    async def start(self) -> int:
        """Listen, and return the port.

        Raises:
            UsageError: It cannot listen there, or the certificate cannot be used.
            MissingDependencyError: The extra ``serve`` is not installed.
        """
        listening = asyncio.Event()
        server = _server(self._app, self._settings, listening)
        self._listener = listen(self._settings.host, self._settings.port, shared=True)
        self._server = server
        self._task = asyncio.create_task(server.serve(sockets=[self._listener]))
        await listening.wait()
        port: int = self._listener.getsockname()[1]
        return port

    async def stop(self, seconds: float) -> bool:
        """Take no connection more; return whether all that was accepted was answered within so many seconds."""
        if self._server is None or self._task is None:
            return True
        self._server.config.timeout_graceful_shutdown = max(1, math.ceil(seconds))
        self._server.should_exit = True
        await self._task
        if self._listener is not None:
            self._listener.close()
        return not self._app.lost


def _server(app: HttpApp, settings: ServerSettings, listening: asyncio.Event) -> Server:
    try:
        from uvicorn import Config, Server

        from vitrify.registry.api.protocol import BoundedProtocol
    except ImportError as error:
        msg = f"serving over HTTP in Python needs {error.name}"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[serve]'") from error

    class Protocol(BoundedProtocol):
        head_seconds = settings.head_seconds
        certified = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.certified = of_ssl(transport.get_extra_info("ssl_object"))

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["state"][_CERTIFIED] = self.certified

    class Quiet(Server):
        """A server that leaves the process's signals to whoever runs it."""

        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.set()

    config = Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=settings.connections,
        timeout_keep_alive=max(1, round(settings.idle_seconds)),
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.key or None,
        ssl_ca_certs=settings.client_authority or None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if settings.client_authority else ssl.CERT_NONE,
    )
    _load(config, settings)
    return Quiet(config)


def _load(config: Config, settings: ServerSettings) -> None:
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        msg = f"the certificate, its key or the clients' authority cannot be used: {error.strerror or error}"
        raise UsageError(msg, remedy=f"check {settings.certificate} and {settings.key}") from error


def _call(scope: Message) -> Call:
    headers: dict[str, str] = {}
    for raw, data in scope["headers"]:
        name, value = raw.decode("latin-1"), data.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    path = unquote(raw_path.partition(b"?")[0].decode("latin-1"), errors="replace")
    deadline = deadline_of(headers.get(_TIMEOUT, ""))
    return Call(scope["method"], path, query, headers, id=headers.get("x-request-id", ""), deadline=deadline)


def deadline_of(milliseconds: str) -> float:
    """Return the deadline that ``X-Request-Timeout-Ms`` sets, by ``time.monotonic()``; none for what is no number."""
    if milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) <= _LONGEST_NUMBER:
        return time.monotonic() + int(milliseconds) / 1000
    return math.inf


async def _send(call: Call, answer: Answer, send: Send) -> None:
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in answer.headers.items()]
    body = answer.body
    if isinstance(body, bytes):
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if call.method == "HEAD" else body})
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    async for piece in body:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


def _too_long(most: int) -> LimitExceededError:
    msg = f"the body has more than {most} bytes"
    return LimitExceededError(msg, remedy="send fewer rows at a time, or raise the server's setting body")
