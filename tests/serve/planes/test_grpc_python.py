"""gRPC in Python, over real sockets: who is let in, what is bounded, how it ends."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from dataclasses import dataclass, field

import grpc
import pytest
from certificates import certified
from grpc_rig import SECONDS, serving, wait_until

from vitrify.core.errors import BusyError, DeniedError, ExpiredError, SignatureError, UsageError
from vitrify.serve.clients import Clients
from vitrify.serve.planes.grpc_python import CALLS, LONGEST_TEXT, GrpcServer
from vitrify.serve.rpc import Method
from vitrify.serve.settings import ClientSettings, ServerSettings

TOKEN = "open sesame"
ME = ClientSettings(name="me", token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest(), concurrent=1)
BEARER = (("authorization", f"Bearer {TOKEN}"),)


@dataclass
class Service:
    """Methods that show what a plane does."""

    calls: list = field(default_factory=list)
    waiting: int = 0
    entered: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def methods(self):
        return (
            Method("/t.T/Echo", unary=self.echo),
            Method("/t.T/Open", unary=self.echo, open=True),
            Method("/t.T/Wait", unary=self.wait),
            Method("/t.T/Fail", unary=self.fail),
            Method("/t.T/Stream", streaming=self.stream),
        )

    async def echo(self, call):
        self.calls.append(call)
        return call.message

    async def wait(self, call):
        self.entered.set()
        self.waiting += 1
        try:
            while not self.release.is_set():  # noqa: ASYNC110 (another thread sets it)
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return b"done"

    async def fail(self, call):
        raise ERRORS[call.message.decode()][0]

    async def stream(self, call, received):
        try:
            async for message in received:
                yield message
                yield message
        finally:
            self.cancelled.set()


ERRORS = {
    "signature": (SignatureError("inputs[0]: no", remedy="do"), "INVALID_ARGUMENT", "inputs[0]: no\n  -> do"),
    "busy": (BusyError("full", retry_after=2.4), "RESOURCE_EXHAUSTED", "full"),
    "expired": (ExpiredError("late"), "DEADLINE_EXCEEDED", "late"),
    "denied": (DeniedError("no"), "PERMISSION_DENIED", "no"),
    "fault": (ZeroDivisionError("secret"), "INTERNAL", "internal error; the server's log has it under "),
    "long": (SignatureError("ü" * 10_000), "INVALID_ARGUMENT", "ü" * (LONGEST_TEXT // 6)),
}


@pytest.fixture
def service():
    made = Service()
    yield made
    made.release.set()


def unary(address, method, message=b"", *, credentials=None, timeout=SECONDS, metadata=(), options=()):
    with (
        grpc.secure_channel(address, credentials, options)
        if credentials
        else grpc.insecure_channel(address, options) as channel
    ):
        return channel.unary_unary(f"/t.T/{method}")(message, timeout=timeout, metadata=metadata)


def refused(*arguments, **options):
    with pytest.raises(grpc.RpcError) as caught:
        unary(*arguments, **options)
    return caught.value


def test_a_message_comes_back_and_the_call_is_described(service):
    with serving(service.methods()) as address:
        before = time.monotonic()
        assert unary(address, "Echo", b"hello", metadata=(("x-one", "1"), ("x-bin", b"\xff"))) == b"hello"
    (call,) = service.calls
    assert (call.path, call.client, call.metadata["x-one"]) == ("/t.T/Echo", "", "1")
    assert "x-bin" not in call.metadata
    assert before < call.deadline < time.monotonic() + 2 * SECONDS


@pytest.mark.parametrize(("given", "most"), [("150000", 150.0), ("soon", SECONDS * 2), ("9" * 15, SECONDS * 2)])
def test_the_metadata_may_say_how_long_a_caller_waits(service, given, most):
    with serving(service.methods()) as address:
        before = time.monotonic()
        unary(address, "Open", metadata=(("x-request-timeout-ms", given),))
        assert before < service.calls[0].deadline < time.monotonic() + most


@pytest.mark.parametrize("case", ERRORS)
def test_errors_become_statuses(service, case):
    faults = []
    with serving(service.methods(), fault=lambda id_, error: faults.append((id_, error))) as address:
        error = refused(address, "Fail", case.encode(), metadata=(("x-request-id", "request-0001"),))
    raised, code, text = ERRORS[case]
    trailing = dict(error.trailing_metadata())
    assert error.code().name == code
    assert error.details().startswith(text)
    assert len(error.details()) < len(text) + 40
    assert "secret" not in error.details()
    assert trailing["x-request-id"] == "request-0001"
    assert trailing.get("retry-after") == ("2" if case == "busy" else None)
    assert faults == ([("request-0001", raised)] if case == "fault" else [])


def test_every_call_is_seen(service):
    seen = []
    with serving(service.methods(), seen=lambda *what: seen.append(what)) as address:
        unary(address, "Echo", b"hello")
        refused(address, "Fail", b"busy")
        wait_until(lambda: len(seen) == 2)
    assert [(call.path, status, size) for call, _id, status, _seconds, size in seen] == [
        ("/t.T/Echo", 0, 5),
        ("/t.T/Fail", 8, 0),
    ]


def test_only_who_is_known_is_let_in(service):
    with serving(service.methods(), clients=Clients((ME,))) as address:
        for metadata in ((), (("authorization", "Bearer nope"),), (("authorization", "Basic x"),)):
            assert refused(address, "Echo", metadata=metadata).code() is grpc.StatusCode.UNAUTHENTICATED
        assert unary(address, "Echo", b"a", metadata=BEARER) == b"a"
        assert unary(address, "Open", b"b") == b"b"
    assert [call.client for call in service.calls] == ["me", ""]


def test_a_client_may_ask_so_many_things_at_a_time(service):
    with serving(service.methods(), clients=Clients((ME,))) as address, grpc.insecure_channel(address) as channel:
        waits = channel.unary_unary("/t.T/Wait").future(b"", metadata=BEARER, timeout=SECONDS)
        assert service.entered.wait(SECONDS)
        error = refused(address, "Echo", metadata=BEARER)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert dict(error.trailing_metadata())["retry-after"] == "1"
        service.release.set()
        assert waits.result(SECONDS) == b"done"
        assert unary(address, "Echo", b"a", metadata=BEARER) == b"a"


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_is_bounded_also_when_it_is_compressed(service, compression):
    with serving(service.methods(), ServerSettings(body=1000)) as address, grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/t.T/Echo")
        assert call(bytes(1000), timeout=SECONDS, compression=compression) == bytes(1000)
        with pytest.raises(grpc.RpcError) as caught:
            call(bytes(100_000), timeout=SECONDS, compression=compression)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(service.calls) == 1


def test_a_call_has_exactly_one_message(service):
    with serving(service.methods()) as address, grpc.insecure_channel(address) as channel:
        call = channel.stream_unary("/t.T/Echo")
        for messages in ((), (b"a", b"b")):
            with pytest.raises(grpc.RpcError) as caught:
                call(iter(messages), timeout=SECONDS)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not service.calls


def test_a_message_that_does_not_come_is_not_waited_for(service):
    done = threading.Event()

    def never():
        done.wait(SECONDS)
        yield from ()

    with serving(service.methods(), ServerSettings(body_seconds=0.05)) as address:
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError, match="did not come within"):
            channel.stream_unary("/t.T/Echo")(never(), timeout=SECONDS)
        done.set()


def test_a_client_that_leaves_takes_its_call_with_it(service):
    with serving(service.methods()) as address, grpc.insecure_channel(address) as channel:
        future = channel.unary_unary("/t.T/Wait").future(b"", timeout=SECONDS)
        assert service.entered.wait(SECONDS)
        future.cancel()
        assert service.cancelled.wait(SECONDS)


def test_a_stream_that_is_left_ends(service):
    with serving(service.methods()) as address, grpc.insecure_channel(address) as channel:
        going = threading.Event()

        def requests():
            yield b"a"
            going.wait(SECONDS)

        call = channel.stream_stream("/t.T/Stream")(requests(), timeout=SECONDS)
        assert [next(call), next(call)] == [b"a", b"a"]
        call.cancel()
        assert service.cancelled.wait(SECONDS)
        going.set()


def test_a_connection_above_the_limit_is_refused(service):
    with serving(service.methods(), ServerSettings(connections=1)) as address, grpc.insecure_channel(address) as first:
        assert first.unary_unary("/t.T/Echo")(b"a", timeout=SECONDS) == b"a"
        options = (("grpc.use_local_subchannel_pool", 1),)
        error = refused(address, "Echo", options=options)
        assert error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
        assert first.unary_unary("/t.T/Echo")(b"b", timeout=SECONDS) == b"b"


def test_a_call_above_the_limit_is_refused_at_once(service):
    one = ServerSettings(connections=1)
    with serving(service.methods(), one) as address, grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/t.T/Wait")
        waiting = [call.future(b"", timeout=SECONDS) for _ in range(CALLS)]
        wait_until(lambda: service.waiting == CALLS)
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/t.T/Echo")(b"", timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        service.release.set()
        assert [one.result(SECONDS) for one in waiting] == [b"done"] * CALLS


def test_what_was_accepted_is_answered_before_the_server_ends(service):
    async def life():
        server = GrpcServer(ServerSettings(grpc_port=0), service.methods(), Clients(), fault=lambda *_: None)
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            accepted = asyncio.ensure_future(channel.unary_unary("/t.T/Wait")(b"", timeout=SECONDS))
            stream = channel.stream_stream("/t.T/Stream")(timeout=SECONDS)
            await stream.write(b"a")
            assert await stream.read() == b"a"
            while not service.entered.is_set():  # noqa: ASYNC110 (a plain event is what the service has)
                await asyncio.sleep(0.005)
            stopping = asyncio.ensure_future(server.stop(SECONDS))
            assert await stream.read() == b"a"
            assert await stream.read() is grpc.aio.EOF
            late = channel.unary_unary("/t.T/Echo")(b"", timeout=SECONDS)
            with pytest.raises(grpc.aio.AioRpcError):
                await late
            assert not stopping.done()
            service.release.set()
            assert await accepted == b"done"
            assert await stopping

    asyncio.run(life())


def test_the_drain_has_an_end(service):
    async def life():
        server = GrpcServer(ServerSettings(grpc_port=0), service.methods(), Clients(), fault=lambda *_: None)
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            accepted = asyncio.ensure_future(channel.unary_unary("/t.T/Wait")(b"", timeout=SECONDS))
            while not service.entered.is_set():  # noqa: ASYNC110 (a plain event is what the service has)
                await asyncio.sleep(0.005)
            assert not await server.stop(0.05)
            with pytest.raises(grpc.aio.AioRpcError):
                await accepted

    asyncio.run(life())


def test_several_servers_share_a_port(service):
    async def life():
        first = GrpcServer(ServerSettings(grpc_port=0), service.methods(), Clients(), fault=lambda *_: None)
        port = await first.start()
        second = GrpcServer(ServerSettings(grpc_port=port), service.methods(), Clients(), fault=lambda *_: None)
        assert await second.start() == port
        await first.stop(0)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await channel.unary_unary("/t.T/Echo")(b"a", timeout=SECONDS, wait_for_ready=True) == b"a"
        await second.stop(0)

    asyncio.run(life())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ServerSettings(host="192.0.2.1", grpc_port=0), "cannot listen on 192"),
        (ServerSettings(grpc_port=0, certificate="/nope.pem", key="/nope.key"), "cannot be read"),
    ],
)
def test_what_cannot_be_listened_on_is_said(service, settings, said):
    server = GrpcServer(settings, service.methods(), Clients(), fault=lambda *_: None)
    with pytest.raises(UsageError, match=said):
        asyncio.run(server.start())


def test_a_certificate_that_is_none_is_said(service, tmp_path):
    for name in ("c.pem", "c.key"):
        (tmp_path / name).write_text("no certificate")
    settings = ServerSettings(grpc_port=0, certificate=str(tmp_path / "c.pem"), key=str(tmp_path / "c.key"))
    server = GrpcServer(settings, service.methods(), Clients(), fault=lambda *_: None)
    with pytest.raises(UsageError, match="cannot listen"):
        asyncio.run(server.start())


def test_tls_and_clients_by_certificate(service, tmp_path):
    authority = certified(tmp_path, "authority")
    server, client, stranger = (
        certified(tmp_path, name, issuer)
        for name, issuer in (("server", authority), ("client", authority), ("stranger", None))
    )
    roots = authority[2].read_bytes()
    settings = ServerSettings(certificate=str(server[2]), key=str(server[3]))
    with serving(service.methods(), settings) as address:
        assert unary(address, "Echo", b"a", credentials=grpc.ssl_channel_credentials(roots)) == b"a"
        assert refused(address, "Echo").code() is grpc.StatusCode.UNAVAILABLE
    mutual = settings.replace(client_authority=str(authority[2]))
    with serving(service.methods(), mutual) as address:
        known, unknown = (
            grpc.ssl_channel_credentials(roots, one[3].read_bytes(), one[2].read_bytes()) for one in (client, stranger)
        )
        assert unary(address, "Echo", b"b", credentials=known) == b"b"
        for credentials in (unknown, grpc.ssl_channel_credentials(roots)):
            error = refused(address, "Echo", credentials=credentials)
            assert error.code() is grpc.StatusCode.UNAVAILABLE
