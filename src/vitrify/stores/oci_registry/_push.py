"""Sending an artifact: blobs first, then manifests, then what is said about them, and the tag last.

So a tag never leads to an artifact that is not whole, or whose evidence is still on its way. What is there is not sent.

Source: OCI distribution specification 1.1, "Pushing", "Pushing Manifests with Subject".
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.errors import ConflictError, CorruptError, LimitExceededError, MalformedError, UnavailableError
from vitrify.core.manifest import INDEX_TYPE
from vitrify.core.progress import track
from vitrify.stores._durable import storing
from vitrify.stores._verified import corrupt
from vitrify.stores.files import MAX_MANIFEST_BYTES
from vitrify.stores.oci_registry._client import ACCEPTED, CREATED, NO_CONTENT, OK, PIECE, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vitrify.core.manifest import Descriptor
    from vitrify.core.progress import Bar
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.stores.oci_registry._client import Repository
    from vitrify.stores.oci_registry._family import Family

WORKERS = 4
_WHOLE = 4 * 1024 * 1024
"""What is not larger is sent in one request."""

_CHUNK = 64 * 1024 * 1024
"""Bytes of one request of a larger one: what some servers let through at most is 100 MB."""

_TRIES = 4
_MERGES = 12
_TWICE = 2
_MOMENT = 0.02
"""Seconds."""

_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,18})")


def push_family(
    repository: Repository, store: OciLayout, family: Family, tag: str | None, mount_from: str | None
) -> None:
    """Send everything of a family that is not there yet, and give the root its tag.

    Raises:
        CorruptError: Something of it is damaged here, or there.
        ConflictError: Others write the list of referrers again and again.
        StoreError: It could not be read.
    """
    total = sum(size for size, _ in family.blobs.values())
    with track("pushing", total) as bar, ThreadPoolExecutor(WORKERS, thread_name_prefix="vitrify-push") as pool:

        def send(item: tuple[Digest, tuple[int, str]]) -> None:
            digest, (size, label) = item
            _push_blob(repository, _Source(store.blob(digest), digest, size, label), mount_from, bar)

        for _ in pool.map(send, family.blobs.items()):
            pass
    listed = {
        subject: {entry.digest for entry in repository.referrers(subject)} for subject in set(family.about.values())
    }
    unlisted: dict[Digest, list[Descriptor]] = {}
    for digest, data in family.documents.items():
        entry = family.descriptor(digest)
        subject = family.about.get(digest)
        known = subject is None or str(digest) in listed[subject]
        if known and repository.has("manifests", digest, len(data)):
            continue
        if not repository.put_manifest(digest, data, entry.media_type) and subject is not None:
            annotated = entry.replace(annotations=family.annotations(digest))
            unlisted.setdefault(subject, []).append(annotated)
    for subject, entries in unlisted.items():
        _list_referrers(repository, subject, entries)
    if tag is not None:
        root = family.descriptor(family.root)
        repository.put_manifest(tag, family.documents[family.root], root.media_type)


class _Source:
    """A blob on disk; each byte is hashed the first time that it is sent."""

    def __init__(self, path: Path, digest: Digest, size: int, label: str) -> None:
        self.digest = digest
        self.size = size
        self.label = label
        self._path = path
        self._hash = hashlib.sha256()
        self._hashed = 0

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield a part of the file."""
        with storing(f"read {self.label}"), self._path.open("rb", buffering=0) as stream:
            stream.seek(min(start, self._hashed))  # where the registry has more than we hashed, that is hashed first
            place = stream.tell()
            while place < stop and (piece := stream.read(min(PIECE, stop - place))):
                self._hash.update(piece[max(self._hashed - place, 0) :])
                self._hashed = max(self._hashed, place + len(piece))
                if place + len(piece) > start:
                    yield piece[max(start - place, 0) :]
                place += len(piece)

    def check(self) -> None:
        """Refuse a file that is not what its digest promises, or that got shorter, before it is given its name there.

        Raises:
            CorruptError: It is one.
        """
        for _ in self.pieces(self._hashed, self.size):
            pass
        if (found := Digest(self._hash.hexdigest())) != self.digest:
            raise corrupt(self.digest, found, place=f"{self.label} ({self._path})")


def _push_blob(repository: Repository, source: _Source, mount_from: str | None, bar: Bar) -> None:
    if not repository.has("blobs", source.digest, source.size):
        location = _start(repository, source, mount_from)
        if location is not None:
            _upload(repository, source, location)
    bar.advance(source.size)


def _start(repository: Repository, source: _Source, mount_from: str | None) -> str | None:
    """Begin an upload; None where the registry took the blob from another repository."""
    query = f"?mount={path_of(source.digest)}&from={mount_from}" if mount_from else ""
    url = repository.address(f"blobs/uploads/{query}")
    with repository.ask(
        "POST", url, headers={"Content-Length": "0"}, good=(ACCEPTED, CREATED), missing=str(repository)
    ) as answer:
        if answer.status == CREATED:
            repository.check_claim(answer, source.digest)
            return None
        return _location(repository, answer.headers.get("Location"), url)


def _upload(repository: Repository, source: _Source, location: str) -> None:
    """Send a blob, and go on where a broken connection ended."""
    place, failures = 0, 0
    while source.size > _WHOLE and place < source.size:
        stop = min(place + _CHUNK, source.size)
        try:
            location, place = _send_chunk(repository, source, location, place, stop), stop
        except (UnavailableError, MalformedError) as error:
            failures += 1
            if failures >= _TRIES:
                raise
            location, place = _resumed(repository, location, error)
    try:
        _finish(repository, source, location, place)
    except UnavailableError:  # the answer may be what was lost
        if not repository.has("blobs", source.digest, source.size):
            raise


def _send_chunk(repository: Repository, source: _Source, location: str, start: int, stop: int) -> str:
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str(stop - start),
        "Content-Range": f"{start}-{stop - 1}",
    }
    body = lambda: source.pieces(start, stop)  # noqa: E731 (made anew where the registry asks who we are)
    with repository.ask("PATCH", location, headers=headers, body=body, good=(ACCEPTED,)) as answer:
        return _location(repository, answer.headers.get("Location"), location)


def _resumed(repository: Repository, location: str, error: Exception) -> tuple[str, int]:
    """Ask how much of an upload has arrived."""
    time.sleep(0.2)
    with repository.ask("GET", location, good=(NO_CONTENT, OK, ACCEPTED)) as answer:
        found = _RANGE.fullmatch(answer.headers.get("Range", ""))
        if found is None:
            raise error
        arrived = int(found[1]) + 1 if found[1] != "0" else 0  # "0-0" is also what an empty upload says
        return _location(repository, answer.headers.get("Location"), location), arrived


def _finish(repository: Repository, source: _Source, location: str, place: int) -> None:
    """Send what is left, and give the content its digest there."""
    url = location + ("&" if "?" in location else "?") + f"digest={path_of(source.digest)}"
    rest = b"".join(source.pieces(place, source.size)) if place < source.size else b""
    try:
        source.check()
    except CorruptError:
        with repository.ask("DELETE", location, good=(NO_CONTENT, OK, ACCEPTED)):
            pass
        raise
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(rest))}
    with repository.ask("PUT", url, headers=headers, body=lambda: rest, good=(CREATED,)) as answer:
        repository.check_claim(answer, source.digest)


def _location(repository: Repository, found: str | None, base: str) -> str:
    if not found:
        msg = f"{repository}: the registry does not say where to send the content"
        raise MalformedError(msg, remedy="see whether this is an OCI registry")
    return repository.transport.url(found, base)


def _list_referrers(repository: Repository, subject: Digest, entries: list[Descriptor]) -> None:
    """Add to the list that stands under the fallback tag; what others add meanwhile stays.

    The specification has no way to write a tag only if it did not change. So the list is read again after it was
    written, and written again where somebody else's has taken its place, until it was found whole twice. Who has read
    it before that and writes it after is the one case that nobody can see.
    """
    whole, failure = 0, None
    for attempt in range(_MERGES):
        try:
            whole = whole + 1 if _merged(repository, subject, entries) else 0
        except LimitExceededError:
            raise
        except (MalformedError, UnavailableError) as error:  # some registries fail those who write a tag at once
            whole, failure = 0, error
        if whole == _TWICE:
            return
        # Two who write at once must not go on writing at once.
        time.sleep(random.uniform(0.02, 0.06) * (attempt + 1))  # noqa: S311 (nothing secret)
    if failure is not None:
        raise failure
    msg = f"{repository}: others write the list of what is about {subject} again and again"
    raise ConflictError(msg, remedy="push again; what was sent is not sent again")


def _merged(repository: Repository, subject: Digest, entries: list[Descriptor]) -> bool:
    """Say whether everything is listed; if not, list it."""
    tag, index = repository.fallback(subject)
    if not index.manifests:  # some registries say for a moment that a tag is not there while somebody writes it
        time.sleep(_MOMENT)
        tag, index = repository.fallback(subject)
    known = {entry.digest for entry in index.manifests}
    missing = [entry for entry in entries if entry.digest not in known]
    if missing:
        data = index.replace(media_type=INDEX_TYPE, manifests=(*index.manifests, *missing)).to_json()
        if len(data) > MAX_MANIFEST_BYTES:
            msg = f"{repository}:{tag}: more referrers than a registry takes ({len(data)} bytes of their list)"
            raise LimitExceededError(msg, remedy="delete old ones there, or use a registry with the referrers API")
        repository.put_manifest(tag, data, INDEX_TYPE)
    return not missing
