"""State: what the tables must hold, made again from the log alone, event by event.

What is held in memory grows with the number of rows, and not with what people wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.registry.audit.expected import (
    AttestationRow,
    DecisionRow,
    DeploymentRow,
    ModelRow,
    ProductionRow,
    PromotionRow,
    TokenRow,
    VersionRow,
    WebhookRow,
    short,
)
from vitrify.registry.edges import of_deployment, of_variants, of_version
from vitrify.registry.events import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vitrify.registry.edges import Step as Edge


@dataclass(slots=True)
class Step:
    """An event as it is followed; of a kind that is about a model, ``model`` is a name."""

    seq: int
    time: int
    actor: str
    kind: str
    model: str
    version: str
    facts: dict[str, Any]


@dataclass
class State:
    """Every row that the log decides, by its key.

    Attributes:
        aliases: By model, the number of the version that each alias leads to.
        names: The key of the model that has a name now.
        given_up: How far the versions of a name that was given up were counted.
        numbers: The number of a model's version, by its name.
        serving: By model, the event that put a version into production which is there now.
        left: By model, the same of the version that was there last.
    """

    models: dict[int, ModelRow] = field(default_factory=dict)
    versions: dict[tuple[int, int], VersionRow] = field(default_factory=dict)
    aliases: dict[int, dict[str, int]] = field(default_factory=dict)
    productions: dict[int, ProductionRow] = field(default_factory=dict)
    promotions: dict[int, PromotionRow] = field(default_factory=dict)
    decisions: dict[tuple[int, str], DecisionRow] = field(default_factory=dict)
    attestations: dict[tuple[str, str], AttestationRow] = field(default_factory=dict)
    deployments: dict[int, DeploymentRow] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    tokens: dict[str, TokenRow] = field(default_factory=dict)
    webhooks: dict[int, WebhookRow] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    given_up: dict[str, int] = field(default_factory=dict)
    numbers: dict[tuple[int, str], int] = field(default_factory=dict)
    serving: dict[int, int] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)

    def apply(self, event: Step) -> None:
        """Follow one event.

        Raises:
            LookupError, TypeError, ValueError, AttributeError: It does not fit what came before it, or its facts are
                not those of its kind.
        """
        if (rule := _RULES.get(event.kind)) is not None:
            rule(self, event)


def _model(state: State, event: Step) -> ModelRow:
    return state.models[state.names[event.model]]


def _version_key(state: State, event: Step) -> tuple[int, int]:
    model = state.names[event.model]
    return model, state.numbers[model, event.version]


def _model_created(state: State, event: Step) -> None:
    facts = event.facts
    if event.model in state.names or event.time in state.models:
        raise ValueError(event.model)
    state.models[event.time] = ModelRow(
        name=event.model,
        tags=short(canonical(facts["tags"])),
        created=event.time,
        updated=event.time,
        counter=state.given_up.get(event.model, 0),
        **{name: short(facts[name]) for name in ("description", "owner", "licence")},
    )
    state.names[event.model] = event.time


def _model_updated(state: State, event: Step) -> None:
    _change(_model(state, event), event, ("description", "owner", "licence", "tags"))


def _model_renamed(state: State, event: Step) -> None:
    model, new = _model(state, event), str(event.facts["to"])
    state.names[new] = state.names.pop(event.model)
    model.name, model.updated = new, event.time
    old = f"version:{event.model}:"

    def follow(node: str) -> str:
        return f"version:{new}:{node[len(old) :]}" if node.startswith(old) else node

    state.edges = {(follow(a), follow(b), kind): facts for (a, b, kind), facts in state.edges.items()}


def _model_deleted(state: State, event: Step) -> None:
    model = _model(state, event)
    model.deleted = model.updated = event.time
    del state.names[event.model]
    state.given_up[event.model] = max(state.given_up.get(event.model, 0), model.counter)


def _version_created(state: State, event: Step) -> None:
    facts, key = event.facts, state.names[event.model]
    model = state.models[key]
    number = model.counter = model.counter + 1
    if facts["number"] != number or (key, event.version) in state.numbers:
        raise ValueError(event.version)
    model.live += 1
    model.updated = event.time
    state.numbers[key, event.version] = number
    state.versions[key, number] = VersionRow(
        version=event.version,
        number=number,
        digest=short(facts["digest"]),
        index_digest=short(facts["index"]),
        variants=short(canonical(facts["variants"])),
        content=short(facts["content"]),
        author=short(event.actor),
        created=event.time,
        updated=event.time,
        commit_id=short(facts["commit"]),
        **{name: short(canonical(facts[name])) for name in ("tags", "metrics", "parameters", "datasets")},
        **{name: short(facts[name]) for name in ("description", "run", "card")},
    )
    _link(state, of_version(event.model, event.version, facts))


def _version_varied(state: State, event: Step) -> None:
    version = state.versions[_version_key(state, event)]
    version.index_digest = short(event.facts["index"])
    version.variants = short(canonical(event.facts["variants"]))
    version.content = short(event.facts["content"])
    version.updated = event.time
    _link(state, of_variants(event.facts))


def _version_updated(state: State, event: Step) -> None:
    _change(state.versions[_version_key(state, event)], event, ("description", "card", "tags"))


def _version_status(state: State, event: Step) -> None:
    version = state.versions[_version_key(state, event)]
    version.status, version.reason = event.facts["status"], short(event.facts["reason"])
    version.updated = event.time


def _version_deleted(state: State, event: Step) -> None:
    key = _version_key(state, event)
    version = state.versions[key]
    version.status, version.stage, version.aliases = "deleted", "archived", "[]"
    version.reason, version.updated = short(event.facts["reason"]), event.time
    state.models[key[0]].live -= 1
    own = state.aliases.get(key[0], {})
    for alias in [alias for alias, number in own.items() if number == key[1]]:
        del own[alias]


def _version_staged(state: State, event: Step) -> None:
    key, facts = _version_key(state, event), event.facts
    version = state.versions[key]
    if version.stage != facts["from"]:
        raise ValueError(facts["from"])
    version.stage, version.updated = facts["to"], event.time
    if facts["from"] == "production":
        state.left[key[0]] = left = state.serving.pop(key[0])
        state.productions[left].until = event.time
    if facts.get("rolled_back") is not None:
        state.productions[state.left[key[0]]].rolled_back = 1
    if facts["to"] == "production":
        if key[0] in state.serving:
            raise ValueError(event.version)
        state.serving[key[0]] = event.seq
        state.productions[event.seq] = ProductionRow(key[0], key, event.time)


def _alias_set(state: State, event: Step) -> None:
    model, number = _version_key(state, event)
    own = state.aliases.setdefault(model, {})
    before = own.get(event.facts["alias"])
    own[event.facts["alias"]] = number
    for changed in {before, number} - {None}:
        _renew(state, model, changed, event.time)


def _alias_removed(state: State, event: Step) -> None:
    model = state.names[event.model]
    _renew(state, model, state.aliases[model].pop(event.facts["alias"]), event.time)


def _renew(state: State, model: int, number: Any, time: int) -> None:
    own = sorted(alias for alias, leads in state.aliases[model].items() if leads == number)
    version = state.versions[model, number]
    version.aliases, version.updated = short(canonical(own)), time


def _promotion_requested(state: State, event: Step) -> None:
    facts = event.facts
    state.promotions[facts["id"]] = PromotionRow(
        version=_version_key(state, event),
        stage=facts["stage"],
        author=short(event.actor),
        comment=short(facts["comment"]),
        created=event.time,
        expires=facts["expires"],
    )


def _promotion_decided(state: State, event: Step) -> None:
    facts = event.facts
    if state.promotions[facts["id"]].state != "open":
        raise ValueError(facts["id"])
    said = DecisionRow(facts["verdict"], short(facts["comment"]), event.time)
    state.decisions[facts["id"], event.actor] = said


def _promotion_closed(state: State, event: Step) -> None:
    state.promotions[event.facts["id"]].state = event.facts["state"]


def _attested(state: State, event: Step) -> None:
    facts = event.facts
    row = AttestationRow(short(facts["predicate_type"]), event.time, short(event.actor))
    state.attestations[facts["subject"], facts["digest"]] = row


def _deployed(state: State, event: Step) -> None:
    facts = event.facts
    own = short(canonical(facts["facts"]))
    key = _version_key(state, event)
    state.deployments[facts["id"]] = DeploymentRow(key, short(facts["target"]), event.time, short(event.actor), own)
    _link(state, of_deployment(event.model, event.version, facts))


def _deployment_ended(state: State, event: Step) -> None:
    state.deployments[event.facts["id"]].ended = event.time


def _link(state: State, found: Iterable[Edge]) -> None:
    for source, target, kind, facts in found:
        state.edges.setdefault((source, target, kind), short(canonical(facts)))


def _token_created(state: State, event: Step) -> None:
    facts = event.facts
    state.tokens[facts["id"]] = TokenRow(
        secret=short(facts["secret"]),
        who=short(facts["who"]),
        roles=short(canonical(facts["roles"])),
        models=short(canonical(facts["models"])),
        created=event.time,
        expires=facts["expires"],
    )


def _token_revoked(state: State, event: Step) -> None:
    state.tokens[event.facts["id"]].revoked = event.time


def _webhook_created(state: State, event: Step) -> None:
    facts = event.facts
    state.webhooks[facts["id"]] = WebhookRow(
        secret=short(facts["secret"]),
        url=short(facts["url"]),
        kinds=short(canonical(facts["kinds"])),
        models=short(canonical(facts["models"])),
        created=event.time,
    )


def _webhook_deleted(state: State, event: Step) -> None:
    state.webhooks[event.facts["id"]].deleted = event.time


def _change(row: Any, event: Step, names: tuple[str, ...]) -> None:
    for name, value in event.facts.items():
        if name not in names:
            raise ValueError(name)
        setattr(row, name, short(canonical(value) if isinstance(value, dict) else value))
    row.updated = event.time


_RULES: dict[str, Callable[[State, Step], None]] = {
    "model.created": _model_created,
    "model.updated": _model_updated,
    "model.renamed": _model_renamed,
    "model.deleted": _model_deleted,
    "version.created": _version_created,
    "version.varied": _version_varied,
    "version.updated": _version_updated,
    "version.status": _version_status,
    "version.deleted": _version_deleted,
    "version.staged": _version_staged,
    "alias.set": _alias_set,
    "alias.removed": _alias_removed,
    "promotion.requested": _promotion_requested,
    "promotion.decided": _promotion_decided,
    "promotion.closed": _promotion_closed,
    "attestation.attached": _attested,
    "deployment.started": _deployed,
    "deployment.ended": _deployment_ended,
    "token.created": _token_created,
    "token.revoked": _token_revoked,
    "webhook.created": _webhook_created,
    "webhook.deleted": _webhook_deleted,
}
