"""ModelPack and KitOps artifacts: an OCI image layout whose manifests are models, or an unpacked kit with its Kitfile.

Manifests, configurations and digests are answered for here. Layers are looked at as what they are: those that are
plain files together, under the paths that they will be unpacked to; archives one by one.

Source: https://github.com/modelpack/model-spec/blob/main/docs/spec.md, https://kitops.org/docs/kitfile/format/ and
https://github.com/opencontainers/image-spec/blob/main/image-layout.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.formats._loose import mapping
from vitrify.formats._modelpack import hazards, layout
from vitrify.formats._native_file import said
from vitrify.reading.files import HeldFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.formats._modelpack.layout import Artifact


class ModelPack:
    """The format of model artifacts as directories."""

    def detect(self, files: Files) -> bool:
        """Say whether a directory is an OCI layout with a model in it, or holds a Kitfile."""
        try:
            return layout.is_kit(files) or (
                layout.is_layout(files) and any(one.is_model for one in layout.artifacts(files))
            )
        except MalformedError:
            # Whoever calls itself so and is broken is looked at, not let off.
            return layout.is_layout(files)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return each artifact's names, model, files and licence."""
        if layout.is_kit(files):
            return _kit(layout.kitfile(files))
        models = [one for one in layout.artifacts(files) if one.is_model]
        first = _model(models[0].config) if models else {}
        return said(
            {
                **first,
                "artifacts": [_artifact(one) for one in models],
                "attached": sum(not one.is_model for one in layout.artifacts(files)),
                "bytes": sum(len(files.map(name)) for name in files.names() if name.startswith("blobs/")),
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:  # noqa: ARG002 (the protocol's)
        """Yield paths that leave the artifact, and blobs that are not what their descriptor promises."""
        if layout.is_kit(files):
            yield from hazards.of_kit(layout.kitfile(files))
        else:
            yield from hazards.of_layout(files)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterator[tuple[str, Files]]:  # noqa: ARG002 (the protocol's)
        """Yield what each artifact unpacks to, and each layer that is an archive."""
        if layout.is_kit(files):
            return
        for one in layout.artifacts(files):
            plain: dict[str, memoryview] = {}
            for layer in one.layers:
                if layer.blob not in files.names():
                    continue
                if layer.path and not layer.is_archive and hazards.is_inside(layer.path):
                    plain[layer.path] = files.map(layer.blob)
                else:
                    name = layer.path or layer.blob
                    yield layer.blob, HeldFiles({name: files.map(layer.blob)})
            if plain:
                yield one.blob, HeldFiles(plain)


def _artifact(one: Artifact) -> dict[str, Any]:
    return said(
        {
            "names": list(one.names),
            "digest": one.digest,
            "files": [
                said({"path": layer.path, "type": layer.media_type, "bytes": layer.size}) for layer in one.layers
            ],
            "annotations": one.annotations,
            **_model(one.config),
        }
    )


def _model(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration's facts: ModelPack's, or a Kitfile's as KitOps keeps it."""
    if "descriptor" not in config and "package" in config:
        return _kit(config)
    about, model = mapping(config.get("descriptor")), mapping(config.get("config"))
    licences = about.get("licenses")
    return said(
        {
            "name": about.get("name") or about.get("title"),
            "versions": {"model": str(about["version"])} if about.get("version") else {},
            "producer": about.get("vendor") or ", ".join(map(str, layout.sequence(about.get("authors")))),
            "license": licences[0] if isinstance(licences, list) and len(licences) == 1 else licences,
            "architecture": model.get("architecture"),
            "model_format": model.get("format"),
            "size": model.get("paramSize"),
            "stored_precision": model.get("precision"),
            "quantisation": said({"scheme": model.get("quantization")}),
        }
    )


def _kit(kit: dict[str, Any]) -> dict[str, Any]:
    package, model = mapping(kit.get("package")), mapping(kit.get("model"))
    return said(
        {
            "name": package.get("name"),
            "versions": {
                key: str(value)
                for key, value in (("kit", package.get("version")), ("model", model.get("version")))
                if value
            },
            "producer": ", ".join(map(str, layout.sequence(package.get("authors")))),
            "license": package.get("license") or model.get("license"),
            "model": said({key: value for key, value in model.items() if key != "parts"}),
            "files": hazards.kit_paths(kit),
            "metadata": said({"description": package.get("description")}),
        }
    )
