"""Bare HTTP for tests: what a client would never send, and every header that comes back."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import closing

from servers._process import PATIENCE


def call(server, method, path, *, token=None, body=None, raw=None, **headers):
    """Send one request; return status, headers and body. ``body`` is sent as JSON, ``raw`` as it is."""
    head = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        head.setdefault("Authorization", f"Bearer {token}")
    if body is not None:
        raw = json.dumps(body).encode()
        head.setdefault("Content-Type", "application/json")
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
        connection.request(method, path, body=raw, headers=head)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def send(server, data, *, wait=True, enough=None):
    """Send bytes; return what comes back until the server closes, or until ``enough`` is in it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        received = b""
        try:
            connection.sendall(data)
            while wait and (piece := connection.recv(65536)):
                received += piece
                if enough is not None and enough in received:
                    break
        except ConnectionError:
            pass  # it was closed while it was sent, or before all was read
        return received
