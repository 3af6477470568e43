"""Sealing: from staged files to a committed artifact, the same for a saved and for a converted model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify import containers
from vitrify.artifacts import code, environment, golden, trial
from vitrify.artifacts.artifact import Artifact
from vitrify.core import who
from vitrify.core.attestation import SLSA, TRIAL
from vitrify.core.digest import Digest
from vitrify.core.document import DOCUMENT, GOLDEN, Code
from vitrify.core.manifest import MODEL_CONFIG_TYPE, Descriptor, Manifest, ModelConfig
from vitrify.core.protocols import Allow
from vitrify.core.wire import to_builtins
from vitrify.trust import provenance, signing
from vitrify.trust.evidence_key import evidence_signer
from vitrify.trust.statement import producer

if TYPE_CHECKING:
    from vitrify.core.document import Document
    from vitrify.core.protocols import Arrays, Stage
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust.keys import Signer

_OURS = "urn:vitrify:"
"""Predicate types that we define; every other is written as its own specification has it."""


@dataclass(frozen=True)
class Draft:
    """What is known about an artifact before it is sealed.

    Attributes:
        document: All but environment, golden count and bundled code, which sealing fills in.
        inputs: Golden inputs.
        outputs: The outputs that the model gave for them.
        names: Code outside the built-in allow-list that loading uses.
        description: Free text for people.
        evidence: More attestations to attach: predicate type to predicate.
        read: Whether the files make a live model here; those of a format that is only looked at are described.
    """

    document: Document
    inputs: Arrays = field(default_factory=dict)
    outputs: Arrays = field(default_factory=dict)
    names: tuple[str, ...] = ()
    description: str = ""
    evidence: dict[str, dict[str, Any]] = field(default_factory=dict)
    read: bool = True


def seal(stage: Stage, draft: Draft, store: OciLayout, name: str | None) -> Artifact:
    """Bundle code, add the golden samples, try it in a clean process, commit, attest.

    Raises:
        UnsupportedModelError: Code that it needs cannot be bundled.
        CheckFailedError: The trial failed; nothing was committed.
        StoreError: The store could not take it; it is as it was.
        AuthenticationError: The key that this process signs evidence with could not be opened.
    """
    bundled = _bundle(stage, draft.names)
    names = tuple(sorted({*bundled.names, *draft.document.code.names}))
    modules = {**draft.document.code.modules, **bundled.modules}
    document = draft.document.replace(code=Code(modules=modules, names=names), golden=_golden(stage, draft))
    played = (draft.inputs, draft.outputs) if document.runtime else ({}, {})
    tried = trial.run(stage.files(), document, played, Allow.of(names), read=draft.read)
    document = document.replace(environment=tried.environment)
    with stage.open(DOCUMENT, "weight.config") as stream:
        stream.write(document.to_json())

    def build(layers: tuple[Descriptor, ...]) -> tuple[Manifest, bytes]:
        return _manifest(document, layers, draft.description)

    signer = evidence_signer()
    made = provenance.slsa(environment.provenance(), kind=document.format, lineage=document.lineage)
    digest = stage.commit(build, name)
    report = {**to_builtins(tried.report), "seconds": round(tried.seconds, 3)}
    evidence = {TRIAL: report, SLSA: made, **draft.evidence}
    for predicate_type, predicate in evidence.items():
        attest(store, digest, predicate_type, predicate, signer)
    return Artifact.of(store, digest, name)


def attest(
    store: OciLayout, digest: Digest, predicate_type: str, predicate: dict[str, Any], signer: Signer | None = None
) -> None:
    """Attach an in-toto statement to an artifact; one of our own types says who made it, and when.

    Args:
        store: Where the artifact lies.
        digest: Its identity.
        predicate_type: What kind of statement.
        predicate: What is said.
        signer: Who signs it; by default the key that this process signs evidence with, if it has one.
    """
    ours = {"producer": producer(), "when": who.now()} if predicate_type.startswith(_OURS) else {}
    signing.attest(store, digest, predicate_type, {**ours, **predicate}, signer or evidence_signer())


def _bundle(stage: Stage, names: tuple[str, ...]) -> Code:
    modules = {}
    for module, source in code.bundle(names).items():
        modules[module] = code.artifact_path(module, source)
        with stage.open(modules[module], "code") as stream:
            stream.write(source.read_bytes())
    return Code(modules=modules, names=tuple(sorted(set(names))))


def _golden(stage: Stage, draft: Draft) -> int:
    if not draft.inputs:
        return 0
    with stage.open(GOLDEN, "dataset") as stream:
        stream.write(golden.dump(draft.inputs, draft.outputs))
    signature = draft.document.signature
    rows = containers.rows(draft.inputs, signature.inputs) if signature else None
    return 1 if rows is None else rows


def _manifest(document: Document, layers: tuple[Descriptor, ...], description: str) -> tuple[Manifest, bytes]:
    about = {"description": description} if description else {}
    config = ModelConfig.of(about, {"format": document.format}, layers).to_json()
    descriptor = Descriptor(media_type=MODEL_CONFIG_TYPE, digest=str(Digest.of(config)), size=len(config))
    return Manifest.of_model(descriptor, layers, {}), config
