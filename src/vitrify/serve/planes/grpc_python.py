"""gRPC in Python: the server of grpcio. It is the native plane's fallback and reference.

Messages are bytes here; the protocols know what is in them. A call is let in before its message is read; a message is
bounded before it is taken, and so are the connections, the calls a connection, and what a client may ping.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import BusyError, MalformedError, MissingDependencyError, UsageError
from vitrify.core.hosts import bracketed
from vitrify.registry.api.listening import listen
from vitrify.serve.faults import INTERNAL, codes, said
from vitrify.serve.observe import heard
from vitrify.serve.planes._certified import of_grpc
from vitrify.serve.planes.dispatch import request_id
from vitrify.serve.planes.http_python import deadline_of
from vitrify.serve.rpc import RpcCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from vitrify.serve.clients import Clients
    from vitrify.serve.rpc import Method
    from vitrify.serve.settings import ServerSettings

    Fault = Callable[[str, BaseException], None]
    Seen = Callable[[RpcCall, str, int, float, int], None]

STREAMS = 256
"""Calls at a time, a connection."""
CALLS = 4
"""Calls at a time in all, for each connection that there may be; one more is refused at once."""
LONGEST_TEXT = 4096
"""Bytes of a status' text on the wire: all of a call's last metadata has to fit into 8 KiB."""
RETRY_AFTER = "retry-after"
REQUEST_ID = "x-request-id"
TIMEOUT = "x-request-timeout-ms"
"""Metadata that means what the header of REST means; of two deadlines the earlier counts."""

_PING_SECONDS = 10.0
"""A client may ping so often; one that pings more is sent away."""
_LEAST_SECONDS = 0.05
"""A server that has nothing to do needs so long to say that it has ended."""
_CANCELLED, _OK = 1, 0


class GrpcServer:
    """A server of gRPC.

    Args:
        settings: Where and how to listen, and what bounds a message.
        methods: What is answered.
        clients: Lets in.
        fault: Told what went wrong on our side: the request's id and the error.
        begun: Told of each call, in the task that answers it, before anything else.
        seen: Told of each call that has ended, in the same task: the call, the request's id, the gRPC status, the
            seconds that it took, and the bytes that were answered.
    """

    def __init__(
        self,
        settings: ServerSettings,
        methods: Iterable[Method],
        clients: Clients,
        *,
        fault: Fault,
        begun: Callable[[RpcCall], None] = lambda _call: None,
        seen: Seen | None = None,
    ) -> None:
        """Listen on nothing yet."""
        self._settings = settings
        self._methods = {method.path: method for method in methods}
        self._clients = clients
        self._fault = fault
        self._begun, self._seen = begun, seen
        self._server: Any = None
        self._draining = asyncio.Event()

    async def start(self) -> int:
        """Listen, and return the port.

        Raises:
            UsageError: It cannot listen there, or the certificate cannot be used.
            MissingDependencyError: The extra ``serve`` is not installed.
        """
        grpc = _library()
        calls = CALLS * self._settings.connections
        server = grpc.aio.server(options=_options(self._settings), maximum_concurrent_rpcs=calls)
        server.add_generic_rpc_handlers((_handlers(self),))
        # A socket of ours first: it says in words why an address cannot be used, and finds a port that is free.
        with contextlib.closing(listen(self._settings.host, self._settings.grpc_port, shared=True)) as reserved:
            port: int = reserved.getsockname()[1]
            address = f"{bracketed(self._settings.host)}:{port}"
            try:
                credentials = _credentials(self._settings)
                if credentials is None:
                    server.add_insecure_port(address)
                else:
                    server.add_secure_port(address, credentials)
                await server.start()
            except RuntimeError as error:
                msg = f"cannot listen on {address}"
                raise UsageError(msg, remedy="choose another host or port, or check the certificate") from error
        self._server = server
        return port

    async def stop(self, seconds: float) -> bool:
        """Take no call more; return whether all that was accepted was answered within so many seconds."""
        if self._server is None:
            return True
        self._draining.set()
        patience = max(seconds, _LEAST_SECONDS)
        ending = asyncio.create_task(self._server.stop(2 * patience))
        in_time, _ = await asyncio.wait({ending}, timeout=patience)
        if not in_time:
            await self._server.stop(None)
        await ending
        return bool(in_time)

    def find(self, path: str) -> Method | None:
        """Return the method at a path."""
        return self._methods.get(path)

    async def answer(self, method: Method, received: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Answer one call: yield what is sent, or end it with the status of its error."""
        began = time.monotonic()
        call = _call(method.path, context)
        id_ = request_id(call.metadata.get(REQUEST_ID, ""))
        status, size = _CANCELLED, 0
        self._begun(call)
        try:
            async with contextlib.AsyncExitStack() as stack:
                if not method.open:
                    entered = self._clients.enter(call.metadata.get("authorization", ""), of_grpc(context))
                    call.client = stack.enter_context(entered)
                context.set_trailing_metadata(((REQUEST_ID, id_),))
                answers = await stack.enter_async_context(contextlib.aclosing(self._answers(method, call, received)))
                async for message in answers:
                    size += len(message)
                    yield message
            status = _OK
        except Exception as error:  # noqa: BLE001 (the boundary: nothing of ours goes to a client)
            heard.failed(error)
            status = codes(error)[1]
            if status == INTERNAL:
                self._fault(id_, error)
            await _abort(context, error, status, id_)
        finally:
            if self._seen is not None:
                self._seen(call, id_, status, time.monotonic() - began, size)

    async def _answers(
        self, method: Method, call: RpcCall, received: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        if method.streaming is not None:
            async with contextlib.AsyncExitStack() as stack:
                incoming = await stack.enter_async_context(contextlib.aclosing(self._until_drained(received)))
                answers = method.streaming(call, incoming)
                if isinstance(answers, AsyncGenerator):  # what it has begun ends now, not when it is collected
                    stack.push_async_callback(answers.aclose)
                async for message in answers:
                    yield message
            return
        assert method.unary is not None, method.path
        call.message = await _only(received, self._settings.body_seconds)
        yield await method.unary(call)

    async def _until_drained(self, received: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield what a caller sends until it ends, or this server drains: then it gets its answers and no more."""
        messages = aiter(received)
        drained = asyncio.create_task(self._draining.wait())
        following = asyncio.create_task(_next(messages))
        try:
            while True:
                await asyncio.wait({following, drained}, return_when=asyncio.FIRST_COMPLETED)
                if not following.done() or (message := following.result()) is None:
                    return
                yield message
                following = asyncio.create_task(_next(messages))
        finally:
            for task in (following, drained):
                task.cancel()
            await asyncio.gather(following, drained, return_exceptions=True)


async def _next(messages: AsyncIterator[bytes]) -> bytes | None:
    return await anext(messages, None)


async def _only(received: AsyncIterator[bytes], seconds: float) -> bytes:
    """Return the one message of a call.

    Raises:
        MalformedError: There is none, or more than one, or it does not come.
    """
    only: bytes | None = None
    try:
        async with asyncio.timeout(seconds):
            async for message in received:
                if only is not None:
                    raise MalformedError("the call has more than one message")
                only = message
    except TimeoutError:
        msg = f"the message did not come within {seconds:g} s"
        raise MalformedError(msg) from None
    if only is None:
        raise MalformedError("the call has no message")
    return only


def _call(path: str, context: Any) -> RpcCall:
    metadata = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
    remaining = context.time_remaining()
    own = deadline_of(metadata.get(TIMEOUT, ""))
    deadline = own if remaining is None else min(own, time.monotonic() + remaining)
    return RpcCall(path, metadata=metadata, deadline=deadline)


async def _abort(context: Any, error: Exception, status: int, id_: str) -> None:
    grpc = _library()
    trailing = [(REQUEST_ID, id_)]
    if isinstance(error, BusyError):
        trailing.append((RETRY_AFTER, str(max(1, round(error.retry_after)))))
    code = next(one for one in grpc.StatusCode if one.value[0] == status)
    await context.abort(code, _cut(said(error, id_)), tuple(trailing))


def _cut(text: str) -> str:
    """Return as much of a text as may travel: a byte that is no printable ASCII takes three, as ``%C3``."""
    data = text.encode()[:LONGEST_TEXT]
    sizes = accumulate(1 if 32 <= byte < 127 and byte != ord("%") else 3 for byte in data)  # noqa: PLR2004
    return data[: sum(size <= LONGEST_TEXT for size in sizes)].decode(errors="ignore")


def _handlers(server: GrpcServer) -> Any:
    grpc = _library()

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc, name-defined]
        """Takes every call as a stream of messages, so that its client is known before any of them is read."""

        def service(self, details: Any) -> Any:
            method = server.find(details.method)
            if method is None:
                return None  # UNIMPLEMENTED, as the library says it
            return grpc.stream_stream_rpc_method_handler(partial(server.answer, method))

    return Handlers()


def _options(settings: ServerSettings) -> list[tuple[str, int]]:
    """Return the channel arguments: https://grpc.github.io/grpc/core/group__grpc__arg__keys.html."""
    idle = max(1000, round(settings.idle_seconds * 1000))
    return [
        ("grpc.max_receive_message_length", settings.body),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", STREAMS),
        ("grpc.max_allowed_incoming_connections", settings.connections),
        ("grpc.so_reuseport", 1),
        ("grpc.server_handshake_timeout_ms", max(1000, round(settings.head_seconds * 1000))),
        ("grpc.max_connection_idle_ms", idle),
        ("grpc.keepalive_time_ms", idle),
        ("grpc.keepalive_timeout_ms", max(1000, round(settings.head_seconds * 1000))),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", round(_PING_SECONDS * 1000)),
    ]


def _credentials(settings: ServerSettings) -> Any:
    """Return TLS as the settings say; None for none."""
    if not settings.certificate:
        return None
    try:
        chain, key = Path(settings.certificate).read_bytes(), Path(settings.key).read_bytes()
        authority = Path(settings.client_authority).read_bytes() if settings.client_authority else None
    except OSError as error:
        msg = f"the certificate, its key or the clients' authority cannot be read: {error.strerror or error}"
        raise UsageError(msg, remedy=f"check {settings.certificate} and {settings.key}") from error
    return _library().ssl_server_credentials([(key, chain)], authority, authority is not None)


def _library() -> Any:
    try:
        import grpc  # type: ignore[import-untyped]
        import grpc.aio  # type: ignore[import-untyped]
    except ImportError as error:
        msg = f"serving over gRPC in Python needs {error.name}"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[serve]'") from error
    return grpc
