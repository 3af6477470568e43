"""What a file of PyTorch says about itself, for people: tensors, ties, classes; no number is read."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.formats import _facts
from vitrify.formats._torch.elements import SIZES
from vitrify.pickles import inert
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.formats._torch.checkpoint import Checkpoint
    from vitrify.formats._torch.tensors import Stored

_MAX_SCALARS = 100
_MAX_TEXT = 200


def of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what a checkpoint says.

    Raises:
        MalformedError: Its pickle, or a tensor in it, is none.
    """
    for found in checkpoint.findings:
        if found.rule == "malformed-tensor":
            refuse(found.place, found.message)
    if checkpoint.audit.error is not None:
        raise checkpoint.audit.error
    root = checkpoint.audit.root
    names = sorted({name.dotted for name in checkpoint.audit.names})
    untrusted = sorted({found.subject for found in checkpoint.findings if found.rule == "untrusted-global"})
    kind = root.dotted if isinstance(root, inert.Call) else _NAMES.get(type(root), type(root).__name__)
    return {
        "library": "torch",
        "layout": checkpoint.layout,
        "class": kind,
        "protocol": checkpoint.audit.protocol,
        **checkpoint.facts,
        **listed(checkpoint.tensors),
        "values": _scalars(root),
        "devices": dict(Counter(one.location for one in checkpoint.dialect.storages.values()).most_common()),
        "uses": names,
        "needs": untrusted,
        "code": bool(untrusted),
    }


_NAMES = {inert.Dict: "dict", inert.Group: "set", inert.Global: "global"}


def listed(tensors: Iterable[Stored]) -> dict[str, Any]:
    """Return the tensors, each once, with their totals; ``tied`` is the others that are the same numbers."""
    first: dict[tuple[Any, ...], str] = {}
    tied: dict[str, str] = {}
    rows = []
    for one in tensors:
        if one.key in first:
            tied[one.name] = first[one.key]
            continue
        first[one.key] = one.name
        rows.append(_facts.tensor(one.name, one.type, one.shape, math.prod(one.shape) * SIZES[one.type]))
    return {**_facts.weights(rows), "tied": tied}


def _scalars(root: Any) -> dict[str, Any]:
    """Return the plain values of a checkpoint's own keys: its epoch, its best score, its version."""
    if not isinstance(root, inert.Dict):
        return {}
    found = {key[:_MAX_TEXT]: value for key, value in root.items() if type(value) in {bool, int, str}}
    kept = {key: value for key, value in found.items() if not isinstance(value, int) or abs(value) < 2**63}
    return {
        key: value[:_MAX_TEXT] if isinstance(value, str) else value for key, value in list(kept.items())[:_MAX_SCALARS]
    }
