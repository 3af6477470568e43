"""SPDX 2.3: the bill of materials of an artifact, for tools that read it rather than CycloneDX.

The model is a package; so is each of its files, since a file of SPDX 2.3 needs a SHA-1 that an artifact does not
have, and each Python distribution that it needs. SPDX 2.3 has no field for what a model takes and gives: the package's
comment says it.

Source: https://spdx.github.io/spdx-spec/v2.3/. The document is checked by the library's own validator before it is
handed out.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, MissingDependencyError

if TYPE_CHECKING:
    from spdx_tools.spdx.model.document import Document as SpdxDocument
    from spdx_tools.spdx.model.package import Package

    from vitrify.trust.inventory import Inventory

PREDICATE_TYPE = "https://spdx.dev/Document"
MODEL = "SPDXRef-Model"
_DOCUMENT = "SPDXRef-DOCUMENT"
_UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)
"""SPDX wants a time; of an artifact that nobody dated it is the beginning of all computers' time."""


def document(thing: Inventory) -> dict[str, Any]:
    """Return the bill of materials as JSON.

    Raises:
        MissingDependencyError: The library is not installed.
        MalformedError: The artifact says something that no bill of materials can carry.
    """
    try:
        from spdx_tools.spdx.writer.json.json_writer import write_document_to_stream
    except ImportError as error:
        msg = "an SPDX document needs spdx-tools, which is not installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[sbom]'") from error
    out = io.StringIO()
    try:
        write_document_to_stream(_document(thing), out)
    except (ValueError, TypeError) as error:
        msg = f"{thing.name}: no SPDX document can say this ({error})"
        raise MalformedError(msg) from error
    written: dict[str, Any] = json.loads(out.getvalue())
    return written


def _document(thing: Inventory) -> SpdxDocument:
    from spdx_tools.spdx.model.actor import Actor, ActorType
    from spdx_tools.spdx.model.document import CreationInfo, Document
    from spdx_tools.spdx.model.relationship import Relationship, RelationshipType

    when = thing.when or _UNKNOWN
    about = CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id=_DOCUMENT,
        name=f"{thing.name}:{thing.version}" if thing.version else thing.name,
        document_namespace=f"https://vitrify.readthedocs.io/spdx/{thing.serial}",
        creators=[Actor(ActorType.TOOL, f"vitrify-{metadata.version('vitrify')}")],
        created=when.replace(tzinfo=None),
        document_comment=None if thing.when else "when the artifact was built is not known",
    )
    parts = [*_files(thing), *_libraries(thing), *_origins(thing)]
    relations = [Relationship(_DOCUMENT, RelationshipType.DESCRIBES, MODEL)]
    relations += [Relationship(MODEL, RelationshipType[kind], package.spdx_id) for kind, package in parts]
    return Document(about, packages=[_model(thing), *(package for _, package in parts)], relationships=relations)


def _model(thing: Inventory) -> Package:
    from spdx_tools.common.spdx_licensing import spdx_licensing
    from spdx_tools.spdx.model.package import PackagePurpose
    from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion

    inputs, outputs = thing.ports
    said = [f"format: {thing.document.format}"]
    said += [f"input: {one}" for one in inputs] + [f"output: {one}" for one in outputs]
    said += [f"metric: {name} = {value!r}" for name, value in sorted(thing.metrics.items())]
    licence: Any = SpdxNoAssertion()
    if thing.licence:
        fine = not spdx_licensing.validate(thing.licence).errors
        licence = spdx_licensing.parse(thing.licence) if fine else SpdxNoAssertion()
        said += [] if fine else [f"licence: {thing.licence}"]
    model = _package(MODEL, thing.name, str(thing.digest), purpose=PackagePurpose.OTHER, comment="\n".join(said))
    model.version = thing.version or None
    model.license_declared = licence
    return model


def _files(thing: Inventory) -> list[tuple[str, Package]]:
    from spdx_tools.spdx.model.package import PackagePurpose

    return [
        ("CONTAINS", _package(f"SPDXRef-File-{number}", path, layer.digest, purpose=PackagePurpose.FILE))
        for number, (path, layer) in enumerate(thing.manifest.files.items())
    ]


def _libraries(thing: Inventory) -> list[tuple[str, Package]]:
    from spdx_tools.spdx.model.package import ExternalPackageRef, ExternalPackageRefCategory, PackagePurpose

    from vitrify.trust.inventory import package_url

    found = []
    for number, (name, version) in enumerate(thing.distributions.items()):
        package = _package(f"SPDXRef-Library-{number}", name, "", purpose=PackagePurpose.LIBRARY)
        package.version = version or None
        locator = package_url(name, version)
        package.external_references = [ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", locator)]
        found.append(("DEPENDS_ON", package))
    return found


def _origins(thing: Inventory) -> list[tuple[str, Package]]:
    """Return what it was made from: another artifact, and data."""
    from spdx_tools.spdx.model.package import PackagePurpose

    found = []
    if thing.source:
        source = _package("SPDXRef-Source", thing.source, thing.source, purpose=PackagePurpose.OTHER)
        found.append(("DESCENDANT_OF", source))
    for number, (name, digest) in enumerate(sorted(thing.datasets.items())):
        data = _package(
            f"SPDXRef-Dataset-{number}", name, digest, purpose=PackagePurpose.OTHER, comment="training data"
        )
        found.append(("GENERATED_FROM", data))
    return found


def _package(spdx_id: str, name: str, digest: str, *, purpose: Any, comment: str | None = None) -> Package:
    from spdx_tools.spdx.model.checksum import Checksum, ChecksumAlgorithm
    from spdx_tools.spdx.model.package import Package
    from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion

    content = digest.removeprefix("sha256:")
    return Package(
        spdx_id,
        name,
        SpdxNoAssertion(),
        files_analyzed=False,
        checksums=[Checksum(ChecksumAlgorithm.SHA256, content)] if content else [],
        primary_package_purpose=purpose,
        comment=comment,
    )
