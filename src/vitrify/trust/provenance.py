"""Provenance: how an artifact came to be, as SLSA has it.

Source: SLSA specification 1.0, https://slsa.dev/spec/v1.0/provenance (the predicate ``https://slsa.dev/provenance/v1``).
Fields of our own start with ``vitrify_``, as its rules for extension fields want.

The builder is whoever runs this process, on whatever machine: a claim, which is worth what the signature on the
attestation is worth. A build service names itself in ``VITRIFY_BUILDER_ID`` and signs with a key of its own.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILDER = "VITRIFY_BUILDER_ID"
"""Environment variable with the URI of the build service."""

LOCAL = "urn:vitrify:builder:local"
"""The builder id where nobody named one."""

SAVED = "urn:vitrify:build:save:v1"
"""Build type of a model that was sealed as its maker gave it; external parameters: ``format``."""

TRANSFORMED = "urn:vitrify:build:transform:v1"
"""Build type of a model made from another artifact; external parameters: ``plan``, with every step's options."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]{1,1000}", re.ASCII)


@dataclass(frozen=True)
class Provenance:
    """What is known of how an artifact was made; None and empty texts where it is not.

    Attributes:
        builder: URI of what built it.
        build_type: URI of the kind of build.
        commit: Git commit of the code that made it.
        dirty: Whether that code had been changed since.
        source: Digest of the artifact that it was made from.
        when: When it was finished, RFC 3339.
        who: The account that ran it.
    """

    builder: str = ""
    build_type: str = ""
    commit: str = ""
    dirty: bool | None = None
    source: str = ""
    when: str = ""
    who: str = ""


def slsa(
    known: Mapping[str, Any],
    *,
    kind: str,
    lineage: Mapping[str, Any] | None = None,
    datasets: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the SLSA predicate of one build.

    Args:
        known: ``when`` (RFC 3339), ``who``, and ``git`` with ``commit`` and ``dirty`` where there is a repository.
        kind: Format of the artifact.
        lineage: ``source`` (digest of the artifact that it was made from) and how (``plan``), for a transform.
        datasets: Digests (``sha256:...``) of the data that went in, by name.

    Raises:
        UsageError: ``VITRIFY_BUILDER_ID`` is no URI.
    """
    options = {key: value for key, value in (lineage or {}).items() if key != "source"}
    parameters: dict[str, Any] = options if lineage else {"format": kind}
    dependencies: list[dict[str, Any]] = []
    if lineage:
        dependencies.append(_dependency("source", lineage["source"], {"vitrify_role": "source"}))
    for name, digest in sorted((datasets or {}).items()):
        dependencies.append(_dependency(name, digest, {"vitrify_role": "dataset"}))
    if git := known.get("git"):
        annotations = {"vitrify_role": "code", "vitrify_dirty": git["dirty"]}
        dependencies.append({"name": "code", "digest": {"gitCommit": git["commit"]}, "annotations": annotations})
    return {
        "buildDefinition": {
            "buildType": TRANSFORMED if lineage else SAVED,
            "externalParameters": parameters,
            "internalParameters": {},
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": {
                "id": builder_id(),
                "version": {"vitrify": metadata.version("vitrify"), "python": platform.python_version()},
            },
            "metadata": {"finishedOn": known["when"], "vitrify_who": known["who"]},
        },
    }


def builder_id() -> str:
    """Return the URI of what builds here.

    Raises:
        UsageError: ``VITRIFY_BUILDER_ID`` is no URI.
    """
    named = os.environ.get(BUILDER) or LOCAL
    if not _URI.fullmatch(named):
        msg = f"{BUILDER} is {named[:100]!r}, expected a URI such as https://ci.example.org/runner"
        raise UsageError(msg, remedy=f"set {BUILDER} to the address of the build service, or unset it")
    return named


def read(predicate: Mapping[str, Any]) -> Provenance:
    """Return what a provenance predicate says, SLSA's or the one that Vitrify wrote before it.

    What is missing or of a wrong type is unknown; nothing is raised.
    """
    if "buildDefinition" not in predicate and "runDetails" not in predicate:
        git = _table(predicate, "git")
        return Provenance(
            commit=_text(git, "commit"),
            dirty=_yes(git, "dirty"),
            when=_text(predicate, "when"),
            who=_text(predicate, "who"),
        )
    definition, details = _table(predicate, "buildDefinition"), _table(predicate, "runDetails")
    listed = definition.get("resolvedDependencies")
    dependencies = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    code = [one for one in dependencies if "gitCommit" in _table(one, "digest")]
    sources = [one for one in dependencies if _table(one, "annotations").get("vitrify_role") == "source"]
    # Two commits or two sources are not one that could be told; every one of them was in the build.
    only = code[0] if len(code) == 1 else {}
    source = _text(_table(sources[0], "digest"), "sha256") if len(sources) == 1 else ""
    about = _table(details, "metadata")
    return Provenance(
        builder=_text(_table(details, "builder"), "id"),
        build_type=_text(definition, "buildType"),
        commit=_text(_table(only, "digest"), "gitCommit"),
        dirty=_yes(_table(only, "annotations"), "vitrify_dirty"),
        source=f"sha256:{source}" if source else "",
        when=_text(about, "finishedOn"),
        who=_text(about, "vitrify_who"),
    )


def _dependency(name: str, digest: str, annotations: dict[str, Any]) -> dict[str, Any]:
    algorithm, _, content = digest.partition(":")
    return {"name": name, "digest": {algorithm: content}, "annotations": annotations}


def _table(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _yes(value: Mapping[str, Any], key: str) -> bool | None:
    found = value.get(key)
    return found if isinstance(found, bool) else None
