"""What clients with bad intentions send: an answer with a reason, never a 500, never a hang."""

import json

import pytest
from servers import call, send, until


@pytest.fixture(scope="module")
def token(registry_server):
    return registry_server.token("admin")


def head(token, line, *more):
    lines = [line, "Host: x", f"Authorization: Bearer {token}", *more, "", ""]
    return "\r\n".join(lines).encode("latin-1")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/models/..", 400),
        ("/v1/models/%2e%2e", 400),
        ("/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404),
        ("/v1/models/a%00b", 400),
        ("/v1/models/a%0d%0aSet-Cookie:x", 400),
        ("/v1/models/%ff", 400),
        ("/v1/models/%c0%ae%c0%ae", 400),
        ("//v1/models", 404),
        ("/v1//models", 404),
        ("/v1/models/", 404),
        ("/v1/models/" + "a" * 5000, 404),
        ("/v1/models?limit=1&limit=2", 400),
        ("/v1/models?limit=x", 400),
        ("/v1/models?limit=99999999999999999999", 400),
        ("/v1/models?unknown=1", 400),
        ("/v1/models?name=%ff", 400),
        ("/v1/models?name=a%00", 400),
        ("/v1/models/x/production?at=yesterday", 400),
        ("/v1/promotions/abc", 400),
        ("/v1/promotions/9999999999999999999999", 400),
        ("/v1/content/sha256:abc", 400),
        ("/v1/content/..%2F..%2Fetc%2Fpasswd", 400),
        ("/v1/uploads/..%2Fx", 405),
        ("/v1/lineage/%27%20OR%201=1", 404),
        ("/v1/versions?query=" + "%28" * 3000, 400),
        ("/v1/versions?query=" + "a" * 17000, 400),
    ],
)
def test_tricks_in_a_url_get_an_error_that_says_why(registry_server, token, path, status):
    found, headers, data = call(registry_server, "GET", path, token=token)
    assert found == status, data
    assert headers["content-type"] == "application/json"
    said = json.loads(data)
    assert said["message"]
    assert "Traceback" not in data.decode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"name": 1}',
        b'{"name": null}',
        b'{"name": "a", "unknown": 1}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "\\ud800"}',
        b'{"name": "a", "tags": {"k": 1}}',
        b'{"name": "a", "tags": []}',
        b'{"name": "' + b"a" * 300_000 + b'"}',
        b'{"name": "a", "description": "' + b"a" * 1_000_000 + b'"}',
        b"[" * 100_000,
        b'{"name": ' + b'{"a":' * 50_000,
        b'{"name": "../../etc"}',
        b'{"name": "a:b"}',
        b'{"extra": {"name": "a"}}',
        b'{"name": "a", "tags": {' + b",".join(b'"%d": ""' % n for n in range(2000)) + b"}}",
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
def test_tricks_in_a_body_get_an_error_that_says_why(registry_server, token, body):
    status, _, data = call(
        registry_server, "POST", "/v1/models", token=token, raw=body, Content_Type="application/json"
    )
    assert status == 400, data
    assert json.loads(data)["error"] in {"UsageError", "MalformedError"}


def test_a_body_that_is_too_long_is_refused_by_what_it_says_and_by_what_comes(registry_server, token):
    said = head(token, "POST /v1/models HTTP/1.1", "Content-Type: application/json", "Content-Length: 99999999999")
    assert b" 413 " in send(registry_server, said).split(b"\r\n")[0]
    chunked = head(token, "POST /v1/uploads HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
    assert b" 413 " in send(registry_server, chunked + b"ffff\r\n" + b"a" * 0xFFFF).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 1", "Content-Length: 2"),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: -1",),
        ("Content-Length: 0x10",),
        ("Transfer-Encoding: gzip, chunked, x",),
        ("X: a\x00b",),
        ("X Y: a",),
    ],
    ids=lambda lines: lines[-1],
)
def test_a_head_that_two_servers_could_read_in_two_ways_is_refused(registry_server, token, lines):
    answer = send(registry_server, head(token, "POST /v1/models HTTP/1.1", "Content-Type: application/json", *lines))
    assert answer.startswith(b"HTTP/1.1 400") or answer == b"", answer[:200]


def test_a_head_without_end_is_refused_and_not_kept(registry_server, token):
    for data in (
        b"GET /" + b"a" * 200_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
    ):
        answer = send(registry_server, data, enough=b"\r\n")
        assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")) or answer == b"", answer[:100]


def test_what_is_not_http_is_refused(registry_server):
    for data in (b"\x16\x03\x01\x02\x00" + b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"hello\r\n\r\n"):
        assert send(registry_server, data, enough=b"\r\n").startswith(b"HTTP/1.1 4")
    assert send(registry_server, b"GET * HTTP/1.1\r\nHost: x\r\n\r\n", enough=b"\r\n").startswith(b"HTTP/1.1 4")


def test_the_log_has_one_line_a_request_and_no_token_whatever_is_sent(registry_server, token):
    call(registry_server, "GET", "/v1/models/x%22%7D%0A%7B%22event%22", token=token)
    call(registry_server, "GET", f"/v1/models?name={token}", token=token)
    call(registry_server, "GET", "/v1/models", token=token, X_Request_Id="evil\u001b[31m id\\n")
    status, headers, _ = call(registry_server, "GET", "/v1/models", token=token, X_Request_Id="mine-12345678")
    assert (status, headers["x-request-id"]) == (200, "mine-12345678")
    until(lambda: "mine-12345678" in registry_server.log.read_text(encoding="utf-8"), "the last one is in the log")
    text = registry_server.log.read_text(encoding="utf-8")
    assert token.rpartition("_")[2] not in text
    lines = [json.loads(line) for line in text.splitlines()[1:]]  # the first says where it serves
    assert any(line.get("id") == "mine-12345678" and line["actor"] == "admin" for line in lines)
    assert all({"time", "event"} <= line.keys() for line in lines)


def test_a_fault_of_ours_is_told_by_its_id_only(tmp_path):
    from vitrify.core import errors as e
    from vitrify.registry.api.errors import answer_of, said, status_of

    secret = "postgresql://user:secret@db/registry"
    cause = OSError(28, "No space left on device", "/srv/secret")
    full = e.StoreError("could not write /srv/secret")
    full.__cause__ = cause
    down = e.UnavailableError(f"the database does not answer: {secret}")
    down.__cause__ = RuntimeError(secret)
    for error, status in ((full, 507), (down, 503), (RuntimeError(secret), 500), (e.StoreError(secret), 500)):
        assert status_of(error) == status
        answer = answer_of(said(error, status, "id-1"), status, "id-1")
        assert b"secret" not in answer.body
        assert b"id-1" in answer.body
