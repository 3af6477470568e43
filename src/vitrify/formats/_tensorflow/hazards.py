"""What a TensorFlow graph could do to whoever loads or runs it.

* ``custom-operator``: an operator that TensorFlow does not register comes from a library of native code.
* ``python-operator``, ``file-operator``, ``network-operator``, ``native-operator``: an operator that reaches out of the
  graph. A saver that reads and writes where it is told to, and a table that is filled from an asset, are honest.
* ``opaque-operator``: ``not checked``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.formats._tensorflow.operators import ONLY_WITH, OPAQUE, known, reach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._tensorflow.graph import Operator, Walked
    from vitrify.formats._tensorflow.paths import Paths


def hazards(walked: Walked, paths: Paths) -> Iterator[Finding]:
    """Yield each hazard, an operator once a kind.

    Raises:
        MalformedError: A part of the graph is not what it should be.
        LimitExceededError: It has more parts than an honest graph.
    """
    seen: set[str] = set()
    for one in walked.operators():
        name = one.node.op
        if name in seen or (name in walked.functions and reach(name) is None):
            continue
        for finding in _operator(walked, paths, one):
            seen.add(name)
            yield finding


def _operator(walked: Walked, paths: Paths, one: Operator) -> Iterator[Finding]:
    name, place = one.node.op, f"{walked.document.where}: {one.place}"
    found = reach(name)
    if name in OPAQUE:
        yield Finding(
            place=place, rule="opaque-operator", subject=name, message=f"{name} {OPAQUE[name]}", verdict="not checked"
        )
    elif not known(name):
        yield Finding(
            place=place,
            rule="custom-operator",
            subject=name,
            message=f"{name} is no operator of TensorFlow: it runs code of a library that would have to be loaded",
            remedy="allow it by this exact name if you know the library",
        )
    elif found is not None and _reaches(walked, one) and not paths.honest(one):
        yield Finding(
            place=place,
            rule=found.rule,
            subject=name,
            message=f"{name} {found.does}",
            remedy="do not load it unless you know why it has to",
        )


def _reaches(walked: Walked, one: Operator) -> bool:
    if one.node.op not in ONLY_WITH:
        return True
    key, pattern = ONLY_WITH[one.node.op]
    value = walked.attributes(one.node).get(key)
    if value is None:
        return False
    return bool(value.placeholder) or any(pattern.search(held) for held in (value.s, *value.list.s))
