"""What an artifact is called, and what it says about itself in its ModelPack configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core import reference
from vitrify.core.errors import UsageError
from vitrify.core.manifest import MODEL_CONFIG_TYPE, ModelConfig
from vitrify.core.wire import MAX_DOCUMENT_BYTES
from vitrify.stores.files import read_document

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact


def description(artifact: Artifact) -> str:
    """Return the free text that it was sealed with; empty where there is none."""
    config = artifact.manifest.config
    if config.media_type != MODEL_CONFIG_TYPE:
        return ""
    data = read_document(artifact.store, config.content, limit=MAX_DOCUMENT_BYTES)
    found = ModelConfig.from_json(data, where="the artifact's configuration").descriptor.get("description")
    return found if isinstance(found, str) else ""


def name_of(artifact: Artifact) -> str:
    """Return a local ``name:tag`` for an artifact: that by which it was opened, else one made of its digest."""
    try:
        return reference.name(artifact.name or "")
    except UsageError:  # it has none, or was opened by an alias or from a registry
        return f"model-{artifact.digest.short}:{reference.DEFAULT_TAG}"
