"""A plain directory: the artifact's files under their own paths, and its manifest, so that the digest comes back.

``vitrify.json`` is one of the files. ``.modelpack/manifest.json`` and ``.modelpack/config.json`` are the OCI documents,
byte for byte: whoever hashes the first has the artifact's digest. A tool that signs files, such as OpenSSF
model_signing, signs them like all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.artifacts.artifact import Artifact
from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, MalformedError, UnsupportedModelError
from vitrify.core.manifest import MANIFEST_TYPE, Descriptor, Manifest
from vitrify.core.wire import MAX_DOCUMENT_BYTES
from vitrify.package._folder import copy, new_folder, put
from vitrify.stores.files import MAX_MANIFEST_BYTES, ArtifactFiles, read_document

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.protocols import Files
    from vitrify.stores.oci_layout import OciLayout

MANIFEST, CONFIG = ".modelpack/manifest.json", ".modelpack/config.json"
BESIDE = frozenset({"README.md", ".gitattributes", ".gitignore", "model.sig", "Kitfile"})
"""Files that others put beside a model: they may be there or not, and are no part of it."""

_CHUNK = 1 << 20
_LISTED = 5


def export(artifact: Artifact, folder: Path) -> None:
    """Write an artifact as a directory of files.

    Raises:
        UnsupportedModelError: A layer has no path, as artifacts of other tools may have it.
        UsageError: Something is there already.
        StoreError: The disk would not take it; nothing is left behind.
    """
    with new_folder(folder) as new:
        fill(artifact, new)


def fill(artifact: Artifact, new: Path) -> None:
    """Write an artifact's files and documents into a directory that is being made."""
    require_paths(artifact)
    for name, data in documents(artifact).items():
        put(new, name, data)
    copy(raw(artifact), new)


def raw(artifact: Artifact) -> ArtifactFiles:
    """Return the files as the manifest has them: those of an encrypted artifact stay encrypted."""
    return ArtifactFiles(artifact.store, artifact.manifest)


def require_paths(artifact: Artifact) -> None:
    """Refuse an artifact that is no set of files.

    Raises:
        UnsupportedModelError: A layer has no path.
    """
    nameless = [layer.digest for layer in artifact.manifest.layers if layer.filepath is None]
    if nameless:
        msg = f"{artifact} has layers without a path: {', '.join(nameless[:_LISTED])}"
        raise UnsupportedModelError(msg, remedy="export it as an archive, which keeps everything: --as archive")


def documents(artifact: Artifact) -> dict[str, bytes]:
    """Return the artifact's OCI manifest and configuration, byte for byte, by their paths in the directory."""
    return {
        MANIFEST: read_document(artifact.store, artifact.digest),
        CONFIG: read_document(artifact.store, artifact.manifest.config.content, limit=MAX_DOCUMENT_BYTES),
    }


def is_ours(files: Files) -> bool:
    """Say whether files have an artifact's manifest beside them."""
    return MANIFEST in files.names()


def take(files: Files, name: str | None, store: OciLayout, *, where: str) -> Artifact:
    """Take such a directory into the store, with the digest that it had.

    Args:
        files: Its files.
        name: ``name:tag``, or None for none.
        store: Where to.
        where: What it is, for messages.

    Raises:
        MalformedError: The manifest is none.
        CorruptError: A file was changed, is missing, or was added; nothing was committed.
        StoreError: The store could not take it.
    """
    data = _bounded(files, MANIFEST, MAX_MANIFEST_BYTES, where)
    manifest = Manifest.from_json(data, where=f"{where}: {MANIFEST}")
    digest = Digest.of(data)
    _require_the_same_files(files, manifest, where)
    blobs = {digest: MANIFEST, manifest.config.content: CONFIG}
    blobs |= {layer.content: path for path, layer in manifest.files.items()}
    with store.stage() as stage:
        for blob, path in blobs.items():
            with stage.open(blob.hex, "weight") as stream:
                view = files.map(path)
                for start in range(0, view.nbytes, _CHUNK):
                    stream.write(view[start : start + _CHUNK])
        found = {str(layer.filepath): layer for layer in stage.descriptors()}
        sizes = {one.content: one.size for one in manifest.referenced()}
        for blob, path in blobs.items():
            layer = found[blob.hex]
            if layer.content != blob or layer.size != sizes.get(blob, len(data)):
                _refuse(f"{where}: {path} is not the file that {MANIFEST} promises")
        entry = Descriptor(
            media_type=MANIFEST_TYPE, digest=str(digest), size=len(data), artifact_type=manifest.artifact_type
        )
        stage.publish([(entry, name)])
    return Artifact.of(store, digest, name)


def _require_the_same_files(files: Files, manifest: Manifest, where: str) -> None:
    if any(layer.filepath is None for layer in manifest.layers):
        msg = f"{where}: {MANIFEST} lists content that has no path"
        raise MalformedError(msg, remedy="import the archive or the OCI layout that it came from")
    promised = {*manifest.files, MANIFEST, CONFIG}
    if missing := sorted(promised - {*files.names()}):
        _refuse(f"{where}: files that {MANIFEST} promises are missing: {', '.join(missing[:_LISTED])}")
    if added := sorted({*files.names()} - promised - BESIDE):
        _refuse(f"{where}: files that {MANIFEST} does not know: {', '.join(added[:_LISTED])}")


def _refuse(msg: str) -> None:
    remedy = "get the directory again; if you changed the model, delete the folder .modelpack: it is another model now"
    raise CorruptError(msg, remedy=remedy)


def _bounded(files: Files, name: str, limit: int, where: str) -> bytes:
    view = files.map(name)
    if view.nbytes > limit:
        msg = f"{where}: {name} has {view.nbytes} bytes, more than the limit of {limit}"
        raise MalformedError(msg)
    return bytes(view)
