"""Events are sent signed, at least once, and never where they must not go."""

import hashlib
import hmac
import ipaddress
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from registries import register
from servers import PATIENCE, until

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.registry import requests as r
from vitrify.registry import webhooks
from vitrify.registry.webhooks import Sender, is_public, target_of

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def receiver():
    """A real web server that remembers what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.seen.append((dict(self.headers), body))
            self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
            self.send_header("Location", self.server.elsewhere)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.seen, server.answers, server.elsewhere = [], [], "http://127.0.0.1:1/"
        server.url = f"http://127.0.0.1:{server.server_port}/hook?x=1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(params=["sqlite+disk", "postgresql+disk"])
def backend(request, registries):
    return registries.open(request.param)


def hurry(monkeypatch, seconds=1_000_000):
    """Let the sender's clock be ahead."""
    now = webhooks._now()
    monkeypatch.setattr(webhooks, "_now", lambda: now + seconds * 1_000_000)


def test_an_event_arrives_signed(backend, registry, receiver):
    hook = backend.do(r.CreateWebhook(url=receiver.url, kinds=("version.*",), models=("churn",)))
    register(backend)
    register(backend, model="other")
    assert Sender(backend.database, LOOPBACK).send() == 1
    ((headers, body),) = receiver.seen
    event = json.loads(body)
    assert (event["kind"], event["model"], event["version"]) == ("version.created", "churn", "1")
    signed = f"{headers['Vitrify-Timestamp']}.".encode() + body
    expected = hmac.new(hook.secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["Vitrify-Signature"] == f"v1={expected}"
    (delivery,) = backend.do(r.ListDeliveries(id=hook.id)).deliveries
    assert (delivery.state, delivery.status, delivery.attempts) == ("sent", 204, 1)
    assert Sender(backend.database, LOOPBACK).send() == 0


def test_secrets_are_shown_once(backend):
    backend.do(r.CreateWebhook(url="https://hooks.example.com/"))
    assert [hook.secret for hook in backend.do(r.ListWebhooks()).webhooks] == [""]


def test_what_fails_is_tried_again_and_then_given_up(backend, receiver, monkeypatch):
    hook = backend.do(r.CreateWebhook(url=receiver.url, kinds=("version.created",)))
    register(backend)
    receiver.answers = [500] * 20
    sender = Sender(backend.database, LOOPBACK)
    for attempt in range(1, 20):
        sent = sender.send()
        (delivery,) = backend.do(r.ListDeliveries(id=hook.id)).deliveries
        if not sent:
            break
        assert delivery.attempts == attempt
        hurry(monkeypatch, attempt * 100_000)
    assert (delivery.state, delivery.attempts, delivery.status) == ("failed", 10, 500)
    identities = {headers["Vitrify-Delivery"] for headers, _ in receiver.seen}
    assert identities == {str(delivery.id)}, "an event that is sent again keeps its name"


def test_a_sender_that_dies_holds_an_event_up_for_a_minute_only(backend, receiver, monkeypatch):
    backend.do(r.CreateWebhook(url=receiver.url, kinds=("version.created",)))
    register(backend)
    assert Sender(backend.database, LOOPBACK)._claim()  # and then it dies
    assert Sender(backend.database, LOOPBACK).send() == 0
    hurry(monkeypatch, 61)
    assert Sender(backend.database, LOOPBACK).send() == 1


def test_a_redirect_is_not_followed(backend, receiver):
    hook = backend.do(r.CreateWebhook(url=receiver.url, kinds=("version.created",)))
    receiver.answers = [302]
    register(backend)
    Sender(backend.database, LOOPBACK).send()
    (delivery,) = backend.do(r.ListDeliveries(id=hook.id)).deliveries
    assert (delivery.status, delivery.state, delivery.error) == (302, "waiting", "it answered 302")


def test_a_private_address_is_not_spoken_to(backend, receiver):
    hook = backend.do(r.CreateWebhook(url=receiver.url, kinds=("version.created",)))
    register(backend)
    Sender(backend.database).send()
    assert not receiver.seen
    (delivery,) = backend.do(r.ListDeliveries(id=hook.id)).deliveries
    assert "not allowed" in delivery.error


def test_a_name_that_changes_its_mind_gains_nothing(backend, receiver, monkeypatch):
    """The address that was checked is the one that is connected to: the name is looked up once."""
    asked = []

    def lookup(host, port, **_):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port))]

    url = receiver.url.replace("127.0.0.1", "hooks.example.com")
    backend.do(r.CreateWebhook(url=url, kinds=("version.created",)))
    register(backend)
    original = socket.getaddrinfo
    monkeypatch.setattr(
        webhooks.socket,
        "getaddrinfo",
        lambda host, port, *a, **k: (
            lookup(host, port) if host.endswith("example.com") else original(host, port, *a, **k)
        ),
    )
    Sender(backend.database, LOOPBACK).send()
    assert asked == ["hooks.example.com"]
    assert receiver.seen[0][0]["Host"].startswith("hooks.example.com:")


def test_a_webhook_that_was_deleted_is_told_nothing_more(backend, receiver):
    hook = backend.do(r.CreateWebhook(url=receiver.url))
    register(backend)
    backend.do(r.DeleteWebhook(id=hook.id))
    register(backend)
    assert Sender(backend.database, LOOPBACK).send() == 0
    with pytest.raises(ReferenceNotFoundError):
        backend.do(r.ListDeliveries(id=hook.id))


def test_the_sender_runs_until_it_is_stopped(backend, receiver):
    backend.do(r.CreateWebhook(url=receiver.url, kinds=("version.created",)))
    sender = Sender(backend.database, LOOPBACK)
    thread = threading.Thread(target=sender.run, args=(0.01,))
    thread.start()
    register(backend)
    until(lambda: receiver.seen, "the event arrived")
    sender.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert len(receiver.seen) == 1


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "ftp://example.com/", "file:///etc/passwd", "http://", "https:///x", "http://a b/"),
        *("http://user:pw@example.com/", "http://example.com:99999/", "http://example.com/#x", "javascript:alert(1)"),
        *("http://[::1", "https://exa\nmple.com/", "gopher://example.com:70/"),
    ],
)
def test_what_is_no_url_of_a_web_server_is_refused(url):
    with pytest.raises(UsageError):
        target_of(url)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("ff02::1", False),
    ],
)
def test_which_addresses_are_public(address, public):
    assert is_public(ipaddress.ip_address(address)) is public


@given(st.ip_addresses(v=4))
def test_no_wrapping_makes_a_private_address_public(address):
    for wrapped in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert is_public(ipaddress.ip_address(wrapped)) <= is_public(address)
