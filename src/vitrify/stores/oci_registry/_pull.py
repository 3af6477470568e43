"""Fetching an artifact: every manifest is checked before it is read, every blob before it is kept; one commit."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, ReferenceNotFoundError, StoreError
from vitrify.core.manifest import FILEPATH
from vitrify.core.progress import track
from vitrify.stores._verified import corrupt

if TYPE_CHECKING:
    from vitrify.core.manifest import Descriptor
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.stores.oci_registry._client import Repository
    from vitrify.stores.oci_registry._family import Family

_WORKERS = 4


def pull_family(repository: Repository, store: OciLayout, family: Family, name: str | None) -> None:
    """Fetch what the store does not have, and list it: all of it, or nothing.

    Raises:
        CorruptError: Content is not what its digest promises.
        ReferenceNotFoundError: Content is missing from the registry.
        StoreError: The store could not take it. In each of these cases it is as it was.
    """
    entries: list[tuple[Descriptor, str | None]] = [(family.descriptor(family.root), name)]
    entries += [(family.descriptor(digest), None) for digest in family.about]
    # Nothing is collected meanwhile that is there already and not sent again.
    with store.stage() as stage, store.kept():
        for document in family.documents.values():
            stage.add(document)
        wanted = {digest: found for digest, found in family.blobs.items() if not _there(store, digest)}
        total = sum(size for size, _ in wanted.values())
        free = shutil.disk_usage(store.root).free
        if total > free:
            msg = f"{repository} has {total} bytes that are not here, and the disk has room for {free}"
            raise StoreError(msg, remedy="free some disk space (vitrify gc removes what nothing leads to)")
        with track("pulling", total) as bar, ThreadPoolExecutor(_WORKERS, thread_name_prefix="vitrify-pull") as pool:

            def fetch(item: tuple[Digest, tuple[int, str]]) -> None:
                digest, (size, label) = item
                with stage.open(digest.hex, "weight") as sink:
                    for piece in repository.blob(digest, size, label):
                        sink.write(piece)
                        bar.advance(len(piece))

            for _ in pool.map(fetch, wanted.items()):
                pass
        for layer in stage.descriptors():
            expected = Digest(layer.annotations[FILEPATH])
            if layer.content != expected:
                raise corrupt(expected, layer.content, place=f"{repository}: {wanted[expected][1]}")
        stage.publish(entries)


def _there(store: OciLayout, digest: Digest) -> bool:
    try:
        store.blob(digest)
    except (ReferenceNotFoundError, CorruptError):
        return False
    return True
