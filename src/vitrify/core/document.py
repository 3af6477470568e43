"""The model document, ``vitrify.json``: what the artifact's files mean."""

from __future__ import annotations

from typing import Any

from vitrify.core.signature import Signature
from vitrify.core.wire import Value

DOCUMENT = "vitrify.json"
"""The document's path inside every artifact."""

GOLDEN = "golden.npz"
"""The golden samples' path inside an artifact."""

SCHEMA = 1
"""The document's version. Readers of version n read every document of version 1 to n."""


class Environment(Value, frozen=True, kw_only=True):
    """Where the model was made and what it needs.

    Attributes:
        python: The interpreter's version, ``3.11.7``.
        platform: Operating system and architecture, ``linux-x86_64``; no host name.
        distributions: Name and version of every installed distribution that loading and predicting in the
            clean process imported.

    Who saved it, when, and from which git commit is provenance: an attestation beside the artifact, so that the
    same model has the same digest whoever saves it.
    """

    python: str
    platform: str
    distributions: dict[str, str] = {}


class Code(Value, frozen=True, kw_only=True):
    """Python source that travels with the model, and what must be allowed before it runs.

    Attributes:
        modules: Module name to file path inside the artifact.
        names: The exact dotted names (classes, functions) outside the built-in allow-list that loading uses.
    """

    modules: dict[str, str] = {}
    names: tuple[str, ...] = ()


class Document(Value, frozen=True, kw_only=True):
    """What the artifact's files mean.

    Attributes:
        format: Catalog name of the format that reads the files.
        runtime: Catalog name of the runtime that predicts by default.
        entry: What that format and that runtime need to know; theirs alone.
        signature: Inputs and outputs, where the model has them (bare weights have none).
        environment: Where it was made and what it needs.
        golden: Number of golden rows (or calls); 0 where there are none.
        code: Bundled source and names to allow.
        notes: What a person should know about how this was made ("set to eval mode").
        lineage: For a derived artifact, the source's digest and the plan that made it.
        encryption: How some of its files are encrypted, and for whom; see :mod:`vitrify.trust.encryption`.
    """

    schema: int
    format: str
    runtime: str | None
    entry: dict[str, Any] = {}
    signature: Signature | None = None
    environment: Environment | None = None
    golden: int = 0
    code: Code = Code()
    notes: tuple[str, ...] = ()
    lineage: dict[str, Any] | None = None
    encryption: dict[str, Any] | None = None
