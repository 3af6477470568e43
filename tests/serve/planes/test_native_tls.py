"""TLS of the native plane against clients that stop anywhere, send anything, and come again and again."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from certificates import certified
from plugged import connected, head, rest_of

from vitrify.core.errors import UsageError
from vitrify.serve.planes import _library, choose_plane
from vitrify.serve.planes._library import missing, tls_missing
from vitrify.serve.settings import ServerSettings
from vitrify.testing.lane_models import LIMIT, opened, twice

pytestmark = pytest.mark.skipif(bool(missing() or tls_missing()), reason=missing() or tls_missing() or "it is there")

FEW = 6
"""Connections that a server takes here at a time: one that is forgotten would soon be missed."""


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    authority = certified(folder, "authority")
    known = {name: certified(folder, name, authority) for name in ("server", "client")}
    return SimpleNamespace(authority=authority, **known)


def served(papers, **settings):
    from native_serving import served

    told = {"certificate": str(papers.server[2]), "key": str(papers.server[3]), **settings}
    return served(**told)


def context(papers, own=None):
    found = ssl.create_default_context(cafile=papers.authority[2])
    if own:
        found.load_cert_chain(own[2], own[3])
    return found


def address(serving, port="port"):
    return f"127.0.0.1:{getattr(serving, port)}"


def ask(serving, papers, body=b"hello"):
    """Return the status and the answer's body."""
    connection = http.client.HTTPSConnection(address(serving), timeout=LIMIT, context=context(papers))
    try:
        connection.request("POST", "/said/it", body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Client:
    """TLS of a client in memory: what it sends is in our hand."""

    def __init__(self, context):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    def try_(self, act):
        """Take a step as far as it goes, and return what is to be sent."""
        with contextlib.suppress(ssl.SSLWantReadError):
            act()
        return self.outgoing.read()


def flights(papers):
    """Return a client that begins, and its first flight."""
    client = Client(context(papers))
    return client, client.try_(client.ssl.do_handshake)


def second(client, connection):
    """Take the server's flight, and return the client's second one, with a whole request behind it."""
    done = b""
    while not done:
        piece = connection.recv(65536)
        assert piece, "the handshake was ended"
        client.incoming.write(piece)
        done = client.try_(client.ssl.do_handshake)
    client.ssl.write(head(b"hello", path="/said/it"))
    return done + client.outgoing.read()


@pytest.mark.parametrize("port", ["port", "grpc_port"])
def test_a_first_flight_that_is_cut_at_any_byte_harms_nobody(papers, port):
    with served(papers, connections=FEW) as serving:
        _, first = flights(papers)
        for cut in range(len(first)):
            with connected(address(serving, port)) as connection:
                connection.sendall(first[:cut])
                connection.shutdown(socket.SHUT_WR)
                assert b"HTTP" not in rest_of(connection)
        assert ask(serving, papers)[0] == 200


def test_a_second_flight_that_is_cut_at_any_byte_harms_nobody(papers):
    with served(papers, connections=FEW) as serving:
        cut, size = 0, 1
        while cut < size:
            client, first = flights(papers)
            with connected(address(serving)) as connection:
                connection.sendall(first)
                sent = second(client, connection)
                size = len(sent)
                connection.sendall(sent[:cut])
                connection.shutdown(socket.SHUT_WR)
                client.incoming.write(rest_of(connection))
                client.incoming.write_eof()
                with contextlib.suppress(ssl.SSLError):  # what comes is tickets, an alert, or that nothing comes
                    assert client.ssl.read(65536) == b"", "a request that did not come whole was answered"
            cut += 1
        assert cut > 100
        assert ask(serving, papers)[0] == 200


def test_a_handshake_that_comes_byte_by_byte_is_one(papers):
    with served(papers) as serving, connected(address(serving)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client, first = flights(papers)
        for byte in first:
            connection.sendall(bytes([byte]))
        for byte in second(client, connection):
            connection.sendall(bytes([byte]))
        client.incoming.write(rest_of(connection))
        assert client.ssl.read(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("port", ["port", "grpc_port"])
@pytest.mark.parametrize("sent", [0, 1, 5, 100])
def test_who_does_not_go_on_with_the_handshake_is_not_waited_for(papers, port, sent):
    with served(papers, head_seconds=0.2) as serving, connected(address(serving, port)) as connection:
        connection.sendall(flights(papers)[1][:sent])
        assert rest_of(connection) == b""  # it is closed: else this would wait for ever


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(0x4000 - 4) + b"\x16\x03\x01\x40\x00" * 9000,
        b"\x16\x03\x01\x00\x00" * 60_000,
        b"\x17\x03\x03\x00\x10" + bytes(16),
        b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(40),
        b"\x15\x03\x01\x00\x02\x02\x28" * 50_000,
    ],
    ids=["a hello without end", "empty records", "data before keys", "SSL 2", "alerts"],
)
def test_what_is_no_handshake_is_ended(papers, sent):
    with served(papers, connections=FEW) as serving:
        for port in ("port", "grpc_port") * FEW:
            with connected(address(serving, port)) as connection:
                with contextlib.suppress(OSError):  # it was ended before all had gone
                    connection.sendall(sent)
                rest_of(connection)
        assert ask(serving, papers)[0] == 200


def test_nothing_is_answered_behind_a_record_that_was_changed(papers):
    with served(papers) as serving:
        for place in (-1, -30):
            client, first = flights(papers)
            with connected(address(serving)) as connection:
                connection.sendall(first)
                sent = bytearray(second(client, connection))
                sent[place] ^= 1
                connection.sendall(sent)
                client.incoming.write(rest_of(connection))
            with pytest.raises(ssl.SSLError, match="ALERT_BAD_RECORD_MAC"):
                client.ssl.read(65536)


def test_a_key_is_not_agreed_on_anew(papers):
    openssl = ["openssl", "s_client", "-tls1_2", "-CAfile", str(papers.authority[2]), "-connect"]
    with served(papers) as serving:
        command = [*openssl, address(serving)]
        done = subprocess.run(command, input=b"R\n", capture_output=True, timeout=LIMIT, check=False)
    assert b"RENEGOTIATING" in done.stdout + done.stderr
    assert re.search(rb"no.renegotiation", done.stdout + done.stderr, re.IGNORECASE)


def test_both_sides_say_that_nothing_more_comes(papers):
    """Without close_notify on our side the client's read would fail with an unexpected end."""
    with served(papers) as serving, connected(address(serving)) as plain:
        sealed = context(papers).wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
        sealed.sendall(head(b"hello", path="/said/it"))  # the last of its connection
        said = b""
        while piece := sealed.recv(65536):
            said += piece
        assert said.startswith(b"HTTP/1.1 200")
        sealed.unwrap().close()


def test_who_is_too_much_is_told_so_after_the_handshake(papers):
    with served(papers, connections=1) as serving, connected(address(serving)) as plain:
        first = context(papers).wrap_socket(plain, server_hostname="127.0.0.1")
        first.sendall(head(b"hello", path="/said/it", keep=True))
        assert first.recv(15) == b"HTTP/1.1 200 OK"
        assert ask(serving, papers)[0] == 503
        first.close()


@pytest.mark.parametrize("port", ["port", "grpc_port"])
def test_the_end_does_not_wait_for_a_handshake(papers, port):
    with served(papers, head_seconds=10 * LIMIT, connections=1) as serving, contextlib.ExitStack() as stack:
        for _ in range(2):  # the second is one too many, and is to be told so when the handshake is done
            waiting = stack.enter_context(connected(address(serving, port)))
            waiting.sendall(flights(papers)[1][:50])
        assert serving.stop(LIMIT)


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 1 << 20, 9_000_000])
def test_bodies_of_any_size_go_both_ways(papers, size):
    with served(papers) as serving:
        body = b"0123456789abcdef" * (size // 16) + b"x" * (size % 16)
        status, answer = ask(serving, papers, body)
        assert status == 200
        assert body in answer
        credentials = grpc.ssl_channel_credentials(papers.authority[2].read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        with grpc.secure_channel(address(serving, "grpc_port"), credentials, options) as channel:
            assert channel.unary_unary("/t.T/Unary")(body, timeout=LIMIT) == body + b"||"
            echo = channel.stream_stream("/t.T/Echo")(iter([body] * 3), timeout=LIMIT)
            assert [len(one) for one in echo] == [2 * size] * 3


def test_a_client_that_reads_slowly_gets_all_of_it(papers):
    with served(papers) as serving, connected(address(serving)) as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sealed = context(papers).wrap_socket(plain, server_hostname="127.0.0.1")
        body = b"0123456789abcdef" * 100_000
        sending = threading.Thread(target=sealed.sendall, args=(head(body, path="/said/it"),))
        sending.start()
        sending.join()
        said = bytearray()
        while piece := sealed.recv(1000):
            said += piece
        assert body in said
        sealed.close()


def test_many_connections_are_served_at_once(papers):
    count = 200
    with served(papers, connections=count) as serving:
        together = threading.Barrier(20)

        def many(_):
            shared = context(papers)
            opened = [http.client.HTTPSConnection(address(serving), timeout=LIMIT, context=shared) for _ in range(10)]
            for one in opened:
                one.connect()
            together.wait(LIMIT)
            found = []
            for one in opened * 3:
                one.request("POST", "/said/it", b"a")
                response = one.getresponse()
                response.read()
                found.append(response.status)
            for one in opened:
                one.close()
            return found

        with ThreadPoolExecutor(20) as pool:
            assert [status for found in pool.map(many, range(20)) for status in found] == [200] * count * 3


def test_sessions_are_resumed_also_where_clients_show_certificates(papers):
    with served(papers, client_authority=str(papers.authority[2])) as serving:
        mine, session, reused = context(papers, papers.client), None, []
        for _ in range(3):
            with connected(address(serving)) as plain:
                sealed = mine.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
                sealed.sendall(head(b"hello", path="/said/it"))
                assert sealed.recv(15) == b"HTTP/1.1 200 OK"
                session = sealed.session
                reused.append(sealed.session_reused)
                sealed.close()
        assert reused == [False, True, True]


def test_a_hot_request_is_answered_over_both_ports(papers):
    from native_serving import INFER

    with served(papers) as serving, opened(serving.plane.lane, twice):
        connection = http.client.HTTPSConnection(address(serving), timeout=LIMIT, context=context(papers))
        tensor = b'{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}'
        connection.request("POST", INFER, tensor)
        response = connection.getresponse()
        assert (response.status, b"2.0,4.0,6.0" in response.read().replace(b" ", b"")) == (200, True)
        connection.close()


GROWTH = """
import resource, ssl, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from certificates import certified
from native_serving import served
from plugged import connected
import tempfile

def held():
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()

with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    authority = certified(folder, "authority")
    server, client = (certified(folder, name, authority) for name in ("server", "client"))
    context = ssl.create_default_context(cafile=authority[2])
    context.load_cert_chain(client[2], client[3])
    settings = {"certificate": str(server[2]), "key": str(server[3]), "client_authority": str(authority[2])}
    with served(**settings) as serving:
        def shake(count):
            for _ in range(count):
                with connected(f"127.0.0.1:{serving.port}") as plain:
                    sealed = context.wrap_socket(plain, server_hostname="127.0.0.1")
                    sealed.sendall(b"GET /open/it HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n\\r\\n")
                    while sealed.recv(65536):
                        pass
                    sealed.close()
        shake(300)
        before = held()
        shake(1000)
        print(held() - before)
"""


def test_memory_does_not_grow_with_the_handshakes(tmp_path):
    """A session that was not freed would hold some ten thousand bytes, a certificate some thousand."""
    tests = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tests)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1000 * 1000


@pytest.mark.parametrize(
    ("which", "content", "said"),
    [
        ("certificate", "no certificate", "no start line"),
        ("key", "no key", r"unsupported|no start line"),
        ("key", "another's", "key values mismatch"),
        ("key", "locked", "it is locked"),
        ("client_authority", "no certificate", "no such file|no start line|no certificate"),
    ],
)
def test_papers_that_cannot_be_used_are_said_at_the_start(papers, tmp_path, which, content, said):
    file = tmp_path / "paper.pem"
    if content == "another's":
        content = papers.client[3].read_text()
    elif content == "locked":
        content = _locked(papers.server[1])
    file.write_text(content)
    with pytest.raises(UsageError, match=f"cannot be used: {file}: (?:{said})"), served(papers, **{which: str(file)}):
        pass


def _locked(key):
    from cryptography.hazmat.primitives import serialization

    form, lock = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    return key.private_bytes(serialization.Encoding.PEM, form, lock).decode()


def test_without_openssl_the_python_plane_serves_and_the_native_one_says_why(monkeypatch):
    monkeypatch.setattr(_library, "tls_missing", lambda: "it has gone")
    monkeypatch.setattr("vitrify.serve.planes.native.tls_missing", lambda: "it has gone")
    told = {"certificate": "cert.pem", "key": "key.pem"}
    assert choose_plane(ServerSettings(plane="auto", **told)).name == "python"
    with pytest.raises(UsageError, match="no TLS here: it has gone"):
        choose_plane(ServerSettings(plane="native", **told))


def test_a_process_that_has_not_loaded_openssl_has_no_tls():
    """No second copy comes in: only what Python's own ssl has loaded is used."""
    code = (
        "import ctypes, sys\n"
        "from vitrify.serve.planes._library import library, taken\n"
        "assert '_ssl' not in sys.modules, 'ssl is loaded already'\n"
        "print(taken(library().tls_missing()).decode())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "has not loaded" in done.stdout
