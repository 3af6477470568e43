"""The ASGI application: finds the route, asks who it is, reads the body, lets a thread answer, writes it down.

Nothing is open by accident: only a route whose role is None is reached without a token, and a path that leads nowhere
says so only to those who were let in.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from vitrify.core.errors import ReferenceNotFoundError, UnavailableError, UsageError, VitrifyError
from vitrify.registry.actor import Actor
from vitrify.registry.api.errors import answer_of, headers_of, said, status_of
from vitrify.registry.api.exchange import Exchange
from vitrify.registry.api.locating import MOST_TARGET, fields_of, segments_of
from vitrify.registry.api.routing import Answer, Call, Match, Router

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vitrify.registry.api.authentication import Doorkeeper
    from vitrify.registry.api.exchange import Message, Receive, Send
    from vitrify.registry.api.log import Log
    from vitrify.registry.api.metrics import Metrics
    from vitrify.registry.api.routing import Route
    from vitrify.registry.local import LocalBackend

_THREADS = 12
"""For requests; with the streams not many more than the database's connections, of which a stream needs few."""
_STREAMS = 16
_MOST_WAITING = 400
_MOST_STREAMS_WAITING = 48
_LARGE = 256 * 1024
_LARGE_AT_ONCE = 8
"""Bodies above ``_LARGE`` bytes that are in memory at once."""
_WAIT_SECONDS = 20.0
_FAULT = 500
_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")
_NOBODY = Actor("nobody", ())


class Application:
    """Answers HTTP with the routes it is given.

    Args:
        backend: The registry; each call gets it acting for whoever asks.
        routes: All of them.
        doorkeeper: Knows who asks.
    """

    def __init__(
        self, backend: LocalBackend, routes: Iterable[Route], doorkeeper: Doorkeeper, metrics: Metrics, log: Log
    ) -> None:
        """Answer nothing yet."""
        self.router = Router(routes)
        self.metrics = metrics
        self._backend = backend
        self._doorkeeper = doorkeeper
        self._log = log
        self._requests = _Pool(_THREADS, _MOST_WAITING, "request")
        self._streams = _Pool(_STREAMS, _MOST_STREAMS_WAITING, "stream")
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; see https://asgi.readthedocs.io/en/latest/specs/www.html."""
        if scope["type"] != "http":
            return
        start = time.perf_counter()
        exchange = Exchange(scope, receive, send)
        self.metrics.begin()
        try:
            await self._serve(exchange)
        finally:
            seconds = time.perf_counter() - start
            self.metrics.end(exchange.label, exchange.status, seconds, exchange.received, exchange.sent)
            self._log.say(
                "request",
                id=exchange.id,
                actor=exchange.actor,
                remote=exchange.remote,
                operation=exchange.label,
                method=exchange.method,
                path=exchange.path[:1000].decode("latin-1"),
                status=exchange.status,
                seconds=round(seconds, 6),
                received=exchange.received,
                sent=exchange.sent,
            )

    def close(self) -> None:
        """Wait for the threads."""
        self._requests.close()
        self._streams.close()

    async def _serve(self, exchange: Exchange) -> None:
        route: Route | None = None
        try:
            match = self._find(exchange)
            route = match.route if isinstance(match, Match) else None
            if route is None or route.role is not None:
                actor = await self._let_in(exchange)
                exchange.actor = actor.who
            else:
                actor = _NOBODY
            if isinstance(match, frozenset):
                await exchange.answer(_nowhere(exchange, match))
                return
            if match.route.role is not None:
                actor.require(match.route.role)
            answer = await self._answered(exchange, match, actor)
            await exchange.answer(answer)
            if not isinstance(answer.body, bytes):
                await self._streams.run(_pumped, exchange, answer.body)
        except Exception as error:  # noqa: BLE001 (the one boundary at which errors become statuses)
            await self._failed(exchange, route, error)

    def _find(self, exchange: Exchange) -> Match | frozenset[str]:
        if len(exchange.path) + len(exchange.query) > MOST_TARGET:
            msg = f"the URL has more than {MOST_TARGET} bytes"
            raise UsageError(msg)
        match = self.router.match(exchange.method, segments_of(exchange.path))
        if isinstance(match, Match):
            exchange.label = match.route.label
        return match

    async def _let_in(self, exchange: Exchange) -> Actor:
        header = exchange.headers.get("authorization", "")
        known = self._doorkeeper.known(header)
        return await self._requests.run(self._doorkeeper.ask, header) if known is None else known

    async def _answered(self, exchange: Exchange, match: Match, actor: Actor) -> Answer:
        route = match.route
        query = fields_of(exchange.query)
        call = Call(self._backend.acting(actor), match.path, query, exchange.headers, id=exchange.id)
        if route.streams:
            call.stream = exchange.pieces()
            return await self._streams.run(route.endpoint, call)
        declared = exchange.declared
        if declared is None or _LARGE < declared <= route.most:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._large.acquire()
            try:
                call.body = await exchange.body(route.most)
                return await self._requests.run(route.endpoint, call)
            finally:
                self._large.release()
        if declared:
            call.body = await exchange.body(route.most)
        return await self._requests.run(route.endpoint, call)

    async def _failed(self, exchange: Exchange, route: Route | None, error: Exception) -> None:
        if isinstance(error, TimeoutError):
            error = UnavailableError("the registry has too much to do", remedy="try again in a moment")
        status = status_of(error)
        if exchange.gone:
            exchange.status = 499
            return
        if status >= _FAULT and not (isinstance(error, UnavailableError) and error.__cause__ is None):
            self._log.fault(exchange.id, error)
        if exchange.begun:
            self._log.say("broken off", level="warning", id=exchange.id, error=type(error).__name__)
            return  # the server closes the connection: what was promised is not complete
        shown = said(error, status, exchange.id)
        if route is None or route.failed is None:
            await exchange.answer(answer_of(shown, status, exchange.id))
            return
        answer = route.failed(shown, status)
        answer.headers = {**headers_of(answer.status), **answer.headers}
        await exchange.answer(answer)


class _Pool:
    """Threads, and a bounded number of calls that wait for one."""

    def __init__(self, threads: int, most: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"vitrify-{name}")
        self._most = threads + most
        self._busy = 0

    async def run(self, function: Callable[[Unpack[_Arguments]], _Result], *arguments: *_Arguments) -> _Result:
        """Call it in a thread.

        Raises:
            UnavailableError: Too many wait already.
        """
        if self._busy >= self._most:
            raise UnavailableError("the registry has too much to do", remedy="try again in a moment")
        self._busy += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        finally:
            self._busy -= 1

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _pumped(exchange: Exchange, body: Any) -> None:
    try:
        if exchange.method != "HEAD":
            exchange.pump(body)
    finally:
        if (close := getattr(body, "close", None)) is not None:
            close()


def _nowhere(exchange: Exchange, methods: frozenset[str]) -> Answer:
    if methods:
        error: VitrifyError = UsageError(
            f"{exchange.method} is not what can be done there", remedy=f"use {' or '.join(sorted(methods))}"
        )
        answer = answer_of(error, 405, exchange.id)
        answer.headers["allow"] = ", ".join(sorted(methods))
        return answer
    error = ReferenceNotFoundError("no such path", remedy="see /openapi.json for the paths")
    return answer_of(error, 404, exchange.id)
