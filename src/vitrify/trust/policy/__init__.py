"""Policy: a question asked of what is known about a model, the same at every place.

>>> policy = Policy.load("policy.toml")                                        # doctest: +SKIP
>>> facts = Facts(action="serve", name="churn", digest=str(digest),            # doctest: +SKIP
...               evidence=gather(store, digest, policy.public_keys))
>>> print(evaluate(policy, facts))                                             # every rule and what it saw
>>> require(policy, facts)                                                     # or DeniedError

``default_policy`` returns this machine's, or None where it has none and everything is allowed.

Evidence counts where it is about this very digest and, if the policy asks for signatures, a key that counts for this
name, purpose and moment has signed it. Of each kind the newest that counts decides. The rules are in :mod:`.rules`,
the file in :mod:`.document`.
"""

from __future__ import annotations

from vitrify.trust.policy.document import Policy, Requirement, TrustedKey
from vitrify.trust.policy.evaluate import default_policy, evaluate, require
from vitrify.trust.policy.facts import Approval, Facts

__all__ = ["Approval", "Facts", "Policy", "Requirement", "TrustedKey", "default_policy", "evaluate", "require"]
