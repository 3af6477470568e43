"""Whoever is slow is not waited for without an end, and holds nobody else up."""

import os
import socket
import threading
import time

import pytest
from servers import PATIENCE, call, running_server, send, until

from vitrify.core.digest import Digest
from vitrify.registry.api import exchange, protocol

SECONDS = 1.0
HEAD_SECONDS = 3.0
BEFORE = (
    "from vitrify.registry.api import exchange, protocol; "
    f"protocol.BoundedProtocol.head_seconds = {HEAD_SECONDS}; "
    f"exchange.BODY_SECONDS = exchange.SEND_SECONDS = {SECONDS}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("slow"), before=BEFORE) as running:
        yield running


@pytest.fixture(scope="module")
def token(server):
    return server.token("writer")


def head(token, line, *more):
    return "\r\n".join([line, "Host: x", f"Authorization: Bearer {token}", *more, "", ""]).encode()


def test_the_times_are_short():
    assert protocol.HEAD_SECONDS <= 30
    assert exchange.BODY_SECONDS <= 120
    assert exchange.SEND_SECONDS <= 120


def test_heads_that_do_not_end_are_closed_and_others_are_answered_meanwhile(server, token):
    drip = b"GET / HTTP/1.1\r\nX: "
    slow = [threading.Thread(target=send, args=(server, drip)) for _ in range(50)]
    for thread in slow:
        thread.start()
    assert call(server, "GET", "/v1/models", token=token)[0] == 200
    for thread in slow:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in slow)


def test_a_head_that_comes_byte_by_byte_is_closed_all_the_same(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /")
        connection.settimeout(0.1)

        def closed():
            try:
                connection.sendall(b"X")
                return connection.recv(4096) == b""
            except TimeoutError:
                return False
            except OSError:  # a broken pipe or a reset, whichever comes first
                return True

        until(closed, "the connection is closed")


def test_a_body_that_does_not_come_is_given_up(server, token):
    start = head(token, "POST /v1/models HTTP/1.1", "Content-Type: application/json", "Content-Length: 100")
    assert send(server, start + b"{").startswith(b"HTTP/1.1 503")


def test_of_an_upload_that_stops_coming_what_came_stays(server, token):
    data = os.urandom(200_000)
    asked = {"digest": str(Digest.of(data)), "size": len(data)}
    place = call(server, "POST", "/v1/uploads", token=token, body=asked)[1]["location"]
    start = head(token, f"PATCH {place} HTTP/1.1", "Upload-Offset: 0", f"Content-Length: {len(data)}")
    assert send(server, start + data[:150_000]).startswith(b"HTTP/1.1 503")
    assert call(server, "HEAD", place, token=token)[1]["upload-offset"] == "150000"


def test_a_reader_that_takes_nothing_is_left_and_takes_no_thread_for_ever(server, token):
    data = os.urandom(40_000_000)
    place = f"/v1/content/{Digest.of(data)}"
    assert call(server, "PUT", place, token=token, raw=data)[0] == 201
    lazy = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(30)]
    for connection in lazy:
        connection.sendall(head(token, f"GET {place} HTTP/1.1"))
    time.sleep(SECONDS * 3)
    assert call(server, "GET", place, token=token)[2] == data
    for connection in lazy:
        connection.close()


def test_a_pipeline_of_requests_is_answered_in_its_order(server, token):
    one = head(token, "GET /v1/events/head HTTP/1.1", "X-Request-Id: aaaaaaaa")
    two = head(token, "GET /health/live HTTP/1.1", "X-Request-Id: bbbbbbbb", "Connection: close")
    answer = send(server, one * 20 + two)
    assert answer.count(b"HTTP/1.1 200") == 21
    assert answer.rindex(b"aaaaaaaa") < answer.index(b"bbbbbbbb")
