"""What a tree would use: every name in it, before anything is constructed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError
from vitrify.pickles import names as trust
from vitrify.pickles.names import Name, Use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._skops.node import Node

BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})
OPERATORS = frozenset({"attrgetter", "itemgetter", "methodcaller"})

_INERT = frozenset({"JsonNode", "BytesNode", "BytearrayNode", "SliceNode", "DTypeNode", "SparseMatrixNode"})
"""Loaders that construct one fixed class whatever name the node bears."""

_PLAIN = {
    "ListNode": frozenset({"builtins.list"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "SetNode": frozenset({"builtins.set"}),
    "NdArrayNode": frozenset({"numpy.ndarray", "numpy.memmap"}),
}
"""Names at which a loader makes what it always makes: a memory-mapped array is read as a plain one."""

_USES: dict[str, Use] = {
    "ListNode": "call",
    "SetNode": "call",
    "DictNode": "call",
    "DefaultDictNode": "call",
    "PartialNode": "call",
    "ConstructorFromReduceNode": "call",
    "MaskedArrayNode": "call",
    "RandomStateNode": "call",
    "RandomGeneratorNode": "call",
    "OperatorFuncNode": "call",
    "TreeNode": "call",
    "LossNode": "call",
    "QuantileForestNode": "call",
    "TupleNode": "state",
    "ObjectNode": "state",
    "NdArrayNode": "refer",
    "FunctionNode": "refer",
    "TypeNode": "refer",
}


def names(root: Node, *, where: str) -> set[Name]:
    """Return every name that the tree uses, and how.

    Raises:
        MalformedError: A node bears a name that its loader cannot have.
    """
    found: set[Name] = set()
    for node in root.walk():
        if node.loader not in _INERT:
            found.update(_names(node, where))
    return found


def _names(node: Node, where: str) -> Iterator[Name]:
    match node.loader:
        case loader if node.dotted in _PLAIN.get(loader, ()):
            return
        case "MethodNode":
            yield _method(node, where)
            return
        case "OperatorFuncNode" if node.module != "operator" or node.name not in OPERATORS:
            raise _mismatch(node, where, f"operator.{{{', '.join(sorted(OPERATORS))}}}")
        case "TreeNode" if node.dotted != trust.TREE:
            raise _mismatch(node, where, trust.TREE)
        case "LossNode" if node.dotted not in trust.LOSSES:
            raise _mismatch(node, where, "a loss of scikit-learn")
        case "RandomGeneratorNode":
            _check_bit_generator(node, where)
        case _:
            pass
    yield Name(node.module, node.name, _USES[node.loader])


def _method(node: Node, where: str) -> Name:
    """A bound method needs a permission of its own, named ``module.Class.method``."""
    (owner,) = node.children
    method = node.raw["func"]
    if owner.dotted != node.dotted or not isinstance(method, str) or not method.isidentifier():
        raise _mismatch(node, where, f"a method of the {owner.dotted} below it")
    return Name(node.dotted, method, "call")


def _check_bit_generator(node: Node, where: str) -> None:
    """NumPy looks its bit generator up by a name that stands as plain text in the state."""
    state = node.children[0]
    try:
        index = state.raw["keys"].index("bit_generator") + 1
        name = json.loads(state.children[index].raw["content"])
    except (KeyError, ValueError, TypeError, IndexError):
        name = None
    if name not in BIT_GENERATORS:
        raise _mismatch(node, where, f"one of {', '.join(sorted(BIT_GENERATORS))}, not {name!r:.60}")


def _mismatch(node: Node, where: str, expected: str) -> MalformedError:
    msg = f"{where}: a {node.loader} named {node.dotted} (expected {expected})"
    return MalformedError(msg, remedy="do not use this file: no honest writer makes such a node")
