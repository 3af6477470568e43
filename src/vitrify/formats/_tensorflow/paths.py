"""Where the path that a TensorFlow operator opens comes from.

An honest saved model has operators that read and write files in two places: its saver, whose every path begins with
the file name that whoever saves or restores gives, and tables that are filled from its assets. Both are recognised by
following the path back to where it starts, through the calls of functions, and by nothing else.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vitrify.formats._protos.tensorflow import type_name
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._tensorflow.graph import Operator, Walked

SAVER = {
    "SaveV2": (0,),
    "RestoreV2": (0,),
    "MergeV2Checkpoints": (0, 1),
    "Save": (0,),
    "SaveSlices": (0,),
    "Restore": (0,),
    "RestoreSlice": (0,),
}
"""Operators of a saver, and which of their inputs are paths."""

TABLES = {"InitializeTableFromTextFile": (1,), "InitializeTableFromTextFileV2": (1,)}

_FIRST = frozenset({"Identity", "StringJoin", "ShardedFilename"})
"""Operators whose path begins as their first input does."""

_USES = frozenset({"ReadVariableOp", "AssignVariableOp", "VarIsInitializedOp"})

_PLAIN = re.compile(rb"[A-Za-z0-9_]+")
_ASSET = re.compile(rb"(?:assets/)?[\w-][\w.-]*")
"""What an asset that is a constant may say: a loader that does not replace it opens the file of that name."""

_MAX_STEPS = 200_000
_MAX_DEFAULTS = 10


class Paths:
    """The tensors from which paths may come, and the graph in which they are followed."""

    def __init__(self, walked: Walked, filename: str, assets: frozenset[str]) -> None:
        """Take the names of the saver's file name tensor and of the assets' tensors, both in the main graph."""
        self._walked = walked
        saver = frozenset({_node(filename)} if self._given(_node(filename), _PLAIN) else ())
        inside = frozenset(name for name in assets if self._given(name, _ASSET))
        self._allowed = {**dict.fromkeys(SAVER, saver), **dict.fromkeys(TABLES, inside)}
        self._left = _MAX_STEPS
        self._known: dict[tuple[tuple[str, str], frozenset[str]], bool] = {}

    def honest(self, one: Operator) -> bool:
        """Say whether every path of an operator comes from where it may.

        Raises:
            MalformedError: A part of the graph is not what it should be.
            LimitExceededError: The ways back are longer, or more, than in an honest graph.
        """
        inputs = {**SAVER, **TABLES}.get(one.node.op)
        if inputs is None or any(index >= len(one.node.input) for index in inputs):
            return False
        places = [(one.function, _node(one.node.input[index])) for index in inputs]
        return all(self._good(place, self._allowed[one.node.op]) for place in places)

    def _good(self, place: tuple[str, str], allowed: frozenset[str]) -> bool:
        """Say whether all tensors that a path may start with are allowed; it is found out once a place."""
        key = (place, allowed)
        if key not in self._known:
            starts = list(self._starts(*place, allowed))
            self._known[key] = bool(starts) and all(starts)
        return self._known[key]

    def _given(self, name: str, default: re.Pattern[bytes]) -> bool:
        """Say whether a node of the main graph has no value of its own but, at most, such a text for a default."""
        nodes = self._walked.scope("").nodes if name else {}
        for _ in range(_MAX_DEFAULTS):
            node = nodes.get(name)
            if node is None or node.op != "PlaceholderWithDefault" or not node.input:
                break
            name = _node(node.input[0])
        if node is None or node.op != "Const":
            return node is not None and node.op == "Placeholder"
        texts = self._texts(node)
        return texts is not None and all(default.fullmatch(text) for text in texts)

    def _texts(self, node: Any) -> list[bytes] | None:
        """Return the texts of a constant, none of one of numbers; None where they are packed, or the caller's."""
        value = self._walked.attributes(node).get("value")
        if value is None or value.placeholder:
            return None
        if type_name(value.tensor.dtype) != "string":
            return []
        packed = self._walked.document.size(value.tensor.tensor_content)
        return list(value.tensor.string_val) if value.tensor.string_val and not packed else None

    def _starts(self, function: str, tensor: str, allowed: frozenset[str]) -> Iterator[bool]:
        """Yield for each tensor that a path may start with whether it is one of the allowed."""
        waiting = [(function, tensor)]
        seen: set[tuple[str, str]] = set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            self._step()
            inner, name = place[0], _node(place[1])
            scope = self._walked.scope(inner)
            if not inner and name in allowed:
                yield True
            elif name in scope.nodes and name not in scope.arguments:
                before = self._before(inner, scope.nodes[name])
                if not before:
                    yield False
                waiting += [(inner, one) for one in before]
            elif name in scope.arguments:
                callers = self._passed(inner, scope.arguments.index(name))
                self._step(len(callers))
                if not callers or None in callers:
                    yield False
                waiting += [one for one in callers if one is not None]
            else:
                yield False

    def _step(self, count: int = 1) -> None:
        self._left -= count
        if self._left < 0:
            exceed(self._walked.document.where, "paths that come a longer way than in an honest graph")

    def _before(self, function: str, node: Any) -> list[str]:
        """Return the tensors that a node's path begins with; none where it makes one itself, or climbs."""
        if node.op == "Pack":
            return [one for one in node.input if not one.startswith("^")]
        if node.op == "ReadVariableOp" and not function and node.input:
            return self._assigned(_node(node.input[0]))
        if node.op not in _FIRST or not node.input:
            return []
        return [] if any(self._climbs(function, one) for one in node.input[1:]) else [node.input[0]]

    def _assigned(self, handle: str) -> list[str]:
        """Return all that is ever put into a variable of the main graph; nothing where that cannot be told.

        TensorFlow keeps an asset's path in a variable. It can be told where the variable is used in the main graph
        alone, and no other goes by the same name.
        """
        node = self._walked.scope("").nodes.get(handle)
        if node is None or node.op != "VarHandleOp" or self._variables[self._shared_name(node)] != 1:
            return []
        uses = self._uses.get(handle, [])
        if not {use.op for use in uses} <= _USES:
            return []
        return [use.input[1] for use in uses if use.op == "AssignVariableOp" and len(use.input) > 1]

    @cached_property
    def _uses(self) -> dict[str, list[Any]]:
        """The nodes of the main graph that take each of its variables."""
        nodes = self._walked.scope("").nodes
        found: dict[str, list[Any]] = {name: [] for name, node in nodes.items() if node.op == "VarHandleOp"}
        for node in nodes.values():
            for name in {_node(one) for one in node.input if not one.startswith("^")} & found.keys():
                found[name].append(node)
        return found

    @cached_property
    def _variables(self) -> Counter[bytes]:
        """How many variables go by each name, in functions too."""
        return Counter(self._shared_name(one.node) for one in self._walked.operators() if one.node.op == "VarHandleOp")

    def _shared_name(self, node: Any) -> bytes:
        value = self._walked.attributes(node).get("shared_name")
        return bytes(value.s) if value is not None and value.s else node.name.encode()

    def _climbs(self, function: str, tensor: str) -> bool:
        """Say whether a constant that is appended to a path could lead out of its directory."""
        node = self._walked.scope(function).nodes.get(_node(tensor))
        if node is None or node.op != "Const":
            return False
        texts = self._texts(node)
        return texts is None or any(b".." in text for text in texts)

    def _passed(self, function: str, index: int) -> list[tuple[str, str] | None]:
        """Return what each caller gives for an argument; None where that cannot be told."""
        callers = self._walked.callers.get(function, [])
        return [
            (one.function, one.node.input[index]) if plain and index < len(one.node.input) else None
            for one, plain in callers
        ]


def _node(tensor: str) -> str:
    return tensor.partition(":")[0].lstrip("^")
