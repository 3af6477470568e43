"""From a reference to a digest by way of the registry: ``churn@production`` is fetched, then opened like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.registry import open_registry
from vitrify.registry.transfer import fetch

if TYPE_CHECKING:
    from vitrify.core.reference import Reference
    from vitrify.stores.oci_layout import OciLayout


class RegistryResolver:
    """What the catalog's ``resolver`` row ``registry`` is."""

    def fetch(self, reference: Reference, store: OciLayout) -> Digest:
        """Return what a name leads to, brought into the store.

        Raises:
            ReferenceNotFoundError: There is no registry, or it has no such model or alias.
            CorruptError: What came is not what the digest promises.
        """
        name, _, alias = reference.value.partition("@")
        registry = open_registry(create=False)
        try:
            version = registry.version(name, f"@{alias}")
            digest = Digest.parse(version.digest)
            if not store.place(digest).exists():
                fetch(registry, store, digest, f"{name}:{version.version}")
            return digest
        finally:
            registry.close()
