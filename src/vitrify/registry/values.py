"""What the registry answers with: frozen values, the same from a file, a database server or over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from vitrify.core.wire import Value

Stage = Literal["development", "staging", "production", "archived"]
STAGES: tuple[Stage, ...] = ("development", "staging", "production", "archived")
"""In the order in which a version passes through them."""

Status = Literal["active", "deprecated", "yanked", "deleted"]
STATUSES: tuple[Status, ...] = ("active", "deprecated", "yanked", "deleted")
"""``deprecated`` still serves and warns, ``yanked`` is refused to whoever does not name it exactly, ``deleted`` keeps
its row and its history and gives up its content."""

Role = Literal["reader", "writer", "approver", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "approver", "admin")


class Model(Value, frozen=True, kw_only=True):
    """A name, and what is said about it.

    Attributes:
        name: Unique in the registry.
        licence: SPDX expression of what its versions may be used for.
        versions: How many versions it has, deleted ones not counted.
        production: The version that is in production, or None.
    """

    name: str
    description: str = ""
    owner: str = ""
    licence: str = ""
    tags: dict[str, str] = {}
    created: datetime
    updated: datetime
    versions: int = 0
    production: str | None = None


class Variant(Value, frozen=True, kw_only=True):
    """One form of a version: the same model in a format.

    Attributes:
        digest: The artifact.
        size: Bytes of its manifest.
        format: Catalog name of its format.
    """

    digest: str
    size: int
    format: str = ""


class Version(Value, frozen=True, kw_only=True):
    """One version of a model. What it pins never changes; what is said about it may.

    Attributes:
        version: ``1.2.0``, or the counter where none was given.
        number: The counter: 1 for a model's first version.
        digest: The source artifact.
        index: The OCI image index that lists source and variants.
        variants: The source first, then what was derived from it and proven.
        author: Who registered it.
        metrics: Figures by name, fixed at registration.
        parameters: Training parameters by name, fixed.
        datasets: Digests or locations of the data by name, fixed.
        commit: The code's git commit, fixed.
        run: What made it, in the maker's own words: a run id, a URL.
        card: The model card, Markdown.
        reason: Why it was deprecated, yanked or deleted.
    """

    model: str
    version: str
    number: int
    digest: str
    index: str
    variants: tuple[Variant, ...]
    stage: Stage
    status: Status
    author: str
    created: datetime
    updated: datetime
    description: str = ""
    tags: dict[str, str] = {}
    metrics: dict[str, float] = {}
    parameters: dict[str, str] = {}
    datasets: dict[str, str] = {}
    commit: str = ""
    run: str = ""
    card: str = ""
    reason: str = ""
    aliases: tuple[str, ...] = ()


class Page(Value, frozen=True, kw_only=True):
    """Some versions, and how to go on."""

    versions: tuple[Version, ...]
    next: str | None = None


class Models(Value, frozen=True, kw_only=True):
    """Some models, and how to go on."""

    models: tuple[Model, ...]
    next: str | None = None


class Decision(Value, frozen=True, kw_only=True):
    """What one approver said."""

    who: str
    verdict: Literal["approve", "reject"]
    comment: str = ""
    when: datetime


class Promotion(Value, frozen=True, kw_only=True):
    """A request to promote a version, with what was said to it.

    Attributes:
        state: ``open`` until it is carried out, rejected, withdrawn or expired.
        missing: What the policy still asks for, as sentences; empty once it is carried out.
    """

    id: int
    model: str
    version: str
    stage: Stage
    author: str
    comment: str = ""
    state: Literal["open", "done", "rejected", "withdrawn", "expired"]
    created: datetime
    expires: datetime
    decisions: tuple[Decision, ...] = ()
    missing: tuple[str, ...] = ()


class Promotions(Value, frozen=True, kw_only=True):
    """Requests to promote, newest first."""

    promotions: tuple[Promotion, ...]


class Event(Value, frozen=True, kw_only=True):
    """One line of the log, chained to the one before by its hash.

    Attributes:
        seq: Its number, from 1, without gaps.
        time: When; never before the event before it, whatever the clock does.
        kind: ``version.staged``; :mod:`vitrify.registry.events` lists them.
        facts: What changed, as JSON; all of the registry's state can be made again from these.
        previous: The hash of the event before it; 64 zeros for the first.
        hash: SHA-256, in hex, over ``previous`` and the canonical JSON of the rest.
    """

    seq: int
    time: datetime
    actor: str
    kind: str
    model: str | None = None
    version: str | None = None
    facts: dict[str, Any] = {}
    previous: str
    hash: str


class Events(Value, frozen=True, kw_only=True):
    """Some of the log, and the number to go on after."""

    events: tuple[Event, ...]
    next: int | None = None


class Head(Value, frozen=True, kw_only=True):
    """The end of the log: whoever keeps it can tell later that nothing before it was changed."""

    seq: int
    hash: str
    time: datetime


class InProduction(Value, frozen=True, kw_only=True):
    """What was in production at a time, who said so, and on which evidence.

    Attributes:
        since: When it came there.
        until: When it left; None while it is there.
        by: Who carried the promotion out.
        approvals: Who approved it.
        evidence: Digests of the attestations that the policy looked at.
        event: The number of the event that put it there.
    """

    model: str
    version: str
    digest: str
    since: datetime
    until: datetime | None
    by: str
    approvals: tuple[Decision, ...] = ()
    evidence: tuple[str, ...] = ()
    event: int


class Attested(Value, frozen=True, kw_only=True):
    """A statement that the registry keeps about a digest: in-toto, or a DSSE envelope around one."""

    digest: str
    subject: str
    predicate_type: str
    created: datetime
    by: str
    content: str


class AttestedList(Value, frozen=True, kw_only=True):
    """Statements about a digest, oldest first."""

    attestations: tuple[Attested, ...]


class Node(Value, frozen=True, kw_only=True):
    """A thing in the lineage; :mod:`vitrify.registry.handlers.lineage` says what the ids look like."""

    id: str
    kind: str
    label: str = ""
    facts: dict[str, Any] = {}


class Edge(Value, frozen=True, kw_only=True):
    """One step of the lineage: ``target`` was made from ``source``."""

    source: str
    target: str
    kind: str
    facts: dict[str, Any] = {}


class Lineage(Value, frozen=True, kw_only=True):
    """A part of the lineage graph around one node."""

    root: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class Deployment(Value, frozen=True, kw_only=True):
    """Where a version runs, or ran."""

    id: int
    model: str
    version: str
    digest: str
    target: str
    started: datetime
    ended: datetime | None = None
    by: str
    facts: dict[str, Any] = {}


class Deployments(Value, frozen=True, kw_only=True):
    """Where versions run, or ran, newest first."""

    deployments: tuple[Deployment, ...]


class Token(Value, frozen=True, kw_only=True):
    """A way in. The secret is shown once, when it is made.

    Attributes:
        models: Globs of the names that it may touch.
    """

    id: str
    who: str
    roles: tuple[Role, ...]
    models: tuple[str, ...] = ("*",)
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    secret: str = ""


class Tokens(Value, frozen=True, kw_only=True):
    """All tokens, without their secrets."""

    tokens: tuple[Token, ...]


class Webhook(Value, frozen=True, kw_only=True):
    """Where events are sent. The secret is shown once, when it is made."""

    id: int
    url: str
    kinds: tuple[str, ...] = ("*",)
    models: tuple[str, ...] = ("*",)
    active: bool = True
    created: datetime
    secret: str = ""


class Webhooks(Value, frozen=True, kw_only=True):
    """All webhooks, without their secrets."""

    webhooks: tuple[Webhook, ...]


class Delivery(Value, frozen=True, kw_only=True):
    """One attempt chain to send one event to one webhook."""

    id: int
    webhook: int
    event: int
    attempts: int
    state: Literal["waiting", "sent", "failed"]
    status: int | None = None
    error: str = ""
    next: datetime | None = None


class Deliveries(Value, frozen=True, kw_only=True):
    """What was sent, newest first."""

    deliveries: tuple[Delivery, ...]


class Explanation(Value, frozen=True, kw_only=True):
    """What a policy says about a version: a report, as JSON."""

    allowed: bool
    report: dict[str, Any]


class Missing(Value, frozen=True, kw_only=True):
    """Digests that the registry has no content of."""

    digests: tuple[str, ...]


class Done(Value, frozen=True, kw_only=True):
    """Nothing to say but that it is done."""
