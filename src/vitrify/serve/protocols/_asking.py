"""Asking: what every REST protocol makes of a call, whatever its body says."""

from __future__ import annotations

import asyncio
import math
import time
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from vitrify.containers import output_fields
from vitrify.core.errors import ReferenceNotFoundError, UnavailableError
from vitrify.serve.ports import port
from vitrify.serve.values import NORMAL, Infer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Engine, Served
    from vitrify.serve.ports import Port
    from vitrify.serve.values import Reply
    from vitrify.serve.web import Call

    P = ParamSpec("P")
    T = TypeVar("T")

STICKY = "x-vitrify-key"
"""The header by which requests are assigned to one version: the same key, the same version."""
MICROSECONDS = 1e6
LARGE = 1 << 20
"""Bytes that are not read or written in the event loop: other requests would wait for it."""


def ask(
    call: Call,
    model: str,
    inputs: Arrays,
    *,
    version: str = "",
    outputs: tuple[str, ...] = (),
    id_: str = "",
    parameters: Mapping[str, Any] | None = None,
    timeout_us: int = 0,
    priority: int = NORMAL,
    key: str = "",
) -> Infer:
    """Return the request of a call. Of two deadlines, the earlier counts."""
    own = time.monotonic() + timeout_us / MICROSECONDS if timeout_us else math.inf
    return Infer(
        model=model,
        inputs=inputs,
        version=version,
        outputs=outputs,
        id=id_,
        parameters=parameters or {},
        deadline=min(call.deadline, own),
        priority=priority,
        client=call.client,
        key=key or call.headers.get(STICKY, ""),
    )


def askable(engine: Engine, model: str, version: str = "") -> Served:
    """Return the version by whose signature a request is read.

    Raises:
        ReferenceNotFoundError: No such model or version is served.
        UnavailableError: It was never loaded, so that nobody knows its signature.
    """
    served = engine.served(model, version)
    if not served.signature.inputs and served.state != "READY":
        msg = f"model {model!r} is not loaded" + (f": {served.reason}" if served.reason else "")
        raise UnavailableError(msg)
    return served


def answered(engine: Engine, reply: Reply) -> dict[str, Port]:
    """Return what the outputs of a reply are; where the version was replaced meanwhile, what the arrays say."""
    try:
        known = {one.name: one for one in engine.served(reply.model, reply.version).outputs}
    except ReferenceNotFoundError:
        known = {}
    others = {name: array for name, array in reply.outputs.items() if name not in known}
    return {**known, **{field.name: port(field) for field in output_fields(others, None)}}


def made_by(reply: Reply) -> dict[str, str]:
    """Return the headers that name what made an answer, for protocols that have no place for it."""
    return {"x-model-version": reply.version, "x-model-digest": reply.digest}


async def aside(size: int, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function, in a thread where there are many bytes to be read or written."""
    if size <= LARGE:
        return function(*args, **options)
    return await asyncio.to_thread(function, *args, **options)


def size_of(reply: Reply) -> int:
    """Return how many bytes the outputs of a reply have, about."""
    return sum(array.nbytes for array in reply.outputs.values())


@cache
def own_version() -> str:
    """Return the version of this library."""
    from importlib import metadata  # takes as long as all that the protocols import

    return metadata.version("vitrify")


def versions(engine: Engine, model: str) -> tuple[Served, ...]:
    """Return every version of a model, the newest first.

    Raises:
        ReferenceNotFoundError: No such model is served.
    """
    found = [one for one in engine.index() if one.name == model]
    if not found:
        names = sorted({one.name for one in engine.index()})
        known = f"there are: {', '.join(names[:20])}" if names else "none is served"
        msg = f"no model is called {model[:100]!r} ({known})"
        raise ReferenceNotFoundError(msg)
    return tuple(sorted(found, key=lambda one: one.number, reverse=True))
