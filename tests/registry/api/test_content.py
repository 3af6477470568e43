"""Content over HTTP: ranges, conditions, resumed uploads, and lies."""

import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import call, postgresql, running_server, s3, send

from vitrify.core.digest import Digest
from vitrify.registry.api.content import range_of
from vitrify.registry.api.uploads import MOST_OPEN

__all__ = ["postgresql", "s3"]

DATA = os.urandom(3_000_000)
DIGEST = Digest.of(DATA)
PLACE = f"/v1/content/{DIGEST}"


@pytest.fixture(scope="module")
def writer(registry_server):
    return registry_server.token("writer")


@pytest.fixture(scope="module")
def there(registry_server, writer):
    assert call(registry_server, "PUT", PLACE, token=writer, raw=DATA)[0] in {200, 201}


def start(server, token, data, digest=None):
    asked = {"digest": str(digest or Digest.of(data)), "size": len(data)}
    status, headers, body = call(server, "POST", "/v1/uploads", token=token, body=asked)
    return status, headers.get("location"), json.loads(body)


def add(server, token, place, offset, data):
    return call(server, "PATCH", place, token=token, raw=data, Upload_Offset=str(offset))


def test_content_comes_whole_with_what_caches_need(registry_server, writer, there):
    status, headers, data = call(registry_server, "GET", PLACE, token=writer)
    assert (status, data) == (200, DATA)
    assert headers["etag"] == f'"{DIGEST}"'
    assert headers["content-length"] == str(len(DATA))
    assert "immutable" in headers["cache-control"]
    assert headers["content-disposition"].startswith("attachment")
    status, headers, data = call(registry_server, "HEAD", PLACE, token=writer)
    assert (status, headers["content-length"], data) == (200, str(len(DATA)), b"")
    assert call(registry_server, "GET", PLACE, token=writer, If_None_Match=f'"{DIGEST}"')[0] == 304


@pytest.mark.parametrize(
    ("asked", "span"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=2999990-", (2_999_990, 3_000_000)),
        ("bytes=2999990-9999999", (2_999_990, 3_000_000)),
        ("bytes=-5", (2_999_995, 3_000_000)),
        ("bytes=-9999999", (0, 3_000_000)),
    ],
)
def test_one_range_comes_alone(registry_server, writer, there, asked, span):
    start, stop = span
    status, headers, data = call(registry_server, "GET", PLACE, token=writer, Range=asked)
    assert (status, data) == (206, DATA[start:stop])
    assert headers["content-range"] == f"bytes {start}-{stop - 1}/{len(DATA)}"


@pytest.mark.parametrize("asked", ["bytes=0-1,5-6", "items=0-1", "bytes=-", "bytes=5-2", "bytes=a-b", "bytes=1", "0-1"])
def test_a_range_that_is_not_understood_is_ignored(registry_server, writer, there, asked):
    status, _, data = call(registry_server, "GET", PLACE, token=writer, Range=asked)
    assert (status, len(data)) == (200, len(DATA))


@pytest.mark.parametrize("asked", ["bytes=3000000-", "bytes=99999999-999999999", "bytes=-0"])
def test_a_range_outside_says_how_much_there_is(registry_server, writer, there, asked):
    status, headers, _ = call(registry_server, "GET", PLACE, token=writer, Range=asked)
    assert (status, headers["content-range"]) == (416, f"bytes */{len(DATA)}")


def test_a_range_of_other_content_is_not_what_is_continued(registry_server, writer, there):
    about = {"Range": "bytes=5-9", "If_Range": '"sha256:other"'}
    assert call(registry_server, "GET", PLACE, token=writer, **about)[0] == 200


@given(st.text("bytes=-,0123456789 ", max_size=20), st.integers(0, 100))
def test_every_range_is_inside_or_none(asked, size):
    found = range_of(asked, size)
    assert found is None or 0 <= found[0] <= found[1] <= size


@pytest.mark.parametrize("lie", ["digest", "too short", "too long"])
def test_content_that_lies_is_refused_and_nothing_stays(registry_server, writer, lie):
    data = os.urandom(500_000)
    digest = Digest.of(data + b"!") if lie == "digest" else Digest.of(data)
    sent = {"digest": data, "too short": data[:-1], "too long": data + b"?"}[lie]
    status, _, body = call(registry_server, "PUT", f"/v1/content/{digest}", token=writer, raw=sent)
    assert (status, json.loads(body)["error"]) == (400, "CorruptError")
    assert call(registry_server, "HEAD", f"/v1/content/{digest}", token=writer)[0] == 404
    missing = call(registry_server, "POST", "/v1/missing", token=writer, body={"digests": [str(digest)]})
    assert json.loads(missing[2]) == {"digests": [str(digest)]}


def test_content_whose_length_is_not_said_is_refused(registry_server, writer):
    head = f"PUT {PLACE[:-1]}0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {writer}\r\nTransfer-Encoding: chunked\r\n"
    answer = send(registry_server, f"{head}Connection: close\r\n\r\n0\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"length" in answer


def test_a_sender_that_leaves_in_the_middle_leaves_nothing(registry_server, writer):
    data = os.urandom(2_000_000)
    digest = Digest.of(data)
    head = f"PUT /v1/content/{digest} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {writer}\r\n"
    send(registry_server, f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[:-1000], wait=False)
    assert call(registry_server, "HEAD", f"/v1/content/{digest}", token=writer)[0] == 404
    assert call(registry_server, "PUT", f"/v1/content/{digest}", token=writer, raw=data)[0] == 201


def test_an_upload_comes_in_parts_and_says_how_much_it_has(registry_server, writer):
    data = os.urandom(1_000_000)
    status, place, state = start(registry_server, writer, data)
    assert (status, state["offset"]) == (201, 0)
    status, headers, _ = add(registry_server, writer, place, 0, data[:400_000])
    assert (status, headers["upload-offset"]) == (200, "400000")
    status, headers, _ = add(registry_server, writer, place, 0, data)
    assert (status, headers["upload-offset"]) == (409, "400000")
    status, headers, _ = call(registry_server, "HEAD", place, token=writer)
    assert (status, headers["upload-offset"], headers["upload-length"]) == (200, "400000", "1000000")
    assert call(registry_server, "PUT", place, token=writer)[0] == 409
    assert add(registry_server, writer, place, 400_000, data[400_000:])[0] == 200
    assert call(registry_server, "PUT", place, token=writer)[0] == 201
    assert call(registry_server, "PUT", place, token=writer)[0] == 404
    assert start(registry_server, writer, data)[0] == 200


def test_an_upload_that_lies_is_gone(registry_server, writer):
    data = os.urandom(100_000)
    digest = Digest.of(data + b"!")
    _, place, _ = start(registry_server, writer, data, digest)
    assert add(registry_server, writer, place, 0, data)[0] == 200
    status, _, body = call(registry_server, "PUT", place, token=writer)
    assert (status, json.loads(body)["error"]) == (400, "CorruptError")
    assert call(registry_server, "HEAD", place, token=writer)[0] == 404
    assert call(registry_server, "HEAD", f"/v1/content/{digest}", token=writer)[0] == 404


def test_more_than_was_promised_is_refused(registry_server, writer):
    data = os.urandom(100_000)
    _, place, _ = start(registry_server, writer, data)
    status, _, body = add(registry_server, writer, place, 0, data + b"more")
    assert (status, json.loads(body)["error"]) == (400, "CorruptError")


def test_an_upload_is_its_beginners_alone(registry_server, writer):
    data = os.urandom(1000)
    _, place, _ = start(registry_server, writer, data)
    other = registry_server.token("admin", who="other")
    assert add(registry_server, other, place, 0, data)[0] == 404
    for method in ("HEAD", "PUT", "DELETE"):
        assert call(registry_server, method, place, token=other)[0] == 404
    assert call(registry_server, "DELETE", place, token=writer)[0] == 204
    assert call(registry_server, "HEAD", place, token=writer)[0] == 404


@pytest.mark.parametrize(
    "asked",
    [
        {"digest": "sha256:x", "size": 1},
        {"digest": str(DIGEST), "size": -1},
        {"digest": str(DIGEST), "size": 2**62},
        {"digest": str(DIGEST), "size": "1"},
        {"digest": str(DIGEST)},
        {"digest": str(DIGEST), "size": 1},
        {"digest": f"sha512:{'0' * 64}", "size": 1},
    ],
)
def test_an_upload_that_cannot_be_is_refused(registry_server, writer, there, asked):
    assert call(registry_server, "POST", "/v1/uploads", token=writer, body=asked)[0] == 400


@pytest.mark.parametrize("offset", ["", "x", "-1", "1.0", "9" * 40, "²"])
def test_an_offset_that_is_no_number_is_refused(registry_server, writer, offset):
    _, place, _ = start(registry_server, writer, os.urandom(10))
    assert add(registry_server, writer, place, offset.encode().decode("latin-1"), b"x")[0] == 400


def test_nobody_begins_uploads_without_end(registry_server):
    token = registry_server.token("writer", who="greedy")
    places = [start(registry_server, token, os.urandom(16))[1] for _ in range(MOST_OPEN)]
    status, _, said = start(registry_server, token, os.urandom(16))
    assert status == 409
    assert "not finished" in said["message"]
    assert call(registry_server, "DELETE", places[0], token=token)[0] == 204
    assert start(registry_server, token, os.urandom(16))[0] == 201


def test_many_who_send_the_same_at_once_all_succeed(registry_server, writer):
    data = os.urandom(700_000)
    place, found = f"/v1/content/{Digest.of(data)}", []

    def put():
        found.append(call(registry_server, "PUT", place, token=writer, raw=data)[0])

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) <= {200, 201}
    assert call(registry_server, "GET", place, token=writer)[2] == data


@pytest.mark.external
@pytest.mark.parametrize("content", ["disk", "s3"])
def test_two_servers_before_one_postgresql_are_one_registry(request, tmp_path, postgresql, content):
    blobs = str(tmp_path / "blobs") if content == "disk" else request.getfixturevalue("s3").url()
    place = postgresql.database()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    data = os.urandom(1_000_000)
    with (
        running_server(tmp_path / "one", place, blobs) as one,
        running_server(tmp_path / "two", place, blobs) as two,
    ):
        token = one.token("writer", who="ada")
        assert call(one, "POST", "/v1/models", token=token, body={"name": "churn"})[0] == 200
        assert call(two, "GET", "/v1/models/churn", token=token)[0] == 200
        _, upload, _ = start(one, token, data)
        assert add(one, token, upload, 0, data[:300_000])[0] == 200
        status, headers, _ = call(two, "HEAD", upload, token=token)
        assert (status, headers["upload-offset"]) == (200, "300000")
        assert add(two, token, upload, 300_000, data[300_000:])[0] == 200
        assert call(one, "PUT", upload, token=token)[0] == 201
        assert call(two, "GET", f"/v1/content/{Digest.of(data)}", token=token)[2] == data
