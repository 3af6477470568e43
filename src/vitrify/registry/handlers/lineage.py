"""Lineage: from data and code through every conversion to every deployment, in both directions.

Nodes are ``dataset:…``, ``commit:…``, ``artifact:sha256:…``, ``version:NAME:VERSION`` and ``deployment:NUMBER``; an
edge leads from what was there first to what was made from it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import func, select, update

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.registry.database.schema import deployments, edges, models, versions
from vitrify.registry.handlers import find
from vitrify.registry.values import Edge, Lineage, Node

if TYPE_CHECKING:
    from vitrify.registry import requests as r
    from vitrify.registry.work import Work

_MAX_DEPTH = 100
_MAX_NODES = 2000
_CHUNK = 500
_NUMBER = re.compile("[0-9]{1,18}")
"""What every database takes as a number."""
_KINDS = ("dataset", "commit", "artifact", "version", "deployment")


def get(work: Work, request: r.GetLineage) -> Lineage:
    """Return the part of the graph around a node."""
    if not 0 <= request.depth <= _MAX_DEPTH:
        msg = f"lineage is followed for up to {_MAX_DEPTH} steps, not {request.depth}"
        raise UsageError(msg)
    root = _root(work, request.node)
    found: dict[tuple[str, str, str], Edge] = {}
    if request.direction in {"both", "up"}:
        _follow(work, root, request.depth, found, upwards=True)
    if request.direction in {"both", "down"}:
        _follow(work, root, request.depth, found, upwards=False)
    if request.direction == "both" and root.startswith("version:"):
        _forms(work, root, found)
    ids = dict.fromkeys([root, *(end for edge in found.values() for end in (edge.source, edge.target))])
    formats = {
        edge.source if edge.kind == "registered" else edge.target: edge.facts["format"]
        for edge in found.values()
        if edge.facts.get("format")
    }
    nodes = {id_: node for id_ in ids if (node := _node(work, id_, formats)) is not None}
    if root not in nodes:
        msg = f"nothing is known of {request.node!r}"
        raise ReferenceNotFoundError(msg, remedy="name a version (churn:1.2.0), a digest, or a node of its lineage")
    seen = tuple(edge for edge in found.values() if edge.source in nodes and edge.target in nodes)
    return Lineage(root=root, nodes=tuple(nodes.values()), edges=seen)


def _forms(work: Work, root: str, found: dict[tuple[str, str, str], Edge]) -> None:
    """Add the edges from a version's source to its other forms, which are the version as much as the source is."""
    name, _, which = root.removeprefix("version:").partition(":")
    own = {f"artifact:{form.digest}" for form in find.version(work, name, which, deleted=True).value.variants}
    query = (
        select(edges).where(edges.c.source.in_(own), edges.c.target.in_(own)).order_by(edges.c.source, edges.c.target)
    )
    for row in work.connection.execute(query):
        edge = Edge(source=row.source, target=row.target, kind=row.kind, facts=msgspec.json.decode(row.facts))
        found[edge.source, edge.target, edge.kind] = edge


def _follow(work: Work, root: str, depth: int, found: dict[tuple[str, str, str], Edge], *, upwards: bool) -> None:
    """Add the edges that lead to, or from, a node, breadth first."""
    ahead, behind = (edges.c.target, "source") if upwards else (edges.c.source, "target")
    level, seen = [root], {root}
    for _ in range(depth):
        following: list[str] = []
        for start in range(0, len(level), _CHUNK):
            query = (
                select(edges).where(ahead.in_(level[start : start + _CHUNK])).order_by(edges.c.source, edges.c.target)
            )
            for row in work.connection.execute(query):
                edge = Edge(source=row.source, target=row.target, kind=row.kind, facts=msgspec.json.decode(row.facts))
                found[edge.source, edge.target, edge.kind] = edge
                end = getattr(edge, behind)
                if end not in seen:
                    seen.add(end)
                    following.append(end)
        if not following:
            return
        if len(seen) > _MAX_NODES:
            msg = f"the lineage of {root} has more than {_MAX_NODES} nodes within {depth} steps"
            raise UsageError(msg, remedy="ask for fewer steps (--depth), or one direction")
        level = following


def _root(work: Work, node: str) -> str:
    """Return a node's id from what a person calls it."""
    kind, _, rest = node.partition(":")
    if kind == "sha256":
        return f"artifact:{node}"
    if kind in _KINDS[:3] or (kind == "deployment" and _NUMBER.fullmatch(rest)):
        return node
    name, _, which = (rest if kind == "version" else node).partition(":")
    if "@" in name:
        name, _, alias = name.partition("@")
        which = f"@{alias}"
    version = find.version(work, name, which or "latest", deleted=True).value
    return f"version:{version.model}:{version.version}"


def _node(work: Work, id_: str, formats: dict[str, str]) -> Node | None:
    """Return a node with what is known of it; None where the actor may not see it."""
    kind, _, rest = id_.partition(":")
    match kind:
        case "version":
            name, _, which = rest.partition(":")
            return _version(work, id_, name, which) if work.actor.sees(name) else None
        case "deployment":
            return _deployment(work, id_, int(rest))
        case "artifact":
            return Node(id=id_, kind=kind, label=f"{formats.get(id_, '')} {rest[7:19]}".strip())
        case _:
            return Node(id=id_, kind=kind, label=rest)


def _version(work: Work, id_: str, name: str, which: str) -> Node:
    try:
        version = find.version(work, name, which, deleted=True).value
    except ReferenceNotFoundError:  # its model was given up
        return Node(id=id_, kind="version", label=f"{name}:{which}", facts={"status": "deleted"})
    facts = {"stage": version.stage, "status": version.status, "author": version.author}
    label = f"{version.model}:{version.version}"
    return Node(id=id_, kind="version", label=label, facts=facts | {"created": version.created.isoformat()})


def _deployment(work: Work, id_: str, number: int) -> Node | None:
    query = (
        select(deployments, models.c.name)
        .select_from(deployments.join(versions).join(models))
        .where(deployments.c.id == number)
    )
    row = work.connection.execute(query).first()
    if row is None or not work.actor.sees(row.name):
        return None
    facts = {"target": row.target, "running": row.ended is None, "by": row.by}
    return Node(id=id_, kind="deployment", label=row.target, facts=facts)


def renamed(work: Work, old: str, new: str) -> None:
    """Let the nodes of a model's versions follow its new name."""
    before, after = f"version:{old}:", f"version:{new}:"
    for column in (edges.c.source, edges.c.target):
        moved = after + func.substr(column, len(before) + 1)
        work.connection.execute(
            update(edges).where(func.substr(column, 1, len(before)) == before).values({column: moved})
        )
