"""Judging: whether a canary goes on, waits, or is taken back.

It is taken back as soon as it is surely worse than what the settings allow: what chance alone would bring about less
often than once in a thousand times. Where it only looks worse, it waits for more requests. It goes on when its step has
lasted long enough, has seen enough requests, and nothing looks worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from vitrify.serve.lanes import Figures
    from vitrify.serve.rollout.drift import Distance
    from vitrify.serve.settings import CanarySettings

SURE = 1e-3
_TAIL = 0.01
"""One in a hundred requests is slower than the 99th percentile."""
_LEAST = 20
"""Requests of each version before their latencies are compared."""
_SLACK = 1e-3
"""Seconds by which the 99th percentile may be higher in any case: nobody notices them, and every machine has them."""
_CALLERS = frozenset({"SignatureError", "MalformedError", "LimitExceededError", "UsageError", "CancelledError"})
"""Errors that are the caller's fault, whichever version answers."""


@dataclass(frozen=True)
class Side:
    """What one side of a canary has done since its step began.

    Attributes:
        requests: Answered or failed.
        failed: Not answered, for a reason that is not the caller's.
        latencies: Seconds, of the last requests that were answered.
    """

    requests: int = 0
    failed: int = 0
    latencies: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0))

    @property
    def rate(self) -> float:
        """The share that failed."""
        return self.failed / self.requests if self.requests else 0.0

    @property
    def p99(self) -> float:
        """The 99th percentile of the latencies, in seconds; 0 without any."""
        return float(np.quantile(self.latencies, 1 - _TAIL)) if len(self.latencies) else 0.0


@dataclass(frozen=True)
class Verdict:
    """What becomes of a canary.

    Attributes:
        action: What to do.
        cause: In one word: ``waiting``, ``errors``, ``latency``, ``drift``, or ``fine``.
        reason: The same as a sentence, with the figures.
        figures: What it was decided by.
    """

    action: Literal["advance", "hold", "roll back"]
    cause: str
    reason: str
    figures: dict[str, float]


def side(before: Figures, after: Figures, latencies: np.ndarray[Any, Any]) -> Side:
    """Return what was done between two looks at a version's figures."""
    (old_ok, old_failed), (ok, failed) = (_counts(one) for one in (before, after))
    failed = max(0, failed - old_failed)
    return Side(max(0, ok - old_ok) + failed, failed, latencies)


def _counts(figures: Figures) -> tuple[int, int]:
    return figures.ok, sum(count for name, count in figures.failed.items() if name not in _CALLERS)


def judge(old: Side, new: Side, drift: Distance | None, seconds: float, settings: CanarySettings) -> Verdict:
    """Decide about a canary.

    Args:
        old: What the versions did that it is to replace.
        new: What it did.
        drift: How far its predictions are from theirs; None where that is not known, or not asked for.
        seconds: How long the step has lasted.
        settings: What is allowed.
    """
    figures = {
        "seconds": round(seconds, 3),
        "old_requests": old.requests,
        "new_requests": new.requests,
        "old_error_rate": old.rate,
        "new_error_rate": new.rate,
        "old_p99": old.p99,
        "new_p99": new.p99,
        **({} if drift is None else {"drift": drift.value, "drift_noise": drift.noise}),
    }
    findings = [_errors(old, new, settings), _latency(old, new, settings), _drifted(drift, settings)]
    for cause, sure, reason in filter(None, findings):
        if sure:
            return Verdict("roll back", cause, reason, figures)
    if seconds < settings.seconds or new.requests < settings.requests:
        reason = (
            f"{new.requests} requests in {seconds:.0f} s; a step takes {settings.requests} in {settings.seconds:g} s"
        )
        return Verdict("hold", "waiting", reason, figures)
    for cause, _, reason in filter(None, findings):
        return Verdict("hold", cause, f"{reason}; that may be chance, so it waits for more requests", figures)
    return Verdict("advance", "fine", f"{new.requests} requests are no worse than before", figures)


Finding = tuple[str, bool, str]
"""What looks worse, whether that is sure, and a sentence."""


def _errors(old: Side, new: Side, settings: CanarySettings) -> Finding | None:
    allowed = min(1.0, old.rate + settings.errors)
    if new.rate <= allowed:
        return None
    sure = chance(new.failed, new.requests, allowed) < SURE
    return "errors", sure, f"{new.rate:.2%} of the requests failed, before {old.rate:.2%} (at most {allowed:.2%})"


def _latency(old: Side, new: Side, settings: CanarySettings) -> Finding | None:
    if min(len(old.latencies), len(new.latencies)) < _LEAST:
        return None
    limit = max(settings.latency * old.p99, old.p99 + _SLACK)
    slow = int((new.latencies > limit).sum())
    if slow <= _TAIL * len(new.latencies):
        return None
    sure = chance(slow, len(new.latencies), _TAIL) < SURE
    told = f"the 99th percentile is {new.p99 * 1000:.2f} ms, before {old.p99 * 1000:.2f} ms"
    return "latency", sure, f"{told} (at most {limit * 1000:.2f} ms)"


def _drifted(drift: Distance | None, settings: CanarySettings) -> Finding | None:
    if drift is None or not settings.drift or drift.value <= settings.drift:
        return None
    sure = drift.value - drift.noise > settings.drift
    reason = f"the {drift.kind} of output {drift.output!r} is {drift.value:.3f} (at most {settings.drift:g})"
    return "drift", sure, reason


def chance(count: int, of: int, rate: float) -> float:
    """Return how likely it is that at least so many of ``of`` trials hit, each at a rate: the binomial upper tail."""
    if count > of or (rate <= 0 < count):
        return 0.0
    if count <= 0 or rate >= 1:
        return 1.0
    if count < of * rate:  # from the other side: the sum below begins at its largest term
        return 1 - chance(of - count + 1, of, 1 - rate)
    logs = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
    term = math.exp(logs + count * math.log(rate) + (of - count) * math.log1p(-rate))
    total = 0.0
    for hits in range(count, of + 1):
        total += term
        term *= (of - hits) / (hits + 1) * rate / (1 - rate)
        if term <= total * 1e-12:
            break
    return min(1.0, total)
