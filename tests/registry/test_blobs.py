"""Blobs on disk and in object storage keep the same promises: one suite over both, each the real thing."""

import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import PEAK
from servers import s3

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    AuthenticationError,
    CorruptError,
    ReferenceNotFoundError,
    StoreError,
    UnavailableError,
    UsageError,
)
from vitrify.registry.blobs import open_blobs
from vitrify.registry.blobs.disk import DiskBlobs
from vitrify.stores import open_store

__all__ = ["s3"]

SMALL, LARGE = b"content" * 1000, bytes(range(256)) * 80_000  # one part of S3, and several
NOWHERE = Digest.of(b"nowhere")


@pytest.fixture(params=["disk", "s3"])
def place(request, tmp_path):
    if request.param == "disk":
        return str(tmp_path / "blobs")
    return request.getfixturevalue("s3").url()


@pytest.fixture
def blobs(place):
    return open_blobs(place)


def pieces(data, length=100_000):
    for start in range(0, len(data), length):
        yield data[start : start + length]


def put(blobs, data):
    digest = Digest.of(data)
    blobs.put(digest, len(data), pieces(data))
    return digest


def whole(blobs, digest, *bounds):
    return b"".join(blobs.read(digest, *bounds))


def leftovers(root):
    return [path for path in root.rglob("*") if "incoming/" in str(path)]


@pytest.mark.parametrize("data", [b"", b"1", SMALL, LARGE], ids=["empty", "one byte", "small", "large"])
def test_what_was_put_is_read(blobs, data):
    digest = put(blobs, data)
    assert whole(blobs, digest) == data
    assert blobs.size(digest) == len(data)


def test_pieces_are_large_enough_to_be_worth_a_call(blobs):
    lengths = [len(piece) for piece in blobs.read(put(blobs, LARGE))]
    assert min(lengths[:-1]) >= 1024 * 1024
    assert max(lengths) <= 16 * 1024 * 1024


@pytest.mark.parametrize(("start", "stop"), [(0, None), (0, 0), (5, 5), (5, 9), (6_990, 7_000), (7_000, None)])
def test_a_range_is_read_as_python_has_it(blobs, start, stop):
    assert whole(blobs, put(blobs, SMALL), start, stop) == SMALL[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(-1, None), (0, 7_001), (9, 5), (7_001, None)])
def test_a_range_that_is_none_of_the_content_is_refused(blobs, start, stop):
    digest = put(blobs, SMALL)
    with pytest.raises(UsageError, match="it has 7000"):
        blobs.read(digest, start, stop)


@given(data=st.binary(max_size=300), start=st.integers(0, 300), length=st.integers(0, 300))
def test_every_range_of_a_file_is_that_of_its_bytes(tmp_path, data, start, length):
    blobs = DiskBlobs(tmp_path / "blobs")
    digest = put(blobs, data)
    if start + length <= len(data):
        assert whole(blobs, digest, start, start + length) == data[start : start + length]
    else:
        with pytest.raises(UsageError):
            blobs.read(digest, start, start + length)


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("lie", [-1, 1, 1_000_000])
def test_a_lie_about_the_size_leaves_nothing(blobs, data, lie):
    digest = Digest.of(data)
    with pytest.raises(CorruptError, match="were promised"):
        blobs.put(digest, len(data) + lie, pieces(data))
    assert blobs.size(digest) is None
    assert list(blobs.digests()) == []


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_a_lie_about_the_digest_leaves_nothing(blobs, data):
    with pytest.raises(CorruptError, match=f"expected {NOWHERE}, found {Digest.of(data)}"):
        blobs.put(NOWHERE, len(data), pieces(data))
    assert list(blobs.digests()) == []


def test_a_stream_without_end_is_left_soon(blobs):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 100_000

    with pytest.raises(CorruptError, match="there are more"):
        blobs.put(NOWHERE, 1_000_000, endless())
    assert taken == 11


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_a_source_that_breaks_leaves_nothing(blobs, data):
    def broken():
        yield data[: len(data) - 10]
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError):
        blobs.put(Digest.of(data), len(data), broken())
    assert list(blobs.digests()) == []


def test_what_is_there_is_not_read_again(blobs):
    digest = put(blobs, SMALL)

    def untouched():
        pytest.fail("it was read")
        yield b""

    blobs.put(digest, len(SMALL), untouched())


def test_a_wrong_size_of_what_is_there_is_said(blobs):
    digest = put(blobs, SMALL)
    with pytest.raises(CorruptError, match="1 bytes were promised, there are 7000"):
        blobs.put(digest, 1, pieces(SMALL))
    assert whole(blobs, digest) == SMALL


def test_content_may_come_from_a_bucket_itself(s3, blobs):
    other = open_blobs(s3.url())
    digest = put(other, LARGE)
    blobs.put(digest, len(LARGE), other.read(digest))
    assert whole(blobs, digest) == LARGE


def test_a_buffer_may_be_used_again_after_its_chunk_was_taken(blobs):
    buffer = bytearray(1_000_000)

    def chunks():
        for number in range(20):
            buffer[:] = bytes([number]) * len(buffer)
            yield memoryview(buffer)

    data = b"".join(bytes([number]) * len(buffer) for number in range(20))
    blobs.put(Digest.of(data), len(data), chunks())
    assert whole(blobs, Digest.of(data)) == data


def test_what_is_not_there_is_said_by_the_call(blobs):
    assert blobs.size(NOWHERE) is None
    with pytest.raises(ReferenceNotFoundError, match=str(NOWHERE)):
        blobs.read(NOWHERE)
    blobs.delete(NOWHERE)


def test_all_are_listed_in_order_and_what_was_deleted_is_not(blobs):
    digests = sorted(put(blobs, str(number).encode()) for number in range(20))
    assert list(blobs.digests()) == digests
    blobs.delete(digests[3])
    assert list(blobs.digests()) == [*digests[:3], *digests[4:]]
    with pytest.raises(ReferenceNotFoundError):
        blobs.read(digests[3])


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_many_may_put_the_same_at_once(place, data):
    start, failures = threading.Barrier(6), []

    def one():
        start.wait()
        try:
            put(open_blobs(place), data)
        except Exception as error:  # noqa: BLE001 (a thread's failure is shown by the test)
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert whole(open_blobs(place), Digest.of(data)) == data


_PUT = (
    PEAK
    + """
import hashlib, sys, time
from vitrify.core.digest import Digest
from vitrify.registry.blobs import open_blobs

def put(count, hang=False):
    piece = bytes([count % 251]) * 1_000_000
    state = hashlib.sha256()
    for _ in range(count):
        state.update(piece)

    def pieces():
        for number in range(count):
            if hang and number == count - 1:
                print("nearly", flush=True)
                time.sleep(3600)
            yield piece

    open_blobs(sys.argv[1]).put(Digest(state.hexdigest()), count * len(piece), pieces())
    return peak()
"""
)
_HANG = _PUT + "put(20, hang=True)"
_MEASURE = _PUT + "print(put(60), put(400))"


def test_a_process_that_is_killed_in_the_middle_leaves_nothing_that_is_seen(place):
    with subprocess.Popen([sys.executable, "-c", _HANG, place], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "nearly\n"
        process.send_signal(signal.SIGKILL)
    blobs = open_blobs(place)
    assert list(blobs.digests()) == []
    data = b"x" * 20_000_000
    assert whole(blobs, put(blobs, data)) == data
    if isinstance(blobs, DiskBlobs):
        assert leftovers(blobs.root) == []


def test_a_large_one_takes_little_memory(place):
    """The first put has what every put has: libraries, threads, parts on their way. The second is 400 MB more."""
    done = subprocess.run([sys.executable, "-c", _MEASURE, place], capture_output=True, text=True, check=True)
    small, large = map(int, done.stdout.split())
    assert large - small < 130_000, (small, large)  # KiB: a third of what it would be, were the content held


def test_what_another_process_writes_meanwhile_is_not_swept_away(tmp_path):
    blobs = DiskBlobs(tmp_path / "blobs")

    def slowly():
        for piece in pieces(SMALL, 1000):
            put(DiskBlobs(blobs.root), piece + str(time.monotonic_ns()).encode())
            yield piece

    blobs.put(Digest.of(SMALL), len(SMALL), slowly())
    assert whole(blobs, Digest.of(SMALL)) == SMALL


@contextmanager
def file_size_limit(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_leaves_nothing(tmp_path):
    blobs = DiskBlobs(tmp_path / "blobs")
    before = put(blobs, b"before")
    with file_size_limit(1_000_000), pytest.raises(StoreError, match="File too large"):
        put(blobs, LARGE)
    assert list(blobs.digests()) == [before]
    assert leftovers(blobs.root) == []


def test_the_directory_is_an_oci_image_layout(tmp_path):
    put(DiskBlobs(tmp_path / "blobs"), SMALL)
    layout = open_store(tmp_path / "blobs")
    assert layout.index.read().manifests == ()
    assert (tmp_path / "blobs" / "index.json").is_file()
    assert layout.blob(Digest.of(SMALL)).read_bytes() == SMALL


def test_a_directory_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match=r"thesis\.tex"):
        put(DiskBlobs(tmp_path), SMALL)


def test_a_file_that_nobody_writes_to_is_linked_and_not_copied(tmp_path):
    path = tmp_path / "sealed"
    path.write_bytes(SMALL)
    path.chmod(0o444)
    blobs = DiskBlobs(tmp_path / "blobs")
    blobs.link(Digest.of(SMALL), path)
    assert blobs.path(Digest.of(SMALL)).samefile(path)
    assert whole(blobs, Digest.of(SMALL)) == SMALL


def test_a_file_that_somebody_may_write_to_is_copied(tmp_path):
    path = tmp_path / "open"
    path.write_bytes(SMALL)
    blobs = DiskBlobs(tmp_path / "blobs")
    blobs.link(Digest.of(SMALL), path)
    path.write_bytes(b"changed")
    assert whole(blobs, Digest.of(SMALL)) == SMALL


@pytest.mark.parametrize("mode", [0o444, 0o644])
def test_a_file_with_other_content_is_not_linked(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(SMALL)
    path.chmod(mode)
    blobs = DiskBlobs(tmp_path / "blobs")
    with pytest.raises(CorruptError):
        blobs.link(NOWHERE, path)
    assert list(blobs.digests()) == []
    assert path.read_bytes() == SMALL


def test_a_small_object_is_made_only_once(s3, monkeypatch):
    blobs = open_blobs(s3.url())
    digest = put(blobs, SMALL)
    monkeypatch.setattr(blobs, "size", lambda digest: None)  # as another sees it who asked a moment before
    put(blobs, SMALL)
    monkeypatch.undo()
    assert whole(blobs, digest) == SMALL


def test_a_bucket_that_is_not_there_is_said(s3):
    for data in (SMALL, LARGE):
        with pytest.raises(StoreError, match="no such bucket"):
            put(open_blobs(f"s3://no-such-bucket?endpoint={s3.endpoint}"), data)


def test_an_endpoint_that_nobody_answers_is_unavailable(s3):
    with pytest.raises(UnavailableError):
        open_blobs("s3://bucket?endpoint=http://127.0.0.1:9").size(NOWHERE)


@pytest.mark.parametrize(
    "place",
    [
        *("", "http://host/x", "file:///etc", "s3://", "s3:///x", "s3://A", "s3://user:secret@bucket", "s3://b/../c"),
        *("s3://bucket/a b", "s3://bucket/x?nonsense=1", "s3://bucket?path_style=maybe", "s3://bucket#x", "s3://bu:1"),
        *("s3://bucket?endpoint=ftp://host", "s3://bucket?endpoint=http://example.org", "s3://bucket?endpoint"),
        *("s3://bucket?endpoint=https://user:secret@example.org", "s3://bucket/./c", "s3://[x/y"),
    ],
)
def test_a_place_that_is_none_is_a_usage_error_that_shows_no_secret(place):
    with pytest.raises(UsageError) as caught:
        open_blobs(place)
    assert "secret@" not in str(caught.value)


def test_a_plain_endpoint_is_taken_where_it_was_asked_for():
    open_blobs("s3://bucket?endpoint=http://minio.internal:9000&plain_http=yes&path_style=yes&region=eu-west-1")


def test_credentials_that_do_not_count_are_an_authentication_error():
    assert AuthenticationError.exit_code == 16
    from obstore.exceptions import PermissionDeniedError

    from vitrify.registry.blobs.s3 import calling

    with pytest.raises(AuthenticationError, match="AWS_ACCESS_KEY_ID"), calling("read"):
        raise PermissionDeniedError("403")


def test_the_checksum_of_a_stream_is_that_of_its_bytes():
    from vitrify.registry.blobs import checking

    assert b"".join(checking(Digest.of(LARGE), len(LARGE), pieces(LARGE))) == LARGE
