"""Content by digest: read in whole or in part, written in one request.

Whoever may read may read any content whose digest he knows: a digest is no name that can be guessed.
Source: RFC 9110, sections 13 and 14 (conditions, ranges).
"""

from __future__ import annotations

import re

from vitrify.core.digest import Digest
from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.registry.api.operations import JSON
from vitrify.registry.api.routing import Answer, Call, Route
from vitrify.registry.blobs import wrong_size
from vitrify.registry.blobs.uploads import check_size

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_OUTSIDE = 416


def content_routes() -> tuple[Route, ...]:
    """Return the routes."""
    path = "/v1/content/{digest}"
    return (
        Route("HEAD", path, "reader", look, "HeadContent"),
        Route("GET", path, "reader", read, "GetContent"),
        Route("PUT", path, "writer", write, "PutContent", streams=True),
    )


def look(call: Call) -> Answer:
    """Say whether content is there, and how long it is."""
    digest = Digest.parse(call.path["digest"])
    return Answer(200, b"", {**_headers(digest), "content-length": str(_size(call, digest))})


def read(call: Call) -> Answer:
    """Return content, or the one range of it that was asked for."""
    digest = Digest.parse(call.path["digest"])
    size = _size(call, digest)
    headers = _headers(digest)
    if call.headers.get("if-none-match") in {headers["etag"], "*"}:
        return Answer(304, b"", headers)
    start, stop = 0, size
    asked = call.headers.get("range")
    if asked is not None and call.headers.get("if-range", headers["etag"]) == headers["etag"]:
        found = range_of(asked, size)
        if found is not None:
            start, stop = found
            if start == stop:
                headers["content-range"] = f"bytes */{size}"
                return Answer(_OUTSIDE, b"", headers)
            headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
    status = 206 if "content-range" in headers else 200
    return Answer(status, call.backend.blobs.read(digest, start, stop), headers, stop - start)


def write(call: Call) -> Answer:
    """Take content whose length the request says; what is there already is not read again."""
    digest = Digest.parse(call.path["digest"])
    said = call.headers.get("content-length")
    if said is None:
        msg = "the length of the content is not said"
        raise UsageError(msg, remedy="send Content-Length, or use POST /v1/uploads")
    size = int(said)
    check_size(size)
    there = call.backend.expect(digest, size)
    if there:
        check_same(call, digest, size)
    else:
        call.backend.blobs.put(digest, size, call.stream)
        call.backend.arrived(digest, size)
    return Answer(200 if there else 201, b"{}", {"content-type": JSON})


def check_same(call: Call, digest: Digest, size: int) -> None:
    """Refuse a length that content which is there does not have.

    Raises:
        CorruptError: It has another.
    """
    if (found := call.backend.blobs.size(digest)) != size:
        raise wrong_size(digest, size, str(found))


def range_of(asked: str, size: int) -> tuple[int, int] | None:
    """Return start and stop of a Range header: the same twice where it is outside; None for one that is ignored."""
    found = _RANGE.fullmatch(asked.replace(" ", ""))
    if found is None or found[1] + found[2] == "":
        return None  # several ranges, or another unit: the whole content is an answer too
    if not found[1]:
        length = min(int(found[2]), size)
        return size - length, size
    start = int(found[1])
    stop = min(int(found[2]) + 1, size) if found[2] else size
    if found[2] and int(found[2]) < start:
        return None
    return (start, stop) if start < size else (size, size)


def _size(call: Call, digest: Digest) -> int:
    size = call.backend.blobs.size(digest)
    if size is None:
        msg = f"the registry has no content {digest}"
        raise ReferenceNotFoundError(msg, remedy="upload it first: vitrify register does")
    return size


def _headers(digest: Digest) -> dict[str, str]:
    return {
        "content-type": "application/octet-stream",
        "content-disposition": f'attachment; filename="{digest.hex}"',
        "etag": f'"{digest}"',
        "accept-ranges": "bytes",
        "cache-control": "private, max-age=31536000, immutable",
    }
