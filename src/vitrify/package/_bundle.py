"""The whole artifact as an OCI layout inside of another tool's directory, for a loader of ours to open."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from vitrify.package._about import name_of
from vitrify.package._carry import carry
from vitrify.stores._index import PRIVATE
from vitrify.stores.oci_layout import OciLayout

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact

BUNDLE = "artifact"
"""What the layout's folder is called."""


def bundle(artifact: Artifact, folder: Path) -> None:
    """Put an artifact, with what is attested about it, into the layout ``folder/artifact``.

    It has one name there, so that the folder's path leads to it.
    """
    layout = OciLayout(folder / BUNDLE)
    carry(artifact, layout, name_of(artifact))
    shutil.rmtree(layout.root / PRIVATE, ignore_errors=True)  # locks, and what was verified on this machine
