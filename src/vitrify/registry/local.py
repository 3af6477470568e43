"""The registry on this machine's own account: a database and a place for content."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vitrify.core.digest import CHUNK, Digest
from vitrify.registry import limits
from vitrify.registry.blobs.disk import DiskBlobs
from vitrify.registry.handlers import GLANCES, HANDLERS, prepare, stock
from vitrify.registry.requests import OPERATIONS
from vitrify.registry.work import Work
from vitrify.stores._durable import storing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from vitrify.core.wire import Value
    from vitrify.registry.actor import Actor
    from vitrify.registry.blobs import Blobs
    from vitrify.registry.content import Pinned
    from vitrify.registry.database import Database
    from vitrify.registry.requests import Request
    from vitrify.trust.policy import Policy


class LocalBackend:
    """Carries requests out on a database, for one actor; see :class:`vitrify.registry.backend.Backend`.

    Args:
        database: The rows.
        blobs: The content.
        actor: Who asks.
        policy: What promotions and deployments must meet; None allows everything.
    """

    def __init__(self, database: Database, blobs: Blobs, actor: Actor, policy: Policy | None = None) -> None:
        """Keep them."""
        self.database = database
        self.blobs = blobs
        self.actor = actor
        self.policy = policy

    def acting(self, actor: Actor) -> LocalBackend:
        """Return this backend for somebody else."""
        return LocalBackend(self.database, self.blobs, actor, self.policy)

    def do(self, request: Request) -> Value:
        """Carry one request out.

        Raises:
            VitrifyError: As its operation says; nothing was changed.
        """
        operation = OPERATIONS[type(request)]
        limits.check(request)
        self.actor.require(operation.role)
        if not operation.writes:
            reading = self.database.glance if type(request) in GLANCES else self.database.read
            with reading() as connection:
                return HANDLERS[type(request)](Work.reading(connection, self.actor, self.policy), request)
        prepared = prepare(self.blobs, self.do, request)
        with self.database.write() as connection:
            if prepared is None or stock.is_there(connection, Digest.parse(prepared.index)):
                return self._write(connection, request, prepared)
        self._publish(Digest.parse(prepared.index), prepared.document)
        with self.database.write() as connection:
            return self._write(connection, request, prepared)

    def upload(self, digest: Digest, path: Path) -> None:
        """Take a file's bytes: linked where the content lies on the same file system, else copied.

        Raises:
            CorruptError: They are not what the digest promises.
            StoreError: They could not be kept.
        """
        with storing(f"read {path.name}"):
            size = path.stat().st_size
        if self.expect(digest, size):
            return
        if isinstance(self.blobs, DiskBlobs):
            self.blobs.link(digest, path)
        else:
            self.blobs.put(digest, size, _pieces(path))
        self.arrived(digest, size)

    def expect(self, digest: Digest, size: int) -> bool:
        """Note that content is about to arrive; return whether it is there already."""
        with self.database.write() as connection:
            there = stock.arriving(connection, digest, size, _now())
        return there and self.blobs.size(digest) is not None

    def arrived(self, digest: Digest, size: int) -> None:
        """Note that content is there, durably."""
        with self.database.write() as connection:
            stock.arrived(connection, self.blobs, digest, size, _now())

    def read(self, digest: Digest, start: int = 0) -> Iterator[bytes | memoryview]:
        """Yield content from a byte on.

        Raises:
            ReferenceNotFoundError: It is not there.
        """
        self.actor.require("reader")
        return self.blobs.read(digest, start)

    def close(self) -> None:
        """Let go of the database's connections."""
        self.database.close()

    def _write(self, connection: Connection, request: Request, prepared: Pinned | None) -> Value:
        work = Work.writing(connection, self.actor, self.policy, prepared)
        answer = HANDLERS[type(request)](work, request)
        work.finish()
        return answer

    def _publish(self, digest: Digest, document: bytes) -> None:
        """Keep a version's OCI image index."""
        if not self.expect(digest, len(document)):
            self.blobs.put(digest, len(document), [document])
        self.arrived(digest, len(document))


def _now() -> int:
    return time.time_ns() // 1000


def _pieces(path: Path) -> Iterable[bytes]:
    with storing(f"read {path.name}"), path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            yield piece
