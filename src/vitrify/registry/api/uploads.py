"""Uploads that are resumed: begun, continued from where they are, committed; by any of several servers.

Who began an upload alone may go on with it. Its row in the database says who that is and keeps the number bounded; the
content's own row keeps the garbage collector away.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select

from vitrify.core.digest import Digest
from vitrify.core.errors import ConflictError, CorruptError, UsageError
from vitrify.core.wire import Value
from vitrify.registry.api.content import check_same
from vitrify.registry.api.errors import answer_of
from vitrify.registry.api.operations import JSON, json_of
from vitrify.registry.api.routing import Answer, Call, Route
from vitrify.registry.blobs.uploads import check_id, check_size, open_uploads, unknown
from vitrify.registry.database.schema import uploads as rows
from vitrify.registry.garbage import give_up

if TYPE_CHECKING:
    from vitrify.registry.blobs.uploads import Uploads
    from vitrify.registry.local import LocalBackend

MOST_OPEN = 100
"""Uploads of one actor at a time."""
_OFFSET = "upload-offset"
_DIGITS = 18


class StartUpload(Value, frozen=True, kw_only=True):
    """What is about to be sent.

    Attributes:
        digest: ``sha256:`` and 64 hex digits.
        size: Bytes.
    """

    digest: str
    size: int


class UploadState(Value, frozen=True, kw_only=True):
    """Where an upload stands.

    Attributes:
        id: How it is called; empty where the content is there already.
        offset: Bytes that have arrived for good.
    """

    id: str
    digest: str
    size: int
    offset: int


class UploadRoutes:
    """The endpoints.

    Args:
        backend: Says where the content is.
    """

    def __init__(self, backend: LocalBackend) -> None:
        """Touch nothing yet."""
        self._uploads: Uploads = open_uploads(backend.blobs)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes."""
        path = "/v1/uploads/{id}"
        return (
            Route("POST", "/v1/uploads", "writer", self.start, "StartUpload", most=4096),
            Route("HEAD", path, "writer", self.look, "HeadUpload"),
            Route("PATCH", path, "writer", self.append, "AppendUpload", streams=True),
            Route("PUT", path, "writer", self.commit, "CommitUpload", most=0),
            Route("DELETE", path, "writer", self.abort, "AbortUpload"),
        )

    def start(self, call: Call) -> Answer:
        """Begin an upload, unless the content is there."""
        asked = StartUpload.from_builtins(json_of(call, "StartUpload"), where="StartUpload")
        digest = Digest.parse(asked.digest)
        check_size(asked.size)
        there = call.backend.expect(digest, asked.size)
        if not there and call.backend.blobs.size(digest) == asked.size:
            # A server died between keeping it and saying so; what is among the blobs was checked.
            call.backend.arrived(digest, asked.size)
            there = True
        if there:
            check_same(call, digest, asked.size)
            return _said(200, UploadState(id="", digest=asked.digest, size=asked.size, offset=asked.size))
        who = call.backend.actor.who
        if self._open(call.backend, who) >= MOST_OPEN:
            give_up(call.backend.database, self._uploads)
            if self._open(call.backend, who) >= MOST_OPEN:
                msg = f"{who} has {MOST_OPEN} uploads that are not finished"
                raise ConflictError(msg, remedy="finish them, or give them up: DELETE /v1/uploads/{id}")
        id_ = self._uploads.start(digest, asked.size)
        row = {"id": id_, "digest": asked.digest, "size": asked.size, "who": who, "created": _now()}
        with call.backend.database.write() as connection:
            connection.execute(insert(rows), row)
        answer = _said(201, UploadState(id=id_, digest=asked.digest, size=asked.size, offset=0))
        answer.headers["location"] = f"/v1/uploads/{id_}"
        return answer

    def look(self, call: Call) -> Answer:
        """Say how much has arrived."""
        row = _own(call)
        headers = {_OFFSET: str(self._uploads.offset(row.id)), "upload-length": str(row.size), **_FRESH}
        return Answer(200, b"", headers)

    def append(self, call: Call) -> Answer:
        """Add the body at the offset that the request says."""
        row = _own(call)
        said = call.headers.get(_OFFSET, "")
        if not said.isascii() or not said.isdigit() or len(said) > _DIGITS:
            msg = "where the bytes belong is not said"
            raise UsageError(msg, remedy="send the header Upload-Offset; HEAD says how much has arrived")
        digest = Digest.parse(row.digest)
        call.backend.expect(digest, row.size)
        try:
            offset = self._uploads.append(row.id, int(said), call.stream)
        except ConflictError as error:
            answer = answer_of(error, 409, call.id)
            answer.headers[_OFFSET] = str(self._uploads.offset(row.id))
            return answer
        return _said(200, UploadState(id=row.id, digest=row.digest, size=row.size, offset=offset))

    def commit(self, call: Call) -> Answer:
        """Check the content and put it among the rest."""
        row = _own(call)
        digest = Digest.parse(row.digest)
        call.backend.expect(digest, row.size)  # the collector keeps off from here on
        try:
            self._uploads.commit(row.id)
        except CorruptError:
            _forget(call.backend, row.id)
            raise
        call.backend.arrived(digest, row.size)
        _forget(call.backend, row.id)
        return _said(201, UploadState(id="", digest=row.digest, size=row.size, offset=row.size))

    def abort(self, call: Call) -> Answer:
        """Give an upload up."""
        row = _own(call)
        self._uploads.abort(row.id)
        _forget(call.backend, row.id)
        return Answer(204)

    def _open(self, backend: LocalBackend, who: str) -> int:
        with backend.database.read() as connection:
            return connection.execute(select(func.count()).select_from(rows).where(rows.c.who == who)).scalar() or 0


_FRESH = {"cache-control": "no-store"}


def _own(call: Call) -> Any:
    """Return the row of an upload, to who began it; to all others there is none."""
    id_ = check_id(call.path["id"])
    with call.backend.database.read() as connection:
        row = connection.execute(select(rows).where(rows.c.id == id_)).first()
    if row is None or row.who != call.backend.actor.who:
        raise unknown(id_)
    return row


def _forget(backend: LocalBackend, id_: str) -> None:
    with backend.database.write() as connection:
        connection.execute(delete(rows).where(rows.c.id == id_))


def _said(status: int, state: UploadState) -> Answer:
    headers = {"content-type": JSON, _OFFSET: str(state.offset), **_FRESH}
    return Answer(status, state.to_json(), headers)


def _now() -> int:
    return time.time_ns() // 1000
