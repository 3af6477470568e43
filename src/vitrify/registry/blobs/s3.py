"""Blobs in S3-compatible object storage, through ``obstore``.

A blob is the object ``<prefix>/blobs/sha256/<hex>``: the same tree as on disk. A large one goes up in parts, of
which few are in memory; the object appears when all parts are there and were hashed. The parts of a process that was
killed are not visible and cost money: give the bucket a lifecycle rule that aborts incomplete multipart uploads.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import re
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    AuthenticationError,
    MissingDependencyError,
    ReferenceNotFoundError,
    StoreError,
    UnavailableError,
    UsageError,
)
from vitrify.registry.blobs import check_range, checking, wrong_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from obstore.store import S3Config, S3Store

PART = 8 * 1024 * 1024
"""Bytes of a part; of content that would be more than ``_MOST_PARTS``, more."""

_MOST_PARTS = 9_000
_AT_ONCE = 4
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()-]+(?:/[A-Za-z0-9!_.*'()-]+)*")
_HEX = re.compile(r"[0-9a-f]{64}")
_FLAGS = ("path_style", "plain_http")
_OPTIONS = ("endpoint", "region", *_FLAGS)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_FOR_EXAMPLE = "for example: s3://models/team?endpoint=https://s3.example.org&region=eu-west-1"


class S3Blobs:
    """See :class:`vitrify.registry.blobs.Blobs`."""

    def __init__(self, url: str) -> None:
        """Connect to nothing yet.

        Raises:
            UsageError: It is no URL of a bucket.
            MissingDependencyError: ``obstore`` is not installed.
        """
        self.url = url.partition("?")[0]
        self.bucket = _open(url)

    def __repr__(self) -> str:
        return f"S3Blobs({self.url!r})"

    def put(self, digest: Digest, size: int, chunks: Iterable[bytes | memoryview]) -> None:
        """Keep content; see :meth:`vitrify.registry.blobs.Blobs.put`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        found = self.size(digest)
        if found is not None:
            if found != size:
                raise wrong_size(digest, size, str(found))
            return
        checked = checking(digest, size, chunks)
        with calling(f"write {digest} to {self.url}"):
            if size > PART:
                # Should another put the same meanwhile, one object with the right bytes replaces the other.
                self._put_in_parts(_key(digest), checked, max(PART, -(-size // _MOST_PARTS)))
                return
            try:
                obstore.put(self.bucket, _key(digest), b"".join(checked), mode="create")
            except AlreadyExistsError:
                return

    def read(self, digest: Digest, start: int = 0, stop: int | None = None) -> Iterator[memoryview]:
        """Yield content; see :meth:`vitrify.registry.blobs.Blobs.read`."""
        import obstore

        size = self.size(digest)
        if size is None:
            raise self.absent(digest)
        end = check_range(digest, size, start, stop)
        if start == end:
            return iter(())
        with calling(f"read {digest} from {self.url}", absent=self.absent(digest)):
            answer = obstore.get(self.bucket, _key(digest), options={"range": (start, end)})
        return self._pieces(answer, digest)

    def size(self, digest: Digest) -> int | None:
        """Return the number of bytes, or None where the digest is not there."""
        import obstore

        try:
            with calling(f"look for {digest} in {self.url}", absent=self.absent(digest)):
                return int(obstore.head(self.bucket, _key(digest))["size"])
        except ReferenceNotFoundError:
            return None

    def delete(self, digest: Digest) -> None:
        """Delete; deleting what is not there is no error."""
        import obstore

        with calling(f"delete {digest} from {self.url}"):
            obstore.delete(self.bucket, _key(digest))

    def digests(self) -> Iterator[Digest]:
        """Yield the digest of everything that is there, sorted, as S3 lists it."""
        import obstore

        with calling(f"list {self.url}"):
            for batch in obstore.list(self.bucket, prefix="blobs/sha256/"):
                names = (entry["path"].rpartition("/")[2] for entry in batch)
                yield from (Digest(name) for name in names if _HEX.fullmatch(name))

    def absent(self, digest: Digest) -> ReferenceNotFoundError:
        """Return the error of content that is not there."""
        return ReferenceNotFoundError(f"no content {digest} in {self.url}", remedy="upload it first")

    def _put_in_parts(self, key: str, chunks: Iterator[bytes | memoryview], part: int) -> None:
        """Send an object in parts; if ``chunks`` raises, the parts are deleted and there is no object.

        The library asks for the next part in a thread of its own, in which nothing may call the library again: not
        even chunks that are read from a bucket. So they are taken here, and handed over.
        """
        import obstore

        waiting: queue.Queue[bytes | BaseException | None] = queue.Queue(1)

        def handed() -> Iterator[bytes]:
            while (item := waiting.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item

        with ThreadPoolExecutor(1, thread_name_prefix="vitrify-s3") as pool:
            sent = pool.submit(
                obstore.put, self.bucket, key, handed(), chunk_size=part, max_concurrency=_AT_ONCE, use_multipart=True
            )
            try:
                for data in _parts_of(chunks, part):
                    if not _hand(waiting, data, sent):
                        break
            except BaseException as error:
                _hand(waiting, error, sent)
                wait([sent])
                raise
            _hand(waiting, None, sent)
            sent.result()

    def _pieces(self, answer: Any, digest: Digest) -> Iterator[memoryview]:
        with calling(f"read {digest} from {self.url}"):
            for piece in answer.stream(min_chunk_size=1024 * 1024):
                yield memoryview(piece)


def _parts_of(chunks: Iterable[bytes | memoryview], length: int) -> Iterator[bytes]:
    """Yield the same bytes in pieces of about ``length``, each of them a copy that nobody changes."""
    gathered = bytearray()
    for chunk in chunks:
        gathered += chunk
        if len(gathered) >= length:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _hand(waiting: queue.Queue[Any], item: object, sent: Future[Any]) -> bool:
    """Put an item into the queue; False if whoever empties it has ended, whose result says why."""
    while not sent.done():
        with contextlib.suppress(queue.Full):
            waiting.put(item, timeout=0.2)
            return True
    return False


@contextmanager
def calling(what: str, *, absent: ReferenceNotFoundError | None = None) -> Iterator[None]:
    """Turn what ``obstore`` raises into our errors."""
    from obstore import exceptions

    try:
        yield
    except FileNotFoundError as error:
        if absent is not None:
            raise absent from None
        msg = f"could not {what}: there is no such bucket ({_short(error)})"
        raise StoreError(msg, remedy="make the bucket first, or correct its name") from error
    except (exceptions.UnauthenticatedError, exceptions.PermissionDeniedError) as error:
        msg = f"could not {what}: the object storage does not allow it ({_short(error)})"
        remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to credentials that may read and write the bucket"
        raise AuthenticationError(msg, remedy=remedy) from error
    except exceptions.BaseError as error:
        msg = f"could not {what}: {_short(error)}"
        raise UnavailableError(msg, remedy="try again; see whether the endpoint is right and can be reached") from error


def _short(error: Exception) -> str:
    """Return the first line of a library's message, which may go on for pages."""
    return " ".join(itertools.islice(str(error).splitlines(), 1))[:300]


def _key(digest: Digest) -> str:
    return f"blobs/sha256/{digest.hex}"


def _open(url: str) -> S3Store:
    try:
        from obstore.store import S3Store as Store
    except ImportError as error:
        msg = "object storage needs obstore, which is not installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[s3]'") from error
    bucket, prefix, options = _parts(url)
    config: S3Config = {}
    endpoint = options.get("endpoint")
    plain = endpoint is not None and endpoint.startswith("http://")
    if endpoint is not None:
        config["endpoint"] = endpoint
    if region := options.get("region"):
        config["region"] = region
    if options.get("path_style") == "no":
        config["virtual_hosted_style_request"] = True
    return Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options={
            "allow_http": plain,
            "connect_timeout": timedelta(seconds=10),
            "read_timeout": timedelta(seconds=60),
            "timeout": timedelta(days=1),  # of a whole transfer; the library's 30 s would cut large ones off
        },
        retry_config={"max_retries": 4, "retry_timeout": timedelta(seconds=60)},
    )


def _parts(url: str) -> tuple[str, str, dict[str, str]]:
    """Return bucket, prefix and options of a URL whose every part was checked."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=True, keep_blank_values=True)) if parts.query else {}
    except ValueError as error:
        msg = f"not a URL of a bucket: {error}"
        raise UsageError(msg, remedy=_FOR_EXAMPLE) from error
    if parts.username is not None or parts.password is not None:
        msg = "credentials do not belong into the URL of a bucket"
        raise UsageError(msg, remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    prefix = parts.path.strip("/")
    climbs = any(set(part) == {"."} for part in prefix.split("/"))
    if not _BUCKET.fullmatch(parts.netloc) or (prefix and not _PREFIX.fullmatch(prefix)) or climbs or parts.fragment:
        msg = f"not a URL of a bucket: {url!r} (expected s3://bucket/prefix)"
        raise UsageError(msg, remedy=_FOR_EXAMPLE)
    if unknown := options.keys() - set(_OPTIONS):
        msg = f"options that a bucket does not have: {', '.join(sorted(unknown))} (there are: {', '.join(_OPTIONS)})"
        raise UsageError(msg, remedy=_FOR_EXAMPLE)
    if not {options[key] for key in _FLAGS if key in options} <= {"yes", "no"}:
        msg = "path_style and plain_http are yes or no"
        raise UsageError(msg, remedy=_FOR_EXAMPLE)
    _check_endpoint(options)
    return parts.netloc, prefix, options


def _check_endpoint(options: dict[str, str]) -> None:
    endpoint = urlsplit(options.get("endpoint", "https://example.org"))
    if endpoint.scheme not in {"http", "https"} or not endpoint.hostname or endpoint.username is not None:
        shown = options["endpoint"].rpartition("@")[2]  # what stands before it may be a password
        msg = f"not an endpoint: {shown!r} (expected https://host[:port])"
        raise UsageError(msg, remedy=_FOR_EXAMPLE)
    if endpoint.scheme == "http" and endpoint.hostname not in _LOOPBACK and options.get("plain_http") != "yes":
        msg = f"{options['endpoint']} is not encrypted: whoever listens reads every model"
        raise UsageError(msg, remedy="use https://, or add plain_http=yes where the network itself is trusted")
