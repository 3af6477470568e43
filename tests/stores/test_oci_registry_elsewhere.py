"""A registry that sends us elsewhere is followed to where it may, without our credentials."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores._bad_manners import FILES, WEIGHTS, on

from vitrify.core.errors import LimitExceededError, MalformedError, UnavailableError, VitrifyError
from vitrify.stores import OciLayout, pull
from vitrify.stores.oci_registry import _transport
from vitrify.stores.oci_registry._transport import Transport, is_loopback, is_public, plain


@pytest.fixture
def elsewhere():
    """Run another host, and keep what it is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(FILES["weights"])))
            self.end_headers()
            self.wfile.write(FILES["weights"])

        def log_message(self, *_):
            pass

    asked = []
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.url = asked, f"http://localhost:{server.server_port}/weights?signature=1"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def locked(small, hosted, tmp_path, monkeypatch):
    """Let the registry ask who we are, and have an answer."""
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {small.host: {"auth": "cmVhZGVyOnNlY3JldA=="}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    small.password = "reader:secret"
    return small


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_blob_that_lies_elsewhere_is_fetched_there_without_our_credentials(locked, other, hosted, elsewhere, status):
    small = locked
    small.manners.append(on(f"blobs/{WEIGHTS}")(lambda handler: handler.answer(status, Location=elsewhere.url)))
    assert pull(other, f"oci://{small.host}/churn:1") == hosted
    ((path, headers),) = elsewhere.asked
    assert path == "/weights?signature=1"
    assert "Authorization" not in headers
    assert any("Authorization" in headers for _, _, headers in small.log)


@pytest.mark.parametrize(
    "location",
    [
        *("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1", "data:,x", "http://user:a@host/"),
        *("http://127.0.0.1:99999/", "http://[::1/", "http://ho st/", "http://host\\@evil/", "javascript:x"),
    ],
)
def test_a_redirect_to_what_is_no_address(small, refused, location):
    small.manners.append(on(f"blobs/{WEIGHTS}")(lambda handler: handler.answer(307, Location=location)))
    refused(MalformedError, "sends us")


def test_a_redirect_that_is_too_long(small, refused):
    location = "http://127.0.0.1/" + "x" * 10_000
    small.manners.append(on(f"blobs/{WEIGHTS}")(lambda handler: handler.answer(307, Location=location)))
    refused(LimitExceededError)


def test_redirects_without_end(small, refused):
    small.manners.append(on(f"blobs/{WEIGHTS}")(lambda handler: handler.answer(307, Location=handler.path)))
    refused(UnavailableError, "more than 5 times")


def test_no_redirect_leads_from_an_encrypted_connection_to_an_open_one():
    with pytest.raises(MalformedError, match=r"encrypted connection to an open one: 'http://ghcr\.io/x'"):
        Transport("ghcr.io").url("http://ghcr.io/x?signature=secret")
    assert Transport("ghcr.io").url("//pkg.example.org/x") == "https://pkg.example.org/x"
    assert Transport("ghcr.io").url("/v2/x") == "https://ghcr.io/v2/x"


def test_a_public_registry_sends_nobody_to_a_private_address(elsewhere):
    transport = Transport("127.0.0.1:1")
    transport.__dict__["_others"] = _transport._pools(guarded=True)  # as for a registry on the public internet
    with (
        pytest.raises(MalformedError, match=r"private address 127\.0\.0\.1|private address ::1"),
        transport.send("GET", elsewhere.url, {}),
    ):
        pass
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("name", "public"),
    [
        *(("127.0.0.1", False), ("10.1.2.3", False), ("169.254.169.254", False), ("::1", False), ("fe80::1", False)),
        *(("::ffff:10.0.0.1", False), ("8.8.8.8", True), ("2001:4860:4860::8888", True), ("no-such.invalid", True)),
        ("localhost", False),
    ],
)
def test_what_is_public(name, public):
    assert is_public(name) is public


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *(("localhost", True), ("localhost:5000", True), ("127.0.0.1:5", True), ("[::1]:5", True), ("127.9.9.9", True)),
        *(("registry.localhost", True), ("localhost.example.org", False), ("127.0.0.1.example.org", False)),
        *(("10.0.0.1", False), ("ghcr.io", False), ("[fe80::1]", False)),
    ],
)
def test_only_this_machine_is_spoken_to_without_encryption(host, loopback):
    assert is_loopback(host) is loopback
    assert Transport(host).base.startswith("http://") is loopback
    assert Transport(host, plain_http=True).base == f"http://{host}"


def test_a_registry_that_speaks_no_tls_is_not_spoken_to_in_the_open(small, monkeypatch):
    monkeypatch.setattr(_transport, "is_loopback", lambda host: False)
    monkeypatch.setattr(_transport, "_TRIES", 0)
    with pytest.raises(UnavailableError) as caught:
        pull(OciLayout(), f"oci://{small.host}/churn")
    assert "--plain-http" in caught.value.remedy
    assert small.log == []


@given(text=st.text(max_size=2000))
def test_a_strangers_text_is_one_safe_line(text):
    line = plain(text)
    assert len(line) <= 300
    assert line.isprintable()


@given(location=st.text(max_size=60) | st.from_regex(r"(https?|file)://[^/]{0,20}/.{0,10}", fullmatch=True))
def test_a_location_is_http_or_a_typed_error(location):
    try:
        url = Transport("ghcr.io").url(location)
    except VitrifyError:
        return
    assert url.startswith("https://")
