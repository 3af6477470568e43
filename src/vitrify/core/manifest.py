"""The OCI values: descriptor, image manifest and ModelPack configuration.

The artifact's identity is the SHA-256 of the manifest's bytes.

Sources: OCI image specification 1.1 (``descriptor.md``, ``manifest.md``, ``image-layout.md``) and the CNCF
ModelPack model specification (``spec.md``, ``config.md``, ``annotations.md``).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Literal

from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, ReferenceNotFoundError
from vitrify.core.wire import Value

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
MODEL_TYPE = "application/vnd.cncf.model.manifest.v1+json"
MODEL_CONFIG_TYPE = "application/vnd.cncf.model.config.v1+json"
FILEPATH = "org.cncf.model.filepath"
REF_NAME = "org.opencontainers.image.ref.name"
SUBJECT = "vitrify.subject"
"""On an entry of an index: the digest that the manifest is about, so that others need not be opened."""

FileKind = Literal["weight", "weight.config", "doc", "code", "dataset"]
"""What a file is in ModelPack's terms; ``weight.config`` is anything small that describes the weights."""


def layer_type(kind: FileKind) -> str:
    """Return the ModelPack media type of an unarchived, uncompressed file of this kind."""
    return f"application/vnd.cncf.model.{kind}.v1.raw"


class Descriptor(Value, frozen=True, kw_only=True):
    """A reference to content: what it is, its digest and its size in bytes (OCI ``descriptor.md``)."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = {}
    artifact_type: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no content can have."""
        if self.size < 0:
            msg = f"a descriptor with a negative size: {self.size}"
            raise ValueError(msg)
        Digest.parse(self.digest)

    @property
    def content(self) -> Digest:
        """The digest as a value."""
        return Digest.parse(self.digest)

    @property
    def filepath(self) -> str | None:
        """The file's path inside the artifact, if it has one."""
        return self.annotations.get(FILEPATH)


class Manifest(Value, frozen=True, kw_only=True):
    """An OCI image manifest; for a model, one layer a file in the order of their paths."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    schema_version: int
    media_type: str
    artifact_type: str | None = None
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Check the constants, and that no path leaves the artifact or stands twice."""
        if self.schema_version != 2 or self.media_type != MANIFEST_TYPE:  # noqa: PLR2004 (OCI's constant)
            msg = f"not an OCI image manifest: schemaVersion {self.schema_version}, mediaType {self.media_type!r}"
            raise ValueError(msg)
        paths = [layer.filepath for layer in self.layers if layer.filepath is not None]
        for path in paths:
            check_filepath(path)
        if len({path.casefold() for path in paths}) != len(paths):
            msg = f"two files of one artifact have the same path: {sorted(paths)}"
            raise ValueError(msg)

    @classmethod
    def of_model(cls, config: Descriptor, layers: tuple[Descriptor, ...], annotations: dict[str, str]) -> Manifest:
        """Return the manifest of a model, its files in canonical order."""
        return cls(
            schema_version=2,
            media_type=MANIFEST_TYPE,
            artifact_type=MODEL_TYPE,
            config=config,
            layers=tuple(sorted(layers, key=lambda layer: layer.filepath or "")),
            annotations=annotations,
        )

    @property
    def files(self) -> dict[str, Descriptor]:
        """The layers that have a path, by path."""
        return {layer.filepath: layer for layer in self.layers if layer.filepath is not None}

    def file(self, path: str) -> Descriptor:
        """Return the descriptor of one file.

        Raises:
            ReferenceNotFoundError: There is no such file.
        """
        try:
            return self.files[path]
        except KeyError:
            msg = f"no file {path!r} in this artifact (it has: {', '.join(self.files)})"
            raise ReferenceNotFoundError(msg) from None

    def referenced(self) -> tuple[Descriptor, ...]:
        """Return everything that must stay in the store for as long as this manifest does."""
        return (self.config, *self.layers)


class ModelConfig(Value, frozen=True, kw_only=True):
    """The ModelPack configuration object (``config.md``)."""

    descriptor: dict[str, Any]
    config: dict[str, Any]
    modelfs: dict[str, Any]

    @classmethod
    def of(cls, descriptor: dict[str, Any], config: dict[str, Any], layers: tuple[Descriptor, ...]) -> ModelConfig:
        """Return the configuration of these layers; an uncompressed layer's diff id is its digest."""
        ordered = sorted(layers, key=lambda layer: layer.filepath or "")
        diff_ids = [layer.digest for layer in ordered]
        return cls(descriptor=descriptor, config=config, modelfs={"type": "layers", "diffIds": diff_ids})


def check_filepath(path: str) -> None:
    """Accept a relative POSIX path that stays where it is put, on every system.

    Raises:
        MalformedError: It is empty, absolute, climbs, or has a character that some system reads otherwise.
    """
    pure = PurePosixPath(path)
    bad = not pure.parts or pure.is_absolute() or str(pure) != path or ".." in pure.parts
    if bad or any(character in '\\:*?"<>|' or ord(character) < ord(" ") for character in path):
        msg = f"not a safe relative path for a file of an artifact: {path!r}"
        raise MalformedError(msg)
