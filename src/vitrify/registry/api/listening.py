"""Listening sockets."""

from __future__ import annotations

import socket

from vitrify.core.errors import UsageError


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket bound to an address; where it is shared, others with the same address share its connections.

    Raises:
        UsageError: It cannot be bound.
    """
    plain = host.strip("[]")
    family = socket.AF_INET6 if ":" in plain else socket.AF_INET
    # The protocol is named, because asyncio switches Nagle's algorithm off only where it is: else 40 ms an answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((plain, port))
    except OSError as error:
        listener.close()
        msg = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise UsageError(msg, remedy="choose another --host or --port") from error
    return listener
