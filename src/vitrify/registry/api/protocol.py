"""HTTP/1.1 on the socket, with the bounds that uvicorn leaves open: how long and how large a request's head may be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS = 15.0
"""From the connection, or from a head's first byte, to its end: who is slower is a slow-loris, or as good as one."""
MOST_HEAD = 64 * 1024
"""Bytes of a request line with its headers."""
_MOST_WAITING = 256 * 1024
"""Bytes of a body that wait for whoever reads it, of each connection."""
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\ncontent-length: 33\r\n"
    b"connection: close\r\n\r\nthe request's head is too large.\n"
)


_CHANGE = frozenset({b"connection", b"http2-settings", b"upgrade"})
"""What a client says beside a wish for another protocol."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    head_seconds = HEAD_SECONDS
    _head_task: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0
    _received = b""
    _again = b""

    def connection_made(self, transport: Any) -> None:
        """Start the clock."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of a head."""
        while data:
            if self._in_head:
                self._head_bytes += len(data)
            self._received, self._again = data, b""
            super().data_received(data)
            data = self._again
        self._received = b""
        if self._in_head and self._head_bytes > MOST_HEAD and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """Start the clock for one more head."""
        super().on_message_begin()
        if not self._in_head:
            self._in_head, self._head_bytes = True, 0
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Stop the clock."""
        if self._would_change():
            return
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Let more of a body wait than uvicorn does: to stop and go on reading is what costs most of a large one."""
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > _MOST_WAITING:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Let the answer begin, except where the parser has ended a message before its body."""
        if not self._would_change():
            super().on_message_complete()

    def _would_change(self) -> bool:
        """Whether the client would rather speak something else, as Java's does of HTTP/2: the parser then stops."""
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request that would rather be another protocol's as what it is (RFC 9110, 7.8): read it again."""
        stopped = sys.exc_info()[1]
        if not self._would_change() or not isinstance(stopped, httptools.HttpParserUpgrade):
            return
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        kept = [b"%s: %s" % field for field in self.headers if field[0] not in _CHANGE]
        if any(name == b"connection" and b"close" in value.lower() for name, value in self.headers):
            kept.append(b"connection: close")
        rest = self._received[stopped.args[0] :]
        self.parser = httptools.HttpRequestParser(self)
        self._in_head, self._head_bytes = True, 0
        self._again = b"\r\n".join([line, *kept, b"", b""]) + rest

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._head_task = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_task is not None:
            self._head_task.cancel()
            self._head_task = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
