"""What every other server has to be told of an artifact: a name, a number for the version, what goes in and out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.package._about import name_of

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.signature import Signature

_RELEASE = re.compile(r"v?(\d{1,6})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_NUMBER = re.compile(r"v?(\d{1,18})", re.ASCII)
_NOT_DNS = re.compile(r"[^a-z0-9]+")
_MOST_DNS = 40
"""Of a name in a cluster: 63 characters may be all, and others put something behind it."""

_REWRITTEN = ("casts", "labels", "missing_text")
"""What an entry says where a graph's own answers are not yet those of the signature."""


@dataclass(frozen=True)
class Tensor:
    """An input or output of a graph.

    Attributes:
        field: What it is in the signature.
        name: What it is called in the graph.
        dtype: Its element type there.
        shape: Its sizes there; None where one may change.
    """

    field: str
    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Graph:
    """What a graph takes and gives, as its own file says."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def model_name(artifact: Artifact) -> str:
    """Return a name that is also one of a folder: ``team-churn`` for ``team/churn:1.2.0``."""
    return name_of(artifact).partition(":")[0].replace("/", "-")


def dns_name(artifact: Artifact) -> str:
    """Return a name as clusters want it (RFC 1123): lower case letters, digits and hyphens, a letter first."""
    name = _NOT_DNS.sub("-", model_name(artifact).lower()).strip("-")
    return (name if name[:1].isalpha() else f"model-{name}")[:_MOST_DNS].rstrip("-")


def tag(artifact: Artifact) -> str:
    """Return what stands behind the name's colon: the version as people say it."""
    return name_of(artifact).partition(":")[2]


def version_number(artifact: Artifact) -> int:
    """Return a positive number for a version, for servers that know no others.

    A tag that is a number is that number. A release ``1.2.3`` is 1002003, so that a later one is a larger number.
    Every other tag is 1.
    """
    text = tag(artifact)
    if found := _NUMBER.fullmatch(text):
        return max(1, int(found[1]))
    if found := _RELEASE.fullmatch(text):
        major, minor, patch = map(int, found.groups())
        return max(1, major * 1_000_000 + minor * 1_000 + patch)
    return 1


def signature_of(artifact: Artifact) -> Signature:
    """Return the signature of a model that a server can be asked for.

    Raises:
        UnsupportedModelError: It has none, or no runtime here opens it.
    """
    found = artifact.document.signature
    if found is None or not found.inputs:
        msg = f"{artifact} has no signature: no server could ask it for predictions"
        raise UnsupportedModelError(msg, remedy="seal it with an example: vitrify pack FILE NAME --example DATA")
    if artifact.document.runtime is None:
        msg = f"no runtime opens {artifact.document.format}, so that nothing can serve {artifact}"
        raise UnsupportedModelError(msg, remedy="serve it where it runs, or the model that it was converted from")
    return found


def require_open(artifact: Artifact, whose: str) -> None:
    """Refuse an encrypted artifact.

    Raises:
        UsageError: It is encrypted.
    """
    if artifact.sealed is not None:
        msg = f"{artifact} is encrypted, and {whose} would need it in the clear"
        raise UsageError(msg, remedy="decrypt it first, or export it as an archive: --as archive")


def require_replicas(replicas: tuple[int, int]) -> None:
    """Refuse numbers of replicas, least and most, that nobody could run.

    Raises:
        UsageError: There are none, or more at least than at most.
    """
    least, most = replicas
    if not 1 <= least <= most:
        msg = f"from {least} to {most} replicas; expected at least 1, and not fewer at most"
        raise UsageError(msg, remedy="for example: --replicas 2-8")


def graph_of(artifact: Artifact) -> Graph | None:
    """Return what the artifact's graph takes and gives; None where it is none, or where it alone is not the model.

    The latter is so where a signature's answers are made from the graph's: labels that the graph has as numbers, a type
    that the graph lacks, missing text.
    """
    document, signature = artifact.document, signature_of(artifact)
    if any(document.entry.get(key) for key in _REWRITTEN):
        return None
    told = catalog().load("format", document.format).describe(artifact.files, document.entry)
    sides = []
    for side, fields in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        ports = {port["name"]: port for port in told.get(side, [])}
        names = document.entry.get(side) or _by_name(list(ports), [field.name for field in fields])
        if any(name not in ports or ports[name]["shape"] is None for name in names.values()):
            return None
        known = [field.name for field in fields if field.name in names]  # the others the model ignores
        sides.append(tuple(_tensor(field, ports[names[field]]) for field in known))
    return Graph(*sides) if all(sides) else None


def _by_name(ports: list[str], fields: list[str]) -> dict[str, str]:
    """Match names as sessions do: the same ones, else by position."""
    return dict(zip(fields, fields if set(fields) <= set(ports) else ports, strict=False))


def _tensor(field: str, port: dict[str, object]) -> Tensor:
    shape = port["shape"]
    assert isinstance(shape, list)
    sizes = tuple(size if isinstance(size, int) and size >= 0 else None for size in shape)
    return Tensor(field, str(port["name"]), str(port["type"]), sizes)


def requirements(artifact: Artifact) -> bytes:
    """Return what has to be installed where Vitrify runs the model, a line each, as pip takes it."""
    environment = artifact.document.environment
    pinned = environment.distributions if environment else {}
    # Behind a plus stands a build of somebody's own index, which others cannot install from theirs.
    own = [f"{name}=={version.partition('+')[0]}" for name, version in sorted(pinned.items()) if name != "vitrify"]
    return "".join(f"{line}\n" for line in (f"vitrify[serve]=={metadata.version('vitrify')}", *own)).encode()
