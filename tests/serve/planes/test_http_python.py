"""REST in Python: what is bounded, and what is said of what is refused."""

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import zlib

import pytest

from vitrify.core.errors import BusyError, LimitExceededError, MalformedError, SignatureError
from vitrify.serve.clients import Clients
from vitrify.serve.planes.dispatch import Dispatcher, plain_error
from vitrify.serve.planes.http_python import HttpServer, decoded
from vitrify.serve.settings import ClientSettings, ServerSettings
from vitrify.serve.web import Answer, Route

SHA256_OF_A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
SETTINGS = ServerSettings(port=0, body=1000)


def packed(body):
    """Return a body as gzip has it, the same at every time: it names its test."""
    return gzip.compress(body, mtime=0)


async def echo(call):
    about = {"client": call.client, "fields": call.fields, "query": call.query, "length": len(call.body)}
    return Answer(200, json.dumps(about).encode(), {"content-type": "application/json"})


async def broken(call):
    raise RuntimeError("the secret inside")


async def busy(call):
    raise BusyError("full", retry_after=7)


async def misfit(call):
    raise SignatureError("input 'x' is missing")


async def streamed(call):
    async def pieces():
        for at in range(3):
            yield b"%d\n" % at

    return Answer(200, pieces())


ROUTES = tuple(
    Route(method, pattern, endpoint, endpoint.__name__, plain_error, is_open)
    for method, pattern, endpoint, is_open in (
        ("POST", "/echo/{name}:go", echo, False),
        ("GET", "/echo/{name}:go", echo, True),
        ("GET", "/broken", broken, True),
        ("GET", "/busy", busy, True),
        ("GET", "/misfit", misfit, True),
        ("GET", "/streamed", streamed, True),
    )
)


@contextlib.asynccontextmanager
async def serving(clients=(), settings=SETTINGS):
    faults = []
    dispatcher = Dispatcher(ROUTES, fault=lambda id_, error: faults.append((id_, error)))
    server = HttpServer(settings, dispatcher, Clients(clients))
    port = await server.start()
    try:
        yield port, faults
    finally:
        assert await server.stop(10)


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def asked(*requests, clients=(), settings=SETTINGS):
    async def run():
        async with serving(clients, settings) as (port, faults):
            return [await asyncio.to_thread(ask, port, *request) for request in requests], faults

    return asyncio.run(run())


def test_a_call_reaches_its_endpoint_with_fields_query_and_an_id():
    ((status, headers, body),), _ = asked(("POST", "/echo/a%20b:go?q=1&q=2", b"xyz", {"X-Request-Id": "my-request-1"}))
    assert status == 200
    assert headers["x-request-id"] == "my-request-1"
    assert json.loads(body) == {"client": "", "fields": {"name": "a b"}, "query": {"q": "2"}, "length": 3}


def test_an_answer_may_come_in_pieces():
    ((status, _, body),), _ = asked(("GET", "/streamed"))
    assert (status, body) == (200, b"0\n1\n2\n")


@pytest.mark.parametrize(
    ("path", "status", "holds"),
    [
        ("/misfit", 400, "input 'x'"),
        ("/busy", 429, "full"),
        ("/nowhere", 404, "/nowhere"),
        ("/broken", 500, "log has it"),
    ],
)
def test_an_error_is_said_and_nothing_of_the_inside(path, status, holds):
    ((got, headers, body),), faults = asked(("GET", path))
    assert got == status
    assert holds in json.loads(body)["error"]
    assert b"secret inside" not in body
    assert ("retry-after" in headers) == (status == 429)
    assert [id_ for id_, _ in faults] == ([headers["x-request-id"]] if status == 500 else [])


def test_another_method_is_told_which_there_are():
    ((status, headers, _),), _ = asked(("DELETE", "/busy"))
    assert (status, headers["allow"]) == (405, "GET")


def test_a_token_is_wanted_but_for_what_is_open():
    known = (ClientSettings(name="shop", token_sha256=SHA256_OF_A),)
    answers, _ = asked(
        ("POST", "/echo/x:go", b""),
        ("POST", "/echo/x:go", b"", {"Authorization": "Bearer wrong"}),
        ("POST", "/echo/x:go", b"", {"Authorization": "Bearer a"}),
        ("GET", "/echo/x:go"),
        clients=known,
    )
    assert [status for status, _, _ in answers] == [401, 401, 200, 200]
    assert json.loads(answers[2][2])["client"] == "shop"


@pytest.mark.parametrize(
    ("body", "coding", "status"),
    [
        (b"x" * 1000, "", 200),
        (b"x" * 1001, "", 413),
        (packed(b"x" * 1000), "gzip", 200),
        (packed(b"x" * 100_000), "gzip", 413),
        (zlib.compress(b"x" * 10), "deflate", 200),
        (b"no gzip", "gzip", 400),
        (packed(b"x" * 10)[:-4], "gzip", 400),
        (b"x", "br", 400),
    ],
)
def test_a_body_is_bounded_before_and_after_its_coding(body, coding, status):
    headers = {"Content-Encoding": coding} if coding else {}
    ((got, _, _),), _ = asked(("POST", "/echo/x:go", body, headers))
    assert got == status


def test_a_body_of_unknown_length_is_bounded_while_it_comes():
    ((status, _, _),), _ = asked(("POST", "/echo/x:go", iter([b"x" * 600] * 3)))
    assert status == 413


def test_who_is_slow_harms_nobody_and_is_let_go():
    begun = (b"", b"GET /busy HT", b"POST /echo/x:go HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")

    def slow(port):
        with contextlib.ExitStack() as stack:
            address = ("127.0.0.1", port)
            connections = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in begun]
            for connection, sent in zip(connections, begun, strict=True):
                connection.sendall(sent)
            assert ask(port, "GET", "/echo/x:go")[0] == 200
            for connection in connections:
                while connection.recv(4096):
                    pass  # until the server closes

    async def run():
        async with serving(settings=SETTINGS.replace(head_seconds=2.0, body_seconds=2.0)) as (port, _):
            await asyncio.to_thread(slow, port)

    asyncio.run(run())


@pytest.mark.parametrize("most", [10, 11])
def test_decoding_takes_exactly_what_is_allowed(most):
    assert decoded(gzip.compress(b"x" * 10), "gzip", most) == b"x" * 10
    with pytest.raises(LimitExceededError):
        decoded(gzip.compress(b"x" * (most + 1)), "gzip", most)
    with pytest.raises(MalformedError):
        decoded(b"", "gzip", most)
