"""A registry that lies, stalls or sends us elsewhere gives a typed error, and leaves the store as it was."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores._small_registry import INDEX, small_registry

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    CorruptError,
    DeniedError,
    LimitExceededError,
    MalformedError,
    ReferenceNotFoundError,
    StoreError,
    UnavailableError,
    VitrifyError,
)
from vitrify.stores import OciLayout, attach, attestations, pull, push
from vitrify.stores.oci_registry import _transport, tags
from vitrify.stores.oci_registry._transport import Transport, is_loopback, is_public, plain
from vitrify.testing.stores import contents, save

FILES = {"weights": os.urandom(1000) * 3000, "vitrify.json": b"{}"}
WEIGHTS = str(Digest.of(FILES["weights"]))


@pytest.fixture
def small():
    with small_registry() as server:
        yield server


@pytest.fixture
def artifact(store, small, statement):
    digest = save(store, FILES, "churn:latest")
    attach(store, digest, statement(digest))
    push(store, digest, f"oci://{small.host}/churn:1")
    small.log.clear()
    return digest


@pytest.fixture
def other(tmp_path):
    return OciLayout(tmp_path / "other")


@pytest.fixture
def refused(small, other, artifact):
    """Return a function that demands an error of a pull, and that nothing of it stays."""

    def check(kind, match=None, reference="churn:1"):
        with pytest.raises(kind, match=match) as caught:
            pull(other, f"oci://{small.host}/{reference}")
        assert type(caught.value) is kind
        assert list(other.digests()) == []
        assert other.index.read().manifests == ()
        return caught.value

    return check


def on(part, method="GET"):
    """Return a decorator for a manner that answers the requests whose path has ``part`` in it."""

    def decorate(function):
        return lambda handler: handler.command == method and part in handler.path and function(handler)

    return decorate


def swap(small, **changes):
    """Change the manifest of churn:1, and what it is called."""
    kind, data = small.manifests["churn", "1"]
    data = json.dumps({**json.loads(data), **changes}).encode()
    small.manifests["churn", "1"] = small.manifests["churn", str(Digest.of(data))] = kind, data


def test_a_blob_with_other_bytes(small, refused):
    small.blobs["churn", WEIGHTS] = b"?" * len(FILES["weights"])
    refused(CorruptError, "file weights.*corrupt")


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"?", lambda data: b""])
def test_a_blob_of_another_length(small, refused, change):
    small.blobs["churn", WEIGHTS] = change(FILES["weights"])
    refused(CorruptError, "3000000 bytes were promised")


def test_a_blob_of_another_length_that_says_nothing_of_it(small, refused):
    @on(f"blobs/{WEIGHTS}")
    def endless(handler):
        handler.close_connection = True
        handler.answer(200, b"", Content_Length=None, Connection="close")
        for _ in range(1000):
            handler.wfile.write(b"?" * 100_000)
        return True

    small.manners.append(endless)
    refused(CorruptError, "there are more")


def test_a_blob_that_is_not_there(small, refused):
    del small.blobs["churn", WEIGHTS]
    refused(ReferenceNotFoundError, "file weights.*it is not here")


def test_a_connection_that_breaks_is_taken_up_where_it_broke(small, other, artifact):
    starts = []

    @on(f"blobs/{WEIGHTS}")
    def broken(handler):
        starts.append(handler.headers.get("Range"))
        if len(starts) > 2:
            return False
        begin = 1_000_000 * (len(starts) - 1)
        handler.close_connection = True
        ranged = {"Content_Range": f"bytes {begin}-2999999/3000000"} if begin else {}
        part = FILES["weights"][begin : begin + 1_000_000]
        return handler.answer(206 if begin else 200, part, Content_Length=3_000_000 - begin, **ranged)

    small.manners.append(broken)
    assert pull(other, f"oci://{small.host}/churn:1") == artifact
    assert starts == [None, "bytes=1000000-", "bytes=2000000-"]
    assert contents(other, artifact) == FILES


def test_a_registry_without_ranges_is_read_again_from_the_start(small, other, artifact):
    asked = []

    @on(f"blobs/{WEIGHTS}")
    def broken(handler):
        asked.append(handler.headers.get("Range"))
        if len(asked) > 1:
            return handler.answer(200, FILES["weights"])
        handler.close_connection = True
        return handler.answer(200, FILES["weights"][:1_234_567], Content_Length=3_000_000)

    small.manners.append(broken)
    pull(other, f"oci://{small.host}/churn:1")
    assert asked == [None, "bytes=1234567-"]
    assert contents(other, artifact) == FILES


def test_a_connection_that_always_breaks(small, refused):
    @on(f"blobs/{WEIGHTS}")
    def broken(handler):
        handler.close_connection = True
        return handler.answer(200, b"?", Content_Length=3_000_000)

    small.manners.append(broken)
    refused(UnavailableError, "no answer from")


def test_a_range_that_was_not_asked_for(small, refused):
    small.manners.append(on(f"blobs/{WEIGHTS}")(lambda handler: handler.answer(206, b"?", Content_Range="bytes 7-7/8")))
    refused(MalformedError, "bytes 7-7/8")


def test_a_manifest_with_other_bytes(small, refused, artifact):
    kind, data = small.manifests["churn", "1"]
    small.manifests["churn", str(artifact)] = kind, data.replace(b"weights", b"weighty")
    refused(CorruptError, "corrupt", f"churn@{artifact}")


def test_a_digest_header_that_lies(small, refused):
    small.manners.append(
        on("manifests/1")(
            lambda handler: handler.answer(
                200, small.manifests["churn", "1"][1], Docker_Content_Digest=Digest.of(b"another")
            )
        )
    )
    refused(CorruptError, "the registry says that its digest is")


@pytest.mark.parametrize("length", [None, 5 * 1024**2])
def test_a_huge_manifest(small, refused, length):
    @on("manifests/1")
    def huge(handler):
        handler.close_connection = True
        return handler.answer(200, b"[" * 5 * 1024**2, Content_Length=length)

    small.manners.append(huge)
    refused(LimitExceededError, "more than 4194304 bytes")


@pytest.mark.parametrize(
    "body",
    [
        *(b"<html>Log in to the hotel's network</html>", b"", b"\0", b"[]", b"null", b"{}", b'{"schemaVersion":1}'),
        *(b"[" * 100_000, b'{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json"}'),
        b'{"schemaVersion":"2"}',
    ],
)
def test_what_is_no_manifest(small, refused, body):
    small.manners.append(on("manifests/1")(lambda handler: handler.answer(200, body, Content_Type="text/html")))
    refused(MalformedError)


def test_a_blob_with_two_sizes_or_none(small, refused):
    layer = {"mediaType": "a/b", "digest": WEIGHTS, "size": 3_000_000}
    for layers in (
        [layer, {**layer, "size": 5}],
        [{**layer, "size": -1}],
        [{**layer, "size": "3"}],
        [{"digest": WEIGHTS}],
    ):
        swap(small, layers=layers)
        refused(MalformedError, "size")


def test_more_bytes_than_the_disk_has_room_for(small, refused):
    swap(small, layers=[{"mediaType": "a/b", "digest": WEIGHTS, "size": 2**60}])
    refused(StoreError, "the disk has room for")


def test_manifests_without_end(small, refused, monkeypatch):
    monkeypatch.setattr("vitrify.stores.oci_registry._family._MAX_DOCUMENTS", 20)
    inner = b'{"schemaVersion":2}'
    for _ in range(30):
        small.manifests["churn", str(Digest.of(inner))] = INDEX, inner
        entry = {"mediaType": INDEX, "digest": str(Digest.of(inner)), "size": len(inner)}
        inner = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).encode()
    small.manifests["churn", "deep"] = INDEX, inner
    refused(LimitExceededError, "more than 20 manifests", "churn:deep")


def test_referrers_without_end(small, refused):
    def page(handler):
        small.count = getattr(small, "count", 0) + 1
        link = f'</v2/churn/referrers/x?from={small.count}>; rel="next"'
        return handler.answer(200, b'{"schemaVersion":2,"manifests":[]}', Content_Type=INDEX, Link=link)

    small.manners.append(on("/referrers/")(page))
    refused(LimitExceededError, "more than 1000 pages")


@pytest.mark.parametrize("link", ["http://127.0.0.2:9/next", "http://localhost:1/", "//evil.example/x", "file:///etc"])
def test_a_next_page_that_is_elsewhere(small, artifact, link):
    more = on("/tags/")(lambda handler: handler.answer(200, b'{"tags":["1"]}', Link=f'<{link}>; rel="next"'))
    small.manners.append(more)
    with pytest.raises(MalformedError):
        tags(f"oci://{small.host}/churn")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"tags":5}', b'{"tags":[5]}', b'{"tags":["\\u001b[2J"]}', b"<html>"])
def test_tags_that_are_none(small, artifact, body):
    small.manners.append(on("/tags/")(lambda handler: handler.answer(200, body)))
    with pytest.raises(MalformedError):
        tags(f"oci://{small.host}/churn")


def test_a_referrer_that_is_about_something_else(small, refused, artifact, store, statement):
    another = save(store, {"w": b"another"}, "another:1")
    attach(store, another, statement(another))
    push(store, another, f"oci://{small.host}/churn:2")
    entries = [
        {"mediaType": kind, "digest": key, "size": len(data)}
        for (_, key), (kind, data) in small.manifests.items()
        if key.startswith("sha256:") and json.loads(data).get("subject", {}).get("digest") == str(another)
    ]
    body = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    small.manners.append(on("/referrers/")(lambda handler: handler.answer(200, body, Content_Type=INDEX)))
    refused(MalformedError, f"listed as being about {artifact}, and is about {another}")


def test_a_referrer_that_was_deleted_is_left_out(small, other, artifact):
    entry = {"mediaType": INDEX, "digest": str(Digest.of(b"gone")), "size": 4}
    body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).encode()
    small.referrers = False
    small.manifests["churn", f"sha256-{artifact.hex}"] = INDEX, body
    assert pull(other, f"oci://{small.host}/churn:1") == artifact
    assert attestations(other, artifact) == ()


def test_a_page_for_people_in_place_of_referrers_is_not_believed(small, other, artifact):
    small.manners.append(
        on("/referrers/")(lambda handler: handler.answer(200, b"<html>Welcome</html>", Content_Type="text/html"))
    )
    assert pull(other, f"oci://{small.host}/churn:1") == artifact


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, MalformedError),
        (403, DeniedError),
        (418, MalformedError),
        (429, UnavailableError),
        (500, UnavailableError),
    ],
)
def test_each_status_is_its_own_error(small, refused, status, kind, monkeypatch):
    monkeypatch.setattr(_transport, "_TRIES", 1)
    said = json.dumps({"errors": [{"code": "X", "message": "no\x1b[2J\nfurther" + "!" * 10_000}]}).encode()
    small.manners.append(on("manifests/1")(lambda handler: handler.answer(status, said, Retry_After="100000")))
    error = refused(kind, "no")
    assert "\x1b" not in str(error)
    assert len(str(error)) < 600


def test_an_error_that_is_endless_is_not_read_to_its_end(small, refused):
    small.manners.append(on("manifests/1")(lambda handler: handler.answer(400, b"x" * 10**6)))
    refused(MalformedError, "status 400")


def test_a_busy_registry_is_asked_again(small, other, artifact):
    answers = [503, 429]
    small.manners.append(on("manifests/1")(lambda handler: bool(answers) and handler.answer(answers.pop())))
    assert pull(other, f"oci://{small.host}/churn:1") == artifact


def test_nobody_there():
    with pytest.raises(UnavailableError, match="no answer from 127"):
        pull(OciLayout(), "oci://127.0.0.1:9/churn")


def test_a_name_that_nobody_has():
    with pytest.raises(UnavailableError, match="no answer from"):
        pull(OciLayout(), "oci://no-such-host.invalid/churn")


# Where it sends us.


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
def locked(small, artifact, tmp_path, monkeypatch):
    """Let the registry ask who we are, and have an answer."""
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {small.host: {"auth": "cmVhZGVyOnNlY3JldA=="}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    small.password = "reader:secret"
    return small


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_blob_that_lies_elsewhere_is_fetched_there_without_our_credentials(
    locked, other, artifact, elsewhere, status
):
    small = locked
    small.manners.append(on(f"blobs/{WEIGHTS}")(lambda handler: handler.answer(status, Location=elsewhere.url)))
    assert pull(other, f"oci://{small.host}/churn:1") == artifact
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


# Pushing.


def test_an_upload_that_breaks_goes_on_where_it_ended(small, store, monkeypatch):
    monkeypatch.setattr("vitrify.stores.oci_registry._push._CHUNK", 3_000_000)
    seen = []

    @on("/uploads/", "PATCH")
    def breaks(handler):
        seen.append(handler.headers["Content-Range"])
        if len(seen) != 2:
            return False
        upload = handler.path.partition("/uploads/")[2].partition("?")[0]
        small.uploads[upload] += handler.rfile.read(1_000_000)
        handler.close_connection = True
        return True

    small.manners.append(breaks)
    digest = save(store, {"w": os.urandom(1000) * 10_000}, "large:1")
    push(store, digest, f"oci://{small.host}/large:1")
    assert seen[:3] == ["0-2999999", "3000000-5999999", "4000000-6999999"]
    other = OciLayout(store.root.parent / "other")
    pull(other, f"oci://{small.host}/large:1")
    assert contents(other, digest) == contents(store, digest)


def test_a_registry_that_takes_nothing(small, store, artifact):
    for status, kind in (
        (400, MalformedError),
        (403, DeniedError),
        (503, UnavailableError),
        (404, ReferenceNotFoundError),
    ):
        small.manners[:] = [on("/uploads/", "POST")(lambda handler, status=status: handler.answer(status))]
        with pytest.raises(kind):
            push(store, artifact, f"oci://{small.host}/refused:1")


@pytest.mark.parametrize("location", [None, "file:///etc/passwd", "http://user:x@127.0.0.1/"])
def test_an_upload_that_leads_nowhere(small, store, artifact, location):
    small.manners.append(on("/uploads/", "POST")(lambda handler: handler.answer(202, Location=location)))
    with pytest.raises(MalformedError):
        push(store, artifact, f"oci://{small.host}/nowhere:1")


@pytest.mark.parametrize("part", ["/uploads/", "/manifests/"])
def test_a_registry_that_says_it_has_something_else(small, store, artifact, part):
    @on(part, "PUT")
    def lies(handler):
        handler.body()
        return handler.answer(201, Docker_Content_Digest=Digest.of(b"else"))

    small.manners.append(lies)
    with pytest.raises(CorruptError, match="the registry says that it has"):
        push(store, artifact, f"oci://{small.host}/else:1")


def test_a_blob_that_is_there_with_another_length(small, store, artifact):
    small.blobs["shorter", WEIGHTS] = b"?"
    with pytest.raises(CorruptError, match="with 1 bytes, it has 3000000"):
        push(store, artifact, f"oci://{small.host}/shorter:1")


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
