"""Garbage collection: delete what nothing leads to any more.

Kept is what ``index.json`` lists, and all that it leads to. An artifact is in the index from its commit until
its last name is taken away or given to another; one that was committed without a name, until it is forgotten.
An attestation is kept for as long as what it is about is, or while it has a name. There is no period of grace:
whoever opens an artifact meanwhile holds collection off (:meth:`OciLayout.kept`), and commits wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.errors import CorruptError, VitrifyError
from vitrify.core.manifest import REF_NAME, Descriptor
from vitrify.core.wire import Value
from vitrify.stores._durable import storing
from vitrify.stores._graph import closure, with_referrers
from vitrify.stores.files import read_document
from vitrify.stores.referrers import subject_of

if TYPE_CHECKING:
    from vitrify.core.digest import Digest
    from vitrify.stores._index import Index
    from vitrify.stores.oci_layout import OciLayout


class Collected(Value, frozen=True, kw_only=True):
    """What a collection did, or would do.

    Attributes:
        removed: The digests of the blobs that nothing led to, sorted.
        bytes: Their size together.
        kept: The number of blobs that stay.
    """

    removed: tuple[str, ...]
    bytes: int
    kept: int


def collect(store: OciLayout, *, dry_run: bool = False) -> Collected:
    """Delete every blob that nothing leads to, and what killed processes have left.

    Args:
        store: The store. One that does not exist has no garbage, and is not made.
        dry_run: Only say what would be deleted.

    Raises:
        CorruptError: A listed manifest cannot be read, so that nobody knows what it needs; nothing was deleted.
        StoreError: The store could not do it.
    """
    if not store.root.exists():
        return Collected(removed=(), bytes=0, kept=0)
    with store.collecting():
        index = store.index.read()
        alive = _alive(store, index)
        blobs = list(store.digests())
        garbage = [digest for digest in blobs if digest not in alive]
        with storing("measure the garbage"):
            size = sum(store.place(digest).stat().st_size for digest in garbage)
        if garbage and not dry_run:
            dead = {str(digest) for digest in garbage}
            if any(entry.digest in dead for entry in index.manifests):
                store.index.write(index.without(dead))
            with storing("delete garbage"):
                for digest in garbage:
                    store.place(digest).unlink(missing_ok=True)
            store.verified.compact({digest.hex for digest in alive})
    return Collected(removed=tuple(map(str, garbage)), bytes=size, kept=len(blobs) - len(garbage))


def _alive(store: OciLayout, index: Index) -> dict[Digest, str]:
    def closed(digest: Digest) -> dict[Digest, str]:
        return closure(lambda nested: read_document(store, nested), digest)

    documents = [entry for entry in index.manifests if entry.media_type.endswith("json")]
    alive = {entry.content: "content" for entry in index.manifests if entry not in documents}
    about: dict[Digest, Digest] = {}
    for entry in documents:
        try:
            subject = subject_of(store, entry.content)
            if subject is None or REF_NAME in entry.annotations:
                alive |= closed(entry.content)
            else:
                about[entry.content] = subject
        except VitrifyError as error:
            raise _unreadable(entry, error) from error
    return with_referrers(about, closed, alive)


def _unreadable(entry: Descriptor, error: VitrifyError) -> CorruptError:
    name = entry.annotations.get(REF_NAME, entry.digest)
    msg = f"nothing was collected, because it is not known what {name} needs: {error.message}"
    return CorruptError(msg, remedy=f"give it up with: vitrify rm {name}; or {error.remedy or 'restore it'}")
