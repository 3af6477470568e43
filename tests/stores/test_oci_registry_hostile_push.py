"""A registry that breaks, refuses or lies while it is pushed to gives a typed error."""

import os

import pytest
from stores._bad_manners import WEIGHTS, on

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, DeniedError, MalformedError, ReferenceNotFoundError, UnavailableError
from vitrify.stores import OciLayout, pull, push
from vitrify.testing.stores import contents, save


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


def test_a_registry_that_takes_nothing(small, store, hosted):
    for status, kind in (
        (400, MalformedError),
        (403, DeniedError),
        (503, UnavailableError),
        (404, ReferenceNotFoundError),
    ):
        small.manners[:] = [on("/uploads/", "POST")(lambda handler, status=status: handler.answer(status))]
        with pytest.raises(kind):
            push(store, hosted, f"oci://{small.host}/refused:1")


@pytest.mark.parametrize("location", [None, "file:///etc/passwd", "http://user:x@127.0.0.1/"])
def test_an_upload_that_leads_nowhere(small, store, hosted, location):
    small.manners.append(on("/uploads/", "POST")(lambda handler: handler.answer(202, Location=location)))
    with pytest.raises(MalformedError):
        push(store, hosted, f"oci://{small.host}/nowhere:1")


@pytest.mark.parametrize("part", ["/uploads/", "/manifests/"])
def test_a_registry_that_says_it_has_something_else(small, store, hosted, part):
    @on(part, "PUT")
    def lies(handler):
        handler.body()
        return handler.answer(201, Docker_Content_Digest=Digest.of(b"else"))

    small.manners.append(lies)
    with pytest.raises(CorruptError, match="the registry says that it has"):
        push(store, hosted, f"oci://{small.host}/else:1")


def test_a_blob_that_is_there_with_another_length(small, store, hosted):
    small.blobs["shorter", WEIGHTS] = b"?"
    with pytest.raises(CorruptError, match="with 1 bytes, it has 3000000"):
        push(store, hosted, f"oci://{small.host}/shorter:1")
