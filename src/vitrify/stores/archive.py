"""One file for one artifact: an OCI archive, which is an uncompressed tar of an OCI image layout.

It holds the artifact, its names, and the attestations about it; nothing in it depends on when or where it was
written. Of what is read, only that is taken which ``index.json`` leads to, after its digest was checked.
"""

from __future__ import annotations

import hashlib
import secrets
import tarfile
from io import BytesIO
from typing import IO, TYPE_CHECKING

from vitrify.core.digest import CHUNK, Digest
from vitrify.core.errors import CorruptError, MalformedError, UsageError
from vitrify.core.manifest import FILEPATH, INDEX_TYPE, MANIFEST_TYPE, REF_NAME, Descriptor, Manifest
from vitrify.core.progress import track
from vitrify.stores._durable import replacing, storing
from vitrify.stores._graph import closure, references, with_referrers
from vitrify.stores._index import LAYOUT, Index, unnamed
from vitrify.stores._tar import opened
from vitrify.stores._verified import RESTORE, corrupt
from vitrify.stores.files import read_document
from vitrify.stores.referrers import referrers

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.stores._tar import Archive
    from vitrify.stores.oci_layout import OciLayout


def export(store: OciLayout, digest: Digest, path: Path) -> None:
    """Write an artifact, its names and its attestations to one file; it replaces what was there when complete.

    The same artifact with the same names and attestations gives the same bytes.

    Raises:
        ReferenceNotFoundError: The store does not have it.
        CorruptError: Something of it is damaged; no file is written.
        StoreError: The file could not be written; what was there is untouched.
    """
    with store.kept():
        index, content = _selected(store, digest)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with (
            storing(f"write {path}"),
            replacing(path, temporary) as descriptor,
            open(descriptor, "wb", closefd=False) as stream,
            tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT, copybufsize=CHUNK) as tar,
            track("exporting", len(content)) as bar,
        ):
            for blob in sorted(content):
                _add(tar, f"blobs/sha256/{blob.hex}", store.place(blob), blob, content[blob])
                bar.advance()
            for name, data in (("index.json", index.to_json()), ("oci-layout", LAYOUT)):
                tar.addfile(_header(name, len(data)), BytesIO(data))


def import_(store: OciLayout, path: Path, name: str | None = None) -> Digest:
    """Take the artifact of an archive, and the attestations about it, into the store.

    Args:
        store: Where to.
        path: An OCI archive with one artifact in it, from :func:`export` or another tool.
        name: The name to give; without one, those in the archive.

    Raises:
        ReferenceNotFoundError: There is no such file.
        MalformedError: It is no such archive, or was made to do harm.
        CorruptError: Content is missing, or is not what its digest promises.
        UsageError: It does not hold exactly one artifact.
        StoreError: The store could not take it. In each of these cases it is as it was.
    """
    with opened(path) as archive, store.stage() as stage:
        index = archive.index()
        artifact, content = _contained(archive, index, path)
        with track("importing", len(content)) as bar:
            for digest, label in content.items():
                with archive.blob(digest, label) as source, stage.open(digest.hex, "weight") as sink:
                    while chunk := source.read(CHUNK):
                        sink.write(chunk)
                bar.advance()
        for layer in stage.descriptors():
            expected = Digest(layer.annotations[FILEPATH])
            if layer.content != expected:
                raise corrupt(expected, layer.content, place=f"{path}: {content[expected]}")
        entries = [entry for entry in index.manifests if entry.content in content]
        stage.publish([(unnamed(entry), _name(entry, artifact, name)) for entry in entries])
    return artifact


def _selected(store: OciLayout, digest: Digest) -> tuple[Index, dict[Digest, str]]:
    """Return the index of an archive of one artifact, and all that it leads to."""
    content = closure(lambda nested: read_document(store, nested), digest)
    entries = [entry for entry in store.index.read().manifests if entry.content == digest]
    if not entries:  # its name was taken away, and it is not collected yet
        size = len(read_document(store, digest))
        entries = [Descriptor(media_type=MANIFEST_TYPE, digest=str(digest), size=size)]
    waiting = [digest]
    while waiting:
        for entry in referrers(store, waiting.pop()):
            if entry.content not in content:
                content |= closure(lambda nested: read_document(store, nested), entry.content)
                entries.append(entry)
                waiting.append(entry.content)
    ordered = sorted(entries, key=lambda entry: (entry.digest, entry.annotations.get(REF_NAME, "")))
    return Index(schema_version=2, media_type=INDEX_TYPE, manifests=tuple(ordered)), content


def _contained(archive: Archive, index: Index, path: Path) -> tuple[Digest, dict[Digest, str]]:
    """Return the one artifact of an archive, and all that it and the attestations about it need."""
    about: dict[Digest, Digest] = {}
    artifacts: dict[Digest, Descriptor] = {}
    for entry in index.manifests:
        document = archive.document(entry.content)
        if len(document) != entry.size:
            msg = f"{path}: index.json promises {entry.size} bytes of {entry.digest}, there are {len(document)}"
            raise MalformedError(msg)
        if subject := references(document, where=f"{path}: manifest {entry.digest}").subject:
            about[entry.content] = subject
        else:
            artifacts[entry.content] = entry
        if entry.media_type == MANIFEST_TYPE:
            Manifest.from_json(document, where=f"{path}: manifest {entry.digest}")
    if len(artifacts) != 1:
        names = [entry.annotations.get(REF_NAME, entry.digest) for entry in artifacts.values()]
        msg = f"{path} holds {len(artifacts)} artifacts: {', '.join(names)} (expected one)"
        raise UsageError(msg, remedy="take one out first: skopeo copy oci-archive:FILE:NAME oci-archive:ONE:NAME")
    (artifact,) = artifacts

    def closed(digest: Digest) -> dict[Digest, str]:
        return closure(archive.document, digest)

    return artifact, with_referrers(about, closed, closed(artifact))


def _name(entry: Descriptor, artifact: Digest, name: str | None) -> str | None:
    if entry.content != artifact:
        return None
    return name if name is not None else entry.annotations.get(REF_NAME)


def _header(name: str, size: int) -> tarfile.TarInfo:
    """Return a header without owner, clock or umask in it."""
    header = tarfile.TarInfo(name)
    header.size = size
    header.mode = 0o644
    return header


def _add(tar: tarfile.TarFile, name: str, place: Path, digest: Digest, label: str) -> None:
    """Add a blob, hashing the very bytes that are added."""
    if not place.is_file():
        msg = f"{label}: blob {digest} is missing from the store (expected at {place})"
        raise CorruptError(msg, remedy=RESTORE)
    with place.open("rb") as stream:
        reader = _HashedReader(stream)
        tar.addfile(_header(name, place.stat().st_size), reader)
    if (found := Digest(reader.hash.hexdigest())) != digest:
        raise corrupt(digest, found, place=f"{label} ({place})")


class _HashedReader:
    """A file of which every byte that is read is hashed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.hash = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes; without it, the rest."""
        data = self._stream.read(size)
        self.hash.update(data)
        return data
