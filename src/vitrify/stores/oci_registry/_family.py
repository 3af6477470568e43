"""What travels together: an artifact, what it leads to, and what is said about each manifest of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vitrify.core.errors import LimitExceededError, MalformedError, ReferenceNotFoundError
from vitrify.core.manifest import INDEX_TYPE, MANIFEST_TYPE, SUBJECT, Descriptor
from vitrify.core.wire import Value
from vitrify.stores._graph import references, sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vitrify.core.digest import Digest

_MAX_DOCUMENTS = 10_000
_MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""All manifests together, which are in memory."""


class _Head(Value, frozen=True, kw_only=True):
    """What manifests and indexes have in common."""

    schema_version: int
    media_type: str | None = None
    artifact_type: str | None = None
    config: dict[str, object] = {}
    annotations: dict[str, str] = {}


@dataclass
class Family:
    """What travels together.

    Attributes:
        root: The artifact, or the index of its variants.
        documents: The manifests and indexes, each after all that it needs; a referrer after its subject.
        blobs: Size of everything else that they lead to, and what it is, for people.
        about: From a referrer to its subject.
    """

    root: Digest
    documents: dict[Digest, bytes] = field(default_factory=dict)
    blobs: dict[Digest, tuple[int, str]] = field(default_factory=dict)
    about: dict[Digest, Digest] = field(default_factory=dict)

    def descriptor(self, digest: Digest) -> Descriptor:
        """Return the entry that lists a manifest in an index."""
        data = self.documents[digest]
        head = _Head.from_json(data, where=f"manifest {digest}")
        kind = head.artifact_type
        if kind is None and isinstance(found := head.config.get("mediaType"), str) and digest in self.about:
            kind = found  # OCI distribution specification: "set to the config descriptor mediaType"
        return Descriptor(
            media_type=_media_type(head, data, digest),
            digest=str(digest),
            size=len(data),
            artifact_type=kind,
            annotations={SUBJECT: str(self.about[digest])} if digest in self.about else {},
        )

    def annotations(self, digest: Digest) -> dict[str, str]:
        """Return a manifest's own annotations."""
        return _Head.from_json(self.documents[digest], where=f"manifest {digest}").annotations


def gather(load: Callable[[Digest], bytes], about: Callable[[Digest], Iterable[Digest]], root: Digest) -> Family:
    """Collect a family.

    What a nested index lists and is not there is left out, and so is a referrer that is not.

    Args:
        load: Gives the checked bytes of a manifest.
        about: Gives those who may be about a manifest.
        root: Where to begin.

    Raises:
        ReferenceNotFoundError: The root is not there.
        MalformedError: A document is none, or a referrer is about something else.
        LimitExceededError: They are more than any artifact has.
    """
    family = Family(root)
    waiting = list(reversed(_add(family, load, root)))
    while waiting:
        subject = waiting.pop()
        for referrer in about(subject):
            if referrer in family.documents:
                continue
            try:
                document = load(referrer)
            except ReferenceNotFoundError:  # the list of a fallback tag is older than a deletion
                continue
            found = references(document, where=f"manifest {referrer}").subject
            if found != subject:
                msg = f"{referrer} is listed as being about {subject}, and is about {found}"
                raise MalformedError(msg, remedy="tell whoever runs the registry")
            family.about[referrer] = subject
            waiting.extend(_add(family, load, referrer))
    return family


def _add(family: Family, load: Callable[[Digest], bytes], root: Digest) -> list[Digest]:
    """Add a manifest and all that it leads to; return the manifests that are new, those that are needed first."""
    opened: dict[Digest, tuple[bytes, tuple[Digest, ...]]] = {}
    waiting = [root]
    while waiting:
        digest = waiting.pop()
        if digest in opened or digest in family.documents:
            continue
        try:
            document = load(digest)
        except ReferenceNotFoundError:
            if digest == root:
                raise
            continue
        where = f"manifest {digest}"
        leads, lengths = references(document, where=where), sizes(document, where=where)
        opened[digest] = document, leads.manifests
        waiting.extend(leads.manifests)
        for needed, label in leads.content.items():
            if needed not in leads.manifests and needed != leads.subject:
                family.blobs[needed] = lengths[needed], label
        total = sum(len(data) for data, _ in opened.values()) + sum(map(len, family.documents.values()))
        if len(opened) + len(family.documents) > _MAX_DOCUMENTS or total > _MAX_DOCUMENT_BYTES:
            msg = f"{family.root} leads to more than {_MAX_DOCUMENTS} manifests, or {_MAX_DOCUMENT_BYTES} bytes of them"
            raise LimitExceededError(msg)
    # A manifest is named by its own bytes, so that none leads back to itself: the last that was opened needs no other.
    ordered = _ordered(root, opened)
    family.documents |= {digest: opened[digest][0] for digest in ordered}
    for digest in ordered:
        family.blobs.pop(digest, None)
    return ordered


def _ordered(root: Digest, opened: dict[Digest, tuple[bytes, tuple[Digest, ...]]]) -> list[Digest]:
    """Return the digests so that each comes after those that it leads to."""
    ordered: dict[Digest, None] = {}
    waiting = [(root, False)]
    while waiting:
        digest, ready = waiting.pop()
        if digest in ordered or digest not in opened:
            continue
        if ready:
            ordered[digest] = None
        else:
            waiting.append((digest, True))
            waiting.extend((nested, False) for nested in opened[digest][1])
    return list(ordered)


def _media_type(head: _Head, data: bytes, digest: Digest) -> str:
    nested = bool(references(data, where=f"manifest {digest}").manifests)
    found = head.media_type or (INDEX_TYPE if nested else MANIFEST_TYPE)
    if head.schema_version != 2 or found not in {MANIFEST_TYPE, INDEX_TYPE}:  # noqa: PLR2004 (OCI's constant)
        was = f"schemaVersion {head.schema_version}, {found[:200]!r}"
        msg = f"manifest {digest}: not an OCI image manifest or index ({was})"
        raise MalformedError(msg, remedy="convert it to OCI first: skopeo copy --format oci")
    return found
