"""What a stranger may send: no request makes the server fail, and none reaches what it should not."""

from __future__ import annotations

import json
import re
import socket
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, IncompleteRead

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow_wire import API, FILES, ROUTER, Refused, Wire
from servers import PATIENCE

from vitrify.core.digest import Digest
from vitrify.registry.api.mlflow import _wire, rows

FIELDS = sorted({field.encode_name for row in rows() for field in msgspec.structs.fields(row.message)})
KNOWN = ("0", "1", "churn", "READY", "ACTIVE_ONLY", "name", "a" * 600, "name = 'x'", "m-1", "NaN", "Production")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(KNOWN),
    st.text(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["key", "value", "model_id", "x"]), inner, max_size=3),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A registry with one of everything, so that a request gets further than to its first look-up."""
    from vitrify.registry.actor import everyone
    from vitrify.registry.blobs import open_blobs
    from vitrify.registry.database import Database
    from vitrify.registry.local import LocalBackend

    folder = tmp_path_factory.mktemp("filled")
    backend = LocalBackend(Database(folder / "registry.db"), open_blobs(folder / "content"), everyone("ann"))
    wire = Wire(backend)
    wire.version()
    wire.post("runs/create", experiment_id="0")
    yield wire
    backend.close()


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.method} {row.path}")
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_fields_of_a_request_make_the_server_fail(row, filled, data):
    own = [field.encode_name for field in msgspec.structs.fields(row.message)]
    names = st.sampled_from(own)
    fields = data.draw(st.dictionaries(names, VALUES, max_size=len(own)))
    path = re.sub(r"\{\w+\}", "m-1", row.route.pattern)
    body = json.dumps(fields, allow_nan=True).encode()
    try:
        filled.answer(row.method, path, body)
    except Refused as refused:
        assert refused.status < 500, refused  # noqa: PT017 (an answer is no failure, an error may be)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"{}"',
        b"null",
        b"1",
        b"\xff\xfe",
        b"\x00",
        b'{"name": "\\ud800"}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "a\\u202eb"}',
        b'{"name": NaN}',
        b'{"name": 1}',
        b'{"name": ["a"]}',
        b'{"name": {"a": 1}}',
        b'{"name": "x", "tags": "x"}',
        b'{"name": "x", "tags": [1]}',
        b'{"name": "x", "tags": [{"value": "x"}]}',
        b'{"name": "x", "tags": {"key": "a"}}',
        b'{"name": "x", "description": "' + b"a" * 300_000 + b'"}',
        b'{"name": "x", "tags": [' + b",".join([b'{"key":"a"}'] * 1001) + b"]}",
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_body_of_another_shape_is_refused_in_words(filled, body):
    with pytest.raises(Refused) as caught:
        filled.answer("POST", f"{API}/registered-models/create", body)
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")
    assert len(caught.value.message) < 2000


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "a@b", "../a", "a//b", "/a", "a/", "a%2Fb", "'; --", "é", "a" * 300]
)
def test_a_name_that_is_none_of_ours_is_refused(filled, name):
    with pytest.raises(Refused) as caught:
        filled.post("registered-models/create", name=name)
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize("alias", ["", "production", "latest", "v1", "1", "a b", "a/b", "a" * 200])
def test_an_alias_that_could_be_read_otherwise_is_refused(filled, alias):
    with pytest.raises(Refused) as caught:
        filled.post("registered-models/alias", name="churn", alias=alias, version="1")
    assert caught.value.status == 400


@pytest.mark.parametrize("version", ["", "0", "-1", "1.0", "latest", "@champion", "1; DROP", "9" * 30, "٣"])
def test_a_version_that_is_no_counter_is_refused(filled, version):
    with pytest.raises(Refused) as caught:
        filled.get("model-versions/get", name="churn", version=version)
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")


def test_an_injection_into_a_filter_or_an_order_finds_nothing_and_breaks_nothing(filled):
    for text in ("x' OR '1'='1", "x'); DROP TABLE versions; --", "%' UNION SELECT * FROM tokens --"):
        quoted = text.replace("'", "\\'")
        for query in (f"name = '{quoted}'", f'name LIKE "{text}"', f"tags.`{text}` = 'x'", f'tags.x IN ("{text}")'):
            assert filled.get("model-versions/search", filter=query)["model_versions"] == []
            assert filled.get("registered-models/search", filter=query)["registered_models"] == []
    with pytest.raises(Refused):
        filled.get("model-versions/search", order_by=["name; DROP TABLE versions"])
    assert len(filled.get("model-versions/search")["model_versions"]) == 1


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_takes_a_text_without_a_bound(field):
    class Asked:
        body = json.dumps({field: "a" * 1_100_000}).encode()
        query: dict = {}
        path: dict = {}

    with pytest.raises(Exception, match="at most 1048576 characters"):
        _wire._parse(Asked, _wire.Message)


# Over the wire

TRICKS = [
    "../../../etc/passwd",
    "a/../../b",
    "%2e%2e/%2e%2e/etc/passwd",
    "a/%2e%2e/b",
    "..%2f..%2fetc%2fpasswd",
    "%252e%252e/%252e%252e/etc/passwd",
    "a%00b",
    "a%0ab",
    "a%5c..%5cb",
    "%ff%fe",
    "%zz",
    "a//b",
    "/etc/passwd",
    "a:b",
    "C:%5cwindows",
    "a/" * 600 + "a",
    "a" * 300,
    "a" * 20_000,
    "vitrify-versions/churn/@1/../../../0/x",
]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick[:30])
def test_a_path_with_a_trick_in_it_reaches_nothing(server, token, method, trick):
    answer = raw(server, method, f"{FILES}/{trick}", token, b"evil" if method == "PUT" else b"")
    assert answer.status in {400, 403, 404, 405, 414}, answer.data


def test_no_route_is_open_but_the_health(server):
    for route in ROUTER.routes:
        path = re.sub(r"\{\w+\*?\}", "x", route.pattern)
        status = raw(server, route.method, path, "", b"{}").status
        assert status == (200 if route.role is None else 401), route
        assert raw(server, route.method, path, "vit_0123456789abcdef_" + "A" * 43, b"{}").status in {200, 401}
    assert [route.pattern for route in ROUTER.routes if route.role is None] == ["/health"]


def test_an_error_of_the_doorkeepers_is_one_that_mlflow_can_read(server):
    answer = raw(server, "GET", f"{API}/registered-models/get?name=churn", "")
    assert json.loads(answer.data)["error_code"] == "UNAUTHENTICATED"


def test_the_server_says_what_it_offers(server, token):
    assert raw(server, "GET", "/health", "").data == b"OK"
    assert raw(server, "GET", "/version", token).data == b"3.17.2"
    said = json.loads(raw(server, "GET", "/api/3.0/mlflow/server-info", token).data)
    assert said["multipart_uploads_enabled"] is said["multipart_downloads_enabled"] is False


@pytest.mark.parametrize(
    "path", ["2.0/mlflow/webhooks", "3.0/mlflow/traces/search", "2.0/mlflow-artifacts/mpu/create/x"]
)
def test_what_is_not_offered_says_so_in_mlflows_words(server, token, path):
    answer = raw(server, "POST", f"/api/{path}", token, b"{}")
    assert (answer.status, json.loads(answer.data)["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
    assert raw(server, "GET", "/api/2.0/mlflow/model-versions/create", token).status == 404


def test_a_browser_that_is_sent_a_file_does_not_show_it(server, token):
    raw(server, "PUT", f"{FILES}/0/page.html", token, b"<script>alert(1)</script>")
    answer = raw(server, "GET", f"{FILES}/0/page.html", token)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")


def test_an_upload_that_breaks_off_leaves_nothing(server, token):
    raw(server, "PUT", f"{FILES}/0/kept.bin", token, b"before")
    host, port = server.url.removeprefix("http://").split(":")
    head = f"PUT {FILES}/0/kept.bin HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        connection.sendall(head.encode() + b"content-length: 5000000\r\n\r\n" + b"x" * 2_000_000)
    for _ in range(20):
        assert raw(server, "GET", f"{FILES}/0/kept.bin", token).data == b"before"


def test_content_that_was_damaged_on_the_disk_is_not_sent_as_if_it_were_whole(server, token):
    data = b"weights" * 500_000
    raw(server, "PUT", f"{FILES}/0/damaged.bin", token, data)
    backend = server.local()
    place = backend.blobs.path(Digest.of(data))
    backend.close()
    place.chmod(0o644)
    with place.open("r+b") as stream:
        stream.write(b"WEIGHTS")
    with pytest.raises((IncompleteRead, ConnectionError)):
        raw(server, "GET", f"{FILES}/0/damaged.bin", token)


@pytest.fixture(scope="module")
def token(server):
    return server.token("admin")


def raw(server, method, path, token, body=b""):
    """Send a request whose path nobody tidies up."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with closing(HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE)) as connection:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        with connection.getresponse() as answer:
            return Raw(answer.status, dict(answer.headers), answer.read())


@dataclass
class Raw:
    """An answer as it came."""

    status: int
    headers: dict
    data: bytes
