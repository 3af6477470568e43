"""One repository of an OCI registry: manifests, blobs, referrers and tags.

Nothing that comes back is believed: a manifest is what hashes to its digest, a blob is counted and hashed while it
streams, and an error's text is a stranger's.

Source: OCI distribution specification 1.1.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    AuthenticationError,
    CorruptError,
    DeniedError,
    LimitExceededError,
    MalformedError,
    ReferenceNotFoundError,
    UnavailableError,
)
from vitrify.core.manifest import INDEX_TYPE, MANIFEST_TYPE, Descriptor
from vitrify.core.nesting import shallow
from vitrify.stores._index import Index
from vitrify.stores._verified import corrupt
from vitrify.stores.files import MAX_MANIFEST_BYTES
from vitrify.stores.oci_registry._login import Login
from vitrify.stores.oci_registry._transport import Transport, plain, read_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from urllib3 import BaseHTTPResponse

OK, CREATED, ACCEPTED, NO_CONTENT, PARTIAL = 200, 201, 202, 204, 206
NOT_FOUND = 404
_UNAUTHORIZED, _FORBIDDEN, _TOO_LARGE, _TOO_MANY, _SERVER = 401, 403, 413, 429, 500

PIECE = 1024 * 1024
_TRIES = 4
_MAX_ERROR = 64 * 1024
_MAX_LIST = 4 * 1024 * 1024
_MAX_PAGES = 1_000
_MAX_TAGS = 100_000
_ACCEPTED = f"{MANIFEST_TYPE}, {INDEX_TYPE}"
_NEXT = re.compile(r'<([^<>]{1,4096})>\s*;\s*rel="?next"?')
_LOGIN_ROUNDS = 2


class Repository:
    """Requests to one repository; any number of threads may use it.

    Attributes:
        name: The repository's name inside the registry.
        transport: How the registry is reached.
    """

    def __init__(
        self, host: str, name: str, *, write: bool, plain_http: bool = False, mount_from: str | None = None
    ) -> None:
        """Ask for nothing yet."""
        self.name = name
        self.transport = Transport(host, plain_http=plain_http)
        scopes = [f"repository:{name}:{'pull,push' if write else 'pull'}"]
        if mount_from:
            scopes.append(f"repository:{mount_from}:pull")
        self._login = Login(self.transport, tuple(scopes))

    def __str__(self) -> str:
        """Return the reference without a tag."""
        return f"oci://{self.transport.host}/{self.name}"

    def address(self, path: str) -> str:
        """Return a URL below the repository's."""
        return f"{self.transport.base}/v2/{self.name}/{path}"

    @contextmanager
    def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Callable[[], Iterable[bytes] | bytes] | None = None,
        good: tuple[int, ...],
        missing: str = "",
    ) -> Iterator[BaseHTTPResponse]:
        """Yield an answer of one of the good statuses; where the registry asks who we are, say it and ask again.

        Args:
            method: HTTP's.
            url: Absolute; credentials go along only to the registry itself.
            headers: Of the request.
            body: Makes the body, as often as the request is sent.
            good: The statuses that are expected.
            missing: What is not there where the answer is 404.

        Raises:
            ReferenceNotFoundError: 404.
            AuthenticationError: The registry does not know us.
            DeniedError: It knows us and does not allow it.
            UnavailableError: It cannot be reached, or is at fault.
            MalformedError: Any other status.
        """
        for attempt in range(_LOGIN_ROUNDS + 1):
            own = self.transport.is_own(url)
            secret = dict(self._login.header) if own else {}
            content = body() if body else None
            with self.transport.send(method, url, headers or {}, body=content, secret=secret) as answer:
                challenge = answer.headers.get("WWW-Authenticate")
                if answer.status != _UNAUTHORIZED or not challenge or not own or attempt == _LOGIN_ROUNDS:
                    if answer.status not in good:
                        raise self._error(answer, method, missing)
                    yield answer
                    return
            self._login.answer(challenge, secret)

    def manifest(self, reference: Digest | str) -> tuple[Digest, bytes]:
        """Return the digest and the bytes of a manifest or an index.

        Raises:
            ReferenceNotFoundError: It is not there.
            CorruptError: The bytes are not what their digest promises.
            LimitExceededError: They are more than ``MAX_MANIFEST_BYTES``.
        """
        where = f"{self}@{reference}" if isinstance(reference, Digest) else f"{self}:{reference}"
        url = self.address(f"manifests/{reference}")
        with self.ask("GET", url, headers={"Accept": _ACCEPTED}, good=(OK,), missing=where) as answer:
            data = read_bounded(answer, MAX_MANIFEST_BYTES, where=where)
            claimed = answer.headers.get("Docker-Content-Digest")
        found = Digest.of(data)
        if isinstance(reference, Digest) and found != reference:
            raise corrupt(reference, found, place=where)
        if claimed is not None and claimed.startswith("sha256:") and claimed != str(found):
            msg = f"{where}: the registry says that its digest is {plain(claimed, 80)}, it is {found}"
            raise CorruptError(msg, remedy="run it again; if that does not help, tell whoever runs the registry")
        return found, data

    def put_manifest(self, reference: Digest | str, data: bytes, media_type: str) -> bool:
        """Write a manifest under its digest or a tag; return whether the registry lists it as a referrer itself."""
        url = self.address(f"manifests/{reference}")
        headers = {"Content-Type": media_type, "Content-Length": str(len(data))}
        with self.ask("PUT", url, headers=headers, body=lambda: data, good=(CREATED, OK), missing=str(self)) as answer:
            self.check_claim(answer, Digest.of(data))
            return "OCI-Subject" in answer.headers

    def has(self, kind: str, digest: Digest, size: int) -> bool:
        """Say whether a blob or a manifest is there.

        Raises:
            CorruptError: It is there with another size.
        """
        try:
            headers = {"Accept": _ACCEPTED} if kind == "manifests" else {}
            with self.ask("HEAD", self.address(f"{kind}/{digest}"), headers=headers, good=(OK,)) as answer:
                length = answer.headers.get("Content-Length")
        except ReferenceNotFoundError:
            return False
        if length is not None and length != str(size):
            msg = f"{self} has {digest} with {plain(length, 30)} bytes, it has {size}"
            raise CorruptError(msg, remedy="tell whoever runs the registry: its content is damaged")
        return True

    def blob(self, digest: Digest, size: int, label: str) -> Iterator[bytes]:
        """Yield a blob's bytes; a broken connection is taken up again where it broke.

        Raises:
            CorruptError: The bytes are more or fewer than ``size``, or not what the digest promises. What was yielded
                must be thrown away.
            ReferenceNotFoundError: It is not there.
        """
        where = f"{self}: {label}"
        state, count, failure = hashlib.sha256(), 0, None
        for _ in range(_TRIES):
            try:
                for piece in self._part(digest, size, count, where):
                    count += len(piece)
                    if count > size:
                        raise _wrong_size(where, size, "more")
                    state.update(piece)
                    yield piece
            except UnavailableError as error:
                failure = error
            if count == size:
                break
        if count != size:
            raise failure or _wrong_size(where, size, str(count))
        if (found := Digest(state.hexdigest())) != digest:
            raise corrupt(digest, found, place=where)

    def referrers(self, subject: Digest) -> tuple[Descriptor, ...]:
        """Return what is listed as being about a digest: by the referrers API, or else under the fallback tag.

        Raises:
            MalformedError: The list is no image index.
        """
        found: list[Descriptor] = []
        url: str | None = self.address(f"referrers/{subject}")
        where = f"{self}: referrers of {subject}"
        try:
            for _ in range(_MAX_PAGES):
                with self.ask("GET", str(url), headers={"Accept": INDEX_TYPE}, good=(OK,)) as answer:
                    kind = answer.headers.get("Content-Type", "")
                    data = read_bounded(answer, _MAX_LIST, where=where)
                    url = self._next(answer, str(url))
                if kind.partition(";")[0].strip() != INDEX_TYPE:  # some proxies answer anything with a page
                    return self.fallback(subject)[1].manifests
                found.extend(Index.from_json(data, where=where).manifests)
                if url is None:
                    return tuple(found)
        except (ReferenceNotFoundError, MalformedError) as error:
            if isinstance(error, LimitExceededError) or found:
                raise
            return self.fallback(subject)[1].manifests
        msg = f"{where}: more than {_MAX_PAGES} pages"
        raise LimitExceededError(msg)

    def fallback(self, subject: Digest) -> tuple[str, Index]:
        """Return the tag that lists referrers where the registry does not, and the index under it."""
        tag = f"{subject.algorithm}-{subject.hex}"
        try:
            _, data = self.manifest(tag)
        except ReferenceNotFoundError:
            return tag, Index(schema_version=2, media_type=INDEX_TYPE, manifests=())
        return tag, Index.from_json(data, where=f"{self}:{tag}")

    def tags(self) -> tuple[str, ...]:
        """Return every tag, as the registry orders them."""
        found: list[str] = []
        url: str | None = self.address("tags/list?n=1000")
        for _ in range(_MAX_PAGES):
            with self.ask("GET", str(url), good=(OK,), missing=str(self)) as answer:
                data = read_bounded(answer, _MAX_LIST, where=f"{self}: tags")
                url = self._next(answer, str(url))
            found.extend(_tags(data, f"{self}: tags"))
            if url is None:
                return tuple(found)
            if len(found) > _MAX_TAGS:
                break
        msg = f"{self}: more than {_MAX_TAGS} tags or {_MAX_PAGES} pages of them"
        raise LimitExceededError(msg)

    def check_claim(self, answer: BaseHTTPResponse, digest: Digest) -> None:
        """Refuse an answer which says that something else was written."""
        claimed = answer.headers.get("Docker-Content-Digest")
        if claimed is not None and claimed != str(digest):
            msg = f"{self}: {digest} was sent, the registry says that it has {plain(claimed, 80)}"
            raise CorruptError(msg, remedy="run it again; if that does not help, tell whoever runs the registry")

    def _part(self, digest: Digest, size: int, start: int, where: str) -> Iterator[bytes]:
        """Yield a blob's bytes from ``start``, whether or not the registry knows ranges."""
        if start == size and size:
            return
        headers = {"Range": f"bytes={start}-"} if start else {}
        url = self.address(f"blobs/{digest}")
        with self.ask("GET", url, headers=headers, good=(OK, PARTIAL), missing=where) as answer:
            skipped = 0 if answer.status == OK else start
            given = answer.headers.get("Content-Range", "")
            if answer.status == PARTIAL and not given.startswith(f"bytes {start}-"):
                msg = f"{where}: bytes from {start} were asked for, {plain(given)!r} came"
                raise MalformedError(msg)
            length = answer.headers.get("Content-Length", "")
            if length.isdecimal() and int(length[:20]) != size - skipped:
                raise _wrong_size(where, size - skipped, length[:20])
            while piece := answer.read(PIECE):
                if skipped < start:
                    cut = min(start - skipped, len(piece))
                    skipped, piece = skipped + cut, piece[cut:]
                if piece:
                    yield piece

    def _next(self, answer: BaseHTTPResponse, url: str) -> str | None:
        """Return the address of the next page, which must be the registry's own."""
        found = _NEXT.search(answer.headers.get("Link", "")[:8192])
        if found is None:
            return None
        following = self.transport.url(found[1], url)
        if not self.transport.is_own(following) or following == url:
            msg = f"{self}: the next page of a list is elsewhere: {plain(urlsplit(following).netloc)}"
            raise MalformedError(msg)
        return following

    def _error(self, answer: BaseHTTPResponse, method: str, missing: str) -> Exception:
        status, host = answer.status, self.transport.host
        said = f": {text}" if (text := _said(answer)) else ""
        if status == NOT_FOUND:
            msg = f"not in the registry: {missing or self}{said}"
            return ReferenceNotFoundError(msg, remedy=f"see what is there: vitrify ls {self}")
        if status == _UNAUTHORIZED:
            msg = f"{host} does not take our credentials for {self.name}{said}"
            return AuthenticationError(msg, remedy=f"skopeo login {host}")
        if status == _FORBIDDEN:
            msg = f"{host} does not allow {method} on {self.name}{said}"
            return DeniedError(msg, remedy="ask whoever runs the registry for the right, or use another repository")
        if status in {_TOO_MANY, _TOO_LARGE} or status >= _SERVER:
            msg = f"{host} could not do it (status {status}){said}"
            return UnavailableError(msg, remedy="run it again later")
        msg = f"{host} answers {method} on {self.name} with status {status}{said}"
        return MalformedError(msg, remedy="see whether this is an OCI registry")


def path_of(digest: Digest) -> str:
    """Return a digest as a query's value."""
    return quote(str(digest), safe="")


def _said(answer: BaseHTTPResponse) -> str:
    """Return what a registry says about its error, as one safe line; of a page for people, nothing."""
    try:
        raw: Any = msgspec.json.decode(shallow(read_bounded(answer, _MAX_ERROR, where="error")))
        first = raw["errors"][0]
        return plain(f"{first.get('code', '')} {first.get('message', '')}")
    except (msgspec.DecodeError, RecursionError, LimitExceededError, LookupError, TypeError, AttributeError):
        return ""


def _tags(data: bytes, where: str) -> list[str]:
    try:
        raw = msgspec.json.decode(shallow(data))
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"{where}: not valid JSON ({error})"
        raise MalformedError(msg) from error
    tags = raw.get("tags") if isinstance(raw, dict) else 0
    if tags is None:
        return []
    if not isinstance(tags, list) or not all(isinstance(tag, str) and tag.isprintable() for tag in tags):
        msg = f"{where}: no list of tags"
        raise MalformedError(msg)
    return tags


def _wrong_size(where: str, size: int, found: str) -> CorruptError:
    msg = f"{where}: {size} bytes were promised, there are {found}"
    return CorruptError(msg, remedy="run it again; if that does not help, tell whoever runs the registry")
