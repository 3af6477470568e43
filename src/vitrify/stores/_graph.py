"""What leads to what: from manifests and indexes to everything that they need.

Only shapes that OCI documents share are looked at (an object with a ``digest``), so that the content of kinds of
documents that this version does not know is kept too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import FILEPATH
from vitrify.core.nesting import shallow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_FILE = "file "


@dataclass(frozen=True)
class References:
    """What one document leads to.

    Attributes:
        content: Everything it needs, each with what it is, for people.
        manifests: Those of them that are documents themselves.
        subject: What it is about; that needs it, and not the other way round.
    """

    content: dict[Digest, str]
    manifests: tuple[Digest, ...] = ()
    subject: Digest | None = None


def references(document: bytes, *, where: str) -> References:
    """Return what a manifest or an index leads to.

    Raises:
        MalformedError: It is no JSON object.
    """
    try:
        raw = msgspec.json.decode(shallow(document))
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"{where}: not valid JSON ({error})"
        raise MalformedError(msg) from error
    if not isinstance(raw, dict):
        msg = f"{where}: expected a JSON object, found {type(raw).__name__}"
        raise MalformedError(msg)
    subject = next((digest for digest, _ in _descriptors(raw.pop("subject", None))), None)
    manifests = tuple(digest for digest, _ in _descriptors(raw.get("manifests")))
    content: dict[Digest, str] = {}
    for digest, label in _descriptors(raw):  # one content may be many things; to people it is a file first
        if digest not in content or label.startswith(_FILE):
            content[digest] = label
    return References(content, manifests, subject)


def sizes(document: bytes, *, where: str) -> dict[Digest, int]:
    """Return how many bytes everything has that a manifest or an index leads to, as it says itself.

    Raises:
        MalformedError: It is no JSON, or says of one content that it has several sizes, or none.
    """
    try:
        raw = msgspec.json.decode(shallow(document))
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"{where}: not valid JSON ({error})"
        raise MalformedError(msg) from error
    found: dict[Digest, int] = {}
    for digest, item in _objects(raw):
        size = item.get("size")
        if not isinstance(size, int) or size < 0 or found.setdefault(digest, size) != size:
            msg = f"{where}: the size of {digest} is {str(size)[:40]}, or not always the same"
            raise MalformedError(msg)
    return found


def closure(load: Callable[[Digest], bytes], root: Digest) -> dict[Digest, str]:
    """Return the root and everything it leads to, each with what it is, for people.

    What a nested index lists and the store does not have is left out: an OCI layout may hold an index of many
    platforms and the manifest of one.

    Raises:
        ReferenceNotFoundError: The root is not there.
        CorruptError: A document's bytes are not what its digest promises.
        MalformedError: A document is no JSON object.
    """
    found = {root: f"manifest {root}"}
    waiting = [root]
    while waiting:
        digest = waiting.pop()
        try:
            document = load(digest)
        except ReferenceNotFoundError:
            if digest == root:
                raise
            del found[digest]
            continue
        leads = references(document, where=f"manifest {digest}")
        waiting.extend(nested for nested in leads.manifests if nested not in found)
        found = {**leads.content, **found}
    return found


def with_referrers(
    about: Mapping[Digest, Digest], closed: Callable[[Digest], dict[Digest, str]], alive: dict[Digest, str]
) -> dict[Digest, str]:
    """Return ``alive`` with those who are about something in it, those who are about them, and so on.

    Args:
        about: From a referrer to its subject.
        closed: Gives all that a referrer needs, itself included.
        alive: What is there without referrers.
    """
    alive = dict(alive)
    while ready := [digest for digest, subject in about.items() if subject in alive and digest not in alive]:
        for digest in ready:
            alive = closed(digest) | alive
    return alive


def _descriptors(value: Any) -> Iterator[tuple[Digest, str]]:
    """Yield every digest of an object anywhere in a JSON value, with the path or the type of its file."""
    return ((digest, _label(item)) for digest, item in _objects(value))


def _objects(value: Any) -> Iterator[tuple[Digest, dict[str, Any]]]:
    """Yield every object with a digest anywhere in a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
            if digest := _digest(item.get("digest")):
                yield digest, item


def _digest(text: object) -> Digest | None:
    try:
        return Digest.parse(text) if isinstance(text, str) else None
    except UsageError:
        return None


def _label(descriptor: dict[str, Any]) -> str:
    annotations = descriptor.get("annotations")
    path = annotations.get(FILEPATH) if isinstance(annotations, dict) else None
    return f"{_FILE}{path}" if isinstance(path, str) else str(descriptor.get("mediaType", "content"))
