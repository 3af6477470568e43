"""A remote procedure call over gRPC, as the protocols see it: messages are bytes, whichever plane moves them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class RpcCall:
    """One call, whose message has come whole and is bounded.

    Attributes:
        path: ``/package.Service/Method``.
        message: The request's bytes; empty for a method that streams its requests.
        metadata: By lower-case name.
        client: Who asks, by the name of the token.
        deadline: By ``time.monotonic()``, from ``grpc-timeout``.
    """

    path: str
    message: bytes = b""
    metadata: dict[str, str] = field(default_factory=dict)
    client: str = ""
    deadline: float = math.inf


Unary = Callable[[RpcCall], Awaitable[bytes]]
"""One message to one message."""
Streaming = Callable[[RpcCall, AsyncIterator[bytes]], AsyncIterator[bytes]]
"""Messages to messages; the second argument is what the caller sends, one after the other."""


@dataclass(frozen=True)
class Method:
    """One method of a service: exactly one of the two is set.

    Attributes:
        path: ``/package.Service/Method``.
        unary: Answers one message with one.
        streaming: Answers many with many.
        open: Whether it needs no token: health.
    """

    path: str
    unary: Unary | None = None
    streaming: Streaming | None = None
    open: bool = False
