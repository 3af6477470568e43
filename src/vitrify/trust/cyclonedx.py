"""CycloneDX 1.6 (ECMA-424): the machine-learning bill of materials of an artifact.

The model is the component that the document is about, with its hash, its files, its model card and, where it was
converted, the model it descends from. The Python distributions that it needs are its dependencies.

Source: https://cyclonedx.org/docs/1.6/json/. The library that writes it does not know model cards, so the card is put
into what it wrote; the tests hold the whole against the strict schema.
"""

from __future__ import annotations

import json
from importlib import metadata
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, MissingDependencyError

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component

    from vitrify.trust.inventory import Inventory

PREDICATE_TYPE = "https://cyclonedx.org/bom"


def bom(thing: Inventory) -> dict[str, Any]:
    """Return the bill of materials as JSON.

    Raises:
        MissingDependencyError: The library is not installed.
        MalformedError: The artifact says something that no bill of materials can carry.
    """
    try:
        from cyclonedx.output.json import JsonV1Dot6
    except ImportError as error:
        msg = "a CycloneDX document needs cyclonedx-python-lib, which is not installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[sbom]'") from error
    try:
        written: dict[str, Any] = json.loads(JsonV1Dot6(_bom(thing)).output_as_string())
    except (ValueError, TypeError) as error:
        msg = f"{thing.name}: no CycloneDX document can say this ({error})"
        raise MalformedError(msg) from error
    about = written["metadata"]
    if thing.when is None:
        del about["timestamp"]
    if card := _card(thing):
        about["component"]["modelCard"] = card
    return written


def _bom(thing: Inventory) -> Bom:
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.tool import ToolRepository

    model = _model(thing)
    ours = Component(type=ComponentType.APPLICATION, name="vitrify", version=metadata.version("vitrify"))
    about = BomMetaData(component=model, tools=ToolRepository(components=[ours]), timestamp=thing.when)
    needed = [*_libraries(thing), *_datasets(thing)]
    made = Bom(serial_number=thing.serial, metadata=about, components=needed)
    made.register_dependency(model, needed)
    return made


def _model(thing: Inventory) -> Component:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType, Pedigree

    known = thing.document.environment
    facts = {"format": thing.document.format, "runtime": thing.document.runtime}
    facts |= {"python": known.python, "platform": known.platform} if known else {}
    files = [
        Component(type=ComponentType.FILE, name=path, bom_ref=f"file:{path}", hashes=_hashes(layer.digest))
        for path, layer in thing.manifest.files.items()
    ]
    ancestors = []
    if thing.source:
        kind = ComponentType.MACHINE_LEARNING_MODEL
        ancestors = [Component(type=kind, name=thing.source, bom_ref=thing.source, hashes=_hashes(thing.source))]
    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        name=thing.name,
        version=thing.version or None,
        bom_ref=str(thing.digest),
        hashes=_hashes(str(thing.digest)),
        licenses=[LicenseFactory().make_from_string(thing.licence)] if thing.licence else None,
        properties=[Property(name=f"vitrify:{name}", value=value) for name, value in facts.items() if value],
        components=files,
        pedigree=Pedigree(ancestors=ancestors) if ancestors else None,
    )


def _libraries(thing: Inventory) -> list[Component]:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    from vitrify.trust.inventory import package_url

    return [
        Component(
            type=ComponentType.LIBRARY,
            name=name,
            version=version or None,
            bom_ref=package_url(name, version),
            purl=PackageURL.from_string(package_url(name, version)),
        )
        for name, version in thing.distributions.items()
    ]


def _datasets(thing: Inventory) -> list[Component]:
    from cyclonedx.model.component import Component, ComponentType

    return [
        Component(type=ComponentType.DATA, name=name, bom_ref=f"dataset:{name}", hashes=_hashes(digest))
        for name, digest in sorted(thing.datasets.items())
    ]


def _hashes(digest: str) -> list[Any]:
    from cyclonedx.model import HashAlgorithm, HashType

    return [HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))]


def _card(thing: Inventory) -> dict[str, Any]:
    """Return the model card: what goes in and comes out, what it was trained on, and how good it is."""
    inputs, outputs = thing.ports
    parameters: dict[str, Any] = {}
    if thing.classifies:
        parameters["task"] = "classification"
    if thing.datasets:
        parameters["datasets"] = [{"ref": f"dataset:{name}"} for name in sorted(thing.datasets)]
    for key, fields in (("inputs", inputs), ("outputs", outputs)):
        if fields:
            parameters[key] = [{"format": field} for field in fields]
    figures = [{"type": name, "value": repr(value)} for name, value in sorted(thing.metrics.items())]
    card: dict[str, Any] = {"modelParameters": parameters} if parameters else {}
    return card | ({"quantitativeAnalysis": {"performanceMetrics": figures}} if figures else {})
