"""Expected rows: the columns of each table that the log decides, long text as its hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

_LONG = 48


def short(value: Any) -> Any:
    """Return a value as it is compared: long text as its SHA-256."""
    return hashlib.sha256(value.encode()).digest() if isinstance(value, str) and len(value) > _LONG else value


@dataclass(slots=True)
class ModelRow:
    """A row of ``models``; ``created`` is its key, since no two are made in one transaction."""

    name: str
    description: Any
    owner: Any
    licence: Any
    tags: Any
    created: int
    updated: int
    counter: int = 0
    live: int = 0
    deleted: int | None = None


@dataclass(slots=True)
class VersionRow:
    """A row of ``versions``; the model's key and ``number`` are its key."""

    version: str
    number: int
    digest: Any
    index_digest: Any
    variants: Any
    content: Any
    author: Any
    created: int
    updated: int
    description: Any
    tags: Any
    metrics: Any
    parameters: Any
    datasets: Any
    commit_id: Any
    run: Any
    card: Any
    stage: str = "development"
    status: str = "active"
    reason: Any = ""
    aliases: Any = "[]"


@dataclass(slots=True)
class ProductionRow:
    """A row of ``productions``; its event is its key."""

    model: int
    version: tuple[int, int]
    since: int
    until: int | None = None
    rolled_back: int = 0


@dataclass(slots=True)
class PromotionRow:
    """A row of ``promotions``."""

    version: tuple[int, int]
    stage: str
    author: Any
    comment: Any
    created: int
    expires: int
    state: str = "open"


@dataclass(slots=True)
class DecisionRow:
    """A row of ``decisions``."""

    verdict: str
    comment: Any
    time: int


@dataclass(slots=True)
class AttestationRow:
    """A row of ``attestations``."""

    predicate_type: Any
    created: int
    by: Any


@dataclass(slots=True)
class DeploymentRow:
    """A row of ``deployments``."""

    version: tuple[int, int]
    target: Any
    started: int
    by: Any
    facts: Any
    ended: int | None = None


@dataclass(slots=True)
class TokenRow:
    """A row of ``tokens``."""

    secret: Any
    who: Any
    roles: Any
    models: Any
    created: int
    expires: int | None
    revoked: int | None = None


@dataclass(slots=True)
class WebhookRow:
    """A row of ``webhooks``."""

    secret: Any
    url: Any
    kinds: Any
    models: Any
    created: int
    deleted: int | None = None
