"""What a command looks at: a stranger's file or folder, or an artifact, whichever the user's words lead to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.cli._options import open_store

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact

_LAYOUT = "oci-layout"


def find(reference: str, store: str | None) -> Path | Artifact:
    """Return the file or folder that lies there, or else the artifact of that name.

    An OCI layout or archive is an artifact where it holds one of ours; any other is a stranger's folder or file.

    Raises:
        ReferenceNotFoundError: There is neither.
        UsageError: There is no such file, and it cannot be a name.
        CorruptError: It is one of ours, and damaged.
    """
    import os

    from vitrify.artifacts import open_artifact
    from vitrify.core.errors import ReferenceNotFoundError, UsageError

    path = Path(reference)
    if os.path.lexists(path):
        return _ours(path, store) or path
    try:
        return open_artifact(reference, store=open_store(store))
    except (ReferenceNotFoundError, UsageError) as error:
        if reference.startswith(("/", "./", "../", "~")):
            msg = f"there is no file {reference!r}"
            raise ReferenceNotFoundError(
                msg, remedy="check the path; artifacts in the store have names: vitrify ls"
            ) from error
        msg = f"there is no file {reference!r}, and {error.message}"
        raise type(error)(msg, remedy=f"check the path; for an artifact: {error.remedy}") from error


def _ours(path: Path, store: str | None) -> Artifact | None:
    """Return the artifact in a layout or an archive, or None where it holds none of ours, or several."""
    if not (_is_archive(path) if path.is_file() else (path / _LAYOUT).exists()):
        return None
    from vitrify.artifacts import open_artifact
    from vitrify.core.document import DOCUMENT
    from vitrify.core.errors import MalformedError, ReferenceNotFoundError, UsageError

    try:
        # With its folder, so that it is never read as a name.
        artifact = open_artifact(str(path.absolute()), store=open_store(store))
    except (MalformedError, ReferenceNotFoundError, UsageError):
        return None  # what is wrong with it, its format says
    return artifact if DOCUMENT in artifact.manifest.files else None


def _is_archive(path: Path) -> bool:
    from vitrify.core.errors import MalformedError
    from vitrify.reading.files import LocalFiles
    from vitrify.reading.tar import Tar, is_tar

    view = LocalFiles({path.name: path}).map(path.name)
    try:
        return is_tar(view) and _LAYOUT in Tar(view, where=path.name)
    except MalformedError:
        return False
