"""Everything that can be asked of a registry, each as one value.

A request is the same whether a database on this machine answers it or a server far away: the façade
:class:`vitrify.registry.registry.Registry` makes it, a backend carries it out. The decorator says how it travels over
HTTP: fields named in the path stand there (percent-encoded), those of a GET or DELETE in the query, the rest in a
JSON body. Adding an operation is one value here and one function in :mod:`vitrify.registry.handlers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from vitrify.core.wire import Value
from vitrify.registry import values as v
from vitrify.registry.values import Role, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]


class Request(Value, frozen=True, kw_only=True):
    """The root of all requests."""


@dataclass(frozen=True)
class Operation:
    """How one kind of request travels, who may make it, and what comes back."""

    request: type[Request]
    method: Method
    path: str
    role: Role
    answer: type[Value]

    @property
    def writes(self) -> bool:
        """Whether it may change anything."""
        return self.method != "GET"


OPERATIONS: dict[type[Request], Operation] = {}


def operation(method: Method, path: str, role: Role, answer: type[Value]) -> Callable[[type[Request]], type[Request]]:
    """Register a request: what it looks like over HTTP, and which role it needs."""

    def register(request: type[Request]) -> type[Request]:
        OPERATIONS[request] = Operation(request, method, path, role, answer)
        return request

    return register


# Models


@operation("POST", "/v1/models", "writer", v.Model)
class CreateModel(Request, frozen=True, kw_only=True):
    """Make a name. Refused with a conflict where it exists."""

    name: str
    description: str = ""
    owner: str = ""
    licence: str = ""
    tags: dict[str, str] = {}


@operation("GET", "/v1/models/{model}", "reader", v.Model)
class GetModel(Request, frozen=True, kw_only=True):
    """Return one model."""

    model: str


@operation("GET", "/v1/models", "reader", v.Models)
class ListModels(Request, frozen=True, kw_only=True):
    """Return models in the order of their names; ``name`` is a glob."""

    name: str = "*"
    limit: int = 100
    after: str = ""


@operation("PATCH", "/v1/models/{model}", "writer", v.Model)
class UpdateModel(Request, frozen=True, kw_only=True):
    """Change what is said about a model. A tag of None is taken away; others stay."""

    model: str
    description: str | None = None
    owner: str | None = None
    licence: str | None = None
    tags: dict[str, str | None] = {}


@operation("POST", "/v1/models/{model}/rename", "admin", v.Model)
class RenameModel(Request, frozen=True, kw_only=True):
    """Give a model another name; its versions and its history come along."""

    model: str
    name: str


@operation("DELETE", "/v1/models/{model}", "admin", v.Done)
class DeleteModel(Request, frozen=True, kw_only=True):
    """Give a model up. Refused while a version is in production."""

    model: str


# Versions


@operation("POST", "/v1/models/{model}/versions", "writer", v.Version)
class CreateVersion(Request, frozen=True, kw_only=True):
    """Register an artifact as a version. The registry must have its content; the model is made where it is new.

    Attributes:
        version: A semantic version, or None for the counter.
        digest: The source artifact.
        variants: What was derived from it, each with a parity attestation that names both digests.
    """

    model: str
    digest: str
    version: str | None = None
    variants: tuple[str, ...] = ()
    description: str = ""
    tags: dict[str, str] = {}
    metrics: dict[str, float] = {}
    parameters: dict[str, str] = {}
    datasets: dict[str, str] = {}
    commit: str = ""
    run: str = ""
    card: str = ""


@operation("POST", "/v1/models/{model}/versions/{version}/variants", "writer", v.Version)
class AddVariant(Request, frozen=True, kw_only=True):
    """Add a proven variant. Nothing that the version had is changed or taken away."""

    model: str
    version: str
    digest: str


@operation("GET", "/v1/models/{model}/versions/{version}", "reader", v.Version)
class GetVersion(Request, frozen=True, kw_only=True):
    """Return a version: by its version, its counter, ``latest``, ``@alias`` or ``@stage``."""

    model: str
    version: str


@operation("PATCH", "/v1/models/{model}/versions/{version}", "writer", v.Version)
class UpdateVersion(Request, frozen=True, kw_only=True):
    """Change what is said about a version. A tag of None is taken away; others stay."""

    model: str
    version: str
    description: str | None = None
    card: str | None = None
    tags: dict[str, str | None] = {}


@operation("POST", "/v1/models/{model}/versions/{version}/status", "writer", v.Version)
class SetStatus(Request, frozen=True, kw_only=True):
    """Deprecate, yank or restore a version. One in production cannot be yanked."""

    model: str
    version: str
    status: Literal["active", "deprecated", "yanked"]
    reason: str = ""


@operation("DELETE", "/v1/models/{model}/versions/{version}", "admin", v.Done)
class DeleteVersion(Request, frozen=True, kw_only=True):
    """Give a version's content up; its row and history stay, and its name is never given again."""

    model: str
    version: str
    reason: str = ""


@operation("GET", "/v1/versions", "reader", v.Page)
class Search(Request, frozen=True, kw_only=True):
    """Return the versions that a query fits; see :mod:`vitrify.registry.query` for the language.

    Attributes:
        query: ``stage = production and metrics.auc >= 0.9 order by created desc``.
        limit: At most this many, up to 1,000.
        after: What the page before returned as ``next``.
    """

    query: str = ""
    limit: int = 100
    after: str = ""


# Stages, aliases, approvals


@operation("PUT", "/v1/models/{model}/aliases/{alias}", "writer", v.Version)
class SetAlias(Request, frozen=True, kw_only=True):
    """Give a version a free name of its own within its model."""

    model: str
    alias: str
    version: str


@operation("DELETE", "/v1/models/{model}/aliases/{alias}", "writer", v.Done)
class RemoveAlias(Request, frozen=True, kw_only=True):
    """Take an alias away; taking away what is not there is no error."""

    model: str
    alias: str


@operation("POST", "/v1/models/{model}/versions/{version}/promote", "reader", v.Version)
class Promote(Request, frozen=True, kw_only=True):
    """Move a version to a stage now, if role and policy allow it; what was in production is archived.

    Moving to production, or out of it, needs the role ``approver``; any other move ``writer``. Neither includes the
    other, so the handler asks.

    Attributes:
        expected: The version that the caller believes to be in production; a conflict where it is another. None for
            whatever is there, an empty text for none.
    """

    model: str
    version: str
    stage: Stage
    comment: str = ""
    expected: str | None = None


@operation("POST", "/v1/models/{model}/rollback", "approver", v.Version)
class Rollback(Request, frozen=True, kw_only=True):
    """Put the last good version back into production.

    That is the latest which was there before, from which nobody rolled back, and which was neither deprecated nor
    yanked.
    """

    model: str
    comment: str = ""


@operation("POST", "/v1/models/{model}/versions/{version}/promotions", "writer", v.Promotion)
class RequestPromotion(Request, frozen=True, kw_only=True):
    """Ask for a promotion, so that others can approve it."""

    model: str
    version: str
    stage: Stage
    comment: str = ""
    days: float = 7


@operation("POST", "/v1/promotions/{id}/decisions", "approver", v.Promotion)
class Decide(Request, frozen=True, kw_only=True):
    """Approve or reject. Nobody decides on what he wrote or asked for; the last word of each counts."""

    id: int
    verdict: Literal["approve", "reject"]
    comment: str = ""


@operation("POST", "/v1/promotions/{id}/withdraw", "writer", v.Promotion)
class Withdraw(Request, frozen=True, kw_only=True):
    """Take a request back; only who made it, or an admin."""

    id: int


@operation("GET", "/v1/promotions/{id}", "reader", v.Promotion)
class GetPromotion(Request, frozen=True, kw_only=True):
    """Return one request."""

    id: int


@operation("GET", "/v1/promotions", "reader", v.Promotions)
class ListPromotions(Request, frozen=True, kw_only=True):
    """Return requests, newest first."""

    model: str = ""
    state: str = ""
    limit: int = 100


@operation("GET", "/v1/models/{model}/versions/{version}/policy", "reader", v.Explanation)
class Explain(Request, frozen=True, kw_only=True):
    """Say what the policy makes of a version, rule by rule.

    Attributes:
        action: ``promote:production``, ``serve``, ``ship``, ``load``.
    """

    model: str
    version: str
    action: str


# Evidence, lineage, log


@operation("POST", "/v1/attestations", "writer", v.Attested)
class Attach(Request, frozen=True, kw_only=True):
    """Keep a statement about a digest: in-toto JSON, or a DSSE envelope around it. Twice is once."""

    subject: str
    content: str


@operation("GET", "/v1/attestations/{subject}", "reader", v.AttestedList)
class ListAttestations(Request, frozen=True, kw_only=True):
    """Return the statements about a digest, oldest first."""

    subject: str


@operation("GET", "/v1/lineage/{node}", "reader", v.Lineage)
class GetLineage(Request, frozen=True, kw_only=True):
    """Return what a node was made from, and what was made from it.

    Attributes:
        node: A node's id, or a digest, or ``name:version``.
        depth: Steps in each direction, up to 100.
    """

    node: str
    direction: Literal["both", "up", "down"] = "both"
    depth: int = 20


@operation("POST", "/v1/models/{model}/versions/{version}/deployments", "writer", v.Deployment)
class Deploy(Request, frozen=True, kw_only=True):
    """Say that a version runs somewhere from now on; the policy for ``serve`` is asked."""

    model: str
    version: str
    target: str
    facts: dict[str, Any] = {}


@operation("POST", "/v1/deployments/{id}/end", "writer", v.Deployment)
class EndDeployment(Request, frozen=True, kw_only=True):
    """Say that it does not run there any more."""

    id: int


@operation("GET", "/v1/deployments", "reader", v.Deployments)
class ListDeployments(Request, frozen=True, kw_only=True):
    """Return where versions run, newest first.

    Attributes:
        model: Of this model only.
        target: On this target only.
        ended: Whether those that do not run any more come, too.
        limit: At most this many, up to 1,000.
    """

    model: str = ""
    target: str = ""
    ended: bool = False
    limit: int = 100


@operation("GET", "/v1/events", "reader", v.Events)
class ListEvents(Request, frozen=True, kw_only=True):
    """Return the log in its order, after an event's number."""

    after: int = 0
    limit: int = 100
    model: str = ""
    kind: str = ""


@operation("GET", "/v1/events/head", "reader", v.Head)
class GetHead(Request, frozen=True, kw_only=True):
    """Return the end of the log."""


@operation("GET", "/v1/models/{model}/production", "reader", v.InProduction)
class ProductionAt(Request, frozen=True, kw_only=True):
    """Return what was in production at a time; now, where none is given."""

    model: str
    at: datetime | None = None


# Content


@operation("POST", "/v1/missing", "reader", v.Missing)
class FindMissing(Request, frozen=True, kw_only=True):
    """Return which of these digests the registry has no content of, so that only those are uploaded."""

    digests: tuple[str, ...]


# Administration


@operation("POST", "/v1/tokens", "admin", v.Token)
class CreateToken(Request, frozen=True, kw_only=True):
    """Make a token; the answer has its secret, which nobody can be told again."""

    who: str
    roles: tuple[Role, ...]
    models: tuple[str, ...] = ("*",)
    days: float | None = 90


@operation("GET", "/v1/tokens", "admin", v.Tokens)
class ListTokens(Request, frozen=True, kw_only=True):
    """Return every token, without its secret."""


@operation("DELETE", "/v1/tokens/{id}", "admin", v.Done)
class RevokeToken(Request, frozen=True, kw_only=True):
    """Refuse a token from now on."""

    id: str


@operation("POST", "/v1/webhooks", "admin", v.Webhook)
class CreateWebhook(Request, frozen=True, kw_only=True):
    """Send events somewhere; the answer has the secret that signs them."""

    url: str
    kinds: tuple[str, ...] = ("*",)
    models: tuple[str, ...] = ("*",)


@operation("GET", "/v1/webhooks", "admin", v.Webhooks)
class ListWebhooks(Request, frozen=True, kw_only=True):
    """Return every webhook, without its secret."""


@operation("DELETE", "/v1/webhooks/{id}", "admin", v.Done)
class DeleteWebhook(Request, frozen=True, kw_only=True):
    """Send nothing there any more."""

    id: int


@operation("GET", "/v1/webhooks/{id}/deliveries", "admin", v.Deliveries)
class ListDeliveries(Request, frozen=True, kw_only=True):
    """Return what was sent to a webhook, newest first."""

    id: int
    limit: int = 100
