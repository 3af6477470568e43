"""What MLflow's clients see of a version: an MLflow directory as it was sealed; any other artifact inside one.

The second is an ``MLmodel`` file that names Vitrify's own loader, and beside it the artifact as an OCI layout, which
:mod:`vitrify.package.mlflow_loader` opens and checks. Both files are made up for the answer; the rest is content.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.digest import Digest
from vitrify.core.document import DOCUMENT
from vitrify.core.manifest import INDEX_TYPE, MANIFEST_TYPE, REF_NAME, Descriptor, Manifest
from vitrify.registry.api.mlflow._file import File
from vitrify.registry.content import read
from vitrify.stores._index import LAYOUT, Index

if TYPE_CHECKING:
    from vitrify.registry.local import LocalBackend
    from vitrify.registry.values import Version

MLMODEL = "MLmodel"
LOADER = "vitrify.package.mlflow_loader"
FOLLOWS = "3.17.2"
"""The MLflow whose layout of a directory is followed."""
_BUNDLE = "artifact"


def shown(backend: LocalBackend, version: Version) -> dict[str, File]:
    """Return the files of a version by path, as an MLflow client is to see them."""
    manifest = Manifest.from_json(read(backend.blobs, Digest.parse(version.digest)), where=f"manifest {version.digest}")
    found = {path: File(layer.size, layer.digest) for path, layer in manifest.files.items()}
    if MLMODEL in found:
        return {path: file for path, file in found.items() if path != DOCUMENT}
    if DOCUMENT not in found:
        return found  # another tool's artifact: files, and nothing that says how to load them
    return {
        MLMODEL: _made_up(_mlmodel(version)),
        "requirements.txt": _made_up(f"mlflow\nvitrify=={metadata.version('vitrify')}\n".encode()),
        **{f"{_BUNDLE}/{path}": file for path, file in _layout(version, manifest).items()},
    }


def _layout(version: Version, manifest: Manifest) -> dict[str, File]:
    source = version.variants[0]
    entry = Descriptor(
        media_type=MANIFEST_TYPE,
        digest=version.digest,
        size=source.size,
        artifact_type=manifest.artifact_type,
        annotations={REF_NAME: f"{version.model}:{version.version}"},
    )
    index = Index(schema_version=2, media_type=INDEX_TYPE, manifests=(entry,)).to_json()
    blobs = {descriptor.content: descriptor.size for descriptor in manifest.referenced()}
    blobs[Digest.parse(version.digest)] = source.size
    return {
        "oci-layout": _made_up(LAYOUT),
        "index.json": _made_up(index),
        **{f"blobs/{own.algorithm}/{own.hex}": File(size, str(own)) for own, size in blobs.items()},
    }


def _mlmodel(version: Version) -> bytes:
    """Return the MLmodel file; JSON is YAML too."""
    flavour = {"loader_module": LOADER, "data": _BUNDLE, "config": {"allow": [], "runtime": None}}
    said: dict[str, Any] = {
        "flavors": {"python_function": flavour},
        "metadata": {"vitrify.digest": version.digest, "vitrify.version": version.version},
        "mlflow_version": FOLLOWS,
        "model_uuid": Digest.parse(version.digest).hex[:32],
        "utc_time_created": version.created.strftime("%Y-%m-%d %H:%M:%S.%f"),
    }
    return msgspec.json.format(msgspec.json.encode(said), indent=2) + b"\n"


def _made_up(data: bytes) -> File:
    return File(len(data), data=data)
