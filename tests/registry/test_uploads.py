"""Uploads over several requests go on where they ended, whoever died meanwhile; on disk and in object storage."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import s3

from vitrify.core.digest import Digest
from vitrify.core.errors import ConflictError, CorruptError, ReferenceNotFoundError, UsageError
from vitrify.registry.blobs import open_blobs
from vitrify.registry.blobs.uploads import open_uploads

__all__ = ["s3"]

DATA = os.urandom(1000) * 12_000  # more than one part of S3
DIGEST = Digest.of(DATA)


@pytest.fixture(params=["disk", "s3"])
def place(request, tmp_path):
    if request.param == "disk":
        return str(tmp_path / "blobs")
    return request.getfixturevalue("s3").url()


@pytest.fixture
def blobs(place):
    return open_blobs(place)


@pytest.fixture
def uploads(blobs):
    return open_uploads(blobs)


@pytest.fixture
def another(place):
    """Return the uploads as another server sees them."""
    return open_uploads(open_blobs(place))


def content(blobs, digest=DIGEST):
    return b"".join(blobs.read(digest))


def test_what_comes_in_several_requests_is_one_blob(blobs, uploads):
    upload = uploads.start(DIGEST, len(DATA))
    assert uploads.offset(upload) == 0
    for start in range(0, len(DATA), 5_000_000):
        end = uploads.append(upload, start, [DATA[start : start + 5_000_000]])
        assert end == uploads.offset(upload) == min(start + 5_000_000, len(DATA))
        assert list(blobs.digests()) == []
    assert uploads.commit(upload) == DIGEST
    assert content(blobs) == DATA


def test_another_server_goes_on(blobs, uploads, another):
    upload = uploads.start(DIGEST, len(DATA))
    uploads.append(upload, 0, [DATA[:7_000_000]])
    another.append(upload, another.offset(upload), [DATA[7_000_000:8_000_000]])
    uploads.append(upload, 8_000_000, [DATA[8_000_000:]])
    assert another.commit(upload) == DIGEST
    assert content(blobs) == DATA


def test_an_empty_blob_needs_no_bytes(blobs, uploads):
    assert uploads.commit(uploads.start(Digest.of(b""), 0)) == Digest.of(b"")
    assert content(blobs, Digest.of(b"")) == b""


def test_what_arrived_before_the_sender_was_gone_stays(blobs, uploads):
    def broken():
        yield DATA[:9_000_000]
        yield DATA[9_000_000:10_000_000]
        raise ConnectionResetError("gone")

    upload = uploads.start(DIGEST, len(DATA))
    with pytest.raises(ConnectionResetError):
        uploads.append(upload, 0, broken())
    assert uploads.offset(upload) == 10_000_000
    uploads.append(upload, 10_000_000, [DATA[10_000_000:]])
    uploads.commit(upload)
    assert content(blobs) == DATA


@pytest.mark.parametrize("offset", [-1, 0, 999, 1001])
def test_bytes_that_do_not_follow_are_a_conflict_that_says_where_to_go_on(uploads, offset):
    upload = uploads.start(DIGEST, len(DATA))
    uploads.append(upload, 0, [DATA[:1000]])
    with pytest.raises(ConflictError, match="1000 bytes have arrived") as caught:
        uploads.append(upload, offset, [b"x"])
    assert "offset 1000" in caught.value.remedy
    assert uploads.offset(upload) == 1000


def test_more_than_was_promised_is_refused(uploads):
    upload = uploads.start(Digest.of(b"12345"), 5)
    with pytest.raises(CorruptError, match="5 bytes were promised, there are more"):
        uploads.append(upload, 0, [b"123456"])
    uploads.append(upload, uploads.offset(upload), [b"12345"])
    assert uploads.commit(upload) == Digest.of(b"12345")


def test_a_commit_that_comes_too_early_is_a_conflict_and_loses_nothing(uploads):
    upload = uploads.start(DIGEST, len(DATA))
    uploads.append(upload, 0, [DATA[:1000]])
    with pytest.raises(ConflictError, match="1000 of 12000000 bytes have arrived"):
        uploads.commit(upload)
    assert uploads.offset(upload) == 1000


def test_a_lie_about_the_digest_ends_the_upload(blobs, uploads):
    upload = uploads.start(Digest.of(b"truth"), 5)
    uploads.append(upload, 0, [b"false"])
    with pytest.raises(CorruptError):
        uploads.commit(upload)
    assert list(blobs.digests()) == []
    with pytest.raises(ReferenceNotFoundError):
        uploads.offset(upload)


def test_what_was_committed_or_given_up_is_gone(uploads):
    done, given_up = uploads.start(Digest.of(b""), 0), uploads.start(DIGEST, len(DATA))
    uploads.append(given_up, 0, [b"x"])
    uploads.commit(done)
    uploads.abort(given_up)
    uploads.abort(given_up)
    for upload in (done, given_up):
        for call in (uploads.offset, uploads.commit, lambda upload: uploads.append(upload, 0, [])):
            with pytest.raises(ReferenceNotFoundError):
                call(upload)


@pytest.mark.parametrize("upload", ["", "..", "../../blobs", "a" * 32 + "/x", "A" * 32, "0" * 32, "a\n", "a" * 10_000])
def test_an_id_that_is_none_leads_nowhere(uploads, upload):
    uploads.start(DIGEST, len(DATA))
    for call in (uploads.offset, uploads.commit, lambda upload: uploads.append(upload, 0, [b"x"])):
        with pytest.raises(ReferenceNotFoundError) as caught:
            call(upload)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("size", [-1, 2**60])
def test_a_size_that_no_upload_has_is_refused(uploads, size):
    with pytest.raises(UsageError):
        uploads.start(DIGEST, size)


def test_of_two_who_add_at_once_one_is_refused(place):
    upload = open_uploads(open_blobs(place)).start(DIGEST, len(DATA))
    meet, outcomes = threading.Barrier(2), []

    def chunks():
        yield DATA[:9_000_000]
        time.sleep(0.3)
        yield DATA[9_000_000:]

    def one():
        meet.wait()
        try:
            outcomes.append(open_uploads(open_blobs(place)).append(upload, 0, chunks()))
        except ConflictError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == [str(len(DATA)), "conflict"]
    open_uploads(open_blobs(place)).commit(upload)
    assert content(open_blobs(place)) == DATA


def test_old_ones_expire_and_new_ones_do_not(blobs, uploads):
    upload = uploads.start(DIGEST, len(DATA))
    uploads.append(upload, 0, [b"x"])
    assert uploads.expire(3600) == 0
    assert uploads.offset(upload) == 1
    assert uploads.expire(-5) == 1
    with pytest.raises(ReferenceNotFoundError):
        uploads.offset(upload)
    assert uploads.expire(-5) == 0


def test_without_any_upload_none_expires(uploads):
    assert uploads.expire(0) == 0


def test_an_upload_that_runs_does_not_expire(tmp_path):
    uploads = open_uploads(open_blobs(tmp_path / "blobs"))
    upload = uploads.start(DIGEST, len(DATA))

    def chunks():
        yield DATA
        assert uploads.expire(-5) == 0

    uploads.append(upload, 0, chunks())
    assert uploads.commit(upload) == DIGEST


_APPEND = """
import sys, time
from vitrify.registry.blobs import open_blobs
from vitrify.registry.blobs.uploads import open_uploads

def chunks():
    yield b"x" * 9_000_000
    print("sent", flush=True)
    time.sleep(3600)

open_uploads(open_blobs(sys.argv[1])).append(sys.argv[2], 0, chunks())
"""


def test_after_a_server_was_killed_another_goes_on(place, blobs, uploads):
    data = b"x" * 10_000_000
    upload = uploads.start(Digest.of(data), len(data))
    with subprocess.Popen([sys.executable, "-c", _APPEND, place, upload], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "sent\n"
        server.send_signal(signal.SIGKILL)
    offset = uploads.offset(upload)
    assert offset == 9_000_000
    uploads.append(upload, offset, [data[offset:]])
    assert uploads.commit(upload) == Digest.of(data)
    assert content(blobs, Digest.of(data)) == data


def test_bytes_that_a_power_cut_took_are_found_at_the_commit(tmp_path):
    place = tmp_path / "blobs"
    upload = open_uploads(open_blobs(place)).start(DIGEST, len(DATA))
    open_uploads(open_blobs(place)).append(upload, 0, [DATA[:-1]])
    (path,) = place.glob(f".vitrify/uploads/{upload}")
    with path.open("r+b") as stream:
        stream.write(bytes(1000))
    uploads = open_uploads(open_blobs(place))
    uploads.append(upload, len(DATA) - 1, [DATA[-1:]])
    with pytest.raises(CorruptError):
        uploads.commit(upload)


def test_what_a_killed_start_left_is_swept(tmp_path):
    place = tmp_path / "blobs"
    uploads = open_uploads(open_blobs(place))
    kept = uploads.start(DIGEST, len(DATA))
    folder = place / ".vitrify" / "uploads"
    (folder / ("a" * 32)).touch()
    (folder / f"{'a' * 32}.new").write_bytes(b"{")
    uploads.append(kept, 0, [b"x"])
    old = time.time() - 100
    for path in folder.glob(f"{'a' * 32}*"):
        os.utime(path, (old, old))
    assert uploads.expire(50) == 0
    assert sorted(path.name for path in folder.iterdir()) == [kept, f"{kept}.json"]


@given(cuts=st.lists(st.integers(0, 2000), max_size=6), data=st.binary(max_size=2000))
def test_however_it_is_cut_it_arrives_whole(tmp_path, cuts, data):
    blobs = open_blobs(tmp_path / "blobs")
    upload = open_uploads(blobs).start(Digest.of(data), len(data))
    for stop in [*sorted(cuts), len(data)]:
        uploads = open_uploads(blobs)
        offset = uploads.offset(upload)
        uploads.append(upload, offset, [data[offset:stop]])
    assert open_uploads(blobs).commit(upload) == Digest.of(data)
    assert content(blobs, Digest.of(data)) == data


def test_blobs_of_another_kind_take_no_uploads():
    with pytest.raises(UsageError, match="takes no uploads"):
        open_uploads(object())
