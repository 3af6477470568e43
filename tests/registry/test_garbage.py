"""Garbage is collected, and nothing that somebody needs or brings."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registries import artifact, blobs_of, intact, put, register, running
from sqlalchemy import select, update

from vitrify.core.digest import Digest
from vitrify.core.errors import ConflictError, ReferenceNotFoundError, UnavailableError, UsageError, VitrifyError
from vitrify.registry import requests as r
from vitrify.registry.blobs.uploads import open_uploads
from vitrify.registry.database import schema
from vitrify.registry.garbage import collect

NO_GRACE = timedelta(0)


def states(backend):
    with backend.database.read() as connection:
        return dict(connection.execute(select(schema.blobs.c.digest, schema.blobs.c.state)).all())


def age(backend, days=2):
    """Let everything have been touched some days ago."""
    with backend.database.write() as connection:
        connection.execute(update(schema.blobs).values(touched=schema.blobs.c.touched - days * 86_400_000_000))


def collected(backend, grace=NO_GRACE, **options):
    return collect(backend.database, backend.blobs, grace, **options)


def test_what_versions_need_stays_and_what_nothing_needs_goes(backend, registry):
    register(backend, seed="kept")
    register(backend, seed="deleted")
    loose = put(backend, b"never registered")
    registry.delete_version("churn", "2")
    would = collected(backend, dry_run=True)
    assert collected(backend, dry_run=True) == would
    done = collected(backend)
    assert done == would
    assert done.blobs == 5  # configuration, weights, manifest and index of the deleted version, and the loose one
    assert done.bytes > 0
    assert backend.blobs.size(Digest.parse(loose)) is None
    assert intact(backend) == 4
    assert set(map(str, backend.blobs.digests())) == set(states(backend))
    assert collected(backend).blobs == 0


def test_content_that_several_versions_share_goes_with_the_last(backend, registry):
    register(backend, seed="shared")
    register(backend, model="other", seed="shared")
    registry.delete_version("churn", "1")
    assert collected(backend).blobs == 0
    registry.delete_model("other")
    assert collected(backend).blobs == 4
    assert not list(backend.blobs.digests())


def test_what_was_touched_within_the_grace_stays(backend):
    put(backend, b"young")
    assert collected(backend, timedelta(days=1)).blobs == 0
    age(backend)
    assert collected(backend, timedelta(days=1)).blobs == 1


def test_asking_what_is_missing_and_sending_again_count_as_touching(backend):
    digests = [put(backend, data) for data in blobs_of("model")]
    age(backend)
    backend.do(r.FindMissing(digests=tuple(digests[:2])))
    backend.expect(Digest.parse(digests[2]), 1)
    assert collected(backend, timedelta(days=1)).blobs == 0


def test_an_upload_in_flight_is_waited_for_however_long_it_takes(registries):
    backend = registries.open()
    digest = Digest.of(b"content")
    backend.expect(digest, 7)
    id_ = open_uploads(backend.blobs).start(digest, 7)
    row = {"id": id_, "digest": str(digest), "size": 7, "who": "ann", "created": 1}
    with backend.database.write() as connection:
        connection.execute(schema.uploads.insert(), row)
    age(backend)
    assert collected(backend).blobs == 0
    open_uploads(backend.blobs).abort(id_)
    assert collected(backend).blobs == 1  # its row of an upload that is gone was forgotten
    assert states(backend) == {}


def test_content_without_a_row_gets_one_and_a_grace_of_its_own(backend):
    digest = Digest.of(b"stray")
    backend.blobs.put(digest, 5, [b"stray"])
    assert collected(backend, timedelta(days=1), dry_run=True).adopted == 1
    assert collected(backend, timedelta(days=1)).adopted == 1
    assert states(backend) == {str(digest): "arriving"}
    age(backend)
    assert collected(backend, timedelta(days=1)).blobs == 1
    assert backend.blobs.size(digest) is None


def test_what_is_dying_is_taken_back_by_whoever_sends_it_again(backend):
    digest = artifact(backend)
    with backend.database.write() as connection:
        connection.execute(update(schema.blobs).values(state="dying"))  # as a collector that was killed leaves it
    with pytest.raises((UnavailableError, ReferenceNotFoundError)):
        backend.do(r.CreateVersion(model="churn", digest=digest))
    assert digest in backend.do(r.FindMissing(digests=(digest,))).digests
    register(backend)
    assert collected(backend).blobs == 0
    assert intact(backend) == 4


def test_what_was_collected_while_it_arrived_is_not_promised(backend):
    digest = Digest.of(b"slow")
    assert not backend.expect(digest, 4)
    backend.blobs.put(digest, 4, [b"slow"])
    assert collected(backend).blobs == 1
    with pytest.raises(UnavailableError, match="collected as garbage while it arrived"):
        backend.arrived(digest, 4)
    assert states(backend) == {}


def test_nothing_is_deleted_while_a_backup_runs(backend):
    put(backend, b"loose")
    with backend.database.backing_up() as connection:
        assert len(connection.execute(select(schema.blobs)).all()) == 1
        with pytest.raises(ConflictError, match="backup"):
            collected(backend)
    assert collected(backend).blobs == 1  # it was marked already


def test_a_negative_grace_is_none(registries):
    with pytest.raises(UsageError, match="grace"):
        collected(registries.open(), timedelta(days=-1))


def _churn(backend, number, enough):
    """Register and delete versions of the same few contents over and over, until there were enough."""
    count = 0
    while not enough(count):
        try:
            version = register(backend, model=f"m{number}", seed=f"s{count % 3}")
            if count % 2:
                backend.do(r.DeleteVersion(model=f"m{number}", version=version.version))
        except (UnavailableError, ReferenceNotFoundError):
            continue  # it was collected between the upload and the version: said so, and tried again
        count += 1


def hardly(start):
    """Return a grace that is short, but not for ever: a machine that stalls all the time gets something done too."""
    return timedelta(seconds=max(0.1, (time.monotonic() - start) / 4))


@pytest.mark.parametrize("kind", ["sqlite+disk", "postgresql+disk"])
def test_registering_while_collecting_with_hardly_any_grace_loses_nothing(registries, kind):
    backend = registries.open(kind)
    rounds, start = 0, time.monotonic()

    def work(number):
        _churn(backend, number, lambda count: count >= 10 and rounds >= 10)

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, number) for number in range(4)]
        while not all(one.done() for one in working):
            collected(backend, hardly(start))
            rounds += 1
    for one in working:
        one.result()
    assert intact(backend)
    collected(backend)
    assert set(map(str, backend.blobs.digests())) == set(states(backend))


COLLECT_FOR_EVER = """
import sys, time
from datetime import timedelta
from vitrify.core.errors import ConflictError
from vitrify.registry.blobs import open_blobs
from vitrify.registry.database import Database
from vitrify.registry.garbage import collect
database, blobs = Database(sys.argv[1]), open_blobs(sys.argv[2])
print("ready", flush=True)
start = time.monotonic()
while True:
    try:
        collect(database, blobs, timedelta(seconds=max(0.1, (time.monotonic() - start) / 4)))
    except ConflictError:
        pass  # another collector
"""


@pytest.mark.parametrize("kind", ["sqlite+disk", "postgresql+disk"])
def test_collectors_that_are_killed_at_any_point_leave_nothing_that_the_next_does_not_finish(registries, kind):
    places = registries.places(kind)
    backend = registries.reopen(*places)
    register(backend, seed="kept")
    for turn in (3, 4):
        with running(COLLECT_FOR_EVER, *places), running(COLLECT_FOR_EVER, *places):
            _churn(backend, 0, lambda count, turn=turn: count >= turn)
        assert intact(backend)
    collected(backend)
    assert intact(backend)
    assert "dying" not in states(backend).values()
    assert set(map(str, backend.blobs.digests())) == set(states(backend))


def _each(act):
    def step(backend, which):
        for data in blobs_of(f"seed{which}"):
            act(backend, Digest.of(data), data)

    return step


def _register(backend, which):
    backend.do(r.CreateVersion(model=f"m{which}", digest=str(Digest.of(blobs_of(f"seed{which}")[-1]))))


def _killed_between_the_steps(backend, which):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrify.registry.garbage._sweep", lambda *_: (0, 0))
        collected(backend)


ACTS = {
    "expect": _each(lambda backend, digest, data: backend.expect(digest, len(data))),
    "put": _each(lambda backend, digest, data: backend.blobs.put(digest, len(data), [data])),
    "arrive": _each(lambda backend, digest, data: backend.arrived(digest, len(data))),
    "register": _register,
    "delete": lambda backend, which: backend.do(r.DeleteVersion(model=f"m{which}", version="latest")),
    "mark": _killed_between_the_steps,
    "sweep": lambda backend, which: collected(backend, timedelta(days=1)),
    "collect": lambda backend, which: collected(backend),
}


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 1)), max_size=25))
def test_after_any_interleaving_every_blob_of_every_version_is_readable(registries, steps):
    backend = registries.open()
    for act, which in steps:
        with suppress(VitrifyError):  # refused, in words
            ACTS[act](backend, which)
        intact(backend)
    registries.close()
