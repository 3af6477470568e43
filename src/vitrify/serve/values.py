"""What a server is asked, and what it answers: independent of any protocol and of how the bytes travel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.protocols import Arrays

NORMAL = 0
"""The priority of a request that names none."""


@dataclass(frozen=True, slots=True)
class Infer:
    """One request for one model.

    Attributes:
        model: The name that it is served by.
        version: Which version must answer; empty where the rollout decides.
        inputs: By field name, in the session's form (:data:`vitrify.core.protocols.Arrays`), not yet matched with the
            signature.
        outputs: Which outputs to return, in this order; empty for all.
        id: The caller's name for the request; empty for none.
        parameters: What else the caller said, as JSON.
        deadline: By ``time.monotonic()``: an answer after it is of no use, so the model is not run then.
        priority: 0 is normal; 1 comes before everything else, then 2, 3 ...; normal comes last. As in Triton, where 1
            is the highest level.
        client: Who asks, by the name of its token; empty for nobody in particular.
        key: What sticky assignment goes by; empty where each request is assigned by chance.
    """

    model: str
    inputs: Arrays
    version: str = ""
    outputs: tuple[str, ...] = ()
    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    deadline: float = math.inf
    priority: int = NORMAL
    client: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What one model version answered.

    Attributes:
        model: The name that it is served by.
        version: Which version made it.
        outputs: By name, in the order that was asked for.
        id: As in the request.
        digest: The artifact's.
        parameters: What the model or the server says beside the outputs, as JSON.
        waited: Seconds in the queue; None where the lane does not tell.
        computed: Seconds from there to the answer; likewise.
    """

    model: str
    version: str
    outputs: Arrays
    id: str = ""
    digest: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    waited: float | None = field(default=None, compare=False)
    computed: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Part:
    """The share of one request in a batch that was run.

    Attributes:
        id: The request's.
        client: Who asked.
        rows: How many of the batch's rows are of it; they lie one after the other, in the order of the parts.
        waited: Seconds in the queue.
    """

    id: str
    client: str
    rows: int
    waited: float


@dataclass(frozen=True)
class Done:
    """One batch that a model has answered, for whoever watches: the prediction log, shadow traffic, a canary.

    Attributes:
        model: The name that it is served by.
        version: Which version.
        digest: The artifact's.
        inputs: Of all rows. They are only good until the watcher returns: copy what is kept.
        outputs: Of all rows; likewise.
        told: Returns the requests in it, while the watcher has not returned; ask :attr:`parts`.
        seconds: How long the model took.
        whole: Whether that is all the version gives, and not only what was asked for.
    """

    model: str
    version: str
    digest: str
    inputs: Arrays
    outputs: Arrays
    told: Callable[[], tuple[Part, ...]]
    seconds: float
    whole: bool = True

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The requests in it; nobody who does not ask pays for them."""
        return self.told()
