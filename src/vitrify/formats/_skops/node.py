"""The tree between bytes and model: inert nodes, and their JSON form in ``schema.json``.

The form is that of skops 0.16, protocol 2 (``skops/io/_general.py``, ``_numpy.py``, ``_scipy.py``, ``_sklearn.py``).
It is a table here: what a node of each loader has below it, and where in the JSON that stands. A node that
appears twice is written once and afterwards named by its ``__id__``, which skops reads as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow
from vitrify.formats._skops import sparse
from vitrify.reading import npy
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.zip import Zip
    from vitrify.reading.zip_writer import Packer

SCHEMA = "schema.json"
PROTOCOL = 2
SKOPS_VERSION = "0.16.0"
"""The release whose files ours are like."""

MAX_SCHEMA_BYTES = 512 * 1024 * 1024
MAX_DEPTH = 180
"""Nodes below each other: what Python's own stack holds. scikit-learn's models stay below 40."""
_MAX_JSON = 4 * MAX_DEPTH
"""Levels of JSON: a node in a node is at most four of them further down."""


@dataclass(slots=True, eq=False)
class Node:
    """One value of the model.

    Attributes:
        loader: skops's name for the kind of node.
        module: Module of the value's class (or of the function).
        name: Name in that module.
        children: The nodes below, in the order in which skops visits them.
        raw: Plain JSON that belongs to the node.
        content: What its member of the archive holds (writing only).
        shared: Whether it appears more than once (writing only).
    """

    loader: str
    module: str
    name: str
    children: list[Node] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    content: Any = None
    shared: bool = False

    @property
    def dotted(self) -> str:
        """The class's or function's full name."""
        return f"{self.module}.{self.name}"

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, each once."""
        seen = {id(self)}
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            for child in reversed(node.children):
                if id(child) not in seen:
                    seen.add(id(child))
                    waiting.append(child)


@dataclass(frozen=True)
class _Layout:
    """Where a node's parts stand in its JSON.

    Attributes:
        children: Paths of single nodes; with a question mark where the node may be missing.
        items: Path of a list of nodes, which come before the single ones.
        values: Path of an object of nodes, which come after the single ones; its keys are ``raw["keys"]``.
        raw: Paths of plain JSON.
        suffix: File name ending of its member in the archive.
    """

    children: tuple[str, ...] = ()
    items: str | None = None
    values: str | None = None
    raw: tuple[str, ...] = ()
    suffix: str | None = None


_ITEMS = _Layout(items="content")
_NAME = _Layout()
_REDUCED = _Layout(children=("content", "__reduce__.args"))

_LAYOUTS = {
    "JsonNode": _Layout(raw=("content",)),
    "ListNode": _ITEMS,
    "TupleNode": _ITEMS,
    "SetNode": _ITEMS,
    "DictNode": _Layout(children=("key_types",), values="content"),
    "DefaultDictNode": _Layout(children=("content.main", "content.default_factory")),
    "BytesNode": _Layout(suffix="bin"),
    "BytearrayNode": _Layout(suffix="bin"),
    "SliceNode": _Layout(raw=("content.start", "content.stop", "content.step")),
    "FunctionNode": _NAME,
    "TypeNode": _NAME,
    "MethodNode": _Layout(children=("content.obj",), raw=("content.func",)),
    "PartialNode": _Layout(children=("content.func", "content.args", "content.kwds", "content.namespace")),
    "ConstructorFromReduceNode": _Layout(children=("content",)),
    "ObjectNode": _Layout(children=("content?",)),
    "OperatorFuncNode": _Layout(children=("attrs",)),
    "NdArrayNode": _Layout(raw=("type",), suffix="npy"),
    "NdArrayNode of objects": _Layout(items="content", children=("shape",), raw=("type",)),
    "MaskedArrayNode": _Layout(children=("content.data", "content.mask", "content.fill_value?")),
    "DTypeNode": _Layout(children=("content",)),
    "RandomStateNode": _Layout(children=("content",)),
    "RandomGeneratorNode": _Layout(children=("content.bit_generator", "content.seed_seq?")),
    "SparseMatrixNode": _Layout(raw=("type",), suffix="npz"),
    "TreeNode": _REDUCED,
    "LossNode": _REDUCED,
    "QuantileForestNode": _REDUCED,
}


def write(root: Node, packer: Packer) -> None:
    """Write a tree: each array and byte string as a member, then the schema."""
    state = {**_Encoder(packer).encode(root), "protocol": PROTOCOL, "_skops_version": SKOPS_VERSION}
    packer.add(SCHEMA, [json.dumps(state, separators=(",", ":")).encode("ascii")])


def read(archive: Zip, *, where: str) -> Node:
    """Parse the schema into a tree. Nothing it names is looked up.

    Raises:
        MalformedError: It is not what skops writes in protocol 0, 1 or 2.
    """
    content = archive.read(SCHEMA)
    if content.nbytes > MAX_SCHEMA_BYTES:
        msg = f"{where}: {SCHEMA} has {content.nbytes} bytes, more than {MAX_SCHEMA_BYTES}"
        raise MalformedError(msg)
    try:
        state = json.loads(shallow(bytes(content), _MAX_JSON))
    except (ValueError, RecursionError) as error:
        msg = f"{where}: {SCHEMA} is not valid JSON ({error})"
        raise MalformedError(msg) from error
    protocol = state.get("protocol") if isinstance(state, dict) else None
    if type(protocol) is not int or not 0 <= protocol <= PROTOCOL:
        msg = f"{where}: protocol {protocol!r} (expected 0 to {PROTOCOL})"
        raise MalformedError(msg, remedy="a newer protocol needs a newer Vitrify")
    return _Decoder(where).decode(state, 0)


class _Encoder:
    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._ids: dict[int, int] = {}
        self._members = 0

    def encode(self, node: Node) -> dict[str, Any]:
        if known := self._ids.get(id(node)):
            return {"__id__": known}
        state: dict[str, Any] = {"__class__": node.name, "__module__": node.module, "__loader__": node.loader}
        if node.loader == "JsonNode":  # nearly all nodes of a large vocabulary: worth a shorter way
            return {**state, **node.raw}
        layout = _LAYOUTS[_kind(node.loader, node.raw)]
        for path in layout.raw:
            _put(state, path, node.raw[path.rpartition(".")[2]])
        single = len(layout.children)
        if layout.items:
            split = len(node.children) - single
            _put(state, layout.items, [self.encode(child) for child in node.children[:split]])
            singles = node.children[split:]
        else:
            singles = node.children[:single]
        for path, child in zip(layout.children, singles, strict=False):  # those with a question mark may be missing
            _put(state, path.rstrip("?"), self.encode(child))
        if layout.values:
            values = zip(node.raw["keys"], node.children[single:], strict=True)
            _put(state, layout.values, {key: self.encode(child) for key, child in values})
        if layout.suffix:
            state["file"] = self._member(node, layout.suffix)
        if node.shared:
            # After its children, as skops counts: a number is known once its node is complete.
            state["__id__"] = self._ids[id(node)] = len(self._ids) + 1
        return state

    def _member(self, node: Node, suffix: str) -> str:
        name = f"{self._members}.{suffix}"
        self._members += 1
        match suffix:
            case "npy":
                self._packer.add(name, npy.encode(node.content))
            case "npz":
                self._packer.add(name, [sparse.encode(node.content)])
            case _:
                self._packer.add(name, [node.content])
        return name


class _Decoder:
    def __init__(self, where: str) -> None:
        self._where = where
        self._known: dict[Any, Node] = {}

    def decode(self, state: Any, depth: int) -> Node:
        if not isinstance(state, dict):
            refuse(self._where, f"a node is no JSON object but {type(state).__name__}")
        key = state.get("__id__")
        if key is not None and not isinstance(key, int):
            refuse(self._where, f"an __id__ that is no number: {key!r:.40}")
        if key in self._known:
            return self._known[key]
        if depth > MAX_DEPTH:
            refuse(self._where, f"nodes are nested deeper than {MAX_DEPTH}")
        loader, module, name = state.get("__loader__"), state.get("__module__"), state.get("__class__")
        if loader == "JsonNode":  # nearly all nodes of a large vocabulary: worth a shorter way
            return Node("JsonNode", "builtins", "str", raw={"content": state.get("content")})
        if loader is None or loader == "CachedNode":
            refuse(self._where, f"a node refers to the id {key!r}, which is not complete before it")
        layout = _LAYOUTS.get(_kind(loader, state)) if isinstance(loader, str) else None
        if layout is None:
            refuse(self._where, f"a node with the unknown loader {loader!r:.60}")
        node = Node(str(loader), *self._plain(module, name))
        self._fill(node, layout, state, depth + 1)
        if key is not None:
            self._known[key] = node
        return node

    def _fill(self, node: Node, layout: _Layout, state: dict[str, Any], depth: int) -> None:
        node.raw = {path.rpartition(".")[2]: self._get(state, path) for path in layout.raw}
        if layout.suffix:
            node.raw["file"] = self._typed(self._get(state, "file"), str)
        if layout.items:
            items = self._typed(self._get(state, layout.items), list)
            node.children += [self.decode(item, depth) for item in items]
        for path in layout.children:
            if (child := self._get(state, path)) is not None:
                node.children.append(self.decode(child, depth))
        if layout.values:
            values = self._typed(self._get(state, layout.values), dict)
            node.raw["keys"] = list(values)
            node.children += [self.decode(value, depth) for value in values.values()]

    def _get(self, state: dict[str, Any], path: str) -> Any:
        value: Any = state
        for part in path.rstrip("?").split("."):
            if not isinstance(value, dict) or part not in value:
                if path.endswith("?"):
                    return None
                refuse(self._where, f"a {state['__loader__']} without {path!r}")
            value = value[part]
        return value

    def _typed(self, value: Any, cls: type) -> Any:
        if not isinstance(value, cls):
            refuse(self._where, f"{value!r:.60} where a {cls.__name__} was expected")
        return value

    def _plain(self, module: Any, name: Any) -> tuple[str, str]:
        """Take a plain name in a plain module only: a dotted one reaches into objects (``os.system`` by ``sys``)."""
        plain = isinstance(module, str) and isinstance(name, str) and name.isidentifier()
        if not plain or not all(part.isidentifier() for part in module.split(".")):
            refuse(self._where, f"{name!r:.60} in module {module!r:.60} is not a plain name")
        return module, name


def _kind(loader: str, raw: dict[str, Any]) -> str:
    return "NdArrayNode of objects" if loader == "NdArrayNode" and raw.get("type") == "json" else loader


def _put(state: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        state = state.setdefault(parent, {})
    state[last] = value
