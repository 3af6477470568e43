"""Facts: everything that a policy may ask about one model, gathered before it is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vitrify.core.digest import Digest
from vitrify.core.errors import UsageError
from vitrify.trust.policy.match import PURPOSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.trust.evidence import Evidence

_ACTION = re.compile(r"([a-z]+)(?::[a-z0-9][a-z0-9._-]{0,127})?", re.ASCII)


@dataclass(frozen=True)
class Approval:
    """Somebody's yes to this action.

    Attributes:
        who: The account that said it, as the registry knows it.
        when: The time, with its zone.
        roles: The roles that the account had then.
    """

    who: str
    when: datetime
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a time without a zone: nobody could compare it."""
        _aware(self.when, "an approval")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known about a model that somebody wants to use.

    Attributes:
        action: ``load``, ``serve``, ``ship``, or ``promote:`` and the stage.
        name: The model's name without a tag, as the user or the registry wrote it; the digest where it has none.
        digest: Digest of the artifact: ``sha256:`` and 64 hex digits.
        version: The version under that name.
        author: The account that registered it.
        evidence: All attestations about it that were found, with whose signatures hold.
        metrics: Figures that the registry has for it.
        tags: Labels that the registry has for it.
        licence: SPDX licence identifier.
        stage: The stage that it is in now.
        status: ``active``, ``deprecated`` or ``yanked``.
        approvals: Who said yes to this action.
        now: The time at which the policy is asked, with its zone.
    """

    action: str
    name: str
    digest: str
    version: str | None = None
    author: str | None = None
    evidence: tuple[Evidence, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    licence: str | None = None
    stage: str | None = None
    status: str = "active"
    approvals: tuple[Approval, ...] = ()
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        """Refuse what no policy can be asked about: a misspelt action would be one that nothing is required for.

        Raises:
            UsageError: An unknown action, no digest, or a time without a zone.
        """
        found = _ACTION.fullmatch(self.action)
        if not found or found[1] not in PURPOSES or (":" in self.action and found[1] != "promote"):
            msg = f"not an action that a policy knows: {self.action!r} (expected {', '.join(PURPOSES)}, promote:STAGE)"
            raise UsageError(msg)
        Digest.parse(self.digest)
        _aware(self.now, "the time at which a policy is asked")

    @property
    def purpose(self) -> str:
        """The action without the stage."""
        return self.action.partition(":")[0]

    @property
    def reference(self) -> str:
        """How to name it on a command line."""
        return self.name if self.name == self.digest or self.version is None else f"{self.name}:{self.version}"


def _aware(when: datetime, what: str) -> None:
    if when.utcoffset() is None:
        msg = f"{what} has the time {when.isoformat()} without a zone (expected one, such as UTC)"
        raise UsageError(msg)
