"""A registry that lies, stalls or sends us elsewhere gives a typed error, and leaves the store as it was."""

import json

import pytest
from stores._bad_manners import FILES, WEIGHTS, on, swap
from stores._small_registry import INDEX

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    CorruptError,
    DeniedError,
    LimitExceededError,
    MalformedError,
    ReferenceNotFoundError,
    StoreError,
    UnavailableError,
)
from vitrify.stores import OciLayout, attach, attestations, pull, push
from vitrify.stores.oci_registry import _transport, tags
from vitrify.testing.stores import contents, save


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


def test_a_connection_that_breaks_is_taken_up_where_it_broke(small, other, hosted):
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
    assert pull(other, f"oci://{small.host}/churn:1") == hosted
    assert starts == [None, "bytes=1000000-", "bytes=2000000-"]
    assert contents(other, hosted) == FILES


def test_a_registry_without_ranges_is_read_again_from_the_start(small, other, hosted):
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
    assert contents(other, hosted) == FILES


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


def test_a_manifest_with_other_bytes(small, refused, hosted):
    kind, data = small.manifests["churn", "1"]
    small.manifests["churn", str(hosted)] = kind, data.replace(b"weights", b"weighty")
    refused(CorruptError, "corrupt", f"churn@{hosted}")


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
def test_a_next_page_that_is_elsewhere(small, hosted, link):
    more = on("/tags/")(lambda handler: handler.answer(200, b'{"tags":["1"]}', Link=f'<{link}>; rel="next"'))
    small.manners.append(more)
    with pytest.raises(MalformedError):
        tags(f"oci://{small.host}/churn")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"tags":5}', b'{"tags":[5]}', b'{"tags":["\\u001b[2J"]}', b"<html>"])
def test_tags_that_are_none(small, hosted, body):
    small.manners.append(on("/tags/")(lambda handler: handler.answer(200, body)))
    with pytest.raises(MalformedError):
        tags(f"oci://{small.host}/churn")


def test_a_referrer_that_is_about_something_else(small, refused, hosted, store, statement):
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
    refused(MalformedError, f"listed as being about {hosted}, and is about {another}")


def test_a_referrer_that_was_deleted_is_left_out(small, other, hosted):
    entry = {"mediaType": INDEX, "digest": str(Digest.of(b"gone")), "size": 4}
    body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).encode()
    small.referrers = False
    small.manifests["churn", f"sha256-{hosted.hex}"] = INDEX, body
    assert pull(other, f"oci://{small.host}/churn:1") == hosted
    assert attestations(other, hosted) == ()


def test_a_page_for_people_in_place_of_referrers_is_not_believed(small, other, hosted):
    small.manners.append(
        on("/referrers/")(lambda handler: handler.answer(200, b"<html>Welcome</html>", Content_Type="text/html"))
    )
    assert pull(other, f"oci://{small.host}/churn:1") == hosted


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


def test_a_busy_registry_is_asked_again(small, other, hosted):
    answers = [503, 429]
    small.manners.append(on("manifests/1")(lambda handler: bool(answers) and handler.answer(answers.pop())))
    assert pull(other, f"oci://{small.host}/churn:1") == hosted


def test_nobody_there():
    with pytest.raises(UnavailableError, match="no answer from 127"):
        pull(OciLayout(), "oci://127.0.0.1:9/churn")


def test_a_name_that_nobody_has():
    with pytest.raises(UnavailableError, match="no answer from"):
        pull(OciLayout(), "oci://no-such-host.invalid/churn")
