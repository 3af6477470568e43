"""Registry: the one face of the system of record, whatever stands behind it.

>>> registry = open_registry()                                    # doctest: +SKIP
>>> version = registry.register("churn", artifact, metrics={"auc": 0.93})   # doctest: +SKIP
>>> registry.promote("churn", version.version, "production")      # doctest: +SKIP
>>> registry.pull("churn@production", store)                      # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vitrify.core.attestation import PROVENANCE, SLSA
from vitrify.core.digest import Digest
from vitrify.core.errors import UsageError
from vitrify.core.progress import track
from vitrify.core.wire import Value
from vitrify.registry import requests as r
from vitrify.registry import values as v
from vitrify.registry.transfer import closure_of, fetch, statements_of
from vitrify.trust import provenance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vitrify.artifacts.artifact import Artifact
    from vitrify.registry.backend import Backend
    from vitrify.registry.values import Stage
    from vitrify.stores.oci_layout import OciLayout

A = TypeVar("A", bound=Value)

_PAGE = 1000


@dataclass(frozen=True)
class Registry:
    """Names, versions, stages, approvals, evidence, lineage and log of models.

    Every verb is one request to the backend, all of it or nothing. ``which`` is a version, its counter, ``latest``,
    ``@alias`` or ``@stage``. Every verb raises ReferenceNotFoundError for what is not there, DeniedError for what role
    or policy do not allow, ConflictError where somebody else was first, UnavailableError where nobody answers.

    Attributes:
        backend: A database here, or a server.
    """

    backend: Backend

    def do(self, request: r.Request) -> Any:
        """Carry one request out; the typed verbs below are shorter."""
        return self.backend.do(request)

    def close(self) -> None:
        """Let go of connections."""
        self.backend.close()

    def register(
        self,
        model: str,
        artifact: Artifact,
        *,
        version: str | None = None,
        variants: Sequence[Artifact] = (),
        **about: Any,
    ) -> v.Version:
        """Upload an artifact, its variants and the evidence about them, and register it as a version.

        Args:
            model: The name; made where it is new.
            artifact: The source.
            version: A semantic version; the counter where none is given.
            variants: What was converted from it, with the parity attestations that prove them.
            about: Fields of :class:`vitrify.registry.requests.CreateVersion`: ``description``, ``tags``, ``metrics``,
                ``parameters``, ``datasets``, ``commit`` (by default the provenance's), ``run``, ``card``.
        """
        for one in (artifact, *variants):
            self.upload(one)
        digests = tuple(str(one.digest) for one in variants)
        about.setdefault("commit", _commit(artifact))
        return self._ask(
            v.Version,
            r.CreateVersion(model=model, digest=str(artifact.digest), version=version, variants=digests, **about),
        )

    def add_variant(self, model: str, which: str, artifact: Artifact) -> v.Version:
        """Add a variant that was converted from a version's source, with its proof."""
        self.upload(artifact)
        return self._ask(v.Version, r.AddVariant(model=model, version=which, digest=str(artifact.digest)))

    def upload(self, artifact: Artifact) -> None:
        """Send what the registry does not have of an artifact, and the statements about it."""
        with artifact.store.kept():
            blobs = closure_of(artifact.store, artifact.digest)
            missing = self.do(r.FindMissing(digests=tuple(map(str, blobs)))).digests
            with track("uploading", len(missing)) as bar:
                for text in missing:
                    digest = Digest.parse(text)
                    self.backend.upload(digest, artifact.store.blob(digest))
                    bar.advance()
            for statement in statements_of(artifact.store, artifact.digest):
                self.attach(str(artifact.digest), statement)

    def pull(
        self,
        model: str,
        which: str,
        store: OciLayout,
        *,
        format: str | None = None,  # noqa: A002 (the field's word)
        name: str | None = None,
    ) -> Digest:
        """Bring a version's source, or its variant in a format, into a store, with the statements about it.

        It gets ``name`` there; by default the model's, with the version behind a colon.

        Raises:
            UsageError: It has no variant in that format.
            CorruptError: What came is not what the digest promises; nothing is kept.
        """
        version = self.version(model, which)
        return fetch(self, store, Digest.parse(_variant(version, format)), name or f"{model}:{version.version}")

    # Models

    def create_model(self, name: str, **about: Any) -> v.Model:
        """Make a name; ``about`` are fields of :class:`vitrify.registry.requests.CreateModel`."""
        return self._ask(v.Model, r.CreateModel(name=name, **about))

    def model(self, name: str) -> v.Model:
        """Return one model."""
        return self._ask(v.Model, r.GetModel(model=name))

    def models(self, name: str = "*") -> Iterator[v.Model]:
        """Yield the models whose name fits a glob, in the order of their names."""
        after: str | None = ""
        while after is not None:
            page = self.do(r.ListModels(name=name, limit=_PAGE, after=after))
            yield from page.models
            after = page.next

    def update_model(self, name: str, **changes: Any) -> v.Model:
        """Change what is said about a model: ``description``, ``owner``, ``licence``, ``tags``."""
        return self._ask(v.Model, r.UpdateModel(model=name, **changes))

    def rename_model(self, name: str, new: str) -> v.Model:
        """Give a model another name; its versions and its history come along."""
        return self._ask(v.Model, r.RenameModel(model=name, name=new))

    def delete_model(self, name: str) -> None:
        """Give a model up."""
        self.do(r.DeleteModel(model=name))

    # Versions

    def version(self, model: str, which: str = "latest") -> v.Version:
        """Return one version."""
        return self._ask(v.Version, r.GetVersion(model=model, version=which))

    def search(self, query: str = "", limit: int | None = None) -> Iterator[v.Version]:
        """Yield the versions that a query fits; :mod:`vitrify.registry.query` is the language."""
        after: str | None = ""
        left = limit
        while after is not None and left != 0:
            page = self.do(r.Search(query=query, limit=min(left or _PAGE, _PAGE), after=after))
            yield from page.versions
            after, left = page.next, None if left is None else left - len(page.versions)

    def update_version(self, model: str, which: str, **changes: Any) -> v.Version:
        """Change what is said about a version: ``description``, ``card``, ``tags``."""
        return self._ask(v.Version, r.UpdateVersion(model=model, version=which, **changes))

    def set_status(self, model: str, which: str, status: Any, reason: str = "") -> v.Version:
        """Deprecate, yank or restore a version."""
        return self._ask(v.Version, r.SetStatus(model=model, version=which, status=status, reason=reason))

    def delete_version(self, model: str, which: str, reason: str = "") -> None:
        """Give a version's content up; its history stays."""
        self.do(r.DeleteVersion(model=model, version=which, reason=reason))

    def set_alias(self, model: str, alias: str, which: str) -> v.Version:
        """Give a version a free name of its own."""
        return self._ask(v.Version, r.SetAlias(model=model, alias=alias, version=which))

    def remove_alias(self, model: str, alias: str) -> None:
        """Take an alias away."""
        self.do(r.RemoveAlias(model=model, alias=alias))

    # Stages and approvals

    def promote(
        self, model: str, which: str, stage: Stage, comment: str = "", *, expected: str | None = None
    ) -> v.Version:
        """Move a version to a stage now, if role and policy allow it."""
        return self._ask(
            v.Version, r.Promote(model=model, version=which, stage=stage, comment=comment, expected=expected)
        )

    def rollback(self, model: str, comment: str = "") -> v.Version:
        """Put the last good version back into production."""
        return self._ask(v.Version, r.Rollback(model=model, comment=comment))

    def request_promotion(
        self, model: str, which: str, stage: Stage, comment: str = "", days: float = 7
    ) -> v.Promotion:
        """Ask for a promotion, so that others can approve it."""
        return self._ask(
            v.Promotion, r.RequestPromotion(model=model, version=which, stage=stage, comment=comment, days=days)
        )

    def decide(self, id: int, verdict: Any, comment: str = "") -> v.Promotion:  # noqa: A002 (the field's word)
        """Approve or reject a request."""
        return self._ask(v.Promotion, r.Decide(id=id, verdict=verdict, comment=comment))

    def withdraw(self, id: int) -> v.Promotion:  # noqa: A002 (the field's word)
        """Take a request back."""
        return self._ask(v.Promotion, r.Withdraw(id=id))

    def promotions(self, model: str = "", state: str = "") -> tuple[v.Promotion, ...]:
        """Return requests, newest first."""
        return self._ask(v.Promotions, r.ListPromotions(model=model, state=state, limit=_PAGE)).promotions

    def explain(self, model: str, which: str, action: str) -> v.Explanation:
        """Say what the policy makes of a version, rule by rule."""
        return self._ask(v.Explanation, r.Explain(model=model, version=which, action=action))

    # Evidence, lineage, log

    def attach(self, subject: str, statement: bytes) -> v.Attested:
        """Keep a statement about a digest."""
        return self._ask(v.Attested, r.Attach(subject=subject, content=statement.decode()))

    def attestations(self, subject: str) -> tuple[v.Attested, ...]:
        """Return the statements about a digest, oldest first."""
        return self._ask(v.AttestedList, r.ListAttestations(subject=subject)).attestations

    def lineage(self, node: str, direction: Any = "both", depth: int = 20) -> v.Lineage:
        """Return what a node was made from, and what was made from it."""
        return self._ask(v.Lineage, r.GetLineage(node=node, direction=direction, depth=depth))

    def deploy(self, model: str, which: str, target: str, **facts: Any) -> v.Deployment:
        """Say that a version runs somewhere from now on."""
        return self._ask(v.Deployment, r.Deploy(model=model, version=which, target=target, facts=facts))

    def end_deployment(self, id: int) -> v.Deployment:  # noqa: A002 (the field's word)
        """Say that it does not run there any more."""
        return self._ask(v.Deployment, r.EndDeployment(id=id))

    def deployments(self, model: str = "", target: str = "", *, ended: bool = False) -> tuple[v.Deployment, ...]:
        """Return where versions run, newest first; with those that do not run any more, where they are asked for."""
        request = r.ListDeployments(model=model, target=target, ended=ended, limit=_PAGE)
        return self._ask(v.Deployments, request).deployments

    def events(self, model: str = "", kind: str = "", after: int = 0) -> Iterator[v.Event]:
        """Yield the log in its order."""
        following: int | None = after
        while following is not None:
            page = self.do(r.ListEvents(after=following, limit=_PAGE, model=model, kind=kind))
            yield from page.events
            following = page.next

    def head(self) -> v.Head:
        """Return the end of the log."""
        return self._ask(v.Head, r.GetHead())

    def production_at(self, model: str, at: datetime | None = None) -> v.InProduction:
        """Return what was in production at a time, who approved it, and on which evidence."""
        return self._ask(v.InProduction, r.ProductionAt(model=model, at=at))

    def _ask(self, answer: type[A], request: r.Request) -> A:
        found = self.backend.do(request)
        assert isinstance(found, answer)
        return found


def _commit(artifact: Artifact) -> str:
    """Return the git commit that the newest provenance of an artifact names; an empty text for none."""
    made = [one.predicate for one in artifact.attestations if one.predicate_type in {SLSA, PROVENANCE}]
    return provenance.read(made[-1]).commit if made else ""


def _variant(version: v.Version, wanted: str | None) -> str:
    if wanted is None:
        return version.digest
    for variant in version.variants:
        if variant.format == wanted:
            return variant.digest
    there = ", ".join(variant.format for variant in version.variants)
    msg = f"{version.model}:{version.version} has no variant in the format {wanted!r} (it has: {there})"
    added = f"vitrify variant add REFERENCE {version.model}:{version.version}"
    raise UsageError(msg, remedy=f"convert it (vitrify convert --to {wanted}), then: {added}")
