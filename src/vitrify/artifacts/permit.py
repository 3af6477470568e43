"""Permit: the one place at which this machine's policy is asked before anything of an artifact runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.trust import policy_place

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.trust.policy import Facts, Policy


def permit(artifact: Artifact, action: str = "load") -> None:
    """Return if the policy of this machine allows an action, or there is none.

    Raises:
        DeniedError: A rule does not hold.
        StoreError: The policy cannot be read.
        MalformedError: It is no policy.
        ForgedError: An attestation has a signature in the name of a key that counts, which does not hold.
    """
    if policy_place.find() is None:
        return
    from vitrify.trust.policy import default_policy, require

    policy = default_policy()
    assert policy is not None
    for facts in facts_of(artifact, action, policy):
        require(policy, facts)


def facts_of(artifact: Artifact, action: str, policy: Policy) -> tuple[Facts, ...]:
    """Return what the store knows about an artifact, once for each name that the policy has to be asked about.

    That is the name that it was opened by. Who opens it by its digest gets around no requirement: then it is every
    name that the store has for it, or the digest itself where there is none.
    """
    from vitrify.trust.evidence import gather
    from vitrify.trust.policy import Facts

    digest = str(artifact.digest)
    evidence = gather(artifact.store, artifact.digest, policy.public_keys)
    names = [artifact.name] if artifact.name else _names(artifact)
    pairs = [name.partition(":")[::2] for name in names] or [(digest, "")]
    return tuple(
        Facts(action=action, name=name, digest=digest, version=version or None, evidence=evidence)
        for name, version in pairs
    )


def _names(artifact: Artifact) -> list[str]:
    return sorted(name for name, target in artifact.store.names.all().items() if target.content == artifact.digest)
