"""The client: the same verbs and the same errors as without a server, and content that survives broken connections."""

import itertools
import os
import signal
import socket
import threading
import time
from contextlib import suppress

import pytest
from servers import PATIENCE, registry_server, running_server, until

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    AuthenticationError,
    ConflictError,
    CorruptError,
    DeniedError,
    MalformedError,
    ReferenceNotFoundError,
    UnavailableError,
    UsageError,
)
from vitrify.registry import open_registry
from vitrify.registry.api.authentication import REMEMBERED_SECONDS
from vitrify.registry.registry import Registry
from vitrify.registry.remote import RemoteBackend
from vitrify.registry.requests import CreateToken, ListTokens, RevokeToken

__all__ = ["registry_server"]

SIZE = 24_000_000


@pytest.fixture
def fresh_server(tmp_path):
    (tmp_path / "server").mkdir()
    with running_server(tmp_path / "server") as server:
        yield server


@pytest.fixture
def client(registry_server):
    registry = registry_server.client("admin")
    yield registry
    registry.close()


@pytest.fixture
def file(tmp_path):
    """Return a file of which no server has the content."""
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(SIZE))
    return path


class Relay:
    """A man in the middle who cuts every connection after so many bytes, each way.

    While the server is not there, the first few callers find nobody, and the next has to wait for it.
    """

    def __init__(self, port, up=None, down=None):
        self.up, self.down = up, down
        self.target = port
        self.cuts = self.missed = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = self._reach()
            if far is None:
                near.close()
                continue
            for source, sink, most in ((near, far, self.up), (far, near, self.down)):
                threading.Thread(target=self._copy, args=(source, sink, most), daemon=True).start()

    def _reach(self):
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                self.missed += 1
                if self.missed <= 3:  # so a client that gives up late does not depend on how soon a server starts
                    return None
                time.sleep(0.05)

    def _copy(self, source, sink, most):
        count = 0
        try:
            while data := source.recv(65536):
                count += len(data)
                if most is not None and count > most:
                    self.cuts += 1
                    break
                sink.sendall(data)
        except OSError:
            pass  # the other direction was cut
        finally:
            self._end(source, sink)

    @staticmethod
    def _end(*ends):
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self):
        self.listener.close()


def test_a_url_opens_the_same_registry(registry_server, monkeypatch):
    monkeypatch.setenv("VITRIFY_TOKEN", registry_server.token("writer", who="ada"))
    registry = open_registry(registry_server.url)
    made = registry.create_model("team/churn", description="leaving, or not", tags={"team": "risk"})
    assert (made.name, made.tags) == ("team/churn", {"team": "risk"})
    assert registry.model("team/churn") == made
    assert registry.update_model("team/churn", tags={"team": None}).tags == {}
    assert [model.name for model in registry.models("team/*")] == ["team/churn"]
    assert [event.actor for event in registry.events("team/churn")] == ["ada", "ada"]
    registry.close()


def test_errors_are_those_that_the_server_raised(registry_server, client):
    client.create_model("churn")
    with pytest.raises(ConflictError, match="churn") as conflict:
        client.create_model("churn")
    assert conflict.value.remedy
    with pytest.raises(ReferenceNotFoundError, match="none"):
        client.model("none")
    with pytest.raises(UsageError, match="not a model's name"):
        client.create_model("a:b")
    with pytest.raises(UsageError, match="empty"):
        client.model("")
    with pytest.raises(UsageError):
        client.model("..")
    reader = registry_server.client("reader")
    with pytest.raises(DeniedError, match="needs the role writer"):
        reader.create_model("other")
    reader.close()


def test_names_and_values_of_all_kinds_arrive_as_they_are(client):
    text = 'é "quoted" & 50% + ? # / \\ \n 漢字'
    client.create_model("a/b/c", description=text)
    assert client.model("a/b/c").description == text
    assert [model.name for model in client.models("a/*/c")] == ["a/b/c"]
    with pytest.raises(ReferenceNotFoundError):
        client.production_at("a/b/c", client.head().time)


def test_without_a_token_or_with_a_wrong_one_nothing_is_told(registry_server):
    for token in (None, "vit_0123456789abcdef_" + "a" * 43, "x"):
        with pytest.raises(AuthenticationError):
            Registry(RemoteBackend(registry_server.url, token)).head()
    with pytest.raises(AuthenticationError, match="characters"):
        RemoteBackend(registry_server.url, "vit_a\r\nX-Evil: 1")


def test_a_revoked_token_is_refused_within_two_seconds(registry_server, client):
    token = client.do(CreateToken(who="bob", roles=("reader",)))
    bob = Registry(RemoteBackend(registry_server.url, token.secret))
    assert bob.head()
    client.do(RevokeToken(id=token.id))
    assert REMEMBERED_SECONDS <= 2
    time.sleep(REMEMBERED_SECONDS)
    with pytest.raises(AuthenticationError):
        bob.head()
    assert {one.who: bool(one.revoked) for one in client.do(ListTokens()).tokens}["bob"]


def test_plain_http_goes_to_this_machine_only_unless_asked(monkeypatch):
    with pytest.raises(UsageError, match="in the clear"):
        RemoteBackend("http://models.example.org", "vit_a")
    RemoteBackend("http://models.example.org", "vit_a", insecure_http=True).close()
    monkeypatch.setenv("VITRIFY_INSECURE_HTTP", "1")
    RemoteBackend("http://models.example.org", "vit_a").close()


@pytest.mark.parametrize(
    "url",
    ["ftp://a", "https://", "https://user:secret@a", "https://a?x=1", "https://a#b", "https://a:99999", "https://[::1"],
)
def test_what_is_no_url_of_a_server_is_refused_and_not_repeated(url):
    with pytest.raises(UsageError) as error:
        RemoteBackend(url)
    assert "secret" not in str(error.value)


def test_a_server_that_is_not_there_is_unavailable():
    with socket.socket() as held:  # a port that nobody listens on, and nobody else gets meanwhile
        held.bind(("127.0.0.1", 0))
        with pytest.raises(UnavailableError, match="does not answer"):
            Registry(RemoteBackend(f"http://127.0.0.1:{held.getsockname()[1]}")).head()


def answering(raw, count=1):
    """Answer so many connections with the same bytes; return the URL and what was asked."""
    listener, asked = socket.create_server(("127.0.0.1", 0)), []

    def run():
        for _ in range(count):
            connection, _ = listener.accept()
            asked.append(connection.recv(65536))
            connection.sendall(raw)
            connection.close()
        listener.close()

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", asked


def test_a_redirect_is_not_followed_and_the_token_stays_here():
    target, stolen = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    url, asked = answering(b"HTTP/1.1 302 Found\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % target.encode())
    with pytest.raises(UsageError, match="elsewhere"):
        Registry(RemoteBackend(url, "vit_secret")).head()
    assert b"vit_secret" in asked[0]
    assert not stolen


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 6\r\n\r\n<html>", UnavailableError),
        (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", DeniedError),
        (b"HTTP/1.1 418 Teapot\r\ncontent-length: 2\r\n\r\n[]", UsageError),
        (
            b'HTTP/1.1 400 Bad\r\ncontent-length: 50\r\n\r\n{"error":"SystemExit","message":"","remedy":""}   ',
            UsageError,
        ),
        (b'HTTP/1.1 400 Bad\r\ncontent-length: 34\r\n\r\n{"error":1,"message":2,"remedy":3}', UsageError),
        (b"not http at all", UnavailableError),
        (b"", UnavailableError),
    ],
)
def test_what_does_not_answer_as_a_registry_is_a_typed_error(raw, error):
    url, _ = answering(raw, count=5)
    with pytest.raises(error):
        Registry(RemoteBackend(url)).create_model("churn")


def test_what_changes_something_is_not_sent_twice():
    url, asked = answering(b"", count=5)
    with pytest.raises(UnavailableError):
        Registry(RemoteBackend(url)).create_model("churn")
    assert len(asked) == 1


def test_what_only_reads_is_asked_again_and_a_busy_server_is_waited_for():
    busy = b"HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"
    url, asked = answering(busy, count=5)
    with pytest.raises(UnavailableError):
        Registry(RemoteBackend(url)).head()
    assert len(asked) == 5


def test_small_content_goes_and_comes(client, tmp_path):
    for data in (b"", b"x", b"manifest" * 1000):
        path = tmp_path / "file"
        path.write_bytes(data)
        digest = Digest.of(data)
        client.backend.upload(digest, path)
        client.backend.upload(digest, path)
        assert b"".join(client.backend.read(digest)) == data
    assert b"".join(client.backend.read(Digest.of(b"manifest" * 1000), 7990)) == b"stmanifest"


def test_content_that_is_not_what_its_digest_says_is_refused_by_the_server(client, tmp_path):
    path = tmp_path / "file"
    for data in (b"lie", os.urandom(SIZE)):
        path.write_bytes(data)
        wrong = Digest.of(data + b"!")
        with pytest.raises(CorruptError):
            client.backend.upload(wrong, path)
        with pytest.raises(ReferenceNotFoundError):
            client.backend.read(wrong)


def test_an_upload_goes_on_where_the_connection_broke(registry_server, file):
    relay = Relay(registry_server.port, up=5_000_000)
    client = Registry(RemoteBackend(relay.url, registry_server.token("writer")))
    client.backend.upload(Digest.of_file(file), file)
    assert relay.cuts >= 4
    assert b"".join(client.backend.read(Digest.of_file(file))) == file.read_bytes()
    client.close()
    relay.close()


def test_a_download_goes_on_where_the_connection_broke(registry_server, client, file):
    client.backend.upload(Digest.of_file(file), file)
    relay = Relay(registry_server.port, down=5_000_000)
    reader = Registry(RemoteBackend(relay.url, registry_server.token("reader")))
    assert b"".join(reader.backend.read(Digest.of_file(file))) == file.read_bytes()
    assert relay.cuts >= 4
    assert b"".join(reader.backend.read(Digest.of_file(file), 20_000_000)) == file.read_bytes()[20_000_000:]
    reader.close()
    relay.close()


def test_a_server_that_is_killed_and_started_again_in_the_middle_of_an_upload_loses_nothing(fresh_server, file):
    relay = Relay(fresh_server.port)
    client = Registry(RemoteBackend(relay.url, fresh_server.token("writer")))
    middle, go_on, count = threading.Event(), threading.Event(), itertools.count()

    def copy(source, sink, most):
        try:
            while data := source.recv(65536):
                if next(count) == 100:  # of some 370
                    middle.set()
                    go_on.wait(PATIENCE)
                sink.sendall(data)
        except OSError:
            pass
        relay._end(source, sink)

    relay._copy = copy
    sending = threading.Thread(target=client.backend.upload, args=(Digest.of_file(file), file))
    sending.start()
    assert middle.wait(PATIENCE)
    fresh_server.stop(signal.SIGKILL)
    go_on.set()
    until(lambda: relay.missed, "the client finds no server")
    fresh_server.start()
    sending.join(PATIENCE)
    assert not sending.is_alive()
    assert b"".join(client.backend.read(Digest.of_file(file))) == file.read_bytes()
    client.close()
    relay.close()


def test_content_that_is_damaged_on_its_way_is_noticed():
    data = b"x" * 100
    url, _ = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n" + b"y" * 100)
    with pytest.raises(CorruptError):
        b"".join(RemoteBackend(url).read(Digest.of(data)))


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"", b"null", b'{"seq":"x"}', b"\xff", b"[" * 100_000, b'{"seq":1,"hash":"","time":"never"}']
)
def test_an_answer_of_another_shape_is_malformed(body):
    raw = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    url, _ = answering(raw)
    with pytest.raises(MalformedError, match="GetHead"):
        Registry(RemoteBackend(url)).head()


def test_a_newer_server_may_say_more():
    body = b'{"seq":1,"hash":"00","time":"2026-01-01T00:00:00Z","more":{"deep":[1]}}'
    url, _ = answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    assert Registry(RemoteBackend(url)).head().seq == 1
