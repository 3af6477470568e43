"""A native plane with a few endpoints and a lane, served in a thread for the tests that call it over sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from contextlib import contextmanager

import grpc

from vitrify.core.errors import BusyError, NotOfferedError
from vitrify.serve.clients import Clients
from vitrify.serve.planes import House
from vitrify.serve.planes.dispatch import Dispatcher, plain_error
from vitrify.serve.planes.native import NativePlane
from vitrify.serve.rpc import Method
from vitrify.serve.settings import ServerSettings
from vitrify.serve.web import Answer, Route
from vitrify.testing.lane_models import LIMIT

INFER = "/v2/models/glass/infer"
MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"


class Endpoints:
    """What Python answers, and what became of it."""

    def __init__(self):
        self.cancelled = threading.Event()
        self.entered = threading.Event()

    def routes(self):
        table = (
            ("GET", "/open/{name}", self.said, True),
            ("POST", "/open/{name}", self.said, False),
            ("GET", "/said/{name*}", self.said, False),
            ("POST", "/said/{name*}", self.said, False),
            ("GET", "/pieces/{count}", self.pieces, False),
            ("GET", "/waits", self.waits, False),
            ("GET", "/raises", self.raises, False),
            ("GET", "/busy", self.busy, False),
            ("POST", "/v2/models/{model}/infer", self.said, False),
            ("POST", "/v2/models/{model}/versions/{version}/infer", self.said, False),
        )
        return [Route(verb, path, answer, path, plain_error, open=open_) for verb, path, answer, open_ in table]

    def methods(self):
        table = (
            Method("/t.T/Unary", unary=self.unary),
            Method("/t.T/Open", unary=self.unary, open=True),
            Method("/t.T/Echo", streaming=self.echo),
            Method("/t.T/Raises", unary=self.rpc_raises),
            Method("/t.T/Busy", unary=self.rpc_busy),
            Method("/t.T/Waits", streaming=self.rpc_waits),
            Method(MODEL_INFER, unary=self.unary),
        )
        return {method.path: method for method in table}

    async def said(self, call):
        said = {
            "path": call.path,
            "fields": call.fields,
            "query": call.query,
            "body": call.body.decode(),
            "client": call.client,
            "key": call.headers.get("x-vitrify-key", ""),
            "twice": call.headers.get("x-twice", ""),
        }
        return Answer(200, json.dumps(said).encode(), {"x-own": "yes"})

    async def pieces(self, call):
        async def body():
            for number in range(int(call.fields["count"])):
                yield b"%d\n" % number

        return Answer(200, body(), {"content-type": "text/event-stream"})

    async def waits(self, call):
        self.entered.set()
        try:
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return Answer()

    async def raises(self, call):
        raise ZeroDivisionError("secret")

    async def busy(self, call):
        raise BusyError("too much", retry_after=7)

    async def unary(self, call):
        return b"%s|%s|%s" % (call.message, call.client.encode(), call.metadata.get("x-some", "").encode())

    async def echo(self, call, received):
        async for message in received:
            if message == b"refuse":
                raise NotOfferedError("not that")
            yield message * 2

    async def rpc_raises(self, call):
        raise ZeroDivisionError("secret")

    async def rpc_busy(self, call):
        raise BusyError("too much")

    async def rpc_waits(self, call, received):
        self.entered.set()
        try:
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        yield b""


class Serving:
    """A plane that listens."""

    def __init__(self, plane, house, loop, faults, endpoints):
        self.plane, self.house, self.loop, self.faults, self.endpoints = plane, house, loop, faults, endpoints
        self.port, self.grpc_port = asyncio.run_coroutine_threadsafe(plane.start(house), loop).result(LIMIT)

    def call(self, method, path, body=None, headers=None):
        """Return the status, the headers and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def infer(self, *values, path=INFER, headers=None, **more):
        """Ask the lane for rows, and return the status, the headers and the JSON."""
        data = [value + column / 8 for value in values for column in range(3)]
        tensor = {"name": "x", "shape": [len(values), 3], "datatype": "FP32", "data": data}
        status, got, body = self.call("POST", path, json.dumps({"inputs": [tensor | more]}), headers)
        return status, got, json.loads(body)

    @contextmanager
    def channel(self):
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options) as channel:
            yield channel

    def stop(self, seconds=LIMIT):
        """Drain, and return whether everything was answered."""
        return asyncio.run_coroutine_threadsafe(self.plane.stop(seconds), self.loop).result(LIMIT + seconds)


@contextmanager
def served(clients=(), **settings):
    """Serve a plane while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    plane, endpoints, faults = NativePlane(), Endpoints(), []
    house = House(
        ServerSettings(**{"port": 0, "grpc_port": 0, **settings}),
        Dispatcher(endpoints.routes(), fault=lambda id_, error: faults.append((id_, error))),
        endpoints.methods(),
        Clients(tuple(clients)),
        lambda id_, error: faults.append((id_, error)),
    )
    try:
        serving = Serving(plane, house, loop, faults, endpoints)
        yield serving
        serving.stop(0)
    finally:
        plane.close()
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
