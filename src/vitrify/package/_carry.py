"""Artifacts of ours on their way from one place to another, with everything that is attested about them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify import stores
from vitrify.artifacts.artifact import open_artifact
from vitrify.core.document import DOCUMENT
from vitrify.core.errors import MalformedError
from vitrify.core.manifest import MODEL_CONFIG_TYPE
from vitrify.formats._modelpack import layout
from vitrify.package._folder import opened
from vitrify.reading.files import HeldFiles, LocalFiles
from vitrify.reading.tar import Tar, is_tar

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.digest import Digest
    from vitrify.core.protocols import Files
    from vitrify.stores.oci_layout import OciLayout


def carry(artifact: Artifact, store: OciLayout, name: str | None) -> Digest:
    """Copy an artifact and its attestations into another store; every byte is checked on the way.

    Args:
        artifact: The artifact.
        store: Where to.
        name: ``name:tag`` to give there; without one, those that it has.
    """
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
        archive = Path(folder, "artifact.vit")
        stores.export(artifact.store, artifact.digest, archive)
        return stores.import_(store, archive, name=name)


def carried(path: Path, name: str | None, store: OciLayout) -> Digest | None:
    """Take the artifact of an archive or a layout into a store, as it is; None where it is another tool's model.

    Raises:
        ReferenceNotFoundError: There is no such file.
        UsageError: It does not hold exactly one artifact.
        MalformedError: It is no such archive, or was made to do harm.
        CorruptError: Content is missing, or is not what its digest promises.
    """
    if path.is_dir():
        files: Files = opened(path)
        if not _is_ours(files):
            return None
        return carry(open_artifact(str(path.absolute()), store=store), store, name)
    return None if _is_foreign(path) else stores.import_(store, path, name=name)


def _is_ours(files: Files) -> bool:
    """Say whether a layout has an artifact that Vitrify made."""
    return any(_made_here(one) for one in layout.artifacts(files))


def _is_foreign(path: Path) -> bool:
    """Say whether an archive has models, and none of ours; what is wrong with any other, whoever opens it says."""
    view = LocalFiles({path.name: path}).map(path.name)
    try:
        if not is_tar(view):
            return False
        tar = Tar(view, where=str(path))
        files = HeldFiles({name: tar.read(name) for name, member in tar.members.items() if not member.link})
        found = [one for one in layout.artifacts(files) if one.is_model] if layout.is_layout(files) else []
    except MalformedError:
        return False
    return bool(found) and not any(map(_made_here, found))


def _made_here(one: layout.Artifact) -> bool:
    plain = any(layer.path == DOCUMENT and layer.media_type.endswith(".raw") for layer in one.layers)
    return plain and MODEL_CONFIG_TYPE in one.kind
