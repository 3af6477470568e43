"""Inventory: what is in an artifact, as every bill of materials lists it.

>>> thing = Inventory.of(artifact.name, artifact.digest, artifact.manifest, artifact.document)   # doctest: +SKIP
>>> cyclonedx.bom(thing)                                                                         # doctest: +SKIP
>>> spdx.document(thing)                                                                         # doctest: +SKIP

The same artifact, name and facts give the same bytes: the serial number follows from the digest, and the time is that
of the build.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self
from uuid import NAMESPACE_URL, UUID, uuid5

from vitrify.core.attestation import PROVENANCE, SLSA
from vitrify.core.errors import UsageError
from vitrify.trust.provenance import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.attestation import Attestation
    from vitrify.core.digest import Digest
    from vitrify.core.document import Document
    from vitrify.core.manifest import Manifest

_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?", re.ASCII)
_MAX_TEXT = 1000


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What is known of one artifact.

    Attributes:
        name: Its name without a tag, or its short digest.
        version: The tag; empty where it has none.
        digest: Its identity.
        manifest: Its files.
        document: What they mean.
        licence: SPDX licence expression; empty where it is unknown.
        metrics: Figures of its quality.
        datasets: Digests of the data that it was trained on, by name.
        when: When it was built; None where nobody said so.
    """

    name: str
    version: str
    digest: Digest
    manifest: Manifest
    document: Document
    licence: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    when: datetime | None = None

    @classmethod
    def of(
        cls,
        name: str | None,
        digest: Digest,
        manifest: Manifest,
        document: Document,
        *,
        attestations: Iterable[Attestation] = (),
        licence: str = "",
        metrics: Mapping[str, float] | None = None,
        datasets: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the inventory of an artifact; the time of its build is that of its oldest provenance.

        Raises:
            UsageError: A metric is no finite number.
        """
        figures = dict(metrics or {})
        for metric, value in figures.items():
            if not math.isfinite(value):
                msg = f"metric {metric!r} is {value}, expected a finite number"
                raise UsageError(msg)
        base, _, tag = (name or digest.short).partition(":")
        built = [one.predicate for one in attestations if one.predicate_type in {SLSA, PROVENANCE}]
        times = [when for predicate in built if (when := _moment(read(predicate).when))]
        return cls(
            name=base,
            version=tag,
            digest=digest,
            manifest=manifest,
            document=document,
            licence=licence,
            metrics=figures,
            datasets=dict(datasets or {}),
            when=min(times, default=None),
        )

    @property
    def serial(self) -> UUID:
        """A UUID that follows from the digest (version 5 of RFC 9562)."""
        return uuid5(NAMESPACE_URL, f"urn:vitrify:artifact:{self.digest}")

    @property
    def source(self) -> str:
        """Digest of the artifact that it was made from; empty where it was saved."""
        found = (self.document.lineage or {}).get("source")
        return found if isinstance(found, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", found) else ""

    @property
    def distributions(self) -> dict[str, str]:
        """Versions of the Python distributions that it needs, by name; what can be no such name is left out."""
        known = self.document.environment.distributions if self.document.environment else {}
        return {name: version[:_MAX_TEXT] for name, version in sorted(known.items()) if _DISTRIBUTION.fullmatch(name)}

    @property
    def ports(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Its inputs and outputs as text: ``age: int64[batch]``."""
        signature = self.document.signature
        if signature is None:
            return (), ()
        inputs, outputs = ([str(one) for one in fields] for fields in (signature.inputs, signature.outputs))
        return tuple(inputs), tuple(outputs)

    @property
    def classifies(self) -> bool:
        """Whether an output has class labels."""
        signature = self.document.signature
        return signature is not None and any(one.classes for one in signature.outputs)


def package_url(name: str, version: str) -> str:
    """Return the package URL of a Python distribution (https://github.com/package-url/purl-spec)."""
    from packageurl import PackageURL

    return PackageURL("pypi", None, re.sub(r"[-_.]+", "-", name).lower(), version or None).to_string()


def _moment(text: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(text)
        return None if when.utcoffset() is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
