"""Where artifacts are kept: an OCI image layout on disk, safe with many processes at once.

>>> store = default_store()                                    # doctest: +SKIP
>>> with store.stage() as stage:                               # doctest: +SKIP
...     with stage.open("model.onnx", "weight") as stream:
...         stream.write(data)                                 # hashed while it is written
...     digest = stage.commit(build, "churn:1.2.0")            # all of it, or nothing
>>> manifest = read_manifest(store, digest)                    # checked before it is parsed
>>> ArtifactFiles(store, manifest).map("model.onnx")           # checked, memory-mapped, nothing copied

``attach`` keeps an attestation beside an artifact and ``attestations`` returns them; ``export`` and ``import_``
carry an artifact in one file, ``push`` and ``pull`` to and from an OCI registry; ``collect`` deletes what nothing
leads to; ``fsck`` hashes a whole store again, and ``rehash`` one artifact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.stores.archive import export, import_
from vitrify.stores.files import ArtifactFiles, read_manifest
from vitrify.stores.fsck import fsck, rehash
from vitrify.stores.garbage import Collected, collect
from vitrify.stores.oci_layout import OciLayout, default_root
from vitrify.stores.oci_registry import pull, push
from vitrify.stores.referrers import attach, attestations, referrers

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ArtifactFiles",
    "Collected",
    "OciLayout",
    "attach",
    "attestations",
    "collect",
    "default_root",
    "default_store",
    "export",
    "fsck",
    "import_",
    "open_store",
    "pull",
    "push",
    "read_manifest",
    "referrers",
    "rehash",
]


def default_store() -> OciLayout:
    """Return the user's store: in ``$VITRIFY_HOME``, else in the user's data directory."""
    return OciLayout()


def open_store(path: Path) -> OciLayout:
    """Return the store in a directory that is an OCI image layout, whoever wrote it.

    Raises:
        ReferenceNotFoundError: There is no such layout.
    """
    if not (path / "oci-layout").is_file():
        msg = f"{path} is no OCI image layout (it has no file oci-layout)"
        raise ReferenceNotFoundError(msg, remedy="name the directory of a store, or import an archive")
    return OciLayout(path)
