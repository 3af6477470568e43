"""How each request is carried out: one function a request, all of one noun in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.registry import content
from vitrify.registry import requests as r
from vitrify.registry.handlers import (
    aliases,
    approvals,
    deployments,
    evidence,
    explain,
    lineage,
    log,
    models,
    search,
    stages,
    stock,
    tokens,
    versions,
    webhooks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.core.wire import Value
    from vitrify.registry.blobs import Blobs
    from vitrify.registry.work import Work

HANDLERS: dict[type[r.Request], Callable[[Work, Any], Value]] = {
    r.CreateModel: models.create,
    r.GetModel: models.get,
    r.ListModels: models.list_,
    r.UpdateModel: models.change,
    r.RenameModel: models.rename,
    r.DeleteModel: models.delete,
    r.CreateVersion: versions.create,
    r.AddVariant: versions.vary,
    r.GetVersion: versions.get,
    r.UpdateVersion: versions.change,
    r.SetStatus: versions.set_status,
    r.DeleteVersion: versions.remove,
    r.Search: search.search,
    r.SetAlias: aliases.set_,
    r.RemoveAlias: aliases.remove,
    r.Promote: stages.promote,
    r.Rollback: stages.rollback,
    r.RequestPromotion: approvals.request,
    r.Decide: approvals.decide,
    r.Withdraw: approvals.withdraw,
    r.GetPromotion: approvals.get,
    r.ListPromotions: approvals.list_,
    r.Explain: explain.explain,
    r.Attach: evidence.attach,
    r.ListAttestations: evidence.list_,
    r.GetLineage: lineage.get,
    r.Deploy: deployments.start,
    r.EndDeployment: deployments.end,
    r.ListDeployments: deployments.list_,
    r.ListEvents: log.list_,
    r.GetHead: log.get_head,
    r.ProductionAt: log.production_at,
    r.FindMissing: stock.missing,
    r.CreateToken: tokens.create,
    r.ListTokens: tokens.list_,
    r.RevokeToken: tokens.revoke,
    r.CreateWebhook: webhooks.create,
    r.ListWebhooks: webhooks.list_,
    r.DeleteWebhook: webhooks.delete,
    r.ListDeliveries: webhooks.deliveries,
}


GLANCES = frozenset({r.GetVersion, r.GetModel, r.Search, r.GetHead, r.ListEvents})
"""What one statement answers, or a second that may see what was changed since."""


def prepare(blobs: Blobs, read: Callable[[r.Request], Value], request: r.Request) -> content.Pinned | None:
    """Read the content that a request pins, before its transaction: that may be slow, and a lock is held after."""
    match request:
        case r.CreateVersion():
            return content.pin(blobs, (request.digest, *request.variants))
        case r.AddVariant():
            version: Any = read(r.GetVersion(model=request.model, version=request.version))
            return content.pin(blobs, (*(variant.digest for variant in version.variants), request.digest))
        case _:
            return None


__all__ = ["GLANCES", "HANDLERS", "prepare"]
