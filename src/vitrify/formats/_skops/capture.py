"""From a live model to a tree of nodes. Everything that cannot be kept is collected, none of it is called."""

from __future__ import annotations

import collections
import copyreg
import functools
import json
import operator
import re
import types
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.formats._skops import sparse
from vitrify.formats._skops.node import MAX_DEPTH, Node
from vitrify.pickles import names as trust
from vitrify.reading import npy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_DEPTH = MAX_DEPTH // 3
"""One value makes at most three nodes below each other."""

_ATOMS = frozenset({str, int, float, bool, type(None)})
_MAPPINGS = frozenset({"builtins.dict", "collections.OrderedDict", "collections.Counter", "sklearn.utils._bunch.Bunch"})
_KEYS = (str, int, float, np.str_, np.integer, np.floating)
"""Keys that a JSON object can hold and give back; booleans and None come back wrong."""

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.mean), type(functools.cache(len)))
_OPERATORS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_DRAWS = tuple(f"scipy.stats._distn_infrastructure.rv_{kind}_frozen" for kind in ("continuous", "discrete"))
_NEW: Any = copyreg.__newobj__  # type: ignore[attr-defined]  # pickle's own, which the stubs leave out
_MODULE = "move it to the top level of a module that can be imported, or save with format='pickle'"


class Capture:
    """Turns one model into nodes; ``problems`` then lists what cannot be kept, by its path in the model."""

    def __init__(self) -> None:
        """Start empty."""
        self.problems: list[Finding] = []
        self._nodes: dict[int, Node] = {}
        self._alive: list[Any] = []
        self._open: set[int] = set()

    def node(self, value: Any, path: str) -> Node:
        """Return the node of a value; the same object gives the same node."""
        if type(value) in _ATOMS:
            return self._atom(value, path)
        if known := self._nodes.get(id(value)):
            known.shared = True
            return known
        if id(value) in self._open:
            return self._problem(path, "it refers back to an object that it is part of", "take the cycle out")
        if len(self._open) >= _MAX_DEPTH:
            return self._problem(path, f"it is nested deeper than {_MAX_DEPTH}", "save with format='pickle'")
        self._open.add(id(value))
        node = self._capture(value, path)
        self._open.discard(id(value))
        # An id is good for as long as its object lives: a temporary one must outlast the capture.
        self._alive.append(value)
        self._nodes[id(value)] = node
        return node

    def _capture(self, value: Any, path: str) -> Node:
        cls = type(value)
        if capture := self._EXACT.get(_dotted(cls)):
            return capture(self, value, path)
        for kind, capture in self._KINDS:
            if isinstance(value, kind):
                return capture(self, value, path)
        if cls.__module__.startswith("scipy.sparse") and hasattr(value, "nnz"):
            return self._sparse(value, path)
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            return self._named("TupleNode", cls, path, self._items(value, path))
        return self._object(value, path)

    def _atom(self, value: Any, path: str) -> Node:
        try:
            text = str(value) if type(value) is int else json.dumps(value)
        except ValueError as error:  # an integer of more digits than Python writes
            return self._problem(path, str(error), "save with format='pickle'")
        return Node("JsonNode", "builtins", "str", raw={"content": text})

    def _items(self, values: Iterable[Any], path: str) -> list[Node]:
        return [self.node(value, f"{path}[{index}]") for index, value in enumerate(values)]

    def _list(self, value: list[Any], path: str) -> Node:
        return Node("ListNode", "builtins", "list", self._items(value, path))

    def _tuple(self, value: tuple[Any, ...], path: str) -> Node:
        if value and type(value[0]) is str:
            # A step: (name, estimator, ...). Its place among the steps says enough.
            places = [path, path, *(f"{path}[{index}]" for index in range(2, len(value)))]
        else:
            places = [f"{path}[{index}]" for index in range(len(value))]
        items = [
            self.node(item, place) for item, place in zip(value, places, strict=False)
        ]  # a step may be a name only
        return Node("TupleNode", "builtins", "tuple", items)

    def _set(self, value: set[Any], path: str) -> Node:
        return Node("SetNode", "builtins", "set", self._sorted(value, path))

    def _frozenset(self, value: frozenset[Any], path: str) -> Node:
        items = Node("ListNode", "builtins", "list", self._sorted(value, path))
        return _call("builtins", "frozenset", [items])

    def _sorted(self, value: Iterable[Any], path: str) -> list[Node]:
        """A set has no order: its members are written in that of their JSON, so that it is always the same."""
        members = [(member, f"{path}{{{member!r:.40}}}") for member in value]
        return sorted((self.node(member, where) for member, where in members), key=_sort_key)

    def _mapping(self, value: dict[Any, Any], path: str) -> Node:
        keys = [key.item() if isinstance(key, np.generic) else key for key in value]
        texts = [key if isinstance(key, str) else json.dumps(key) for key in keys if isinstance(key, _KEYS)]
        plain = all(isinstance(key, _KEYS) and type(key) is not bool for key in value)
        values = [self.node(item, _member(path, key)) for key, item in value.items()] if plain else []
        if not plain or len(set(texts)) != len(texts):
            pairs = self.node([list(pair) for pair in value.items()], path)
            args = [_call("builtins", "dict", [pairs])] if isinstance(value, collections.Counter) else [pairs]
            return _call(type(value).__module__, type(value).__name__, args)
        kinds = Node("ListNode", "builtins", "list", [self.node(type(key), path) for key in value])
        children = [kinds, *values]
        return Node("DictNode", type(value).__module__, type(value).__name__, children, {"keys": texts})

    def _defaultdict(self, value: collections.defaultdict[Any, Any], path: str) -> Node:
        children = [self._mapping(dict(value), path), self.node(value.default_factory, f"{path}.default_factory")]
        return Node("DefaultDictNode", "collections", "defaultdict", children)

    def _bytes(self, value: bytes | bytearray, _path: str) -> Node:
        loader = "BytesNode" if isinstance(value, bytes) else "BytearrayNode"
        return Node(loader, "builtins", type(value).__name__, content=value)

    def _slice(self, value: slice, path: str) -> Node:
        parts = {part: getattr(value, part) for part in ("start", "stop", "step")}
        raw = {part: item.item() if isinstance(item, np.generic) else item for part, item in parts.items()}
        if any(type(item) not in _ATOMS for item in raw.values()):
            return self._problem(path, f"a slice with other ends than numbers and text: {value!r:.80}")
        return Node("SliceNode", "builtins", "slice", raw=raw)

    def _scalar(self, value: complex | range, path: str) -> Node:
        args = [value.real, value.imag] if isinstance(value, complex) else [value.start, value.stop, value.step]
        return _call("builtins", type(value).__name__, self._items(args, path))

    def _pattern(self, value: re.Pattern[Any], path: str) -> Node:
        return _call("re", "compile", self._items([value.pattern, int(value.flags) & ~int(re.DEBUG)], path))

    def _array(self, value: np.ndarray[Any, Any] | np.generic, path: str) -> Node:
        module, name = "numpy", "ndarray"
        if isinstance(value, np.generic) or type(value) in {np.matrix, np.recarray}:
            module, name = type(value).__module__, type(value).__name__
        elif type(value) not in {np.ndarray, np.memmap}:
            return self._problem(path, f"an array of class {type(value).__qualname__}", "use a plain numpy.ndarray")
        if value.dtype.kind == "O":
            items = self._items(np.asarray(value).tolist(), path) if value.ndim else [self.node(value.item(), path)]
            children = [*items, self.node(value.shape, path)]
            return Node("NdArrayNode", module, name, children, {"type": "json"})
        try:
            npy.encode(np.empty(0, value.dtype))
        except (ValueError, TypeError) as error:
            return self._problem(path, str(error), "convert it to another dtype")
        return Node("NdArrayNode", module, name, raw={"type": "numpy"}, content=value)

    def _masked(self, value: np.ma.MaskedArray[Any, Any], path: str) -> Node:
        if value is np.ma.masked:
            return Node("FunctionNode", "numpy.ma", "masked")
        if type(value) is not np.ma.MaskedArray:
            return self._problem(path, f"a masked array of class {type(value).__qualname__}")
        children = [self.node(value.data, path), self.node(value.mask, path)]
        fill = np.asarray(value.fill_value)
        if fill.tobytes() != np.asarray(np.ma.default_fill_value(value), fill.dtype).tobytes():
            children.append(self.node(fill, path))
        return Node("MaskedArrayNode", "numpy.ma", "MaskedArray", children)

    def _dtype(self, value: np.dtype[Any], path: str) -> Node:
        return Node("DTypeNode", "numpy", "dtype", [self.node(np.empty(0, value), path)])

    def _sparse(self, value: Any, path: str) -> Node:
        try:
            sparse.encode(value[:0] if value.format in {"csr", "csc"} else value)
        except (ValueError, TypeError) as error:
            return self._problem(path, str(error), "convert it with tocsr()")
        return Node(
            "SparseMatrixNode", type(value).__module__, type(value).__name__, raw={"type": "scipy"}, content=value
        )

    def _random_state(self, value: np.random.RandomState, path: str) -> Node:
        return Node(
            "RandomStateNode", "numpy.random.mtrand", "RandomState", [self.node(value.get_state(legacy=False), path)]
        )

    def _generator(self, value: np.random.Generator, path: str) -> Node:
        seed = getattr(value.bit_generator.seed_seq, "state", None)
        if seed is None:
            return self._problem(path, "a generator without a seed sequence")
        children = [self.node(value.bit_generator.state, path), self.node(seed, path)]
        return Node("RandomGeneratorNode", "numpy.random._generator", "Generator", children)

    def _type(self, value: type, path: str) -> Node:
        return self._named("TypeNode", value, path)

    def _function(self, value: Any, path: str) -> Node:
        if isinstance(value, np.ufunc):
            for module in ("numpy", "scipy.special"):
                if _find(module, value.__name__) is value:
                    return Node("FunctionNode", module, value.__name__)
        return self._named("FunctionNode", value, path)

    def _method(self, value: types.MethodType, path: str) -> Node:
        owner = self.node(value.__self__, path)
        if isinstance(value.__self__, type) or getattr(value.__self__, value.__name__, None) != value:
            return self._problem(path, f"the bound method {value.__qualname__}", _MODULE)
        return Node("MethodNode", owner.module, owner.name, [owner], {"func": value.__name__})

    def _partial(self, value: functools.partial[Any], path: str) -> Node:
        parts = {"func": value.func, "args": value.args, "keywords": value.keywords, "__dict__": vars(value) or None}
        children = [self.node(part, f"{path}.{name}") for name, part in parts.items()]
        return Node("PartialNode", "functools", "partial", children)

    def _operator(self, value: Any, path: str) -> Node:
        function, args = value.__reduce__()
        if function is not type(value):
            return self._problem(path, f"{value!r:.80}, with keyword arguments")
        return Node("OperatorFuncNode", "operator", type(value).__name__, [self.node(args, path)])

    def _index(self, value: Any, path: str) -> Node:
        """A pandas Index or Series: its values and its dtype's name, put together again by its constructor."""
        dtype = str(value.dtype)
        if dtype not in {"object", "str"} and not isinstance(value.dtype, np.dtype):
            what = f"a pandas {type(value).__name__} of dtype {dtype}"
            return self._problem(path, what, "convert it with to_numpy()")
        values = value.to_numpy(object) if dtype in {"object", "str"} else value.to_numpy()
        args = [values, dtype, False] if type(value).__name__ == "Index" else [values, value.index, dtype]
        return _call(type(value).__module__, type(value).__name__, self._items([*args, value.name], path))

    def _range_index(self, value: Any, path: str) -> Node:
        args = [value.start, value.stop, value.step, None, False, value.name]
        return _call(type(value).__module__, "RangeIndex", self._items(args, path))

    def _frozen(self, value: Any, path: str) -> Node:
        """A distribution with its parameters: by the name of the distribution, whose own state holds functions."""
        name = value.dist.name
        if type(_find("scipy.stats", name)) is not type(value.dist):
            return self._problem(path, f"a distribution of its own, {name!r}", "use one of scipy.stats")
        shapes, place, scale = value.dist._parse_args(*value.args, **value.kwds)  # noqa: SLF001 (keywords to positions)
        scales = [scale] if type(value).__name__ == "rv_continuous_frozen" else []
        args = value.args if not value.kwds else (*shapes, place, *scales)
        children = [Node("FunctionNode", "scipy.stats", name), *self._items(args, path)]
        return _call(type(value).__module__, type(value).__name__, children)

    def _object(self, value: Any, path: str) -> Node:
        """Any other object, by what it tells pickle about itself."""
        try:
            reduced: Any = value.__reduce_ex__(4)
        except Exception as error:  # noqa: BLE001 (a third party's __reduce__ and __getstate__ may raise anything)
            return self._problem(path, f"a {_dotted(type(value))} ({error})")
        if isinstance(reduced, str):
            return self._named("FunctionNode", value, path, name=reduced)
        return self._reduced(type(value), (*reduced, *(None,) * (5 - len(reduced))), path)

    def _reduced(self, cls: type, reduced: tuple[Any, ...], path: str) -> Node:
        """Keep only what can be put together again without other code than the class's own."""
        function, args, state, *rest = reduced
        if any(item is not None for item in rest):
            return self._problem(path, f"a {_dotted(cls)}, a list or dict of a class of its own")
        if (tree := _dotted(cls) == trust.TREE) or _dotted(cls) in trust.LOSSES:
            if function is not cls:  # Cython's own: a function, and (class, checksum, arguments)
                args = args[2] or ()
            below = [self.node(state or {}, path), self.node(args, path)]
            return self._named("TreeNode" if tree else "LossNode", cls, path, below)
        if function is cls and state is None:
            return self._named("ConstructorFromReduceNode", cls, path, [self.node(args, path)])
        if len(args) == 1 and args[0] is cls and (function is _NEW or hasattr(cls, "__setstate__")):
            return self._named("ObjectNode", cls, path, [] if state is None else [self._state(state, path)])
        needs = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
        return self._problem(path, f"a {_dotted(cls)}, which only {needs} can put together again")

    def _state(self, state: Any, path: str) -> Node:
        if type(state) is dict and all(type(key) is str for key in state):
            # Attributes, not items: they have their own way of being pointed at.
            kinds = Node("ListNode", "builtins", "list", [self.node(str, path) for _ in state])
            values = [self.node(item, f"{path}.{key}" if path else key) for key, item in state.items()]
            return Node("DictNode", "builtins", "dict", [kinds, *values], {"keys": list(state)})
        return self.node(state, path)

    def _named(self, loader: str, value: Any, path: str, below: list[Node] | None = None, *, name: str = "") -> Node:
        """A node that bears the value's own name, which has to lead back to the value."""
        name = name or getattr(value, "__qualname__", "?")
        module = getattr(value, "__module__", None) or "builtins"
        if _find(module, name) is not value:
            kind = "class" if isinstance(value, type) else "function"
            return self._problem(path, f"the {kind} {module}.{name} cannot be found by its name", _MODULE)
        return Node(loader, module, name, below or [])

    def _problem(self, path: str, message: str, remedy: str = _MODULE) -> Node:
        self.problems.append(Finding(place=path or "model", message=message, remedy=remedy))
        return Node("JsonNode", "builtins", "str", raw={"content": "null"})

    _EXACT: ClassVar[dict[str, Callable[[Any, Any, str], Node]]] = {
        **dict.fromkeys(_MAPPINGS, _mapping),
        "builtins.list": _list,
        "builtins.tuple": _tuple,
        "builtins.set": _set,
        "builtins.frozenset": _frozenset,
        "builtins.bytes": _bytes,
        "builtins.bytearray": _bytes,
        "builtins.slice": _slice,
        "builtins.complex": _scalar,
        "builtins.range": _scalar,
        "collections.defaultdict": _defaultdict,
        "functools.partial": _partial,
        "numpy.random.mtrand.RandomState": _random_state,
        "numpy.random._generator.Generator": _generator,
        "re.Pattern": _pattern,
        **dict.fromkeys(("pandas.Index", "pandas.core.indexes.base.Index"), _index),
        **dict.fromkeys(("pandas.Series", "pandas.core.series.Series"), _index),
        **dict.fromkeys(("pandas.RangeIndex", "pandas.core.indexes.range.RangeIndex"), _range_index),
        **dict.fromkeys(_DRAWS, _frozen),
    }
    """Classes whose subclasses are something else."""

    _KINDS: ClassVar[tuple[tuple[Any, Callable[[Any, Any, str], Node]], ...]] = (
        (np.ma.MaskedArray, _masked),
        ((np.ndarray, np.generic), _array),
        (np.dtype, _dtype),
        (type, _type),
        (types.MethodType, _method),
        (_FUNCTIONS, _function),
        (_OPERATORS, _operator),
    )


def _find(module: str, name: str) -> Any:
    if not name.isidentifier():
        return None
    try:
        return trust.resolve(module, name)
    except MalformedError:
        return None


def _dotted(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _call(module: str, name: str, args: list[Node]) -> Node:
    return Node("ConstructorFromReduceNode", module, name, [Node("TupleNode", "builtins", "tuple", args)])


def _member(path: str, key: Any) -> str:
    return f"{path}[{key!r:.40}]"


def _sort_key(node: Node) -> tuple[Any, ...]:
    content = npy.encode(node.content) if isinstance(node.content, (np.ndarray, np.generic)) else [node.content or b""]
    below = (_sort_key(child) for child in node.children)
    return (node.loader, node.dotted, node.raw.get("content", ""), b"".join(map(bytes, content)), *below)
