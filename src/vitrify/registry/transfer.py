"""Content between a registry and a store: whole artifacts, each byte checked against its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify import stores
from vitrify.core.digest import Digest
from vitrify.core.manifest import FILEPATH, MANIFEST_TYPE, Descriptor, Manifest
from vitrify.core.progress import track
from vitrify.stores._verified import corrupt

if TYPE_CHECKING:
    from vitrify.registry.registry import Registry
    from vitrify.stores.oci_layout import OciLayout


def closure_of(store: OciLayout, digest: Digest) -> tuple[Digest, ...]:
    """Return the digests of an artifact's manifest and of all that it needs; the manifest last."""
    manifest = stores.read_manifest(store, digest)
    needed = [descriptor.content for descriptor in manifest.referenced()]
    return tuple(dict.fromkeys([*needed, digest]))


def statements_of(store: OciLayout, digest: Digest) -> tuple[bytes, ...]:
    """Return the statements about an artifact as they lie in the store: plain, or in their envelopes."""
    return stores.attestations(store, digest)


def fetch(registry: Registry, store: OciLayout, digest: Digest, name: str) -> Digest:
    """Bring an artifact into a store under a name, with the statements about it.

    Raises:
        CorruptError: What came is not what a digest promises; the store is as it was.
    """
    data = b"".join(map(bytes, registry.backend.read(digest)))
    manifest = Manifest.from_json(data, where=f"manifest {digest.short}")
    needed = {descriptor.content: descriptor.filepath or "configuration" for descriptor in manifest.referenced()}
    with store.stage() as stage, track("downloading", len(needed)) as bar:
        for wanted in needed:
            with stage.open(wanted.hex, "weight") as sink:
                for piece in registry.backend.read(wanted):
                    sink.write(piece)
            bar.advance()
        for layer in stage.descriptors():
            expected = Digest(layer.annotations[FILEPATH])
            if layer.content != expected:
                raise corrupt(expected, layer.content, place=f"{name}: {needed[expected]}")
        if (found := stage.add(data)) != digest:
            raise corrupt(digest, found, place=f"{name}: the manifest")
        entry = Descriptor(
            media_type=MANIFEST_TYPE, digest=str(digest), size=len(data), artifact_type=manifest.artifact_type
        )
        stage.publish([(entry, name)])
    for attested in registry.attestations(str(digest)):
        stores.attach(store, digest, attested.content.encode())
    return digest
