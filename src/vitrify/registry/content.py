"""What a version pins, read from the content itself before the transaction begins.

Whether all of it is there, and stays, is asked in the transaction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vitrify.core.digest import Digest
from vitrify.core.document import DOCUMENT, Document
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import INDEX_TYPE, MANIFEST_TYPE, Manifest
from vitrify.registry.values import Variant

if TYPE_CHECKING:
    from vitrify.registry.blobs import Blobs

MAX_MANIFEST = 8 * 1024 * 1024
_MAX_VARIANTS = 100
_INDEX = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Pinned:
    """What was found.

    Attributes:
        variants: The source first.
        document: The OCI image index over them.
        index: Its digest.
        content: Digests of every blob that must stay, the index included.
        sources: Of each artifact that was made from another: its digest, the other's, and the steps between.
    """

    variants: tuple[Variant, ...]
    document: bytes
    index: str
    content: tuple[str, ...]
    sources: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


def pin(blobs: Blobs, digests: tuple[str, ...]) -> Pinned:
    """Read the manifests of a source and its variants; nothing is written.

    Raises:
        ReferenceNotFoundError: A manifest is not there.
        CorruptError: A manifest is not what its digest promises.
        MalformedError: It is no manifest of a model.
        UsageError: One is named twice, or there are too many.
    """
    if len(set(digests)) != len(digests) or len(digests) > _MAX_VARIANTS:
        msg = f"a version has at most {_MAX_VARIANTS} variants, each once, and its source is none of them"
        raise UsageError(msg)
    found = [_read(blobs, Digest.parse(text)) for text in digests]
    variants = tuple(one.variant for one in found)
    index = index_of(variants)
    own = Digest.of(index)
    content = dict.fromkeys([*(digest for one in found for digest in one.content), str(own)])
    sources = tuple((one.variant.digest, *one.made_from) for one in found if one.made_from)
    return Pinned(variants, index, str(own), tuple(content), sources)


def index_of(variants: tuple[Variant, ...]) -> bytes:
    """Return the OCI image index of a version: the same variants in the same order give the same bytes."""
    manifests = [
        {
            "mediaType": MANIFEST_TYPE,
            "digest": variant.digest,
            "size": variant.size,
            "annotations": {"vitrify.form": "variant" if at else "source", "vitrify.format": variant.format},
        }
        for at, variant in enumerate(variants)
    ]
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests}
    return _INDEX.encode(index).encode()


def read(blobs: Blobs, digest: Digest, most: int = MAX_MANIFEST) -> bytes:
    """Return a small blob, checked against its digest.

    Raises:
        ReferenceNotFoundError: It is not there.
        CorruptError: It is not what its digest promises.
        UsageError: It is too large to be a document.
    """
    size = blobs.size(digest)
    if size is None:
        msg = f"the registry has no content {digest}"
        raise ReferenceNotFoundError(msg, remedy="upload it first: vitrify register does")
    if size > most:
        msg = f"{digest} has {size} bytes; a document of an artifact has at most {most}"
        raise UsageError(msg)
    data = b"".join(map(bytes, blobs.read(digest)))
    if Digest.of(data) != digest:
        msg = f"the registry's content {digest} is damaged"
        raise CorruptError(msg, remedy="restore it from a backup, or upload it again")
    return data


@dataclass(frozen=True)
class _Read:
    """What one artifact says of itself."""

    variant: Variant
    content: tuple[str, ...]
    made_from: tuple[str, tuple[str, ...]] | None


def _read(blobs: Blobs, digest: Digest) -> _Read:
    data = read(blobs, digest)
    manifest = _manifest(data)
    content = (str(digest), *(descriptor.digest for descriptor in manifest.referenced()))
    layer = manifest.files.get(DOCUMENT)
    form, made_from = _document(read(blobs, layer.content)) if layer else ("", None)  # or another tool's artifact
    return _Read(Variant(digest=str(digest), size=len(data), format=form), content, made_from)


@lru_cache(maxsize=1024)
def _manifest(data: bytes) -> Manifest:
    return Manifest.from_json(data, where=f"manifest {Digest.of(data).short}")


@lru_cache(maxsize=1024)
def _document(data: bytes) -> tuple[str, tuple[str, tuple[str, ...]] | None]:
    document = Document.from_json(data, where=DOCUMENT)
    return document.format, _made_from(document.lineage) if document.lineage else None


def _made_from(lineage: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the source's digest and the names of the steps; a document of a stranger may have anything there.

    Raises:
        MalformedError: It is not what :class:`vitrify.core.document.Document` says.
    """
    try:
        source = str(Digest.parse(lineage["source"]))
        return source, tuple(str(step["transform"]) for step in lineage["plan"]["steps"])
    except (KeyError, TypeError, UsageError) as error:
        msg = f"{DOCUMENT}: lineage that says no source and no plan ({error})"
        raise MalformedError(msg) from error
