"""Identity: what an ensemble is together with the versions that its models have.

It changes with its definition and with the bytes of each model, and with nothing else: not with the order of the
settings, and not with the names that it and its version are served by.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.serve.models._graph import graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.serve.models import Served
    from vitrify.serve.models._graph import Find, Graph
    from vitrify.serve.settings import EnsembleSettings


@dataclass(frozen=True)
class Made:
    """An ensemble as it is with some versions of its models.

    Attributes:
        graph: What is run.
        digests: Of the artifact of each step.
        digest: Of all together.
    """

    graph: Graph
    digests: Mapping[str, str]
    digest: str


def make(settings: EnsembleSettings, find: Find) -> Made:
    """Return what an ensemble is with the versions that are found.

    Raises:
        UsageError: They do not fit together; see :func:`vitrify.serve.models._graph.graph`.
    """
    known: dict[tuple[str, str], Served] = {}

    def once(model: str, version: str) -> Served:
        """Look only once: a version that changes in between must not be half of it."""
        if (model, version) not in known:
            known[model, version] = _usable(find(model, version))
        return known[model, version]

    made = graph(settings, once)
    digests = {name: known[step.model, step.version].digest for name, step in settings.steps.items()}
    return Made(made, digests, identity(settings, digests))


def identity(settings: EnsembleSettings, digests: Mapping[str, str]) -> str:
    """Return the digest of an ensemble.

    Args:
        settings: What it is.
        digests: Of the artifact that answers for each step.
    """
    steps = {name: (step.model, step.version, step.inputs, digests[name]) for name, step in settings.steps.items()}
    text = msgspec.json.encode({"steps": steps, "outputs": settings.outputs}, order="deterministic")
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def _usable(served: Served) -> Served:
    """Refuse what is only known by its name.

    Raises:
        ReferenceNotFoundError: Nothing is known of its inputs and outputs.
    """
    if not served.platform:
        msg = f"model {served.name!r} is {served.state.lower()}{f': {served.reason}' if served.reason else ''}"
        raise ReferenceNotFoundError(msg)
    return served
